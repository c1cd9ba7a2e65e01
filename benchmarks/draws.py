"""How workloads draw their indices: int64, valid, not negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


class Draw(Protocol):
    """Draws `count` indices below `limit`; its repr goes into the report."""

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        """The indices, shape [count]."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """All indices are equally likely, and may repeat."""

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
    """A random permutation, like the pages of a cache; it repeats where `count` exceeds `limit`."""

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        return random.permutation(max(limit, count))[:count] % limit


@dataclass(frozen=True, slots=True)
class Zipf:
    """The k-th most popular of `limit` rows is drawn with a probability proportional to k ** -alpha; popularity is random."""

    alpha: float

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        rows: Indices = random.permutation(limit)[self.ranks(random, limit, count)]
        return rows

    def ranks(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        """Ranks from 0, drawn by inverting the cumulative distribution."""
        law = np.cumsum(np.arange(1, limit + 1, dtype=np.float64) ** -self.alpha)
        ranks: Indices = np.searchsorted(law, random.random(count) * law[-1], side="right")
        return ranks


@dataclass(frozen=True, slots=True)
class Experts:
    """The permutation of a mixture of experts: each token is sent to `top` of `experts`; slots are sorted by expert, and each
    reads its token's row.
    """

    top: int
    experts: int

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        tokens = -(-count // self.top)
        chosen = np.argpartition(random.random((tokens, self.experts)), self.top - 1, axis=1)[:, : self.top]
        slots = np.argsort(chosen.reshape(-1)[:count], kind="stable")
        return slots // self.top % limit
