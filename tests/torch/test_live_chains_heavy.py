"""Thousands of random chains, fused, against PyTorch: ci/heavy torch runs them."""

from __future__ import annotations

import pytest

from tests.chain_count import CHAINS
from tests.chain_drawing import AT_ONCE, check_fresh_chains
from tests.torch.fused_chains import faults
from tests.torch.random_chains import random_chain

pytestmark = [pytest.mark.torch, pytest.mark.heavy]


@pytest.mark.parametrize("batch", range(CHAINS // AT_ONCE))
def test_random_chains_give_pytorchs_bits(batch: int) -> None:
    check_fresh_chains(random_chain, faults)
