"""How much memory a gather needs, by a model: of each worker that runs its tasks, and of the process that calls `compute`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from pydantic import computed_field

from dmlgather.dialects.problem import whole
from dmlgather.distributed.chunk_grid import FILE_CHUNKS, Chunks, Split, replace_axis
from dmlgather.distributed.routing import WIDE, Routing
from dmlgather.host import cpus
from dmlgather.record import Record
from dmlgather.wording import amount, bytes_of, counted

ROUTING_BYTES = 64
"""For each index, while `gather` finds out which rows are wanted: eight arrays of eight bytes."""

PLACE_BYTES = {True: 32, False: 16}
"""For each index of a block, while its rows are written to their places (True) or joined: arrays of eight bytes."""

TASK_BYTES = 2048
"""For each task that the scheduler keeps, measured."""

KEPT_BYTES = 64 * 2**20
"""What threads and the allocator keep in any case, measured."""


def check_limit(limit: object) -> int | None:
    """Return a caller's memory_limit in bytes, None for no limit. TypeError for another type, ValueError for less than a byte."""
    if limit is None:
        return None
    found = bytes_of(limit) if isinstance(limit, str) else limit
    if found is None:
        raise ValueError(f"memory_limit is {limit!r}, expected a number of bytes such as '500MiB' or '2GB'")
    try:
        found = whole("memory_limit", found)
    except TypeError as error:
        raise TypeError(f"{error} of bytes, such as 2 * 10**9, or a text such as '2GB'") from None
    if found < 1:
        raise ValueError(f"memory_limit is {limit!r}, expected at least 1 byte; None for no limit")
    return found


class MemoryLimitError(ValueError):
    """A gather needs more memory of a worker than it may have. The message says what takes the most, and what to change."""


class WorkerMemory(Record):
    """Memory of one worker, in bytes, by a model: every thread takes rows of the largest chunk or places the largest block, while
    the worker holds its share of the rows of one group.

    The model leaves out Python and the libraries, what a store needs to decode a chunk, and output that is computed and kept:
    `ComputeMemory` has it, for the process that calls `compute`.
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

    def check(self, limit: int | None, routing: Routing, sizes: Sequence[int], *, axis: int, workers: int) -> None:
        """MemoryLimitError where it exceeds `limit`, in bytes. routing, sizes: as for `worker_memory`. axis, workers: for the
        message.
        """
        if limit is None or self.total_bytes <= limit:
            return
        threads = f"bytes on {counted(self.threads, 'thread')}"
        causes = {
            f"the largest chunk and the rows taken of it, {self.take_bytes} {threads}": self.threads * self.take_bytes,
            f"three times the largest block, {self.place_bytes} {threads}": self.threads * self.place_bytes,
            f"the rows of a group held by one of {counted(workers, 'worker')}, {self.held_bytes} bytes": self.held_bytes,
        }
        chunk = max((sizes[chunk] for group in routing.groups for chunk in group.rows), default=0) * routing.row_bytes
        raise MemoryLimitError(
            f"the gather needs {self.total_bytes} bytes of a worker, but memory_limit is {limit} bytes; most of it is "
            f"{max(causes, key=causes.__getitem__)}: {_remedy(limit, self.threads, chunk, routing.row_bytes, axis)}"
        )

    def __str__(self) -> str:
        one_thread = f"chunk and its rows {amount(self.take_bytes)}, 3 blocks {amount(self.place_bytes)}"
        return f"{counted(self.threads, 'thread')} x max({one_thread}) + rows held {amount(self.held_bytes)}"


def _remedy(limit: int, threads: int, chunk: int, row: int, axis: int) -> str:
    """Return what meets a limit whatever the indices are. chunk, row: bytes of the largest chunk, and of one row of it.

    With groups of one block of b bytes, a thread holds at most max(chunk + b, 3 b), and the worker b.
    """
    block = min(limit // (3 * threads + 1), (limit - threads * chunk) // (threads + 1))
    if block >= row:
        return f"block_bytes and in_flight_bytes of {block} meet it"
    block, none = limit // (3 * threads + 1), "no block_bytes meets it"
    if block < row:
        least = (3 * threads + 1) * row
        return (
            f"{none}, and no chunks along axis {axis} do: rows of {row} bytes need {least} bytes on "
            f"{counted(threads, 'thread')}; use fewer threads of a worker, or chunks that are smaller off the axis"
        )
    return (
        f"{none} with such chunks: make them at most {2 * block} bytes, {counted(2 * block // row, 'row')} along axis {axis} "
        f"(table.rechunk(…); {FILE_CHUNKS.format(2 * block)}), with block_bytes and in_flight_bytes of {block}"
    )


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


class ComputeMemory(Record):
    """Memory of the process that calls `compute`, in bytes, by a model, beside what it held before `gather` was called.

    Without a client, its threads run the tasks as well. The model leaves out what a store needs to decode a chunk.
    """

    routing_bytes: int
    """While `gather` finds out which rows are wanted, before any task runs."""

    graph_bytes: int
    """The tasks, as the scheduler keeps them, with the places of their rows; and what threads and the allocator keep."""

    output_bytes: int
    """The blocks of the result, which the scheduler keeps until all of them are there."""

    join_bytes: int
    """The array that `compute` copies the blocks into. The task of a single block still holds its rows then."""

    tasks_bytes: int
    """What tasks in this process hold beside the blocks: the rows of one group, and for each thread a chunk and the rows that are
    taken of it, and what a block is made of. The allocator may keep the former while the latter is made. 0 where workers run the
    tasks."""

    available_bytes: int | None
    """What the process could still have of its machine and its control groups, where that is less than it needs; else none."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def total_bytes(self) -> int:
        """The most at the same time."""
        return max(self.routing_bytes, self.graph_bytes + self.output_bytes + max(self.join_bytes, self.tasks_bytes))

    def check(self, limit: int) -> None:
        """MemoryLimitError where it exceeds `limit`, in bytes, and no client's workers run the tasks."""
        if self.total_bytes > limit and not client_runs():
            raise MemoryLimitError(
                f"compute() needs {self.total_bytes} bytes of this process, which runs the tasks as well, but memory_limit is "
                f"{limit} bytes; write the result block by block instead (dask.array.store, to_zarr), or gather in parts"
            )

    @property
    def shortage(self) -> str:
        """In words, for behind the total; empty where the process can have it."""
        if self.available_bytes is None:
            return ""
        return f", more than the {amount(self.available_bytes)} that it can still have"

    def __str__(self) -> str:
        kept = f"graph of tasks {amount(self.graph_bytes)} + result {amount(self.output_bytes)}"
        rows = " and the rows of its one block" if self.join_bytes > self.output_bytes else ""
        copy = f"its copy{rows} {amount(self.join_bytes)}"
        most = f"max({copy}, running tasks {amount(self.tasks_bytes)})" if self.tasks_bytes else copy
        return f"max(routing {amount(self.routing_bytes)}, {kept} + {most})"


def compute_memory(
    routing: Routing, chunks: Chunks, axis: int, dtype: np.dtype[Any], *, threads: int, available: int | None
) -> ComputeMemory:
    """Return the memory that a gather needs in the process that computes it.

    chunks: of the table. threads: that run tasks in this process, 0 where workers do. available: bytes that it can still have.
    """
    off_axis, row, itemsize = replace_axis(chunks, axis), routing.row_bytes, dtype.itemsize
    columns = prod(sum(map(bool, sizes)) for sizes in off_axis)
    trail = prod(max(sizes, default=0) for sizes in chunks[axis + 1 :]) * itemsize
    indices = sum(split.lookup.size for split in routing.splits)
    output = indices * prod(map(sum, off_axis)) * itemsize
    tasks = last = 0
    if threads:
        held = max(sum(map(len, group.rows.values())) for group in routing.groups) * row * min(columns, threads)
        take = max((chunks[axis][chunk] + len(rows) for group in routing.groups for chunk, rows in group.rows.items()), default=0)
        places = [(len(group.blocks) > 1, block.split) for group in routing.groups for block in group.blocks]
        place = max(_placing(split, row, trail, picked=picked) for picked, split in places)
        tasks = held + threads * take * row + min(threads, len(places) * columns) * place
        last = held + take * row if len(places) * columns == 1 else 0
    memory = ComputeMemory(
        routing_bytes=ROUTING_BYTES * indices,
        graph_bytes=KEPT_BYTES + _tasks(routing) * columns * TASK_BYTES + np.dtype(np.int64).itemsize * indices,
        output_bytes=output,
        join_bytes=output + last,
        tasks_bytes=tasks,
        available_bytes=None,
    )
    short = available is not None and available < memory.total_bytes
    return memory.model_copy(update={"available_bytes": available}) if short else memory


def _tasks(routing: Routing) -> int:
    """How many tasks a gather has for each column of chunks: takes, picks where blocks share them, and places."""
    return sum(
        len(group.rows) + sum(1 + (len(group.blocks) > 1) * len(block.split.rows) for block in group.blocks)
        for group in routing.groups
    )


def _placing(split: Split, row: int, trail: int, *, picked: bool) -> int:
    """Bytes that a thread holds beside the output while it places a block: its rows where they were `picked` out of those of the
    group; these joined, or what one piece gives; and the order of its indices.
    """
    scattered = trail >= WIDE and int(split.lookup.max(initial=0)) < split.count
    beside = max(requests(split).values(), default=0) if scattered else split.count
    return picked * split.count * row + (beside * row if len(split.rows) > 1 else 0) + PLACE_BYTES[scattered] * split.lookup.size


def requests(split: Split) -> dict[int, int]:
    """How many elements of a split's lookup read a row of each chunk."""
    reads = np.bincount(split.lookup.reshape(-1), minlength=split.count)[: split.count]
    begins = np.cumsum([0, *map(len, split.rows.values())])[:-1]
    return dict(zip(split.rows, np.add.reduceat(reads, begins).tolist(), strict=True))


def client_runs() -> bool:
    """Return whether a Dask client runs what this process computes."""
    return _client() is not None


def _client() -> Any:
    """Return the current client; None where there is none."""
    if (distributed := sys.modules.get("distributed")) is None:  # where nothing has imported it, there is none
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def workers_now() -> tuple[int, int]:
    """The number of workers, and of threads of one at most: of the current client, else of dask's threaded scheduler."""
    if (client := _client()) is not None and (threads := list(client.nthreads().values())):
        return len(threads), max(threads)
    try:
        from dask.system import CPU_COUNT
    except ImportError:
        return 1, cpus()
    return 1, CPU_COUNT
