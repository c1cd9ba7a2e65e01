"""Checks whether a gather needs more memory than allowed, and recommends sizes of blocks and chunks that need less."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.problem import whole
from dmlgather.distributed.chunk_grid import SMALLER_CHUNKS, Chunks, replace_axis
from dmlgather.distributed.memory_model import KEPT_BYTES, ComputeMemory, WorkerMemory, compute_memory, worker_memory
from dmlgather.distributed.routing import Routing, routing_of, row_bytes
from dmlgather.host import cpus
from dmlgather.wording import amount, bytes_of, counted

MANY = 10_000
"""With more blocks or chunks, messages do not say how many bytes are loaded, because counting takes too long."""

BLOCK_BY_BLOCK = "write the result block by block instead (dask.array.store, to_zarr)"

ONE_THREAD = ("sync", "synchronous", "single-threaded")
"""Dask's names of the scheduler with one thread."""


class MemoryLimitError(ValueError):
    """Error: a gather needs more memory than `memory_limit`. The message says what needs most of it, and what to change."""


def byte_count(name: str, size: object) -> int:
    """Return a number of bytes as an int. `size`: an integer, or a text such as "2GB". `name`: the name of the argument."""
    count = bytes_of(size) if isinstance(size, str) else size
    if count is None:
        raise ValueError(f"{name} is {size!r}, expected a number of bytes such as '500MiB' or '2GB'")
    try:
        count = whole(name, count)
    except TypeError as error:
        raise TypeError(f"{error} of bytes, such as 2 * 10**9, or a text such as '2GB'") from None
    if count < 1:
        raise ValueError(f"{name} is {size!r}, expected at least 1 byte")
    return count


class DaskWorkers(NamedTuple):
    """The number of workers, the most threads of a worker, and the smallest memory limit in bytes, if there is one."""

    workers: int
    threads: int
    memory_limit: int | None


def dask_workers() -> DaskWorkers:
    """Return the workers of the current Dask client. Without a client, this process is the only worker."""
    if (client := _client()) is not None and not client.asynchronous and (threads := client.nthreads().values()):
        limits = [worker.get("memory_limit") for worker in client.scheduler_info()["workers"].values()]
        return DaskWorkers(len(threads), max(threads), min(filter(None, limits), default=None))
    try:
        from dask import config
        from dask.system import CPU_COUNT
    except ImportError:
        return DaskWorkers(1, cpus(), None)
    return DaskWorkers(
        1, 1 if config.get("scheduler", None) in ONE_THREAD else config.get("num_workers", None) or CPU_COUNT, None
    )


def client_runs() -> bool:
    """Return True if the workers of a Dask client run the tasks, not this process."""
    return _client() is not None


def _client() -> Any:
    if (distributed := sys.modules.get("distributed")) is None:  # a client exists only if the library was imported
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


class _Remedy(NamedTuple):
    """The advice of a MemoryLimitError: settings that meet the limit.

    `sizes`: the settings as text, "block_bytes=… and in_flight_bytes=…". `cost`: a text that says how much these settings
    load. `loaded`: the number of bytes that they load; infinite for more than MANY tasks.
    """

    sizes: str
    cost: str
    loaded: float
    compute_bytes: int


@dataclass(frozen=True, slots=True)
class ChunkedGather:
    """A gather of known row numbers from a chunked table, and the workers that run the tasks.

    `positions`: the result of `AxisRule.resolve`. `threads`: the number of threads per worker. `local`: True if this process
    runs the tasks.
    """

    positions: NDArray[np.int64]
    chunks: Chunks
    axis: int
    dtype: np.dtype[Any]
    workers: int
    threads: int
    local: bool

    @property
    def row(self) -> int:
        """Bytes of one row of the widest chunk."""
        return row_bytes(self.chunks, self.axis, self.dtype)

    @property
    def output_bytes(self) -> int:
        """Bytes of the output."""
        return self.positions.size * self._whole_row

    @property
    def _whole_row(self) -> int:
        return prod(map(sum, replace_axis(self.chunks, self.axis))) * self.dtype.itemsize

    def routing(self, block_bytes: int, in_flight_bytes: int) -> Routing:
        """Return which rows each block of indices reads. Both limits are bytes of output."""
        return routing_of(self.positions, self.chunks[self.axis], self.row, block_bytes, in_flight_bytes)

    def worker(self, routing: Routing) -> WorkerMemory:
        """Return the memory that one worker needs."""
        return worker_memory(routing, self.chunks[self.axis], self.workers, self.threads)

    def compute(self, routing: Routing, available: int | None = None) -> ComputeMemory:
        """Return the memory of the process that calls `compute`. `available`: free memory in bytes."""
        threads = self.threads if self.local else 0
        return compute_memory(routing, self.chunks, self.axis, self.dtype, threads=threads, available=available)

    def check(self, routing: Routing, limit: int | None, limit_name: str = "memory_limit") -> None:
        """Raise MemoryLimitError if a worker needs more than `limit` bytes."""
        peak = self.worker(routing)
        if limit is None or peak.total_bytes <= limit:
            return
        each = f"for each of {counted(self.threads, 'thread')}"
        parts = {
            f"the largest chunk and the rows taken of it, {amount(peak.take_bytes)} {each}": self.threads * peak.take_bytes,
            f"three times the largest block, {amount(peak.place_bytes)} {each}": self.threads * peak.place_bytes,
            f"the rows of a group on one of {counted(self.workers, 'worker')}, {amount(peak.held_bytes)}": peak.held_bytes,
        }
        raise MemoryLimitError(
            f"a worker needs {amount(peak.total_bytes)} ({peak.total_bytes} bytes) for the gather, but {limit_name} is "
            f"{amount(limit)}; most of it is {max(parts, key=parts.__getitem__)}: {self._advice(limit, routing)}"
        )

    def _advice(self, limit: int, routing: Routing) -> str:
        """Return the end of a MemoryLimitError's message. Recommend smaller chunks if they halve the bytes loaded."""
        sizes = self.chunks[self.axis]
        rows = max((sizes[chunk] for group in routing.groups for chunk in group.rows), default=0)
        smaller_rows = max(limit // (8 * self.threads) // self.row, 1)  # chunks and rows then need a quarter of the limit
        as_it_is = self._remedy(limit, rows)
        rechunked = self._remedy(limit, smaller_rows, rechunk=True) if smaller_rows < rows else None
        if as_it_is is None and rechunked is None:
            least = (3 * self.threads + 1) * self.row
            return (
                f"no sizes along axis {self.axis} meet it, because rows of {self.row} bytes need {least} bytes on "
                f"{counted(self.threads, 'thread')}; use fewer threads of a worker, or chunks that are smaller along other axes"
            )
        remedies, how = [], ""
        if rechunked is not None and (as_it_is is None or 2 * rechunked.loaded < as_it_is.loaded):
            largest = smaller_rows * self.row
            chunks = f"chunks of at most {largest} bytes, {counted(smaller_rows, 'row')} along axis {self.axis}"
            remedies.append((rechunked, f"{chunks}, with {rechunked.sizes} ({rechunked.cost})"))
            how = f". Chunks are made smaller by {SMALLER_CHUNKS.format(largest)}"
        # Do not recommend the present chunks if compute() meets the limit only with smaller ones.
        only_smaller = bool(remedies) and self.local and remedies[0][0].compute_bytes <= limit
        if as_it_is is not None and not (only_smaller and as_it_is.compute_bytes > limit):
            remedies.append((as_it_is, f"{as_it_is.sizes} {'with the present chunks ' * bool(remedies)}({as_it_is.cost})"))
        advice = f"use {'; or '.join(text for _, text in remedies)}"
        needed = remedies[0][0].compute_bytes
        if self.local and needed > limit:
            advice += f". But compute() needs {amount(needed)} ({needed} bytes) even then: {BLOCK_BY_BLOCK}"
        return advice + how

    def _remedy(self, limit: int, chunk_rows: int, *, rechunk: bool = False) -> _Remedy | None:
        """Return settings with which a worker needs at most `limit` bytes, or None. `compute` also meets the limit if possible.

        `rechunk`: True if the table must first get chunks of `chunk_rows` rows.
        """
        # In this process, `compute` also holds the result and the graph. The graph's size is not known yet: guess twice.
        beside_result = limit - self.output_bytes - KEPT_BYTES if self.local else limit
        remedy = None
        for room in (beside_result * 9 // 10, beside_result // 2, limit):
            sizes = _sizes(room, self.threads, chunk_rows * self.row, self.row)
            if sizes is not None:
                remedy = self._with_sizes(*sizes, chunk_rows if rechunk else None)
                if remedy.compute_bytes <= limit:
                    break
        return remedy

    def _with_sizes(self, block_bytes: int, in_flight_bytes: int, chunk_rows: int | None) -> _Remedy:
        text, size = f"block_bytes={block_bytes} and in_flight_bytes={in_flight_bytes}", sum(self.chunks[self.axis])
        if self.output_bytes > MANY * block_bytes or (chunk_rows is not None and size > MANY * chunk_rows):
            return _Remedy(text, f"more than {MANY} tasks", float("inf"), KEPT_BYTES + 2 * self.output_bytes)
        call = self
        if chunk_rows is not None:
            sizes = (chunk_rows,) * (size // chunk_rows) + (size % chunk_rows,) * (size % chunk_rows > 0)
            call = replace(self, chunks=replace_axis(self.chunks, self.axis, sizes))
        routing = call.routing(block_bytes, in_flight_bytes)
        loads = routing.loads
        loaded = sum(count * call.chunks[call.axis][chunk] for chunk, count in loads.items()) * call._whole_row
        return _Remedy(text, f"{amount(loaded)} in {counted(loads.total(), 'load')}", loaded, call.compute(routing).total_bytes)


def _sizes(limit: int, threads: int, chunk: int, row: int) -> tuple[int, int] | None:
    """Return block_bytes and in_flight_bytes with which a worker needs at most `limit` bytes for any indices, or None.

    `chunk`, `row`: the bytes of the largest chunk and of a row. With blocks of b bytes in groups of f bytes, a worker needs
    threads * max(chunk + min(f, chunk), 3 * b) + f bytes. A large f saves loads, but a quarter of the limit is left to
    the threads.
    """
    in_flight = limit - 2 * threads * chunk
    if in_flight < chunk:
        in_flight = (limit - threads * chunk) // (threads + 1)
    in_flight = min(in_flight, limit * 3 // 4, limit - 3 * threads * row)
    block = min(in_flight, (limit - in_flight) // (3 * threads))
    return (block, in_flight) if block >= row else None


def check_compute(memory: ComputeMemory, limit: int) -> None:
    """Raise MemoryLimitError if `compute` needs more than `limit` bytes in this process, unless a client runs the tasks."""
    if memory.total_bytes <= limit or client_runs():
        return
    joined = memory.graph_bytes + memory.output_bytes + memory.join_bytes
    remedy = "lower block_bytes and in_flight_bytes (see plan_gather), or " * (joined <= limit) + BLOCK_BY_BLOCK
    raise MemoryLimitError(
        f"compute() needs {amount(memory.total_bytes)} ({memory.total_bytes} bytes) in this process, which also runs the "
        f"tasks, but memory_limit is {amount(limit)}; {remedy}, or gather in parts"
    )
