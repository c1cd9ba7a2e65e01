"""The task graph of a gather, as it grows: which tasks there are, under which keys, and what they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, product
from math import prod
from typing import Any, TypeAlias

import dask.array as da
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import NDArray

from dmlgather.distributed import tasks
from dmlgather.distributed.axis_rules import AxisRule
from dmlgather.distributed.chunk_loads import Place, chunk_loads
from dmlgather.distributed.chunk_operators import check, descriptor
from dmlgather.distributed.index_blocks import groups
from dmlgather.distributed.routing import Chunks, Group, Routing, row_bytes
from dmlgather.distributed.splitting import chunk_starts

Side: TypeAlias = tuple[Place, Place]
"""A chunk's coordinates before and behind the axis."""


class GatherGraph:
    """The tasks of one gather. Fill it with `add_known` or `add_lazy`; `array` is then the output."""

    def __init__(self, table: da.Array, axis: int, rule: AxisRule, cut: Chunks, token: str) -> None:
        """cut: the blocks' sizes along each dimension of the indices. token: what tells the keys from those of other gathers."""
        self.table, self.axis, self.rule, self.cut, self.token = table, axis, rule, cut, token
        self.chunks: Chunks = (*table.chunks[:axis], *cut, *table.chunks[axis + 1 :])
        self.meta = tasks.empty_like(table._meta, (0,) * len(self.chunks))
        self._sizes = table.chunks[axis]
        self._tasks: dict[Any, Task] = {}
        self._inputs: list[da.Array] = []
        places = [range(len(sizes)) for sizes in table.chunks]
        self._sides: list[Side] = list(product(product(*places[:axis]), product(*places[axis + 1 :])))

    @property
    def array(self) -> da.Array:
        """The output."""
        name = f"gather-{self.token}"
        graph = HighLevelGraph.from_collections(name, self._tasks, dependencies=[*self._inputs, *self._loads.graph])
        return da.Array(graph, name, self.chunks, meta=self.meta)

    def add_known(self, routing: Routing) -> None:
        """The tasks for indices that are known: each holds the rows that it takes, and chunks that none wants have no task.

        DescriptorError for chunks that no descriptor can say.
        """
        owners = sorted({owner for group in routing.groups for owner in group.owners})
        self._state_loads(owners, max((len(rows) for group in routing.groups for rows in group.rows), default=0))
        for number, group in enumerate(routing.groups):
            for side in self._sides:
                self._add_known_side(number, group, side)

    def _add_known_side(self, number: int, group: Group, side: Side) -> None:
        pieces = {}
        for owner in self._holding(group.owners, side):
            rows = _narrow(group.rows[owner], self._sizes[owner])
            take = (tasks.take_rows, self._payload(side, owner), self.axis, rows, self.table.dtype)
            pieces[owner] = self._add("take", (number, *_place(side, owner)), *take, loads=True)
        for block in group.blocks:
            picked = []
            for owner in self._holding(block.split.owners, side):
                piece, shared = pieces[owner], len(group.rows[owner])
                if len(block.split.rows[owner]) < shared:
                    pick = (tasks.pick_rows, piece, self.axis, _narrow(group.pick(block, owner), shared))
                    piece = self._add("pick", (*block.place, *_place(side, owner)), *pick)
                picked.append(piece)
            self._add_output(side, block.place, tasks.place_rows, _narrow(block.split.lookup, block.split.count), picked)

    def add_lazy(self, indices: da.Array, in_flight_bytes: int) -> None:
        """The tasks for indices that other tasks give: any chunk may be wanted, and is loaded only where it is.

        indices: whose chunks are the blocks. DescriptorError for chunks that no descriptor can say.
        """
        owners = [owner for owner, size in enumerate(self._sizes) if size]
        blocks = list(product(*(range(len(sizes)) for sizes in self.cut)))
        firsts = list(product(*(_firsts(sizes) for sizes in self.cut)))
        counts = [prod(_shape(self.cut, block)) for block in blocks]
        each = row_bytes(self.table.chunks, self.axis, self.table.dtype)
        spans = groups((count * each for count in counts), in_flight_bytes)
        most = max((sum(counts[span.start : span.stop]) for span in spans), default=0)
        self._state_loads(owners, min(most, max(self._sizes)))
        self._inputs.append(indices)
        starts = chunk_starts(self._sizes)
        for number, span in enumerate(spans):
            splits = {}
            for block, first in zip(blocks[span.start : span.stop], firsts[span.start : span.stop], strict=True):
                reference = TaskRef((indices.name, *block))
                splits[block] = self._add("split", block, tasks.split_indices, reference, self.rule, starts, first)
            shared = self._add("share", (number,), tasks.share, starts, *splits.values())
            for side in self._sides:
                self._add_lazy_side(number, owners, shared, splits, side)

    def _add_lazy_side(
        self, number: int, owners: Sequence[int], shared: TaskRef, splits: Mapping[Place, TaskRef], side: Side
    ) -> None:
        pieces = {}
        for owner in self._holding(owners, side):
            take = (tasks.take_wanted, self._payload(side, owner), self.axis, shared, owner, self.table.dtype)
            pieces[owner] = self._add("take", (number, *_place(side, owner)), *take, loads=True)
        for block, split in splits.items():
            picked = list(pieces.values())
            if len(splits) > 1:
                picks = ((owner, (tasks.pick_wanted, piece, self.axis, shared, split, owner)) for owner, piece in pieces.items())
                picked = [self._add("pick", (*block, *_place(side, owner)), *pick) for owner, pick in picks]
            self._add_output(side, block, tasks.place_wanted, split, picked)

    def _add_output(self, side: Side, block: Place, function: Callable[..., Any], lookup: Any, pieces: Sequence[TaskRef]) -> None:
        place = (*side[0], *block, *side[1])
        like = None if pieces and function is tasks.place_rows else self.meta  # a scheduler may be unable to hold one of a GPU
        target = tasks.Target(self.axis, _shape(self.chunks, place), like, self.rule.fill)
        self._add("", place, function, target, lookup, *pieces)

    def _add(self, kind: str, place: Place, function: Callable[..., Any], *arguments: Any, loads: bool = False) -> TaskRef:
        """A task, by what it does and its coordinates, and the reference that others know it by.

        loads: whether it brings data into memory; a cluster then starts it when a thread is free, and not ahead.
        """
        key = ("-".join(filter(None, ("gather", kind, self.token))), *place)
        self._tasks[key] = Task(key, function, *arguments, _data_producer=loads)
        return TaskRef(key)

    def _holding(self, owners: Sequence[int], side: Side) -> Sequence[int]:
        """The chunks along the axis that hold anything there; off the axis, a chunk may have a size of 0."""
        before, behind = side
        chunks = (*self.table.chunks[: self.axis], *self.table.chunks[self.axis + 1 :])
        return () if 0 in _shape(chunks, (*before, *behind)) else owners

    def _payload(self, side: Side, owner: int) -> Any:
        return self._loads.of(_place(side, owner))[0]

    def _state_loads(self, owners: Sequence[int], rows: int) -> None:
        """Say which chunks along the axis are taken from, and check that descriptors can say them. rows: of one chunk at most."""
        places = [_place(side, owner) for side in self._sides for owner in self._holding(owners, side)]
        self._loads = chunk_loads(self.table, places)
        sizes = [max(each) for each in self.table.chunks]
        sizes[self.axis] = max((self._sizes[owner] for owner in owners), default=0)
        count = prod(max(each) for each in self.cut)
        if count and rows and 0 not in sizes:
            check(descriptor(sizes, self.table.dtype, self.axis, rows))
            check(descriptor([*sizes[: self.axis], count, *sizes[self.axis + 1 :]], self.table.dtype, self.axis, count))


def _place(side: Side, owner: int) -> Place:
    return (*side[0], owner, *side[1])


def _firsts(sizes: Sequence[int]) -> list[int]:
    """Where each chunk along one dimension begins."""
    return [0, *accumulate(sizes)][:-1]


def _shape(chunks: Chunks, place: Place) -> tuple[int, ...]:
    return tuple(sizes[number] for sizes, number in zip(chunks, place, strict=True))


def _narrow(values: NDArray[np.int64], largest: int) -> NDArray[Any]:
    """Whole numbers up to `largest` in as few bytes as hold them, because they are sent with their task."""
    return values.astype(np.min_scalar_type(largest))
