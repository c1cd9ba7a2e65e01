"""Plan a gather of a chunked table: by the same functions that `gather` builds its tasks with, and without Dask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from math import isnan, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.onnx.export import express
from dmlgather.dialects.onnx.gathering import Gather
from dmlgather.dialects.problem import TensorType, check_axis, whole
from dmlgather.directml import DescriptorError, FeatureLevel, GatherOperatorDesc, Report, validate
from dmlgather.distributed.axis_rules import axis_rule
from dmlgather.distributed.chunk_operators import carried, descriptor, judge
from dmlgather.distributed.forecast import Described, GatherPlan, MemoryLimitError, Owner, PeakMemory, Span
from dmlgather.distributed.index_blocks import BLOCK_BYTES, IN_FLIGHT_BYTES
from dmlgather.distributed.routing import Chunks, Routing, host_indices, route, row_bytes
from dmlgather.distributed.splitting import chunk_starts, shared_rows
from dmlgather.policy import Fill

__all__ = ["GatherPlan", "MemoryLimitError", "plan_gather"]

DESCRIBED_KEPT = 1024
"""Descriptors of chunks that are kept with their findings: most chunks of a table are of one size."""


def plan_gather(
    chunks: Sequence[Sequence[int]],
    indices: Any,
    *,
    axis: int = 0,
    dtype: Any = "float32",
    dialect: str = "directml",
    out_of_bounds: str | Fill | None = None,
    workers: int = 1,
    threads: int = 1,
    memory_limit: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    in_flight_bytes: int = IN_FLIGHT_BYTES,
) -> GatherPlan:
    """What `gather` of a table with these chunks will load, move and hold; nothing of the table is needed.

    chunks: sizes of the table's chunks along each axis, in elements (`table.chunks` of a dask array). indices: integers in
    memory, any shape. axis, dialect, out_of_bounds, block_bytes, in_flight_bytes: as for `gather`. dtype: of the table. workers,
    threads: how many workers share the chunks, and the threads of one. memory_limit: bytes that one worker may have.

    Raises MemoryLimitError where a worker needs more than that, IndexError for an index out of bounds under "raise", ValueError
    for sizes, an axis, a dialect or a policy that cannot be, TypeError for types that the dialect does not take. What no
    descriptor can say is in the plan: `plan.ok`.
    """
    sizes = _sizes(chunks)
    for name, value in (("workers", workers), ("threads", threads)):
        if whole(name, value) < 1:
            raise ValueError(f"{name} is {value}, expected at least 1")
    axis = check_axis("axis", axis, len(sizes), "the table")
    given = host_indices(indices)
    shape = tuple(map(sum, sizes))
    reads = 0 not in shape[:axis] + shape[axis + 1 :]
    rule = axis_rule(dialect, shape[axis], dtype, given.dtype, out_of_bounds, axis=axis, reads=reads)
    element = rule.dtype
    each = row_bytes(sizes, axis, element)
    routing = route(rule.resolve(given), sizes[axis], each, block_bytes, in_flight_bytes)
    owners = _owners(routing, sizes, axis, element)
    plan = GatherPlan(
        dialect=dialect,
        out_of_bounds=rule.out_of_bounds.value,
        table_shape=shape,
        dtype=str(element),
        axis=axis,
        chunks=len(sizes[axis]),
        index_shape=given.shape,
        output_shape=(*shape[:axis], *given.shape, *shape[axis + 1 :]),
        output_chunks=(*sizes[:axis], *routing.index_chunks, *sizes[axis + 1 :]),
        owners=owners,
        untouched=_spans(len(sizes[axis]), {owner.chunk for owner in owners}),
        requests=sum(owner.requests for owner in owners),
        filled=given.size - sum(owner.requests for owner in owners),
        blocks=sum(1 for _ in routing.blocks),
        groups=len(routing.groups),
        row_bytes=prod(shape[:axis] + shape[axis + 1 :]) * element.itemsize,
        place=_place(routing, sizes, axis, element),
        whole=_whole(shape, element, axis, given.shape),
        workers=workers,
        peak=_peak(routing, sizes[axis], each, workers, threads),
        memory_limit=memory_limit,
    )
    plan.check_memory()
    return plan


def _sizes(chunks: Sequence[Sequence[int]]) -> Chunks:
    """Whole sizes. ValueError for unknown and negative ones."""
    for axis, sizes in enumerate(chunks):
        if not len(sizes) or any(isnan(size) or size < 0 for size in sizes):
            raise ValueError(
                f"chunks[{axis}] is {tuple(sizes)}, expected sizes of 0 or more: compute_chunk_sizes() of a dask array finds "
                "those it lacks"
            )
    return tuple(tuple(whole(f"chunks[{axis}]", size) for size in sizes) for axis, sizes in enumerate(chunks))


def _owners(routing: Routing, chunks: Chunks, axis: int, dtype: np.dtype[Any]) -> tuple[Owner, ...]:
    starts = chunk_starts(chunks[axis])
    splits = [block.split for block in routing.blocks]
    (first, *others) = routing.groups
    different = shared_rows(splits, starts) if others else first.rows
    requests = sum((_requests(found.rows, found.lookup) for found in splits), np.zeros(len(chunks[axis]), np.int64))
    taken = [[len(group.rows[owner]) for group in routing.groups if len(group.rows[owner])] for owner in range(len(different))]
    row = prod(sum(sizes) for number, sizes in enumerate(chunks) if number != axis) * dtype.itemsize
    widest = [max(sizes) for sizes in chunks]
    return tuple(
        Owner(
            chunk=owner,
            start=int(starts[owner]),
            size=size,
            requests=int(requests[owner]),
            rows=len(different[owner]),
            loads=len(taken[owner]),
            rows_taken=sum(taken[owner]),
            bytes_loaded=len(taken[owner]) * size * row,
            bytes_taken=sum(taken[owner]) * row,
            take=_described((*widest[:axis], size, *widest[axis + 1 :]), dtype, axis, max(taken[owner])),
        )
        for owner, size in enumerate(chunks[axis])
        if requests[owner]
    )


def _requests(rows: Sequence[NDArray[np.int64]], lookup: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many elements of a split's lookup read a row of each chunk."""
    ends = np.cumsum([0, *map(len, rows)])
    reads = np.bincount(lookup.reshape(-1), minlength=ends[-1])
    found: NDArray[np.int64] = np.diff(np.concatenate([[0], np.cumsum(reads)])[ends])
    return found


def _spans(count: int, touched: set[int]) -> tuple[Span, ...]:
    runs = groupby((chunk for chunk in range(count) if chunk not in touched), key=_Run())
    return tuple(Span(first=found[0], last=found[-1]) for found in (list(run) for _, run in runs))


class _Run:
    """The same key for consecutive numbers."""

    def __init__(self) -> None:
        self._seen = 0

    def __call__(self, number: int) -> int:
        self._seen += 1
        return number - self._seen


@lru_cache(DESCRIBED_KEPT)
def _described(shape: tuple[int, ...], dtype: np.dtype[Any], axis: int, count: int) -> Described | None:
    """The gather of `count` rows of a chunk; none where a tensor would be empty."""
    if 0 in shape or not count:
        return None
    try:
        desc = descriptor(shape, dtype, axis, count)
    except DescriptorError as error:
        return Described(descriptor=None, findings=error.report.findings)
    return Described(descriptor=desc, findings=judge(desc).findings)


def _place(routing: Routing, chunks: Chunks, axis: int, dtype: np.dtype[Any]) -> Described | None:
    """The last step of the block with the most indices; where it only fills, it reads one row."""
    splits = [block.split for block in routing.blocks]
    if not splits:
        return None
    largest = max(splits, key=lambda found: found.lookup.size)
    shape = [max(sizes) for sizes in chunks]
    shape[axis] = max(largest.count, 1)
    return _described(tuple(shape), dtype, axis, largest.lookup.size)


def _whole(shape: tuple[int, ...], dtype: np.dtype[Any], axis: int, index_shape: tuple[int, ...]) -> Described:
    """The gather as one problem, in words that DirectML has."""
    word, parts = carried(dtype)
    data, indices = TensorType((*shape, *parts), word), TensorType(index_shape, np.dtype(np.int64))
    found = express(Gather(data, indices, axis), max(FeatureLevel))
    if isinstance(found, Report):
        return Described(descriptor=None, findings=found.findings)
    (desc,) = found
    assert isinstance(desc, GatherOperatorDesc)
    return Described(descriptor=desc, findings=validate(desc).findings)


def _peak(routing: Routing, sizes: Sequence[int], each: int, workers: int, threads: int) -> PeakMemory:
    """By the model of `PeakMemory`. sizes: of the chunks along the axis. each: bytes of a row of the widest chunk."""
    loads = ((sizes[owner] + len(group.rows[owner])) * each for group in routing.groups for owner in group.owners)
    return PeakMemory(
        threads=threads,
        take_bytes=max(loads, default=0),
        place_bytes=3 * max((block.split.lookup.size * each for block in routing.blocks), default=0),
        held_bytes=max(_held(routing, workers), default=0) * each,
    )


def _held(routing: Routing, workers: int) -> Iterator[int]:
    """Rows of each group that each worker holds, where the chunks of the group are dealt to them in turn."""
    for group in routing.groups:
        counts = [len(group.rows[owner]) for owner in group.owners]
        yield from (sum(counts[worker::workers]) for worker in range(min(workers, len(counts))))
