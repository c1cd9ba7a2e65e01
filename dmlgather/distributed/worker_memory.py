"""How much memory one worker needs at the same time, by a model."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pydantic import computed_field

from dmlgather.dialects.problem import whole
from dmlgather.distributed.chunk_grid import FILE_TO_TABLE
from dmlgather.distributed.routing import Routing
from dmlgather.host import cpus
from dmlgather.record import Record
from dmlgather.wording import amount, counted


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
