"""dg.index against NumPy with thousands of random expressions; `python -m pytest -m heavy tests/numpy` runs it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.numpy.judged import check_call, check_descriptors

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(("check", "runs"), [(check_call, 10_000), (check_descriptors, 3_000)], ids=["calls", "descriptors"])
def test_random_expressions(check: Callable[[int], bool], runs: int) -> None:
    start = random.SystemRandom().getrandbits(62)
    print(f"seeds from {start}")
    good = sum(check(seed) for seed in range(start, start + runs))
    assert runs // 4 < good < runs - runs // 20
