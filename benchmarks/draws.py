"""Distributions of random indices: valid, not negative, int64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


class Draw(Protocol):
    """A distribution of indices. Its repr goes into the report."""

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        """Return `count` indices below `limit`."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Uniform indices, with repetition."""

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        return random.integers(0, limit, count)


UNIFORM = Uniform()


@dataclass(frozen=True, slots=True)
class Ascending:
    """Uniform indices, sorted."""

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        return np.sort(UNIFORM(random, limit, count))


@dataclass(frozen=True, slots=True)
class Distinct:
    """A random permutation, like the pages of a cache. It repeats if `count` exceeds `limit`."""

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        return random.permutation(max(limit, count))[:count] % limit


@dataclass(frozen=True, slots=True)
class Zipf:
    """Zipf's law: the k-th most popular row has a probability proportional to k ** -alpha. Popularity is random."""

    alpha: float

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        rows: Indices = random.permutation(limit)[self.ranks(random, limit, count)]
        return rows

    def ranks(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        """Return ranks from 0, drawn by inverting the cumulative distribution."""
        law = np.cumsum(np.arange(1, limit + 1, dtype=np.float64) ** -self.alpha)
        ranks: Indices = np.searchsorted(law, random.random(count) * law[-1], side="right")
        return ranks


@dataclass(frozen=True, slots=True)
class Experts:
    """The permutation of a mixture of experts: each token goes to `top` of `experts`.

    Slots are sorted by expert. Each slot reads its token's row.
    """

    top: int
    experts: int

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        tokens = -(-count // self.top)
        chosen = np.argpartition(random.random((tokens, self.experts)), self.top - 1, axis=1)[:, : self.top]
        slots = np.argsort(chosen.reshape(-1)[:count], kind="stable")
        return slots // self.top % limit
