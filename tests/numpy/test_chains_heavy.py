"""2,000 random chains in NumPy's spelling, fused and step by step, against NumPy; ci/chains runs it."""

from __future__ import annotations

import random

import pytest

from tests.numpy.random_chains import check_chain

pytestmark = pytest.mark.heavy


def test_random_chains() -> None:
    start = random.SystemRandom().getrandbits(62)
    print(f"seeds from {start}")
    fused = sum(check_chain(seed) for seed in range(start, start + 2_000))
    assert fused > 500
