"""dg.index against NumPy with thousands of random expressions; ci/heavy index runs it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chain_count import each_seed
from tests.numpy.judged import check_call, check_descriptors
from tests.numpy.judged_brackets import check_brackets

pytestmark = pytest.mark.heavy


CHECKS = {"calls": (check_call, 10_000), "descriptors": (check_descriptors, 3_000), "brackets": (check_brackets, 4_000)}


@pytest.mark.parametrize(("check", "runs"), CHECKS.values(), ids=CHECKS)
def test_random_expressions_give_what_numpy_gives(check: Callable[[int], bool], runs: int) -> None:
    good = sum(each_seed(check, runs))
    assert runs // 4 < good < runs - runs // 20
