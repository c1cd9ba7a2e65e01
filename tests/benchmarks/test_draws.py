"""The distributions of drawn indices. Judge: the laws that their names state."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.draws import Ascending, Distinct, Draw, Experts, Uniform, Zipf
from tests import seeds


@pytest.mark.parametrize("draw", [Uniform(), Ascending(), Distinct(), Zipf(1.05), Experts(top=3, experts=5)])
@pytest.mark.parametrize(("limit", "count"), [(7, 100), (100, 7), (1, 1), (1, 5)])
def test_indices_are_valid_int64(draw: Draw, limit: int, count: int) -> None:
    drawn = draw(seeds.numpy_rng(), limit, count)
    assert drawn.dtype == np.int64
    assert drawn.shape == (count,)
    assert drawn.min() >= 0
    assert drawn.max() < limit


@pytest.mark.parametrize("alpha", [1.05, 1.15])
def test_zipf_ranks_follow_the_law(alpha: float) -> None:
    limit, count = 1000, 200_000
    law = np.arange(1, limit + 1) ** -alpha
    expected = count * law / law.sum()
    seen = np.bincount(Zipf(alpha).ranks(seeds.numpy_rng(), limit, count), minlength=limit)
    error = (seen - expected) / np.sqrt(expected)
    # in standard deviations: 1000 ranks exceed 7 once in 10 ** 8 runs, apart from the skew of rare ones
    assert np.abs(error).max() < 7
    assert abs((error**2).mean() - 1) < 0.35  # chi squared with its 999 degrees of freedom: 7 standard deviations


def test_popular_rows_are_spread_over_the_table() -> None:
    random = seeds.numpy_rng()
    most = [int(np.bincount(Zipf(1.15)(random, 1000, 2000)).argmax()) for _ in range(20)]
    assert len(set(most)) > 5


def test_distinct_indices_repeat_only_when_they_must() -> None:
    assert len(set(Distinct()(seeds.numpy_rng(), 50, 50))) == 50
    assert sorted(Distinct()(seeds.numpy_rng(), 5, 10)) == sorted([*range(5), *range(5)])


def test_tokens_are_drawn_in_the_order_of_experts() -> None:
    tokens, top, experts = 64, 3, 8
    drawn = Experts(top, experts)(seeds.numpy_rng(), tokens, tokens * top)
    assert np.bincount(drawn, minlength=tokens).tolist() == [top] * tokens
    falls = int((np.diff(drawn) <= 0).sum())  # within an expert, tokens rise and occur once
    assert falls <= experts - 1


def test_ascending_indices_are_sorted_and_not_a_range() -> None:
    drawn = Ascending()(seeds.numpy_rng(), 1000, 500)
    steps = np.diff(drawn)
    assert steps.min() == 0  # 500 draws of 1000 are all different with a probability below 10 ** -50
    assert steps.max() > 1
