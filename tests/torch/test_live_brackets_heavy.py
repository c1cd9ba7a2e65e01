"""Brackets of every kind, traced and fused, and by `dg.torch.index`, against PyTorch: ci/heavy torch runs them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.chain_count import CHAINS, each_seed
from tests.chain_drawing import AT_ONCE, check_fresh_chains
from tests.torch.fused_chains import faults
from tests.torch.random_brackets import check_call, check_far, random_brackets

pytestmark = [pytest.mark.torch, pytest.mark.heavy]


@pytest.mark.parametrize("batch", range(CHAINS // AT_ONCE))
def test_random_brackets_give_pytorchs_bits(batch: int) -> None:
    check_fresh_chains(random_brackets, faults)


@pytest.mark.parametrize(("check", "count"), [(check_far, CHAINS // 8), (check_call, CHAINS)], ids=["traced", "called"])
def test_positions_out_of_range(check: Callable[[random.Random], bool], count: int) -> None:
    """PyTorch's bits, or its error."""
    raised = sum(each_seed(lambda seed: check(random.Random(seed)), count))
    assert 0 < raised < count
