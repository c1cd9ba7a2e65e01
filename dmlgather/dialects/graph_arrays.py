"""Stand-ins for values of a graph: what a row of operators does with arrays, it does with these, and steps come of it.

A row that moves elements is written once, for NumPy's arrays and for these. A row that computes elements is a function of an
operation and operands, of which `GraphArithmetic` makes steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.dialects.element_arithmetic import OPERATIONS, Computing
from dmlgather.dialects.problem import TensorType, check_axis
from dmlgather.dialects.windows import Window

if TYPE_CHECKING:  # the rules of operators import this module, also where nobody makes a graph
    from dmlgather.dialects.graph_building import GraphBuilder


@dataclass(frozen=True)
class GraphArray:
    """A value of a graph, and what is done with it: a word and a function that adds the step, from its name, the value before it
    and the name of its output.
    """

    graph: GraphBuilder
    tensor: TensorType
    value: str
    done: tuple[tuple[str, Callable[..., str]], ...] = ()

    @classmethod
    def of(cls, graph: GraphBuilder, value: str) -> GraphArray:
        """A value that the graph has."""
        return cls(graph, graph.types[value], value)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each dimension."""
        return self.tensor.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.tensor.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.tensor.rank

    def reshape(self, shape: Sequence[int], word: str = "dimensions") -> GraphArray:
        """The elements in row-major order under another shape."""
        return self._then(shape, word, partial(self.graph.reshaped, shape=tuple(shape)))

    def transpose(self, order: Sequence[int]) -> GraphArray:
        """Dimension i of the result is dimension order[i] of this one."""
        return self._then([self.shape[axis] for axis in order], "order", partial(self.graph.transposed, order=order))

    def expanded(self, shape: Sequence[int]) -> GraphArray:
        """The value broadcast to a shape, as NumPy does it."""
        return self._then(shape, "repeated", partial(self.graph.expanded, shape=tuple(shape)))

    def __getitem__(self, slices: tuple[slice, ...]) -> GraphArray:
        """A part: slices of step 1 of the first dimensions."""
        from dmlgather.dialects.views import SliceView

        windows = [Window.whole(size) for size in self.shape]
        for axis, each in enumerate(slices):
            start, stop, _ = each.indices(self.shape[axis])
            windows[axis] = Window(start, stop - start, 1)
        view = SliceView(self.tensor, tuple(windows))

        def add(name: str, value: str, output: str) -> str:
            return self.graph.problem(name, view, value, output=output)

        return self._then(view.output.shape, "part", add)

    def written(self, name: str, output: str) -> str:
        """The value, with its steps in the graph. name: of the last step. output: the name of its value. Those before have a word
        behind these names.
        """
        value = self.value
        for number, (word, add) in enumerate(self.done, 1):
            behind = "" if number == len(self.done) else f": {word}"
            value = add(f"{name}{behind}", value, output=f"{output}{behind}")
        return value

    def _then(self, shape: Sequence[int], word: str, add: Callable[..., str]) -> GraphArray:
        return GraphArray(self.graph, TensorType(tuple(shape), self.dtype), self.value, (*self.done, (word, add)))


def expanded(data: Any, shape: Sequence[int]) -> Any:
    """An array or a value of a graph, broadcast to a shape. ValueError where it does not fit."""
    return data.expanded(np.broadcast_shapes(shape, data.shape)) if isinstance(data, GraphArray) else np.broadcast_to(data, shape)


def reshaped(data: Any, shape: Sequence[int], word: str) -> Any:
    """An array or a value of a graph under another shape. word: for what is done, where other steps follow."""
    return data.reshape(shape, word) if isinstance(data, GraphArray) else data.reshape(shape)


def joined(values: Sequence[Any], axis: int) -> Any:
    """Arrays or values of a graph, one after the other along an axis. ValueError where they do not fit."""
    types = [TensorType(value.shape, value.dtype) for value in values]
    first, axis = types[0], check_axis("axis", axis, types[0].rank, "the first input")
    for number, other in enumerate(types):
        off = [(*tensor.shape[:axis], *tensor.shape[axis + 1 :]) for tensor in (other, first)]
        if other.rank != first.rank or other.dtype != first.dtype or off[0] != off[1]:
            raise ValueError(
                f"input {number} is {other} and input 0 is {first}: expected one type, and equal sizes off axis {axis}"
            )
    if not isinstance(values[0], GraphArray):
        return np.concatenate(values, axis)
    graph, names = values[0].graph, [value.value for value in values]
    size = sum(tensor.shape[axis] for tensor in types)

    def add(name: str, _: str, output: str) -> str:
        return graph.concatenated(name, names, axis, output=output)

    result = TensorType((*first.shape[:axis], size, *first.shape[axis + 1 :]), first.dtype)
    return values[0] if len(values) == 1 else GraphArray(graph, result, "", (("joined", add),))


def parts(data: Any, axis: int, sizes: Sequence[int]) -> list[Any]:
    """The parts of an array or a value of a graph that have these sizes along an axis, counted from the front."""
    ends = [sum(sizes[:number]) for number in range(1, len(sizes) + 1)]
    before = (slice(None),) * axis
    return [data[(*before, slice(end - size, end))] for size, end in zip(sizes, ends, strict=True)]


class OpaqueError(Exception):
    """A graph does not have this operation, or not on these operands."""


def _in_graphs(operation: str) -> bool:
    from dmlgather.dialects.index_graph import ELEMENTWISE

    return operation in ELEMENTWISE


@dataclass(frozen=True)
class _Result:
    """What an operation gives: a value once a step writes it. word: what the step is called where others follow."""

    operation: str
    operands: tuple[Any, ...]
    word: str


@dataclass(frozen=True)
class GraphArithmetic(Computing):
    """Computes with values of a graph, by their names: integers and bools; selecting takes elements of all types.

    name: of the steps. output: the name of the result.
    """

    graph: GraphBuilder
    name: str
    output: str

    def __call__(self, operation: str, *operands: Any) -> _Result:
        """OpaqueError for an operation that graphs do not have."""
        if not _in_graphs(operation) or not all(isinstance(one, str | _Result) for one in operands):
            raise OpaqueError(operation)
        if operation == "remainder" and len(operands) == 2 and not self._never_zero(operands[1]):
            raise OpaqueError("a divisor that may be 0, which libraries treat differently")
        return _Result(operation, operands, operation)

    def fold(self, operation: str, operands: Sequence[Any]) -> Any:
        """An operation of two operands over all of them."""
        result = operands[0]
        if not _in_graphs(operation):
            raise OpaqueError(operation)
        for number, one in enumerate(operands[1:], 2):
            result = _Result(operation, (result, one), f"of {number} inputs")
        return result

    def written(self, result: str | _Result) -> str:
        """The value, with its steps in the graph."""
        return self._write(result, self.output)

    def _write(self, result: str | _Result, output: str) -> str:
        if isinstance(result, str):
            return result
        operands = [self._write(one, f"{self.output}: {one.word}" if isinstance(one, _Result) else "") for one in result.operands]
        like = operands[1 if result.operation == "where" and len(operands) > 1 else 0]
        dtype = np.dtype(bool) if OPERATIONS[result.operation].logical else self.graph.types[like].dtype
        return self.graph.elementwise(self.name, result.operation, dtype, *operands, output=output)

    def _never_zero(self, divisor: Any) -> bool:
        known = self.graph.known(divisor) if isinstance(divisor, str) else None
        return known is not None and bool(known.all())
