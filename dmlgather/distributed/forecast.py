"""Predicts the loads and the memory of a gather of a chunked table. This needs no Dask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from math import isnan, prod
from numbers import Real
from typing import Any, Literal

import numpy as np
from pydantic import computed_field

from dmlgather.calls.arguments import Fill, type_of
from dmlgather.dialects.element_types import numpy_type
from dmlgather.dialects.problem import TensorType, check_axis, whole
from dmlgather.directml import DescriptorError, FeatureLevel, Finding, GatherOperatorDesc, Report, Severity, validate
from dmlgather.distributed.axis_rules import axis_rule
from dmlgather.distributed.chunk_grid import Chunks, chunk_starts, replace_axis, union
from dmlgather.distributed.chunk_operators import gather_descriptor, judge, word_of
from dmlgather.distributed.memory_limits import BLOCK_BY_BLOCK, ChunkedGather, byte_count, client_runs, dask_workers
from dmlgather.distributed.memory_model import ComputeMemory, WorkerMemory, requests
from dmlgather.distributed.routing import BLOCK_BYTES, IN_FLIGHT_BYTES, Routing, host_indices
from dmlgather.host import available_memory
from dmlgather.onnx.problems.export import express
from dmlgather.onnx.problems.gather import Gather
from dmlgather.package import missing_extra
from dmlgather.record import Record
from dmlgather.wording import amount, counted

SHOWN = 20
"""The most chunks that the text of a forecast lists. The data has all chunks."""

HEADS = ("chunk", "rows", "requests", "different", "loads", "loaded", "taken", "descriptor")
"""Column headings of the table in the text of a forecast, for `TouchedChunk.entries`."""


class CheckedDescriptor(Record):
    """The DirectML descriptor of a task or of the whole gather, validated at the newest feature level."""

    descriptor: GatherOperatorDesc | None
    """The descriptor; None if DirectML cannot describe the gather.

    A type that DirectML lacks is replaced by an unsigned integer type of its size, for example complex64 by UINT64.
    """

    findings: tuple[Finding, ...]
    """Faults of the descriptor. If there is no descriptor, the reasons."""

    @property
    def ok(self) -> bool:
        """True if no finding has severity ERROR."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def __str__(self) -> str:
        codes = dict.fromkeys(finding.code for finding in self.findings)
        return ("legal" if self.ok else "illegal") + (f" ({', '.join(codes)})" if codes else "")


class TouchedChunk(Record):
    """How a gather reads one chunk of the table. Chunks with equal numbers along the axis are one entry."""

    chunk: int
    """Number of the chunk along the axis, from 0."""

    start: int
    """Number of the chunk's first row along the axis."""

    size: int
    """Number of rows of the chunk."""

    requests: int
    """Number of indices that read the chunk."""

    rows: int
    """Number of different rows of the chunk that the indices read."""

    loads: int
    """How often the chunk is loaded: once for each group of blocks that reads it."""

    rows_taken: int
    """Number of rows that are copied out of the chunk, in all its loads.

    It exceeds `rows` if several groups read the same row.
    """

    bytes_loaded: int
    """Bytes of the chunk, times the number of its loads."""

    bytes_taken: int
    """Bytes of the rows that are copied out of the chunk. Workers exchange at most these bytes."""

    take: CheckedDescriptor | None
    """Descriptor of the task that copies the most rows out of the chunk. None if a tensor would be empty."""

    @property
    def entries(self) -> tuple[str, ...]:
        """The line of this chunk in the table that `str(forecast)` shows: one text for each column in HEADS."""
        rows = f"{self.start} … {self.start + self.size - 1}"
        counts = (self.requests, self.rows, self.loads, amount(self.bytes_loaded), amount(self.bytes_taken))
        return (str(self.chunk), rows, *map(str, counts), str(self.take or "nothing to move"))


class ChunkRange(Record):
    """A range of consecutive chunks along the axis."""

    first: int
    """Number of the first chunk."""

    last: int
    """Number of the last chunk."""

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} … {self.last}"


class GatherForecast(Record):
    """Prediction of what a gather of a chunked table loads, moves and needs in memory. `str(forecast)` is a readable table."""

    dialect: Literal["directml", "onnx", "openvino", "lax"]
    """Dialect that says what indices are valid and what negative indices mean."""

    out_of_bounds: Literal["clamp", "fill", "raise", "promise"]
    """The policy for an index out of bounds."""

    table_shape: tuple[int, ...]
    """Shape of the table."""

    dtype: str
    """NumPy's name of the table's data type."""

    axis: int
    """Dimension of the table that is indexed, counted from the front."""

    chunks: int
    """Number of chunks along the axis."""

    index_shape: tuple[int, ...]
    """Shape of the indices. In the output's shape, it replaces the size of the axis."""

    output_shape: tuple[int, ...]
    """Shape of the output."""

    output_chunks: tuple[tuple[int, ...], ...]
    """Sizes of the output's chunks, for each of its dimensions."""

    touched: tuple[TouchedChunk, ...]
    """Chunks that indices read, in order."""

    untouched: tuple[ChunkRange, ...]
    """Ranges of chunks that are never loaded."""

    requests: int
    """Number of indices that read a row of the table."""

    filled: int
    """Number of indices out of bounds that give the fill value."""

    clamped: int
    """Number of indices out of bounds that read the first or last row instead."""

    blocks: int
    """Number of blocks into which the indices are split."""

    groups: int
    """Number of groups of consecutive blocks. A group loads each chunk only once."""

    row_bytes: int
    """Bytes of one whole row of the table."""

    place: CheckedDescriptor | None
    """Descriptor of the task that puts the rows of the largest block in their places. None if a tensor would be empty."""

    whole: CheckedDescriptor
    """Descriptor of the whole gather on one device. It may be illegal although the gather runs, chunk by chunk."""

    workers: int
    """Number of workers that run the tasks."""

    peak: WorkerMemory
    """Largest memory of one worker."""

    compute: ComputeMemory
    """Largest memory of the process that calls `compute`."""

    memory_limit: int | None
    """Memory that one worker may need, in bytes; None without a limit.

    This is the limit of the call. If the call states none, it is the limit of the Dask client's workers.
    """

    @computed_field  # type: ignore[prop-decorator] # the decorator is meant to stand on a property
    @property
    def bytes_loaded(self) -> int:
        """Bytes that are loaded. A chunk counts as often as it is loaded."""
        return sum(chunk.bytes_loaded for chunk in self.touched)

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def bytes_taken(self) -> int:
        """Bytes of the rows that are copied out of chunks."""
        return sum(chunk.bytes_taken for chunk in self.touched)

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def output_bytes(self) -> int:
        """Bytes of the output."""
        return (self.requests + self.filled) * self.row_bytes

    @computed_field  # type: ignore[prop-decorator] # as above
    @property
    def duplicates_removed(self) -> int:
        """Number of row copies that are avoided: requested rows minus copied rows.

        A copy is avoided if another index of the same group of blocks reads the same row.
        """
        return self.requests - sum(chunk.rows_taken for chunk in self.touched)

    @property
    def peak_bytes_per_worker(self) -> int:
        """Bytes of memory that one worker needs: the total of `peak`."""
        return self.peak.total_bytes

    @property
    def parts(self) -> tuple[CheckedDescriptor, ...]:
        """The descriptors of the tasks that copy rows out of chunks, and of the task that puts rows in place."""
        return tuple(part for part in (*(chunk.take for chunk in self.touched), self.place) if part is not None)

    @property
    def ok(self) -> bool:
        """True if DirectML can describe all tasks, so that `gather` accepts the table and the indices."""
        return all(part.ok for part in self.parts)

    def __str__(self) -> str:
        return "\n".join([*self._facts(), "", *self._table(), *self._findings()])

    def _facts(self) -> Iterator[str]:
        gather = f"gather of {self.dtype} {list(self.table_shape)} along axis {self.axis} by indices {list(self.index_shape)}"
        yield f"{gather}; {self.dialect}, {self.out_of_bounds}"
        blocks = f"{counted(self.blocks, 'block')} in {counted(self.groups, 'group')}"
        yield f"  output       {list(self.output_shape)}, {amount(self.output_bytes)}, {blocks}"
        untouched = f"; never loaded: {', '.join(map(str, self.untouched))}" if self.untouched else ""
        yield f"  chunks       {len(self.touched)} of {self.chunks} touched{untouched}"
        outside = {"fill": f", {self.filled} filled", "raise": ""}.get(self.out_of_bounds, f", {self.clamped} clamped")
        yield f"  requests     {self.requests}, {counted(self.duplicates_removed, 'duplicate')} removed{outside}"
        yield f"  loaded       {amount(self.bytes_loaded)} in {counted(sum(chunk.loads for chunk in self.touched), 'load')}"
        yield f"  rows taken   {amount(self.bytes_taken)}"
        of_workers = f"{amount(self.peak.total_bytes)} of each of {counted(self.workers, 'worker')}"
        yield f"  peak memory  {of_workers}{self._allowed(self.peak.total_bytes)}:"
        yield f"    {self.peak}"
        allowed = self._allowed(self.compute.total_bytes) if self.compute.tasks_bytes else ""
        yield f"  compute()    {amount(self.compute.total_bytes)} of this process{self.compute.shortage}{allowed}:"
        yield f"    {self.compute}"
        if self.compute.shortage or "more" in allowed:
            yield f"    {BLOCK_BY_BLOCK}"
        if not self.compute.tasks_bytes:  # workers run the tasks
            joined = self.peak.total_bytes + 2 * self.output_bytes
            yield f"    Dask joins the result on one worker, which then needs up to {amount(joined)}{self._allowed(joined)}"
            if "more" in self._allowed(joined):
                yield f"    {BLOCK_BY_BLOCK}"

    def _allowed(self, needed: int) -> str:
        if self.memory_limit is None:
            return ""
        return f", {'more than the ' * (needed > self.memory_limit)}{amount(self.memory_limit)} allowed"

    def _table(self) -> Iterator[str]:
        """Yield the lines of the table of chunks. All columns except the last are right-aligned."""
        shown = sorted(sorted(self.touched, key=lambda chunk: -chunk.bytes_taken)[:SHOWN], key=lambda chunk: chunk.chunk)
        rows = [HEADS, *(chunk.entries for chunk in shown)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
        for *entries, last in rows:
            yield "  ".join(["", *map(str.rjust, entries, widths), last])
        if len(self.touched) > len(shown):
            yield f"  and {counted(len(self.touched) - len(shown), 'chunk')} of which less is taken"

    def _findings(self) -> Iterator[str]:
        yield f"  one descriptor for all chunks: {self.whole}"
        for finding in self.whole.findings:
            yield f"    {finding}"
        for finding in dict.fromkeys(finding for part in self.parts for finding in part.findings):
            yield f"  one chunk: {finding}"


DESCRIPTORS_KEPT = 1024
"""Most chunks of a table have the same size, so they share a validated descriptor."""


def plan_gather(
    table: Any,
    indices: Any,
    *,
    axis: int = 0,
    dtype: Any = None,
    dialect: str = "directml",
    out_of_bounds: str | Fill | None = None,
    workers: int | None = None,
    threads: int | None = None,
    memory_limit: int | str | None = None,
    block_bytes: int | str = BLOCK_BYTES,
    in_flight_bytes: int | str = IN_FLIGHT_BYTES,
) -> GatherForecast:
    """Predict what `gather` loads, how many bytes it moves, and how much memory it needs. No chunk of the table is read.

    `table`: a table that `gather` accepts, or the sizes of its chunks along each axis, in elements (`table.chunks` of a dask
    array). If it is given as sizes, Dask is not needed.
    `indices`: integers in memory, any shape.
    `axis`, `dialect`, `out_of_bounds`, `block_bytes`, `in_flight_bytes`: the arguments of `gather`.
    `dtype`: the data type of the table; default: the table's own, or float32 if `table` is given as sizes.
    `workers`, `threads`: the number of workers, and of threads per worker. Default: the numbers of the current client. Without
    a client: one worker with Dask's number of threads.
    `memory_limit`: the memory that one worker may need, in bytes or as text such as "2GB".

    Raise MemoryLimitError if a worker needs more than `memory_limit`. Raise IndexError for an index out of bounds under
    "raise". Raise ValueError for negative or unknown sizes, an axis out of range, an unknown dialect or out_of_bounds, and
    indices in a dask array. Raise TypeError if `gather` does not accept the table, for a `dtype` that is not the table's, and
    for types that the dialect lacks. If DirectML cannot describe a chunk, nothing is raised: the forecast lists the findings,
    and its `ok` is False.

    >>> forecast = dg.distributed.plan_gather(((4, 4, 4), (2,)), [5, 0, 5], threads=1)
    >>> [chunk.chunk for chunk in forecast.touched], forecast.bytes_taken, forecast.peak_bytes_per_worker
    ([0, 1], 16, 88)
    """
    block_bytes, in_flight_bytes = byte_count("block_bytes", block_bytes), byte_count("in_flight_bytes", in_flight_bytes)
    limit = None if memory_limit is None else byte_count("memory_limit", memory_limit)
    sizes, table = _table(table, dtype)
    for name, value in (("workers", workers), ("threads", threads)):
        if value is not None and whole(name, value) < 1:
            raise ValueError(f"{name} is {value}, expected at least 1")
    cluster = dask_workers()
    workers, threads = workers or cluster.workers, threads or cluster.threads
    axis = check_axis("axis", axis, len(sizes), "the table")
    if hasattr(indices, "__dask_graph__"):
        raise ValueError("indices is a dask array, but the forecast needs the values of the indices: pass indices.compute()")
    index_array = host_indices(indices)
    rule = axis_rule(dialect, table, type_of("indices", index_array), axis, out_of_bounds)
    local = workers == 1 and not client_runs()
    call = ChunkedGather(rule.resolve(index_array), sizes, axis, table.dtype, workers, threads, local)
    routing = call.routing(block_bytes, in_flight_bytes)
    call.check(routing, limit)
    touched = _touched(routing, sizes, axis, table)
    read = sum(chunk.requests for chunk in touched)
    borders = pairwise([-1, *(chunk.chunk for chunk in touched), len(sizes[axis])])
    return GatherForecast(
        dialect=dialect,
        out_of_bounds=rule.out_of_bounds.value,
        table_shape=table.shape,
        dtype=str(table.dtype),
        axis=axis,
        chunks=len(sizes[axis]),
        index_shape=index_array.shape,
        output_shape=replace_axis(table.shape, axis, *index_array.shape),
        output_chunks=replace_axis(sizes, axis, *routing.index_chunks),
        touched=touched,
        untouched=tuple(ChunkRange(first=low + 1, last=high - 1) for low, high in borders if high - low > 1),
        requests=read,
        filled=index_array.size - read,
        clamped=rule.clamped(index_array),
        blocks=len(routing.splits),
        groups=len(routing.groups),
        row_bytes=prod(replace_axis(table.shape, axis)) * table.dtype.itemsize,
        place=_place(routing, sizes, axis, table.dtype),
        whole=_whole(table, axis, index_array.shape),
        workers=workers,
        peak=call.worker(routing),
        compute=call.compute(routing, available_memory()),
        memory_limit=cluster.memory_limit if limit is None else limit,
    )


def _table(table: Any, dtype: Any) -> tuple[Chunks, TensorType]:
    """Return the chunk sizes and the type of the argument `table`."""
    if isinstance(table, Sequence) and not isinstance(table, str | bytes):
        sizes = _sizes(table)
        return sizes, type_of("the table", (tuple(map(sum, sizes)), "float32" if dtype is None else dtype))
    try:
        from dmlgather.distributed.table_sources import as_table
    except ModuleNotFoundError as error:
        raise missing_extra("a table, unless the sizes of its chunks along each axis are given,", "dask", error) from None
    source = as_table(table)
    if dtype is not None and numpy_type(dtype) != source.dtype:
        raise TypeError(f"dtype is {dtype!r}, but the table has type {source.dtype}: leave dtype out")
    return source.chunks, type_of("the table", source)


def _sizes(chunks: Sequence[Sequence[int]]) -> Chunks:
    """Check chunk sizes, and convert them to integers."""
    for axis, sizes in enumerate(chunks):
        if not hasattr(sizes, "__len__") or not all(isinstance(size, Real) for size in sizes):
            raise TypeError(
                f"chunks[{axis}] is {sizes!r}, expected the sizes of all chunks along axis {axis}, as table.chunks has; for a "
                "table in memory, pass an array"
            )
        if not len(sizes) or any(isnan(size) or size < 0 for size in sizes):
            raise ValueError(
                f"chunks[{axis}] is {tuple(sizes)}, expected sizes of 0 or more: call compute_chunk_sizes() of a dask "
                "array with unknown sizes"
            )
    return tuple(tuple(whole(f"chunks[{axis}]", size) for size in sizes) for axis, sizes in enumerate(chunks))


def _touched(routing: Routing, chunks: Chunks, axis: int, table: TensorType) -> tuple[TouchedChunk, ...]:
    requested: Counter[int] = Counter()
    for split in routing.splits:
        requested.update(requests(split))
    starts, widest = chunk_starts(chunks[axis]), [max(sizes) for sizes in chunks]
    different = union([group.rows for group in routing.groups], starts)
    taken = {chunk: [len(group.rows[chunk]) for group in routing.groups if chunk in group.rows] for chunk in different}
    row = prod(replace_axis(table.shape, axis)) * table.dtype.itemsize
    return tuple(
        TouchedChunk(
            chunk=chunk,
            start=int(starts[chunk]),
            size=chunks[axis][chunk],
            requests=requested[chunk],
            rows=len(rows),
            loads=len(taken[chunk]),
            rows_taken=sum(taken[chunk]),
            bytes_loaded=len(taken[chunk]) * chunks[axis][chunk] * row,
            bytes_taken=sum(taken[chunk]) * row,
            take=_described(replace_axis(widest, axis, chunks[axis][chunk]), table.dtype, axis, max(taken[chunk])),
        )
        for chunk, rows in different.items()
    )


@lru_cache(DESCRIPTORS_KEPT)
def _described(shape: tuple[int, ...], dtype: np.dtype[Any], axis: int, count: int) -> CheckedDescriptor | None:
    """Return the validated GATHER that copies `count` rows of a chunk of this shape, or None for empty tensors."""
    if 0 in shape or not count:
        return None
    try:
        desc = gather_descriptor(shape, dtype, axis, count)
    except DescriptorError as error:
        return CheckedDescriptor(descriptor=None, findings=error.report.findings)
    return CheckedDescriptor(descriptor=desc, findings=judge(desc).findings)


def _place(routing: Routing, chunks: Chunks, axis: int, dtype: np.dtype[Any]) -> CheckedDescriptor | None:
    """Return the validated GATHER of the task that places the largest block."""
    largest = max(routing.splits, key=lambda split: split.lookup.size)
    shape = replace_axis([max(sizes) for sizes in chunks], axis, max(largest.count, 1))
    return _described(shape, dtype, axis, largest.lookup.size)


def _whole(table: TensorType, axis: int, index_shape: tuple[int, ...]) -> CheckedDescriptor:
    """Return the validated GATHER of the whole table on one device. Elements are described as words (`word_of`)."""
    word, parts = word_of(table.dtype)
    data, indices = TensorType((*table.shape, *parts), word), TensorType(index_shape, np.dtype(np.int64))
    descriptors = express(Gather(data, indices, axis), max(FeatureLevel))
    if isinstance(descriptors, Report):
        return CheckedDescriptor(descriptor=None, findings=descriptors.findings)
    (desc,) = descriptors
    assert isinstance(desc, GatherOperatorDesc)
    return CheckedDescriptor(descriptor=desc, findings=validate(desc).findings)
