"""How workloads draw their indices: int64, valid, none of them negative."""

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
    """Every index is as likely as every other; repeats happen."""

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        """As said."""
        return random.integers(0, limit, count)


UNIFORM = Uniform()


@dataclass(frozen=True, slots=True)
class Ascending:
    """Uniform indices, sorted."""

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        """As said."""
        return np.sort(UNIFORM(random, limit, count))


@dataclass(frozen=True, slots=True)
class Distinct:
    """A random order without repeats, as pages of a cache have; it starts again when `count` exceeds `limit`."""

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        """As said."""
        return random.permutation(max(limit, count))[:count] % limit


@dataclass(frozen=True, slots=True)
class Zipf:
    """The k-th most popular of `limit` rows with probability proportional to k ** -alpha; where the rows lie is random."""

    alpha: float

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        """As said."""
        rows: Indices = random.permutation(limit)[self.ranks(random, limit, count)]
        return rows

    def ranks(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        """Ranks from 0, drawn by inverting the cumulative law."""
        law = np.cumsum(np.arange(1, limit + 1, dtype=np.float64) ** -self.alpha)
        ranks: Indices = np.searchsorted(law, random.random(count) * law[-1], side="right")
        return ranks


@dataclass(frozen=True, slots=True)
class Experts:
    """MoE permutation: each token goes to `top` of `experts`; slots are grouped by expert and read their token's row."""

    top: int
    experts: int

    def __call__(self, random: np.random.Generator, limit: int, count: int) -> Indices:
        """As said."""
        tokens = -(-count // self.top)
        chosen = np.argpartition(random.random((tokens, self.experts)), self.top - 1, axis=1)[:, : self.top]
        slots = np.argsort(chosen.reshape(-1)[:count], kind="stable")
        return slots // self.top % limit
