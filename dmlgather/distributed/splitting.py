"""Positions along a chunked axis by the chunk that owns them: each row once, and where each position finds its row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

_DENSE = 4
"""Rows between the lowest and the highest position, per position, up to which marking them is cheaper than sorting."""

_NONE: NDArray[np.int64] = np.empty(0, np.int64)
_NONE.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of each chunk that positions want, and how the positions are made of them.

    rows: one per chunk: rows counted from the chunk's first, ascending, each once; shape [rows], empty where it is not touched.
    lookup: of the positions' shape: the place of each one's row in all `rows` put behind each other; `count` where it is filled.
    """

    rows: tuple[NDArray[np.int64], ...]
    lookup: NDArray[np.int64]

    @property
    def count(self) -> int:
        """The number of rows of all chunks, and so the lookup of a filled element."""
        return sum(map(len, self.rows))

    def wanted(self, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same rows counted along the whole axis, ascending; shape [count]. starts: as for `split`."""
        return union([self.rows[owner] + starts[owner] for owner in self.owners])

    @property
    def owners(self) -> tuple[int, ...]:
        """The chunks that are touched, ascending."""
        return tuple(owner for owner, rows in enumerate(self.rows) if len(rows))

    @property
    def filled(self) -> bool:
        """Whether any element is filled."""
        return bool(self.lookup.size) and int(self.lookup.max()) == self.count


def chunk_starts(sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """Where each chunk along an axis starts, and behind them the axis' size; shape [chunks + 1]."""
    return np.array([0, *accumulate(sizes)], np.int64)


def split(positions: NDArray[np.int64], starts: NDArray[np.int64]) -> Split:
    """The split of positions among chunks. Sorts once at most: O(n log n) for n positions.

    positions: 0 … starts[-1] - 1, or negative for a filled element; any shape. starts: the row at which each chunk starts, and
    the end of the last one, ascending; shape [chunks + 1]. A chunk without rows owns none.
    """
    flat = positions.reshape(-1)
    filled = flat < 0
    if filled.any():
        wanted, places = _distinct(flat[~filled])
        lookup = np.full(flat.shape, len(wanted), np.int64)
        lookup[~filled] = places
    else:
        wanted, lookup = _distinct(flat)
    return Split(by_chunk(wanted, starts), lookup.reshape(positions.shape))


def shared_rows(splits: Sequence[Split], starts: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """The rows of each chunk that any of several splits (one at least) wants, as in `Split.rows`. starts: as for `split`."""
    if len(splits) == 1:
        return splits[0].rows
    return by_chunk(union([found.wanted(starts) for found in splits]), starts)


def union(several: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The distinct values of arrays of one dimension, ascending."""
    return _distinct(np.concatenate([_NONE, *several]))[0]


def by_chunk(wanted: NDArray[np.int64], starts: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Ascending rows of the whole axis, as one array per chunk of rows counted from its first. starts: as for `split`."""
    bounds = np.searchsorted(wanted, starts)
    rows = [_NONE] * (len(starts) - 1)
    for owner in np.flatnonzero(np.diff(bounds)).tolist():
        rows[owner] = wanted[bounds[owner] : bounds[owner + 1]] - starts[owner]
    return tuple(rows)


def _distinct(flat: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct values, ascending, and the place of each value among them."""
    if not flat.size:
        return _NONE, np.empty(0, np.int64)
    low, high = int(flat.min()), int(flat.max())
    if high - low < _DENSE * flat.size:
        return _marked(flat, low, high)
    if np.all(flat[1:] >= flat[:-1]):
        return _neighbours(flat)
    order, ascending = _ordered(flat, low, high)
    wanted, places = _neighbours(ascending)
    lookup = np.empty(flat.shape, np.int64)
    lookup[order] = places
    return wanted, lookup


def _marked(flat: NDArray[np.int64], low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Values that lie close to each other: a mark for each, counted along them."""
    offsets = flat - low
    marks = np.zeros(high - low + 1, np.bool_)
    marks[offsets] = True
    places = np.cumsum(marks, dtype=np.int64) - 1
    return np.flatnonzero(marks) + low, places[offsets]


def _ordered(flat: NDArray[np.int64], low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places of the values in ascending order, and the values in that order."""
    bits = flat.size.bit_length()
    if (high - low).bit_length() + bits > 63:
        order = np.argsort(flat)
        return order, flat[order]
    # NumPy sorts integers about three times as fast as it finds their order: value and place as one integer.
    packed = (flat - low << bits) + np.arange(flat.size)
    packed.sort()
    return packed & (1 << bits) - 1, (packed >> bits) + low


def _neighbours(ascending: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sorted values: a new one begins where two neighbours differ."""
    begins = np.ones(ascending.shape, np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=begins[1:])
    return ascending[begins], np.cumsum(begins, dtype=np.int64) - 1
