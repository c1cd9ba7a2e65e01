"""Which rows of which chunks a gather wants: by blocks of the indices, and groups of blocks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU
from dmlgather.dialects.problem import whole
from dmlgather.distributed.chunk_grid import (
    Chunks,
    Place,
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
"""Bytes of output that one block has at most; a block has at least one index."""

WIDE = 512
"""Bytes of a row from which on pieces are not joined before they are placed. Joining shorter rows is faster, but needs memory."""

IN_FLIGHT_BYTES = 512 * 2**20
"""Bytes of output of the blocks of one group at most; a group has at least one block. A worker holds the rows of a group."""


def even(size: int, largest: int) -> tuple[int, ...]:
    """Return the fewest chunks of at most `largest` (>= 1) whose sizes add up to `size`: all alike but for a smaller last one, as
    zarr needs them. One empty one of 0.
    """
    count = max(-(-size // largest), 1)
    each = -(-size // count)
    return (each,) * (count - 1) + (size - (count - 1) * each,)


def block_chunks(shape: Sequence[int], bytes_each: int, block_bytes: int = BLOCK_BYTES) -> Chunks:
    """Chunks along each dimension of an index array of `shape`, such that a block of them has at most `block_bytes` of output.

    bytes_each: output bytes of one index. A block of one index may exceed `block_bytes`. Leading dimensions are split first, and
    trailing ones stay whole while they fit; nothing is split where there is no output.
    TypeError unless block_bytes is a whole number, ValueError unless it is at least 1.
    """
    if whole("block_bytes", block_bytes) < 1:
        raise ValueError(f"block_bytes is {block_bytes}, expected at least 1 (bytes of output per block of indices)")
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
    """Consecutive blocks whose bytes add up to at most `in_flight_bytes`; a larger block is a group of its own.

    sizes_in_bytes: of each block. TypeError unless in_flight_bytes is a whole number, ValueError unless it is at least 1.
    """
    if whole("in_flight_bytes", in_flight_bytes) < 1:
        raise ValueError(f"in_flight_bytes is {in_flight_bytes}, expected at least 1 (bytes of output per group of blocks)")
    groups: list[list[T]] = []
    total = 0
    for block, size in zip(blocks, sizes_in_bytes, strict=True):
        if not groups or total + size > in_flight_bytes:
            groups.append([])
            total = 0
        groups[-1].append(block)
        total += size
    return tuple(map(tuple, groups))


# Which rows of which chunks a gather wants: block by block of the indices, and group by group of blocks.


@dataclass(frozen=True, slots=True)
class Block:
    """One block of the indices: its number along each dimension of them, and the rows that it wants."""

    place: Place
    split: Split


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks that share the loads of their chunks. rows: those that any of them wants."""

    blocks: tuple[Block, ...]
    rows: Rows


@dataclass(frozen=True, slots=True)
class Routing:
    """What every block of a gather wants.

    index_chunks: sizes of the blocks along each dimension of the indices. row_bytes: of one row of the widest chunk.
    """

    index_chunks: Chunks
    row_bytes: int
    groups: tuple[Group, ...]

    @property
    def splits(self) -> list[Split]:
        """Of all blocks, in row-major order."""
        return [block.split for group in self.groups for block in group.blocks]


def routing_of(
    positions: NDArray[np.int64], sizes: Sequence[int], row_bytes: int, block_bytes: int, in_flight_bytes: int
) -> Routing:
    """The routing of resolved positions, any shape (negative: filled).

    sizes: of the table's chunks along the axis. row_bytes: of one row of the widest chunk. block_bytes, in_flight_bytes: the
    output of one block and of one group at most, where one index and one block allow it; ValueError unless both are at least 1.
    """
    starts = chunk_starts(sizes)
    index_chunks = block_chunks(positions.shape, row_bytes, block_bytes)
    blocks = [Block(cell.place, split(positions[cell.slices], starts)) for cell in cells(index_chunks)]
    groups = grouped(blocks, (block.split.lookup.size * row_bytes for block in blocks), in_flight_bytes)
    return Routing(
        index_chunks, row_bytes, tuple(Group(group, union([block.split.rows for block in group], starts)) for group in groups)
    )


def row_bytes(chunks: Chunks, axis: int, dtype: np.dtype[Any]) -> int:
    """Bytes of one row along `axis` of the widest chunk."""
    return prod(max(sizes, default=0) for sizes in replace_axis(chunks, axis)) * dtype.itemsize


def host_indices(indices: Any) -> NDArray[Any]:
    """An index array on the host: NumPy's as it is, one copy from a GPU, and what NumPy makes an array of.

    TypeError for anything else.
    """
    if isinstance(indices, str | os.PathLike):
        raise TypeError(f"indices is {os.fspath(indices)!r}, expected integers: the table, which may be a path, comes first")
    if isinstance(indices, np.generic | Sequence | int):
        array = np.asarray(indices)
        return array if array.size else array.astype(np.int64)  # NumPy takes [] for floats
    try:
        found, device = arrays.adopt(indices)
    except TypeError as error:
        raise TypeError(f"indices: {error}") from None
    return arrays.move(found, device, CPU)  # type: ignore[no-any-return]
