"""The task graph of a gather: which tasks there are, under which keys, and what they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import NDArray

from dmlgather.distributed import tasks
from dmlgather.distributed.axis_rules import AxisRule
from dmlgather.distributed.chunk_grid import Chunks, Place, cells, replace_axis
from dmlgather.distributed.chunk_loads import ChunkLoads
from dmlgather.distributed.chunk_operators import check, gather_descriptor
from dmlgather.distributed.index_blocks import grouped
from dmlgather.distributed.routing import Routing, row_bytes
from dmlgather.distributed.splitting import chunk_starts

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
