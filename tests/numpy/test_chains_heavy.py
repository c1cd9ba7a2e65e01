"""Thousands of random chains in NumPy's spelling, fused and step by step, against NumPy; ci/heavy chains runs it."""

from __future__ import annotations

import pytest

from tests.chain_count import CHAINS, each_seed
from tests.numpy.random_chains import check_chain

pytestmark = pytest.mark.heavy


def test_random_chains_give_what_numpy_gives() -> None:
    fused = sum(each_seed(check_chain))
    assert fused > CHAINS // 4
