"""Estimates the memory of a gather: of the workers that run its tasks, and of the process that calls `compute`."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from pydantic import computed_field

from dmlgather.distributed.chunk_grid import Chunks, Split, replace_axis
from dmlgather.distributed.routing import WIDE, Routing
from dmlgather.record import Record
from dmlgather.wording import amount, counted

ROUTING_BYTES = 64
"""Bytes per index that `gather` needs to find out which rows are read: eight int64 arrays."""

PLACE_BYTES = {True: 32, False: 16}
"""Bytes per index to place a block's rows: True if they are written chunk by chunk, False if they are concatenated first."""

TASK_BYTES = 2048
"""Bytes that Dask's scheduler needs per task, as measured."""

KEPT_BYTES = 64 * 2**20
"""Bytes that threads and the memory allocator keep in any gather, as measured."""


class WorkerMemory(Record):
    """Estimated memory of one worker, in bytes.

    Each thread either copies rows out of the largest chunk, or writes the rows of the largest block to the output. Meanwhile,
    the worker holds its share of the rows that one group of blocks reads. Not included: Python and its libraries, the memory to
    decode a chunk of a store, and the result (see `ComputeMemory`).
    """

    threads: int
    """Number of threads of the worker."""

    take_bytes: int
    """Memory of a thread that takes rows: the largest chunk, and the rows that are copied out of it."""

    place_bytes: int
    """Memory of a thread that places the largest block: three times the block.

    The thread holds the rows, the concatenated rows (unless a row has 512 bytes or more) and the output.
    """

    held_bytes: int
    """Bytes of one group's rows that the worker holds, if chunks are assigned to workers in turn."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def total_bytes(self) -> int:
        """Memory of the worker in bytes."""
        return self.threads * max(self.take_bytes, self.place_bytes) + self.held_bytes

    def __str__(self) -> str:
        one_thread = f"chunk and its rows {amount(self.take_bytes)}, 3 blocks {amount(self.place_bytes)}"
        return f"{counted(self.threads, 'thread')} x max({one_thread}) + rows of a group {amount(self.held_bytes)}"


def worker_memory(routing: Routing, sizes: Sequence[int], workers: int, threads: int) -> WorkerMemory:
    """Return the memory that one worker needs. `sizes`: number of rows of each chunk along the axis."""
    takes = (sizes[chunk] + len(rows) for group in routing.groups for chunk, rows in group.rows.items())
    taken = [[len(rows) for rows in group.rows.values()] for group in routing.groups]
    shares = (sum(counts[worker::workers]) for counts in taken for worker in range(min(workers, len(counts))))
    return WorkerMemory(
        threads=threads,
        take_bytes=max(takes, default=0) * routing.row_bytes,
        place_bytes=3 * max((split.lookup.size for split in routing.splits), default=0) * routing.row_bytes,
        held_bytes=max(shares, default=0) * routing.row_bytes,
    )


class ComputeMemory(Record):
    """Estimated memory that a gather adds to the process that calls `gather` and `compute`, in bytes.

    Without a Dask client, the threads of this process also run the tasks. Not included: the memory to decode a chunk of a
    store.
    """

    routing_bytes: int
    """Memory that `gather` needs while it finds out which rows are read, before any task runs."""

    graph_bytes: int
    """Memory of the tasks and their row numbers in the scheduler, plus what threads and the memory allocator keep."""

    output_bytes: int
    """Bytes of the result. The scheduler keeps its blocks until all are computed."""

    join_bytes: int
    """Bytes of the array into which `compute` copies the blocks.

    If there is only one block, the rows that its task holds are added.
    """

    tasks_bytes: int
    """Memory of the tasks that run in this process, without the blocks of the result. 0 if workers run the tasks.

    The tasks hold the rows of one group. In addition, each thread needs the memory of a take task (a chunk and its rows) and of
    a place task. These are added, because the allocator may keep the memory of take tasks while blocks are placed.
    """

    available_bytes: int | None
    """Free memory of the machine and of the control groups (cgroups) of this process. None if `total_bytes` fits into it."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def total_bytes(self) -> int:
        """Largest memory that the process needs at one time, in bytes."""
        return max(self.routing_bytes, self.graph_bytes + self.output_bytes + max(self.join_bytes, self.tasks_bytes))

    @property
    def shortage(self) -> str:
        """Part of a message: how much memory is available. Empty if there is enough."""
        if self.available_bytes is None:
            return ""
        return f", more than the {amount(self.available_bytes)} that it can still have"

    def __str__(self) -> str:
        kept = f"graph of tasks {amount(self.graph_bytes)} + result {amount(self.output_bytes)}"
        rows = " and the rows of its one block" if self.join_bytes > self.output_bytes else ""
        copy = f"its copy{rows} {amount(self.join_bytes)}"
        most = f"max({copy}, running tasks {amount(self.tasks_bytes)})" if self.tasks_bytes else copy
        return f"max(indices {amount(self.routing_bytes)}, {kept} + {most})"


def compute_memory(
    routing: Routing, chunks: Chunks, axis: int, dtype: np.dtype[Any], *, threads: int, available: int | None
) -> ComputeMemory:
    """Return the memory that a gather needs in the process that calls `compute`.

    `threads`: 0 if workers run the tasks. `available`: free memory in bytes; None if unknown.
    """
    off_axis, row, itemsize = replace_axis(chunks, axis), routing.row_bytes, dtype.itemsize
    columns = prod(sum(map(bool, sizes)) for sizes in off_axis)
    trail = prod(max(sizes, default=0) for sizes in chunks[axis + 1 :]) * itemsize
    indices = sum(split.lookup.size for split in routing.splits)
    output = indices * prod(map(sum, off_axis)) * itemsize
    task_bytes = single_block_bytes = 0
    if threads:
        held = max(sum(map(len, group.rows.values())) for group in routing.groups) * row * min(columns, threads)
        take = max((chunks[axis][chunk] + len(rows) for group in routing.groups for chunk, rows in group.rows.items()), default=0)
        blocks = [(len(group.blocks) > 1, block.split) for group in routing.groups for block in group.blocks]
        place = max(_place_bytes(split, row, trail, picked=picked) for picked, split in blocks)
        task_bytes = held + threads * take * row + min(threads, len(blocks) * columns) * place
        single_block_bytes = held + take * row if len(blocks) * columns == 1 else 0
    memory = ComputeMemory(
        routing_bytes=ROUTING_BYTES * indices,
        graph_bytes=KEPT_BYTES + _tasks(routing) * columns * TASK_BYTES + np.dtype(np.int64).itemsize * indices,
        output_bytes=output,
        join_bytes=output + single_block_bytes,
        tasks_bytes=task_bytes,
        available_bytes=None,
    )
    short = available is not None and available < memory.total_bytes
    return memory.model_copy(update={"available_bytes": available}) if short else memory


def _tasks(routing: Routing) -> int:
    """Return the number of take, pick and place tasks, if the table has only one chunk along each other axis."""
    return sum(
        len(group.rows) + sum(1 + (len(group.blocks) > 1) * len(block.split.rows) for block in group.blocks)
        for group in routing.groups
    )


def _place_bytes(split: Split, row: int, trail: int, *, picked: bool) -> int:
    """Return the memory that a thread needs to place a block, in bytes, without the output.

    `row`: the bytes of one row of the widest chunk. `trail`: the bytes of each contiguous piece of a row. `picked`: True if
    a pick task has copied the rows of the block. The thread then holds these copies, too.
    """
    scattered = trail >= WIDE and int(split.lookup.max(initial=0)) < split.count
    copied = max(requests(split).values(), default=0) if scattered else split.count
    return picked * split.count * row + (copied * row if len(split.rows) > 1 else 0) + PLACE_BYTES[scattered] * split.lookup.size


def requests(split: Split) -> dict[int, int]:
    """Return how many indices of a block read each chunk."""
    reads = np.bincount(split.lookup.reshape(-1), minlength=split.count)[: split.count]
    begins = np.cumsum([0, *map(len, split.rows.values())])[:-1]
    return dict(zip(split.rows, np.add.reduceat(reads, begins).tolist(), strict=True))
