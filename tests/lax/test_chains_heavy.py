"""Thousands of random chains, fused, against live JAX: ci/chains runs them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.chain_count import CHAINS
from tests.lax.fused_chains import faults
from tests.lax.random_chains import random_chain

pytestmark = pytest.mark.heavy

AT_ONCE = 50


@pytest.mark.parametrize("batch", range(CHAINS // AT_ONCE))
def test_random_chains_give_jaxs_bits(batch: int) -> None:
    seed = np.random.SeedSequence().entropy
    rng = np.random.default_rng(seed)
    assert faults([random_chain(rng, int(rng.integers(2, 9))) for _ in range(AT_ONCE)]) == [], f"batch {batch}, seed {seed}"
