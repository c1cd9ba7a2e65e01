"""Thousands of random chains, fused, against live JAX: ci/heavy chains runs them."""

from __future__ import annotations

import pytest

from tests.chain_count import CHAINS
from tests.chain_drawing import AT_ONCE, check_fresh_chains
from tests.lax.fused_chains import faults
from tests.lax.random_chains import random_chain

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize("batch", range(CHAINS // AT_ONCE))
def test_random_chains_give_jaxs_bits(batch: int) -> None:
    check_fresh_chains(random_chain, faults)
