"""How often random draws must show something, without luck: a bar that a good generator misses once in a million runs.

A test that draws states the least rate that its generator has, or the greatest, and gives what it counted. The test fails only
where a generator of that rate would give such a count in less than one of a million runs. So the bar follows from the number of
draws: of few draws it asks for less than the rate.
"""

from __future__ import annotations

from math import exp, lgamma, log

CHANCE = 1e-6
"""Of so many runs, at most one fails whose generator has the stated rate."""


def assert_often(count: int, of: int, rate: float) -> None:
    """Fail where a share of at least `rate` hardly ever gives so few. ValueError where so few draws could not fail."""
    if _at_most(0, of, rate) >= CHANCE:
        raise ValueError(f"{of} draws with a rate of {rate} say nothing: even 0 of them would pass; draw more")
    assert _at_most(count, of, rate) >= CHANCE, f"{count} of {of} draws, where {rate} of them or more were expected"


def assert_seldom(count: int, of: int, rate: float) -> None:
    """Fail where a share of at most `rate` hardly ever gives so many. ValueError where so few draws could not fail."""
    if _at_most(0, of, 1 - rate) >= CHANCE:
        raise ValueError(f"{of} draws with a rate of {rate} say nothing: even all of them would pass; draw more")
    assert _at_most(of - count, of, 1 - rate) >= CHANCE, f"{count} of {of} draws, where {rate} of them or less were expected"


def _at_most(count: int, of: int, rate: float) -> float:
    """The probability of at most `count` hits in so many draws: the binomial distribution."""
    return sum(
        exp(lgamma(of + 1) - lgamma(hits + 1) - lgamma(of - hits + 1) + hits * log(rate) + (of - hits) * log(1 - rate))
        for hits in range(count + 1)
    )
