"""Gathers rows of a chunked table. Only the chunks that indices read are loaded, once per group of blocks of indices.

    indices -> row numbers -> routing (the rows of each chunk that each block of indices reads) -> task graph

Only the rows that indices read move between workers. The module `tasks` has the functions that the tasks run.
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
from dmlgather.distributed.chunk_grid import Chunks, GridIndex, cells, chunk_starts, replace_axis
from dmlgather.distributed.chunk_operators import check, gather_descriptor
from dmlgather.distributed.memory_limits import ChunkedGather, byte_count, check_compute, client_runs, dask_workers
from dmlgather.distributed.routing import (
    BLOCK_BYTES,
    IN_FLIGHT_BYTES,
    Routing,
    block_chunks,
    even,
    grouped,
    host_indices,
    row_bytes,
)
from dmlgather.distributed.table_sources import ChunkLoads, as_table, check_chunks, result_array
from dmlgather.wording import amount

Work: TypeAlias = tuple[Any, ...]
"""A function of the module `tasks`, followed by its arguments that tell which rows to move."""


class _BlockTasks(NamedTuple):
    """The tasks for one block of indices, as functions with arguments.

    `picks`: for each chunk, the task that selects the rows of this block. It selects from the rows that were copied for the
    whole group of blocks. None if the block needs all of them.
    `output`: the task that puts the rows in place.
    """

    grid_index: GridIndex
    shape: tuple[int, ...]
    picks: Mapping[int, Work | None]
    output: Work


def gather_known(table: da.Array, rule: AxisRule, routing: Routing, token: str) -> da.Array:
    """Gather by indices in memory. Each task contains the row numbers that it needs. `token`: part of the tasks' keys."""
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
            outputs.append(_BlockTasks(block.grid_index, lookup.shape, picks, (tasks.place_rows, lookup)))
        graph.add_group(number, takes, outputs)
    return graph.array()


def _narrow(values: NDArray[np.int64], largest: int) -> NDArray[Any]:
    """Convert integers from 0 to `largest` to the smallest type that fits, so that workers receive fewer bytes."""
    return values.astype(np.min_scalar_type(largest))


def gather_lazy(table: da.Array, rule: AxisRule, indices: da.Array, in_flight_bytes: int, token: str) -> da.Array:
    """Gather by a dask array of indices. Each chunk of `indices` is one block. `token`: part of the tasks' keys."""
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
            index_block = TaskRef((indices.name, *block.grid_index))
            splits[block] = graph.add("split", block.grid_index, tasks.split_indices, index_block, rule, starts, block.first)
        shared = graph.add("share", (number,), tasks.share, starts, *splits.values())
        outputs = []
        for block, split in splits.items():
            picks = {chunk: (tasks.pick_lazy, shared, split, chunk) if len(group) > 1 else None for chunk in touched}
            outputs.append(_BlockTasks(block.grid_index, block.shape, picks, (tasks.place_lazy, split)))
        graph.add_group(number, {chunk: (tasks.take_lazy, shared, chunk) for chunk in touched}, outputs)
    return graph.array(indices)


class _GatherGraph:
    """The tasks of one gather, and the dask array of the output.

    A column is all chunks with equal numbers along all axes except the gathered one. `columns`: the first chunk of each column.
    """

    def __init__(
        self, table: da.Array, rule: AxisRule, index_chunks: Chunks, token: str, *, touched: Sequence[int], most: int
    ) -> None:
        """`touched`: the chunks to read, as numbers along the axis. `most`: the largest number of rows that one task takes."""
        self.table, self.axis, self.fill, self.token = table, rule.axis, rule.fill, token
        self.chunks = replace_axis(table.chunks, rule.axis, *index_chunks)
        self.columns = list(cells(replace_axis(table.chunks, rule.axis, (1,))))
        self.meta = tasks.empty_like(table._meta, (0,) * len(self.chunks))
        self.tasks: dict[Any, Task] = {}
        full = [column.grid_index for column in self.columns if not column.empty]
        self.loads = ChunkLoads(table, [replace_axis(grid_index, rule.axis, chunk) for grid_index in full for chunk in touched])
        sizes = list(map(max, table.chunks))
        sizes[rule.axis] = max((table.chunks[rule.axis][chunk] for chunk in touched), default=0)
        count = prod(map(max, index_chunks))
        if count and most and 0 not in sizes:
            check(gather_descriptor(sizes, table.dtype, rule.axis, most))
            check(gather_descriptor(replace_axis(sizes, rule.axis, count), table.dtype, rule.axis, count))

    def add_group(self, number: int, takes: Mapping[int, Work], blocks: Sequence[_BlockTasks]) -> None:
        """Add the tasks of a group of blocks. They copy rows out of each chunk, then select and place the rows of each block."""
        for column in self.columns:
            pieces: dict[int, TaskRef] = {}
            for chunk, (function, *rows) in takes.items() if not column.empty else ():
                grid_index = replace_axis(column.grid_index, self.axis, chunk)
                load = self.loads.of(grid_index)
                pieces[chunk] = self.add("take", (number, *grid_index), function, load, self.axis, self.table.dtype, *rows)
            for block in blocks:
                own = {chunk: pieces[chunk] for chunk in block.picks if chunk in pieces}
                for chunk in own:
                    if pick := block.picks[chunk]:
                        function, *rows = pick
                        grid_index = (*block.grid_index, *replace_axis(column.grid_index, self.axis, chunk))
                        own[chunk] = self.add("pick", grid_index, function, pieces[chunk], self.axis, *rows)
                function, lookup = block.output
                # A task with rows to place gets no example array, because a scheduler without a GPU cannot hold a CuPy array.
                like = None if own and function is tasks.place_rows else self.meta
                shape = replace_axis(column.shape, self.axis, *block.shape)
                output = tasks.OutputChunk(self.axis, shape, like, self.fill)
                self.add(
                    "", replace_axis(column.grid_index, self.axis, *block.grid_index), function, output, lookup, *own.values()
                )

    def add(self, kind: str, grid_index: GridIndex, function: Callable[..., Any], *arguments: Any) -> TaskRef:
        """Add a task, and return a reference to its result."""
        key = ("-".join(filter(None, ("gather", kind, self.token))), *grid_index)
        # Dask starts no more data producers than it has threads.
        self.tasks[key] = Task(key, function, *arguments, _data_producer=kind == "take")
        return TaskRef(key)

    def array(self, *inputs: da.Array) -> da.Array:
        """Return the output as a dask array. `inputs`: the dask arrays that the tasks read, except the table."""
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
    block_bytes: int | str = BLOCK_BYTES,
    in_flight_bytes: int | str = IN_FLIGHT_BYTES,
    memory_limit: int | str | None = None,
) -> da.Array:
    """Return output[lead…, i…, trail…] = table[lead…, indices[i…], trail…] for a table larger than a device or a machine.

    `table`: shape [lead…, axis, trail…]; a dask, zarr or NumPy array, or the path of a .npy file or a zarr store.
    `indices`: integers. Shape: [i…]. The indices of a NumPy or CuPy array are read at once on the host, and the graph has only
    the chunks that they refer to. The indices of a dask array are read by tasks, block by block.
    `dialect`: the rules for data types, negative indices and indices out of bounds. An index out of bounds is clamped
    ("directml"), raises IndexError ("onnx"), gives 0 ("openvino") or is forbidden ("lax").
    `out_of_bounds`: what an index out of bounds does: "clamp", "raise", "promise" or a Fill. None means the dialect's rule.

    The three limits are bytes, as an integer or as text such as "2GB".
    `block_bytes`: the largest part of the output that one task writes.
    `in_flight_bytes`: the largest part of the output that a group of tasks writes; the tasks of a group load each chunk only
    once. With a higher value, chunks are loaded less often, and workers need more memory.
    `memory_limit`: the memory that one worker may need for the gather, as `plan_gather` predicts it; default: the limit of the
    current Dask client's workers. Without a client, this process is the worker, and `compute` checks the limit, too.

    The result is a dask array of the table's data type, with chunks of the table's array library. Along the dimensions i…,
    `block_bytes` limits the sizes of its chunks; along the other dimensions, they have the sizes of the table's chunks. Nothing
    is loaded before `compute`.

    Raise TypeError if `table` is none of the listed kinds, and for types that the dialect lacks. Raise ValueError for an axis
    out of range, chunks of unknown size, and an unknown dialect or out_of_bounds. Raise DescriptorError for chunks that
    DirectML cannot describe. Raise MemoryLimitError if a worker, or `compute`, needs more than the limit. Under "raise", raise
    IndexError at once; for indices in a dask array, `compute` raises IndexError.

    >>> import dask.array as da
    >>> table = da.arange(12, chunks=4).reshape(6, 2)
    >>> dg.distributed.gather(table, [5, 0, -1]).compute()
    array([[10, 11],
           [ 0,  1],
           [10, 11]])
    """
    block_bytes, in_flight_bytes = byte_count("block_bytes", block_bytes), byte_count("in_flight_bytes", in_flight_bytes)
    limit = None if memory_limit is None else byte_count("memory_limit", memory_limit)
    source = as_table(table)
    at = check_axis("axis", axis, source.ndim, "table")
    lazy = isinstance(indices, da.Array)
    if lazy:
        check_chunks("indices", indices)
        if limit is not None:
            raise ValueError(
                f"memory_limit is {amount(limit)}, but indices is a dask array, and the memory that the gather needs depends "
                "on the values of its indices: leave memory_limit out, or pass indices.compute()"
            )
    index_array: Any = indices if lazy else host_indices(indices)
    rule = axis_rule(dialect, type_of("table", source), type_of("indices", index_array), at, out_of_bounds)
    options = (at, dialect, out_of_bounds, block_bytes, in_flight_bytes)
    if lazy:
        blocks = index_array.rechunk(_block_chunks(index_array, row_bytes(source.chunks, at, rule.dtype), block_bytes))
        return result_array(gather_lazy(source, rule, blocks, in_flight_bytes, tokenize(source.name, blocks.name, options)))
    cluster, local = dask_workers(), not client_runs()
    call = ChunkedGather(rule.resolve(index_array), source.chunks, at, source.dtype, cluster.workers, cluster.threads, local)
    routing = call.routing(block_bytes, in_flight_bytes)
    if limit is None:
        call.check(routing, cluster.memory_limit, "the limit that Dask gives each worker")
    else:
        call.check(routing, limit)
    refuse = partial(check_compute, call.compute(routing), limit) if limit is not None and local else None
    return result_array(gather_known(source, rule, routing, tokenize(source.name, index_array, options)), refuse)


def _block_chunks(indices: da.Array, bytes_each: int, block_bytes: int) -> tuple[tuple[int, ...], ...]:
    """Split the chunks of `indices` so that each gives at most `block_bytes` of output. Return the new sizes.

    `bytes_each`: the bytes of output for one index.
    """
    largest = block_chunks([max(sizes) for sizes in indices.chunks], bytes_each, block_bytes)
    return tuple(
        tuple(part for size in sizes for part in even(size, max(limit[0], 1)))
        for sizes, limit in zip(indices.chunks, largest, strict=True)
    )
