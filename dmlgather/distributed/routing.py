"""Finds out which rows a gather reads from each chunk. Indices are split into blocks, and blocks are put into groups."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU
from dmlgather.distributed.chunk_grid import (
    Chunks,
    GridIndex,
    Rows,
    Split,
    cells,
    chunk_starts,
    replace_axis,
    split,
    union,
)

T = TypeVar("T")

BLOCK_BYTES = 256 * 2**20
"""Default of block_bytes. A block has at least one index, even if its output is larger."""

WIDE = 512
"""Rows of at least this many bytes are written chunk by chunk. Shorter rows are faster to concatenate first."""

IN_FLIGHT_BYTES = 512 * 2**20
"""Default of in_flight_bytes. A group has at least one block, even if its output is larger."""


def even(size: int, largest: int) -> tuple[int, ...]:
    """Split an axis into the fewest chunks of at most `largest` elements. All but the last are equal, as zarr needs."""
    count = max(-(-size // largest), 1)
    chunk = -(-size // count)
    return (chunk,) * (count - 1) + (size - (count - 1) * chunk,)


def block_chunks(shape: Sequence[int], bytes_each: int, block_bytes: int = BLOCK_BYTES) -> Chunks:
    """Split an index array into blocks with at most `block_bytes` of output. Return the block sizes along each dimension.

    `bytes_each`: the bytes of output for one index. Leading dimensions are split first. Nothing is split if the output is empty.
    """
    if not bytes_each * prod(shape):
        return tuple((size,) for size in shape)
    room = max(block_bytes // bytes_each, 1)
    chunks: list[tuple[int, ...]] = []
    for size in reversed(shape):
        chunks.append(even(size, room))
        room = max(room // size, 1)
    return tuple(reversed(chunks))


def grouped(
    blocks: Iterable[T], sizes_in_bytes: Iterable[int], in_flight_bytes: int = IN_FLIGHT_BYTES
) -> tuple[tuple[T, ...], ...]:
    """Put consecutive blocks into groups of at most `in_flight_bytes` of output. A larger block is a group of its own."""
    groups: list[list[T]] = []
    total = 0
    for block, size in zip(blocks, sizes_in_bytes, strict=True):
        if not groups or total + size > in_flight_bytes:
            groups.append([])
            total = 0
        groups[-1].append(block)
        total += size
    return tuple(map(tuple, groups))


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the indices, and the rows that it reads."""

    grid_index: GridIndex
    split: Split


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive blocks that share one load of each chunk. `rows`: the rows that at least one of the blocks reads."""

    blocks: tuple[Block, ...]
    rows: Rows


@dataclass(frozen=True, slots=True)
class Routing:
    """The rows that each block of indices reads from each chunk. `row_bytes`: the bytes of one row of the widest chunk."""

    index_chunks: Chunks
    row_bytes: int
    groups: tuple[Group, ...]

    @property
    def splits(self) -> list[Split]:
        """The rows that each block reads, in the row-major order of the blocks."""
        return [block.split for group in self.groups for block in group.blocks]

    @property
    def loads(self) -> Counter[int]:
        """How often each chunk along the axis is loaded: once for each group of blocks that reads it."""
        return Counter(chunk for group in self.groups for chunk in group.rows)


def routing_of(
    positions: NDArray[np.int64], sizes: Sequence[int], row_bytes: int, block_bytes: int, in_flight_bytes: int
) -> Routing:
    """Split indices into blocks and groups, and find the rows that each block and group reads.

    A negative position gets the fill value.
    """
    starts = chunk_starts(sizes)
    index_chunks = block_chunks(positions.shape, row_bytes, block_bytes)
    blocks = [Block(cell.grid_index, split(positions[cell.slices], starts)) for cell in cells(index_chunks)]
    groups = grouped(blocks, (block.split.lookup.size * row_bytes for block in blocks), in_flight_bytes)
    return Routing(
        index_chunks, row_bytes, tuple(Group(group, union([block.split.rows for block in group], starts)) for group in groups)
    )


def row_bytes(chunks: Chunks, axis: int, dtype: np.dtype[Any]) -> int:
    """Return the size of one row of the widest chunk, in bytes. A row is a slice of one element along `axis`."""
    return prod(max(sizes, default=0) for sizes in replace_axis(chunks, axis)) * dtype.itemsize


def host_indices(indices: Any) -> NDArray[Any]:
    """Return indices as a NumPy array. An array on a GPU is copied."""
    if isinstance(indices, str | os.PathLike):
        raise TypeError(f"indices is {os.fspath(indices)!r}, expected integers: the table, which may be a path, comes first")
    if isinstance(indices, slice):
        raise TypeError(f"indices is {indices}, expected integers: dmlgather.distributed.slice takes the bounds of a slice")
    if isinstance(indices, Set | Iterator):
        raise TypeError(f"indices is of type {type(indices).__name__}, expected integers: pass list(indices)")
    if isinstance(indices, np.generic | Sequence | int):
        array = np.asarray(indices)
        if array.dtype == object and all(isinstance(index, int) for index in array.flat):
            raise ValueError("indices has an integer of more than 64 bits: no array of integers can hold it")
        return array if array.size else array.astype(np.int64)  # numpy.asarray([]) is float64
    try:
        array, device = arrays.adopt(indices)
    except TypeError as error:
        raise TypeError(f"indices: {error}") from None
    return arrays.move(array, device, CPU)  # type: ignore[no-any-return]
