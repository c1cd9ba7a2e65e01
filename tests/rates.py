"""Limits for how often random draws show something. A correct generator misses a limit once in a million runs.

A test states the least or the greatest rate of its generator and gives its counts. It fails only if a generator of that rate
would give such a count in less than one of a million runs. So the limit depends on the number of draws: with few draws it is
below the rate.
"""

from __future__ import annotations

from math import exp, lgamma, log

CHANCE = 1e-6
"""Share of runs that may fail although the generator has the stated rate."""


def assert_often(count: int, of: int, rate: float) -> None:
    """Fail if a rate of at least `rate` would hardly ever give so few hits. Raises ValueError if there are too few draws to
    fail.
    """
    if _at_most(0, of, rate) >= CHANCE:
        raise ValueError(f"{of} draws with a rate of {rate} say nothing: even 0 of them would pass; draw more")
    assert _at_most(count, of, rate) >= CHANCE, f"{count} of {of} draws, where {rate} of them or more were expected"


def assert_seldom(count: int, of: int, rate: float) -> None:
    """Fail if a rate of at most `rate` would hardly ever give so many hits. Raises ValueError if there are too few draws to
    fail.
    """
    if _at_most(0, of, 1 - rate) >= CHANCE:
        raise ValueError(f"{of} draws with a rate of {rate} say nothing: even all of them would pass; draw more")
    assert _at_most(of - count, of, 1 - rate) >= CHANCE, f"{count} of {of} draws, where {rate} of them or less were expected"


def _at_most(count: int, of: int, rate: float) -> float:
    """Return the probability of at most `count` hits, by the binomial distribution."""
    return sum(
        exp(lgamma(of + 1) - lgamma(hits + 1) - lgamma(of - hits + 1) + hits * log(rate) + (of - hits) * log(1 - rate))
        for hits in range(count + 1)
    )
