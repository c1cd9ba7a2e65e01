"""Hundreds of functions of brackets of every kind, fused, against live JAX: ci/heavy index runs them."""

from __future__ import annotations

import pytest

from tests.chain_drawing import check_fresh_chains
from tests.lax.fused_chains import faults
from tests.lax.random_brackets import random_brackets

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("batch", range(10))
def test_random_brackets_give_jaxs_bits(batch: int) -> None:
    check_fresh_chains(random_brackets, faults)
