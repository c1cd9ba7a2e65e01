"""Which rows of which chunks a gather wants: by blocks of the indices, and groups of blocks; and the memory that this needs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import computed_field

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU
from dmlgather.dialects.problem import whole
from dmlgather.distributed.chunk_grid import (
    FILE_TO_TABLE,
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
from dmlgather.host import cpus
from dmlgather.record import Record
from dmlgather.wording import amount, counted

T = TypeVar("T")

BLOCK_BYTES = 256 * 2**20
"""Bytes of output that one block has at most; a block has at least one index."""

IN_FLIGHT_BYTES = 512 * 2**20
"""Bytes of output of the blocks of one group at most; a group has at least one block. A worker holds the rows of a group."""


def even(size: int, largest: int) -> tuple[int, ...]:
    """The fewest chunks of at most `largest` (>= 1) whose sizes add up to `size` and differ by at most 1; one empty one of 0."""
    count = max(-(-size // largest), 1)
    small, more = divmod(size, count)
    return (small + 1,) * more + (small,) * (count - more)


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
    if isinstance(indices, np.generic | Sequence | int):
        array = np.asarray(indices)
        return array if array.size else array.astype(np.int64)  # NumPy takes [] for floats
    try:
        found, device = arrays.adopt(indices)
    except TypeError as error:
        raise TypeError(f"indices: {error}") from None
    return arrays.move(found, device, CPU)  # type: ignore[no-any-return]


# How much memory one worker needs at the same time, by a model.


def check_limit(limit: object) -> int | None:
    """A caller's memory_limit: bytes, or None for no limit. TypeError for anything else."""
    if limit is None:
        return None
    try:
        return whole("memory_limit", limit)
    except TypeError as error:
        raise TypeError(f"{error} of bytes, such as 2 * 10**9 for 2 GB") from None


class MemoryLimitError(ValueError):
    """A gather needs more memory of a worker than it may have. The message says what takes the most, and what to change."""


class WorkerMemory(Record):
    """Memory of one worker, in bytes, by a model: every thread takes rows of the largest chunk or places the largest block, while
    the worker holds its share of the rows of one group.

    The model leaves out Python and the libraries, what a store needs to decode a chunk, and output that is computed and kept.
    """

    threads: int
    """Of one worker."""

    take_bytes: int
    """One thread takes rows: the largest chunk and the rows that are taken of it."""

    place_bytes: int
    """One thread places a block: three times the largest, as pieces, as the joined pieces (rows of 512 bytes or more are not
    joined), and as output."""

    held_bytes: int
    """Rows of one group on the worker that has the most of them, where chunks are dealt to the workers in turn."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.threads * max(self.take_bytes, self.place_bytes) + self.held_bytes

    def check(self, limit: int | None, *, axis: int, workers: int) -> None:
        """MemoryLimitError where it exceeds `limit`, in bytes. axis, workers: for the message."""
        if limit is None or self.total_bytes <= limit:
            return
        threads = f"bytes on {counted(self.threads, 'thread')}"
        causes = {
            f"the largest chunk and the rows taken of it, {self.take_bytes} {threads}: make the table's chunks smaller along "
            f"axis {axis} (table.rechunk(…); {FILE_TO_TABLE})": self.threads * self.take_bytes,
            f"three times the largest block, {self.place_bytes} {threads}: lower block_bytes": self.threads * self.place_bytes,
            f"the rows of a group held by one of {counted(workers, 'worker')}, {self.held_bytes} bytes: lower in_flight_bytes "
            "or use more workers": self.held_bytes,
        }
        raise MemoryLimitError(
            f"the gather needs {self.total_bytes} bytes of a worker, but memory_limit is {limit} bytes; most of it is "
            f"{max(causes, key=causes.__getitem__)}"
        )

    def __str__(self) -> str:
        one_thread = f"chunk and its rows {amount(self.take_bytes)}, 3 blocks {amount(self.place_bytes)}"
        return f"{counted(self.threads, 'thread')} x max({one_thread}) + rows held {amount(self.held_bytes)}"


def worker_memory(routing: Routing, sizes: Sequence[int], workers: int, threads: int) -> WorkerMemory:
    """The memory that a gather needs. sizes: of the table's chunks along the axis. threads: of one worker."""
    loads = (sizes[chunk] + len(rows) for group in routing.groups for chunk, rows in group.rows.items())
    taken = [[len(rows) for rows in group.rows.values()] for group in routing.groups]
    shares = (sum(counts[worker::workers]) for counts in taken for worker in range(min(workers, len(counts))))
    return WorkerMemory(
        threads=threads,
        take_bytes=max(loads, default=0) * routing.row_bytes,
        place_bytes=3 * max((split.lookup.size for split in routing.splits), default=0) * routing.row_bytes,
        held_bytes=max(shares, default=0) * routing.row_bytes,
    )


def workers_now() -> tuple[int, int]:
    """The number of workers, and of threads of one at most: of the current client, else of dask's threaded scheduler."""
    if (distributed := sys.modules.get("distributed")) is not None:  # where nothing has imported it, there is no client
        try:
            threads = list(distributed.get_client().nthreads().values())
        except ValueError:  # no client
            threads = []
        if threads:
            return len(threads), max(threads)
    try:
        from dask.system import CPU_COUNT
    except ImportError:
        return 1, cpus()
    return 1, CPU_COUNT
