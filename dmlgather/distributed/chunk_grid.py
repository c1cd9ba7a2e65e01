"""Chunks: their places and sizes along each axis, and which rows of which chunks positions want."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, product
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

Chunks: TypeAlias = tuple[tuple[int, ...], ...]
"""Sizes of the chunks along each axis, in elements, as Dask has them."""

Place: TypeAlias = tuple[int, ...]
"""A chunk's number along each axis."""


FILE_CHUNKS = "those of a .npy file, given by its path, by dask.config.set({{'array.chunk-size': '{}B'}})"
"""Part of a remedy where chunks of that many bytes are needed: dask.array.from_array copies all of a mapped file into memory."""


class Cell(NamedTuple):
    """One chunk of a grid: its number, the coordinate of its first element and its size, along each axis."""

    place: Place
    first: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def empty(self) -> bool:
        """Whether it has no elements."""
        return 0 in self.shape

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where its elements lie in the whole array."""
        return tuple(slice(first, first + size) for first, size in zip(self.first, self.shape, strict=True))


def cells(chunks: Chunks) -> Iterator[Cell]:
    """All chunks in row-major order."""
    for axes in product(*(zip(count(), accumulate(sizes, initial=0), sizes) for sizes in chunks)):
        yield Cell(*zip(*axes, strict=True)) if axes else Cell((), (), ())


def replace_axis(values: Sequence[T], axis: int, *new: T) -> tuple[T, ...]:
    """`values`, one per axis, with those of any number of new axes in the place of one."""
    return (*values[:axis], *new, *values[axis + 1 :])


# Splits positions along a chunked axis among the chunks: the rows wanted of each, and where each position finds its row.


_DENSE = 4
"""Rows between the lowest and the highest position, per position, up to which marking them is cheaper than sorting."""

Rows: TypeAlias = Mapping[int, NDArray[np.int64]]
"""Rows by chunk, for the chunks that are touched: from its number along the axis, ascending, to the rows that are wanted of it,
counted from its first, ascending and each once.
"""


@dataclass(frozen=True, slots=True)
class Split:
    """The rows that positions want of each chunk, and which of them each position wants.

    lookup: of the positions' shape: the place of each one's row in all `rows`, joined; `count` where it is filled. count: of the
    rows of all chunks.
    """

    rows: Rows
    lookup: NDArray[np.int64]
    count: int


def chunk_starts(sizes: Sequence[int]) -> NDArray[np.int64]:
    """The row at which each chunk along an axis starts, and the axis' size; shape [chunks + 1]."""
    return np.array([0, *accumulate(sizes)], np.int64)


def split(positions: NDArray[np.int64], starts: NDArray[np.int64]) -> Split:
    """The split of positions among chunks. Sorts once at most: O(n log n) for n positions.

    positions: 0 … starts[-1] - 1, or negative for a filled element; any shape. starts: as from `chunk_starts`.
    """
    flat = positions.reshape(-1)
    filled = flat < 0
    if filled.any():
        wanted, places = _distinct(flat[~filled])
        lookup = np.full(flat.shape, len(wanted), np.int64)
        lookup[~filled] = places
    else:
        wanted, lookup = _distinct(flat)
    return Split(_by_chunk(wanted, starts), lookup.reshape(positions.shape), len(wanted))


def union(several: Sequence[Rows], starts: NDArray[np.int64]) -> Rows:
    """The rows that are in any of several (one at least). starts: as for `split`."""
    if len(several) == 1:
        return several[0]
    wanted = [rows + starts[chunk] for each in several for chunk, rows in each.items()]
    return _by_chunk(_distinct(np.concatenate(wanted))[0], starts) if wanted else {}


def _by_chunk(wanted: NDArray[np.int64], starts: NDArray[np.int64]) -> Rows:
    """Ascending rows of the whole axis by chunk."""
    ends = np.searchsorted(wanted, starts).tolist()
    touched = np.flatnonzero(np.diff(ends)).tolist()
    return {chunk: wanted[ends[chunk] : ends[chunk + 1]] - starts[chunk] for chunk in touched}


def _distinct(flat: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct values, ascending, and the place of each value among them."""
    if not flat.size:
        return flat, flat
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
    """`_distinct` for values that lie close to each other: each is marked, and marks are counted."""
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
    """`_distinct` for sorted values: a new one begins where two neighbours differ."""
    begins = np.ones(ascending.shape, np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=begins[1:])
    return ascending[begins], np.cumsum(begins, dtype=np.int64) - 1
