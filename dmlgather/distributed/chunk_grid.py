"""Chunks of an array, and the rows that indices read from each chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, count, product
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

Chunks: TypeAlias = tuple[tuple[int, ...], ...]
"""Sizes of an array's chunks along each axis, in elements: Dask's `chunks`."""

GridIndex: TypeAlias = tuple[int, ...]
"""The number of a chunk (or of a block of indices) along each axis."""


FILE_CHUNKS = "those of a .npy file, given by its path, by dask.config.set({{'array.chunk-size': '{}B'}})"
"""Part of a message. It does not recommend dask.array.from_array, which would copy the whole file into memory."""

SMALLER_CHUNKS = f"table.rechunk(…); {FILE_CHUNKS}; those of a zarr store, by writing it again"


class Cell(NamedTuple):
    """One chunk of an array. `first`: coordinates of its first element."""

    grid_index: GridIndex
    first: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def empty(self) -> bool:
        """True if the chunk has no elements."""
        return 0 in self.shape

    @property
    def slices(self) -> tuple[slice, ...]:
        """Slices that select the chunk in the whole array."""
        return tuple(slice(first, first + size) for first, size in zip(self.first, self.shape, strict=True))


def cells(chunks: Chunks) -> Iterator[Cell]:
    """Yield all chunks of an array in row-major order."""
    for axes in product(*(zip(count(), accumulate(sizes, initial=0), sizes) for sizes in chunks)):
        yield Cell(*zip(*axes, strict=True)) if axes else Cell((), (), ())


def replace_axis(values: Sequence[T], axis: int, *new: T) -> tuple[T, ...]:
    """Return a copy of `values` with any number of new values in place of the one at `axis`."""
    return (*values[:axis], *new, *values[axis + 1 :])


_DENSE = 4
"""Row numbers are sorted only if their range is at least this many times their count."""

Rows: TypeAlias = Mapping[int, NDArray[np.int64]]
"""Rows to read. The keys are ascending numbers of chunks along the axis. A chunk that is not read has no entry.

Row numbers are distinct and ascending, and count from the start of the chunk.
"""


@dataclass(frozen=True, slots=True)
class Split:
    """The distinct rows that a block of indices reads from each chunk, and the row that each index reads.

    `count`: the number of rows of all chunks. `lookup`: for each index, the position of the row in the concatenation of `rows`;
    `count` for an index that gives the fill value.
    """

    rows: Rows
    lookup: NDArray[np.int64]
    count: int


def chunk_starts(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the number of the first row of each chunk along an axis, followed by the size of the axis."""
    return np.array([0, *accumulate(sizes)], np.int64)


def split(positions: NDArray[np.int64], starts: NDArray[np.int64]) -> Split:
    """Find out which rows of each chunk are read. `positions`: rows along the whole axis; negative for filled elements."""
    flat = positions.reshape(-1)
    filled = flat < 0
    if filled.any():
        rows, inverse = _distinct(flat[~filled])
        lookup = np.full(flat.shape, len(rows), np.int64)
        lookup[~filled] = inverse
    else:
        rows, lookup = _distinct(flat)
    return Split(_by_chunk(rows, starts), lookup.reshape(positions.shape), len(rows))


def union(parts: Sequence[Rows], starts: NDArray[np.int64]) -> Rows:
    """Return the rows that occur in at least one of `parts`."""
    if len(parts) == 1:
        return parts[0]
    arrays = [rows + starts[chunk] for part in parts for chunk, rows in part.items()]
    return _by_chunk(_distinct(np.concatenate(arrays))[0], starts) if arrays else {}


def _by_chunk(rows: NDArray[np.int64], starts: NDArray[np.int64]) -> Rows:
    """Distribute rows among their chunks. `rows`: ascending row numbers along the whole axis."""
    ends = np.searchsorted(rows, starts).tolist()
    touched = np.flatnonzero(np.diff(ends)).tolist()
    return {chunk: rows[ends[chunk] : ends[chunk + 1]] - starts[chunk] for chunk in touched}


def _distinct(flat: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the result of numpy.unique with `return_inverse=True`, computed faster."""
    if not flat.size:
        return flat, flat
    low, high = int(flat.min()), int(flat.max())
    if high - low < _DENSE * flat.size:
        return _distinct_dense(flat, low, high)
    if np.all(flat[1:] >= flat[:-1]):
        return _distinct_sorted(flat)
    order, ascending = _argsort(flat, low, high)
    values, inverse = _distinct_sorted(ascending)
    lookup = np.empty(flat.shape, np.int64)
    lookup[order] = inverse
    return values, lookup


def _distinct_dense(flat: NDArray[np.int64], low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    offsets = flat - low
    marks = np.zeros(high - low + 1, np.bool_)
    marks[offsets] = True
    inverse = np.cumsum(marks, dtype=np.int64) - 1
    return np.flatnonzero(marks) + low, inverse[offsets]


def _argsort(flat: NDArray[np.int64], low: int, high: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the permutation that sorts the values, and the sorted values."""
    bits = flat.size.bit_length()
    if (high - low).bit_length() + bits > 63:
        order = np.argsort(flat)
        return order, flat[order]
    # NumPy's sort is three times as fast as its argsort, so value and index are packed into one integer and sorted.
    # Example: [7, 5] with low 5 and bits 2 becomes [2 << 2 | 0, 0 << 2 | 1] = [8, 1]; sorted [1, 8]; order [1, 0], values [5, 7].
    packed = (flat - low << bits) + np.arange(flat.size)
    packed.sort()
    return packed & (1 << bits) - 1, (packed >> bits) + low


def _distinct_sorted(ascending: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    begins = np.ones(ascending.shape, np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=begins[1:])
    return ascending[begins], np.cumsum(begins, dtype=np.int64) - 1
