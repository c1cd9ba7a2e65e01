"""Memory model of a gather, for the workers that run its tasks and for the process that calls `compute`."""

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
"""Memory per index while `gather` computes the routing: eight int64 arrays."""

PLACE_BYTES = {True: 32, False: 16}
"""Memory per index of a block while its rows are scattered (True: four int64 arrays) or concatenated (False: two arrays)."""

TASK_BYTES = 2048
"""Memory per task in the scheduler, measured."""

KEPT_BYTES = 64 * 2**20
"""Memory that threads and the allocator keep for any gather, measured."""


class WorkerMemory(Record):
    """Estimated memory of one worker, in bytes.

    Each thread takes rows of the largest chunk or places the largest block, while the worker holds its share of one group's
    rows. Not included: Python and its libraries, the memory to decode a chunk of a store, and the result (see `ComputeMemory`).
    """

    threads: int
    """Threads of one worker."""

    take_bytes: int
    """Memory of one thread that takes rows: the largest chunk, and the rows taken of this chunk."""

    place_bytes: int
    """Memory of one thread that places the largest block: three times the block. The thread holds the rows, the concatenated rows
    (unless a row has 512 bytes or more) and the output."""

    held_bytes: int
    """Bytes of the rows of one group on one worker, if chunks are assigned round-robin."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def total_bytes(self) -> int:
        """Memory of the worker."""
        return self.threads * max(self.take_bytes, self.place_bytes) + self.held_bytes

    def __str__(self) -> str:
        one_thread = f"chunk and its rows {amount(self.take_bytes)}, 3 blocks {amount(self.place_bytes)}"
        return f"{counted(self.threads, 'thread')} x max({one_thread}) + rows of a group {amount(self.held_bytes)}"


def worker_memory(routing: Routing, sizes: Sequence[int], workers: int, threads: int) -> WorkerMemory:
    """Return the memory of one worker. `threads`: of this worker. `sizes`: rows of each chunk of the table along the axis."""
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
    """Estimated additional memory of the process that calls `gather` and `compute`, in bytes.

    Without a client, the threads of this process also run the tasks. Not included: the memory to decode a chunk of a store.
    """

    routing_bytes: int
    """Memory of `gather` while it computes the routing, before any task runs."""

    graph_bytes: int
    """Memory of the tasks in the scheduler with their row numbers, plus the memory that threads and the allocator keep."""

    output_bytes: int
    """Bytes of the result. The scheduler keeps the blocks of the result until all are computed."""

    join_bytes: int
    """Bytes of the array into which `compute` copies the blocks. For a single block, also the rows that its task holds."""

    tasks_bytes: int
    """Memory of the tasks that run in this process, without the blocks of the result; 0 if workers run them. The tasks hold the
    rows of one group. In addition, each thread needs the memory of a take (a chunk and its rows) and of a place task. These are
    added, because the allocator may keep the memory of takes while blocks are placed."""

    available_bytes: int | None
    """Free memory of the machine and the control groups (cgroups) of this process. None if it is enough."""

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def total_bytes(self) -> int:
        """Peak memory."""
        return max(self.routing_bytes, self.graph_bytes + self.output_bytes + max(self.join_bytes, self.tasks_bytes))

    @property
    def shortage(self) -> str:
        """Part of a message that names the available memory; empty if enough memory is available."""
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
    """Return the memory that a gather needs in the process that computes it.

    `chunks`: chunks of the table. `threads`: number of threads of this process that run tasks; 0 if workers run the tasks.
    `available`: free memory of the machine, in bytes.
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
    """Return the number of take, pick and place tasks for the chunks along the axis. Blocks that share takes have picks."""
    return sum(
        len(group.rows) + sum(1 + (len(group.blocks) > 1) * len(block.split.rows) for block in group.blocks)
        for group in routing.groups
    )


def _place_bytes(split: Split, row: int, trail: int, *, picked: bool) -> int:
    """Return the memory in bytes of a thread that places a block, without the output.

    The thread holds PLACE_BYTES for each index, and either the concatenated rows or the rows of one scattered piece. If the rows
    were `picked`, it also holds the rows of the block.
    """
    scattered = trail >= WIDE and int(split.lookup.max(initial=0)) < split.count
    copied = max(requests(split).values(), default=0) if scattered else split.count
    return picked * split.count * row + (copied * row if len(split.rows) > 1 else 0) + PLACE_BYTES[scattered] * split.lookup.size


def requests(split: Split) -> dict[int, int]:
    """Return the number of indices that read each chunk."""
    reads = np.bincount(split.lookup.reshape(-1), minlength=split.count)[: split.count]
    begins = np.cumsum([0, *map(len, split.rows.values())])[:-1]
    return dict(zip(split.rows, np.add.reduceat(reads, begins).tolist(), strict=True))
