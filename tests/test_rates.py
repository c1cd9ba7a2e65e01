"""The limits for random draws. Judges: a table of the binomial distribution, and sums of exact fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate
from math import comb

import pytest

from tests.rates import CHANCE, assert_often, assert_seldom


def exact_bar(of: int, rate: Fraction) -> int:
    """Return the least count with a cumulative probability of at least `CHANCE`."""
    chances = accumulate(comb(of, hits) * rate**hits * (1 - rate) ** (of - hits) for hits in range(of))
    return next(count for count, chance in enumerate(chances) if chance >= CHANCE)


@pytest.mark.parametrize(("of", "rate"), [(50, "0.3"), (200, "0.1"), (500, "0.95"), (3000, "0.5")])
def test_the_bar_is_where_the_chance_is_one_in_a_million(of: int, rate: str) -> None:
    share = Fraction(rate)
    bar = exact_bar(of, share)
    assert 0 < bar < of * share
    assert_often(bar, of, float(rate))
    assert_seldom(of - bar, of, 1 - float(rate))
    with pytest.raises(AssertionError, match=rf"^{bar - 1} of {of} draws, where {rate} of them or more were expected"):
        assert_often(bar - 1, of, float(rate))
    with pytest.raises(AssertionError, match=rf"^{of - bar + 1} of {of} draws, where \S+ of them or less were expected"):
        assert_seldom(of - bar + 1, of, 1 - float(rate))


def test_a_bar_that_cannot_fail_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^50 draws with a rate of 0\.2 say nothing: even 0 of them would pass"):
        assert_often(50, 50, 0.2)
    with pytest.raises(ValueError, match=r"^20 draws with a rate of 0\.8 say nothing: even all of them would pass"):
        assert_seldom(0, 20, 0.8)
