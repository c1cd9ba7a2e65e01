"""Gather of a chunked table: only the chunks that indices touch are loaded, each once per group of blocks, and only rows move.

    indices -> positions -> rows wanted of each chunk, for each block of indices -> tasks

take   loads a chunk and takes the rows of it that the blocks of a group want
pick   takes one block's rows out of those, where a group has several blocks
place  joins a block's rows and gathers them into their places: a chunk of the output
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple, TypeAlias

import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.highlevelgraph import HighLevelGraph
from dask.tokenize import tokenize
from numpy.typing import NDArray

from dmlgather.calls.arguments import Fill, type_of
from dmlgather.dialects.problem import check_axis
from dmlgather.distributed import tasks
from dmlgather.distributed.axis_rules import AxisRule, axis_rule
from dmlgather.distributed.chunk_grid import Chunks, Place, cells, chunk_starts, replace_axis
from dmlgather.distributed.chunk_operators import check, gather_descriptor
from dmlgather.distributed.memory_model import check_limit, compute_memory, worker_memory, workers_now
from dmlgather.distributed.routing import (
    BLOCK_BYTES,
    IN_FLIGHT_BYTES,
    Routing,
    block_chunks,
    even,
    grouped,
    host_indices,
    routing_of,
    row_bytes,
)
from dmlgather.distributed.table_sources import ChunkLoads, as_table, check_chunks, concluded

# The task graph of a gather: which tasks there are, under which keys, and what they are given.

Work: TypeAlias = tuple[Any, ...]
"""A function of `tasks`, and the arguments that say which rows."""


class _BlockTasks(NamedTuple):
    """Where a block lies in the indices, and how a chunk of the output is made of the rows that its group takes.

    picks: by chunk of the table, in order; None if the block wants all rows that are taken of the chunk.
    """

    place: Place
    shape: tuple[int, ...]
    picks: Mapping[int, Work | None]
    output: Work


def gather_known(table: da.Array, rule: AxisRule, routing: Routing, token: str) -> da.Array:
    """The gather of indices in memory: each task holds the rows that it takes, and a chunk of which no row is wanted has no task.

    token: part of the keys, equal for equal gathers. DescriptorError for chunks that DirectML cannot describe.
    """
    touched = sorted({chunk for group in routing.groups for chunk in group.rows})
    most = max((len(rows) for group in routing.groups for rows in group.rows.values()), default=0)
    graph = _GatherGraph(table, rule, routing.index_chunks, token, touched=touched, most=most)
    sizes = table.chunks[rule.axis]
    for number, group in enumerate(routing.groups):
        takes = {chunk: (tasks.take_rows, _narrow(rows, sizes[chunk])) for chunk, rows in group.rows.items()}
        outputs = []
        for block in group.blocks:
            picks: dict[int, Work | None] = {}
            for chunk, rows in block.split.rows.items():
                shared = group.rows[chunk]
                picks[chunk] = None
                if len(rows) < len(shared):
                    picks[chunk] = (tasks.pick_rows, _narrow(np.searchsorted(shared, rows), len(shared)))
            lookup = _narrow(block.split.lookup, block.split.count)
            outputs.append(_BlockTasks(block.place, lookup.shape, picks, (tasks.place_rows, lookup)))
        graph.add_group(number, takes, outputs)
    return graph.array()


def _narrow(values: NDArray[np.int64], largest: int) -> NDArray[Any]:
    """Whole numbers up to `largest` in as few bytes as hold them, because they are sent with their task."""
    return values.astype(np.min_scalar_type(largest))


def gather_lazy(table: da.Array, rule: AxisRule, indices: da.Array, in_flight_bytes: int, token: str) -> da.Array:
    """The gather of indices that other tasks give: any chunk may be wanted, and only a chunk that is wanted is loaded.

    indices: whose chunks are the blocks. token, errors: as for `gather_known`.
    """
    sizes = table.chunks[rule.axis]
    touched, starts = [chunk for chunk, size in enumerate(sizes) if size], chunk_starts(sizes)
    row = row_bytes(table.chunks, rule.axis, rule.dtype)
    blocks = list(cells(indices.chunks))
    groups = grouped(blocks, (prod(block.shape) * row for block in blocks), in_flight_bytes)
    most = min(max(sum(prod(block.shape) for block in group) for group in groups), max(sizes))
    graph = _GatherGraph(table, rule, indices.chunks, token, touched=touched, most=most)
    for number, group in enumerate(groups):
        splits = {}
        for block in group:
            given = TaskRef((indices.name, *block.place))
            splits[block] = graph.add("split", block.place, tasks.split_indices, given, rule, starts, block.first)
        shared = graph.add("share", (number,), tasks.share, starts, *splits.values())
        outputs = []
        for block, split in splits.items():
            picks = {chunk: (tasks.pick_wanted, shared, split, chunk) if len(group) > 1 else None for chunk in touched}
            outputs.append(_BlockTasks(block.place, block.shape, picks, (tasks.place_wanted, split)))
        graph.add_group(number, {chunk: (tasks.take_wanted, shared, chunk) for chunk in touched}, outputs)
    return graph.array(indices)


class _GatherGraph:
    """The tasks of one gather, as they are added.

    columns: the places of chunks off the axis. A column has all chunks of the table along the axis.
    """

    def __init__(
        self, table: da.Array, rule: AxisRule, index_chunks: Chunks, token: str, *, touched: Sequence[int], most: int
    ) -> None:
        """touched: the chunks along the axis of which rows are taken, at most `most` of one."""
        self.table, self.axis, self.fill, self.token = table, rule.axis, rule.fill, token
        self.chunks = replace_axis(table.chunks, rule.axis, *index_chunks)
        self.columns = list(cells(replace_axis(table.chunks, rule.axis, (1,))))
        self.meta = tasks.empty_like(table._meta, (0,) * len(self.chunks))
        self.tasks: dict[Any, Task] = {}
        full = [column.place for column in self.columns if not column.empty]
        self.loads = ChunkLoads(table, [replace_axis(place, rule.axis, chunk) for place in full for chunk in touched])
        sizes = [max(each) for each in table.chunks]
        sizes[rule.axis] = max((table.chunks[rule.axis][chunk] for chunk in touched), default=0)
        count = prod(max(each) for each in index_chunks)
        if count and most and 0 not in sizes:
            check(gather_descriptor(sizes, table.dtype, rule.axis, most))
            check(gather_descriptor(replace_axis(sizes, rule.axis, count), table.dtype, rule.axis, count))

    def add_group(self, number: int, takes: Mapping[int, Work], blocks: Sequence[_BlockTasks]) -> None:
        """In each column: a take of each chunk, and for each block its picks and a chunk of the output. takes: by chunk."""
        for column in self.columns:
            pieces: dict[int, TaskRef] = {}
            for chunk, (function, *rows) in takes.items() if not column.empty else ():
                place = replace_axis(column.place, self.axis, chunk)
                load = self.loads.of(place)
                pieces[chunk] = self.add("take", (number, *place), function, load, self.axis, self.table.dtype, *rows)
            for block in blocks:
                own = {chunk: pieces[chunk] for chunk in block.picks if chunk in pieces}
                for chunk in own:
                    if pick := block.picks[chunk]:
                        function, *rows = pick
                        place = (*block.place, *replace_axis(column.place, self.axis, chunk))
                        own[chunk] = self.add("pick", place, function, pieces[chunk], self.axis, *rows)
                function, lookup = block.output
                like = (
                    None if own and function is tasks.place_rows else self.meta
                )  # a scheduler may be unable to hold one of a GPU
                shape = replace_axis(column.shape, self.axis, *block.shape)
                output = tasks.OutputChunk(self.axis, shape, like, self.fill)
                self.add("", replace_axis(column.place, self.axis, *block.place), function, output, lookup, *own.values())

    def add(self, kind: str, place: Place, function: Callable[..., Any], *arguments: Any) -> TaskRef:
        """A task under a key of its kind and place. One that brings data into memory (a take) starts when a thread is free, not
        ahead of its turn.
        """
        key = ("-".join(filter(None, ("gather", kind, self.token))), *place)
        self.tasks[key] = Task(key, function, *arguments, _data_producer=kind == "take")
        return TaskRef(key)

    def array(self, *inputs: da.Array) -> da.Array:
        """The output. inputs: arrays besides the table that tasks depend on."""
        name = f"gather-{self.token}"
        graph = HighLevelGraph.from_collections(name, self.tasks, dependencies=[*inputs, *self.loads.graph])
        return da.Array(graph, name, self.chunks, meta=self.meta)


def gather(
    table: Any,
    indices: Any,
    *,
    axis: int = 0,
    dialect: str = "directml",
    out_of_bounds: str | Fill | None = None,
    block_bytes: int = BLOCK_BYTES,
    in_flight_bytes: int = IN_FLIGHT_BYTES,
    memory_limit: int | str | None = None,
) -> da.Array:
    """output[lead…, i…, trail…] = table[lead…, indices[i…], trail…], of a table that is larger than a device or a machine.

    table: shape [lead…, axis, trail…]; a dask, zarr or NumPy array, or the path of a .npy file or a zarr store. indices: integers
    of any rank, shape [i…]. A NumPy or CuPy array is resolved now, once and on the host, and only the chunks that it touches are
    in the graph; the blocks of a dask array are resolved in tasks of their own. dialect: whose rules say which types are taken,
    what a negative index means and what an index out of bounds does: "directml" (it is clamped), "onnx" (IndexError), "openvino"
    (its element is 0) or "lax" (there must be none). out_of_bounds: "clamp", "raise", "promise" or a Fill instead of the
    dialect's own.

    block_bytes: of output that one task makes. in_flight_bytes: of output of the blocks that share the loads of their chunks; a
    higher value loads a chunk less often and holds more memory. memory_limit: bytes of one worker, or a text such as "2GB"; a
    gather that needs more (see `plan_gather`) is refused. Without a client this process is the worker, and a `compute` that
    needs more of it is refused as well.

    Returns a dask array of shape [lead…, i…, trail…] and the table's type, with the table's kind of chunks, chunked as the table
    off the axis and by blocks along i…; nothing is loaded before it is computed.

    Raises TypeError for what is no table and types that the dialect lacks; ValueError for an axis out of range, chunks of unknown
    size and an unknown dialect or policy; DescriptorError for chunks that DirectML cannot describe; MemoryLimitError; under
    "raise" IndexError, at once, or when it is computed where the indices are a dask array.

    >>> import dask.array as da
    >>> table = da.arange(12, chunks=4).reshape(6, 2)
    >>> dg.distributed.gather(table, [5, 0, -1]).compute()
    array([[10, 11],
           [ 0,  1],
           [10, 11]])
    """
    limit = check_limit(memory_limit)
    source = as_table(table)
    at = check_axis("axis", axis, source.ndim, "table")
    lazy = isinstance(indices, da.Array)
    if lazy:
        check_chunks("indices", indices)
        if limit is not None:
            raise ValueError(
                f"memory_limit is {limit} bytes, but what a gather needs is known only for indices in memory, and they "
                "are a dask array: leave it out, or pass indices.compute()"
            )
    given: Any = indices if lazy else host_indices(indices)
    rule = axis_rule(dialect, type_of("table", source), type_of("indices", given), at, out_of_bounds)
    row = row_bytes(source.chunks, at, rule.dtype)
    options = (at, dialect, out_of_bounds, block_bytes, in_flight_bytes)
    if lazy:
        blocks = given.rechunk(_block_chunks(given, row, block_bytes))
        return concluded(gather_lazy(source, rule, blocks, in_flight_bytes, tokenize(source.name, blocks.name, options)))
    routing = routing_of(rule.resolve(given), source.chunks[at], row, block_bytes, in_flight_bytes)
    refuse = None
    if limit is not None:
        workers, threads = workers_now()
        needed = worker_memory(routing, source.chunks[at], workers, threads)
        needed.check(limit, routing, source.chunks[at], axis=at, workers=workers)
        here = compute_memory(routing, source.chunks, at, source.dtype, threads=threads, available=None)
        refuse = partial(here.check, limit)
    return concluded(gather_known(source, rule, routing, tokenize(source.name, given, options)), refuse)


def _block_chunks(indices: da.Array, bytes_each: int, block_bytes: int) -> tuple[tuple[int, ...], ...]:
    """The chunks of indices, cut where one has more than a block's output."""
    largest = block_chunks([max(sizes) for sizes in indices.chunks], bytes_each, block_bytes)
    return tuple(
        tuple(part for size in sizes for part in even(size, max(limit[0], 1)))
        for sizes, limit in zip(indices.chunks, largest, strict=True)
    )
