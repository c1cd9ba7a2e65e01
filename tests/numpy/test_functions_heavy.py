"""dg.index against NumPy with thousands of random expressions; `python -m pytest -m heavy tests/numpy` runs it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chain_count import each_seed
from tests.numpy.judged import check_call, check_descriptors

pytestmark = pytest.mark.heavy


@pytest.mark.parametrize(("check", "runs"), [(check_call, 10_000), (check_descriptors, 3_000)], ids=["calls", "descriptors"])
def test_random_expressions(check: Callable[[int], bool], runs: int) -> None:
    good = sum(each_seed(check, runs))
    assert runs // 4 < good < runs - runs // 20
