"""The links of a chain in NumPy's spelling: brackets, transpose and reshape. Each makes a problem for the data that it gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.advanced_indexing import Entry, Mask, indexing, stacked, stacked_type
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.dialects.problem import Problem, TensorType, check_axes, whole
from dmlgather.dialects.views import ReshapeView, TransposeView
from dmlgather.numpy.problems.entries import WrittenEntry
from dmlgather.numpy.problems.take_along_axis import TakeAlongAxis
from dmlgather.wording import counted

MOST_DIMENSIONS = 64
"""Of NumPy's arrays."""

Copied = Callable[[Any], np.ndarray[Any, Any]]
"""Copies an index array, wherever it lies, into NumPy's memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Brackets:
    """x[…]."""

    written: tuple[WrittenEntry, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.written))}]"

    def problem(self, data: TensorType) -> Problem:
        """IndexError, ValueError and TypeError as of `indexing`, and IndexError for more than 64 dimensions."""
        problem = indexing(data, self._entries)
        if problem.output.rank > MOST_DIMENSIONS:
            raise IndexError(f"the result would have {problem.output.rank} dimensions, expected at most {MOST_DIMENSIONS}")
        return problem

    @property
    def looks_up(self) -> bool:
        """Whether there are indices to look up. True alone is a new dimension."""
        found = [each.entry for each in self.written if each.is_array]
        return any(not isinstance(entry, Mask) or entry.shape or not entry.count for entry in found)

    @property
    def has_placeholder(self) -> bool:
        """Whether the values of an index array are not known."""
        return any(each.arrays is None for each in self.written)

    def indices(self) -> Any:
        """The problem's `indices`. There is no placeholder. IndexError for index arrays that cannot be broadcast."""
        return stacked(self._entries, [array for each in self.written for array in each.arrays or ()])

    def indices_in(self, graph: GraphBuilder, name: str, copied: Copied) -> str:
        """The problem's `indices` as a value of a graph: each placeholder is an input, and all that is written a constant."""
        if not self.has_placeholder:
            return graph.constant(copied(self.indices()), name)
        kind, values = stacked_type(self._entries), list[str]()
        several = sum(each.arrays is None or len(each.arrays) for each in self.written if each.is_array) > 1
        positions = kind.shape[:-1] if several else kind.shape
        for number, each in enumerate(self.written):
            own = f"{name}[{number}]" if several else name
            if each.arrays is None:
                assert isinstance(each.entry, TensorType)
                values.append(graph.expanded(f"{own}: broadcast", graph.input(own, each.entry), positions))
                if each.entry.dtype != kind.dtype:
                    values[-1] = graph.elementwise(f"{own}: cast", "cast", kind.dtype, values[-1])
            elif each.is_array:
                spread = (np.broadcast_to(copied(array), positions) for array in each.arrays)
                values += (graph.constant(array.astype(kind.dtype), own) for array in spread)
        return graph.stacked(f"{name}: stack", values, len(positions)) if several else values[0]

    @property
    def _entries(self) -> list[Entry]:
        return [each.entry for each in self.written]


@dataclass(frozen=True, slots=True, eq=False)
class TakenAlong:
    """numpy.take_along_axis(x, …, axis)."""

    written: WrittenEntry
    axis: int
    looks_up = True

    def __str__(self) -> str:
        return f".take_along_axis({self.written}, {self.axis})"

    def problem(self, data: TensorType) -> Problem:
        """ValueError for another axis or number of dimensions; IndexError for sizes that cannot be broadcast."""
        assert isinstance(self.written.entry, TensorType)
        return TakeAlongAxis(data, self.written.entry, self.axis)

    @property
    def has_placeholder(self) -> bool:
        """Whether the values of the indices are not known."""
        return self.written.arrays is None

    def indices(self) -> Any:
        """The problem's `indices`. There is no placeholder."""
        return (self.written.arrays or ())[0]

    def indices_in(self, graph: GraphBuilder, name: str, copied: Copied) -> str:
        """As of `Brackets`."""
        if self.has_placeholder:
            assert isinstance(self.written.entry, TensorType)
            return graph.input(name, self.written.entry)
        return graph.constant(copied(self.indices()), name)


@dataclass(frozen=True, slots=True)
class Transposed:
    """x.transpose(axes): the dimensions in that order; None for the reverse order."""

    axes: tuple[Any, ...] | None

    def __str__(self) -> str:
        return f".transpose({'' if self.axes is None else _written(self.axes)})"

    def problem(self, data: TensorType) -> Problem:
        """ValueError unless `axes` names each dimension once, counted from either end."""
        if self.axes is None:
            return TransposeView(data, tuple(range(data.rank)[::-1]))
        axes = tuple(whole(f"axes[{number}]", axis) for number, axis in enumerate(self.axes))
        if len(axes) != data.rank:
            raise ValueError(f"axes is {axes}, but there are {counted(data.rank, 'dimension')}: expected each once")
        return TransposeView(data, check_axes("axes", axes, data.rank, "data"))


@dataclass(frozen=True, slots=True)
class Reshaped:
    """x.reshape(shape), in row-major order; one size may be -1: whatever is left. None for the shape as it is."""

    shape: tuple[Any, ...] | None

    def __str__(self) -> str:
        return f".reshape({None if self.shape is None else _written(self.shape)})"

    def problem(self, data: TensorType) -> Problem:
        """ValueError for another number of elements, and for a size below -1 or a second -1."""
        if self.shape is None:
            return ReshapeView(data, data.shape)
        sizes = [whole(f"shape[{number}]", size) for number, size in enumerate(self.shape)]
        if min(sizes, default=0) < -1 or sizes.count(-1) > 1:
            raise ValueError(f"shape is {self.shape}, expected sizes of 0 or more, and at most one -1")
        if -1 in sizes:
            others = prod(size for size in sizes if size != -1)
            if not others or prod(data.shape) % others:
                raise ValueError(f"shape is {self.shape}, but data is {data}: no size in the place of -1 gives as many elements")
            sizes[sizes.index(-1)] = prod(data.shape) // others
        return ReshapeView(data, tuple(sizes))


def listed(given: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The integers of a method that takes them as several arguments, as one sequence, or as an array; None for None alone."""
    if len(given) > 1:
        return given
    (only,) = given
    return None if only is None else tuple(only) if isinstance(only, Sequence) or getattr(only, "ndim", None) else given


def _written(integers: Sequence[Any]) -> str:
    """Integers as arguments; no integers as one argument."""
    return ", ".join(map(str, integers)) or "()"


Link = Brackets | TakenAlong | Transposed | Reshaped


def problems(links: Sequence[Link], data: TensorType) -> tuple[Problem, ...]:
    """The problem of each link; each reads what the one before it writes."""
    found: list[Problem] = []
    for link in links:
        found.append(link.problem(found[-1].output if found else data))
    return tuple(found)


def graph(links: Sequence[Link], found: Sequence[Problem], copied: Copied) -> IndexGraph:
    """The graph of links, of which each has a problem. Inputs: the data, then every placeholder, in order; index arrays and masks
    are constants, for which they are `copied`.
    """
    builder = GraphBuilder()
    value = builder.input("data", found[0].data)
    for number, (link, problem) in enumerate(zip(links, found, strict=True)):
        inputs = [value]
        if len(problem.inputs) > 1:
            assert isinstance(link, Brackets | TakenAlong)
            inputs.append(link.indices_in(builder, f"indices{number}", copied))
        value = builder.problem(f"step {number} ({problem.name})", problem, *inputs, output=f"result{number}")
    return builder.build([value])
