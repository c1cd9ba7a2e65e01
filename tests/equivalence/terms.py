"""Small programs as terms, which plain NumPy evaluates and which become graphs. They know nothing of plans or proofs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import ELEMENTWISE, IndexGraph
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.views import SliceView
from dmlgather.dialects.windows import Window
from dmlgather.lax.problems.gather import GatherDimensionNumbers, LaxGather
from dmlgather.onnx.problems.gather import Gather, GatherND
from dmlgather.plan import OutOfBounds

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Node:
    """A term. Equal terms become one value of the graph."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numpy(_Zeros()).shape

    @property
    def children(self) -> tuple[Node, ...]:
        found = (getattr(self, field.name) for field in dataclasses.fields(self))
        return tuple(
            each for value in found for each in (value if isinstance(value, tuple) else (value,)) if isinstance(each, Node)
        )

    def numpy(self, arrays: Arrays) -> NDArray[Any]:
        """The array. IndexError where the program raises."""
        return self.of([child.numpy(arrays) for child in self.children])

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The array, from those of the children."""
        raise NotImplementedError

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        """The value of the graph, from those of the children."""
        raise NotImplementedError


class _Zeros(dict[str, NDArray[Any]]):
    """Inputs for which no index is out of range."""

    def __missing__(self, name: str) -> NDArray[Any]:
        raise KeyError(name)


@dataclass(frozen=True)
class Input(Node):
    name: str
    sizes: tuple[int, ...]
    dtype: str

    def numpy(self, arrays: Arrays) -> NDArray[Any]:
        return np.zeros(self.sizes, self.dtype) if isinstance(arrays, _Zeros) else arrays[self.name]

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        return self.name


@dataclass(frozen=True)
class Number(Node):
    """A constant of rank 0, or a row of them."""

    value: int | tuple[int, ...]
    dtype: str = "int64"

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.array(self.value, self.dtype)

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        return graph.constant(self.of(()))


@dataclass(frozen=True)
class Take(Node):
    """x[…, ids, …] along an axis; out of range: raise (and negative ones wrap), clip or fill (with -1)."""

    x: Node
    ids: Node
    axis: int
    mode: str

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        x, ids = arrays
        size = x.shape[self.axis]
        if self.mode == "raise" and ((ids < -size) | (ids >= size)).any():
            raise IndexError
        at = np.where(ids < 0, ids + size, ids) if self.mode == "raise" else np.clip(ids, 0, size - 1)
        taken = np.take(x, at, self.axis)
        if self.mode == "fill":
            valid = ((ids >= 0) & (ids < size)).reshape((*ids.shape, *[1] * (x.ndim - self.axis - 1)))
            return np.where(valid, taken, np.array(-1).astype(x.dtype))
        return taken

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        x, ids = values
        data, indices = graph.types[x], graph.types[ids]
        if self.mode == "raise":
            if indices.dtype.itemsize < 4:  # which ONNX does not take
                ids = graph.elementwise("wide", "cast", "int64", ids)
            return graph.problem("take", Gather(data, graph.types[ids], self.axis), x, ids)
        ids = graph.reshaped("tuples", ids, (*indices.shape, 1))
        lead, rank = self.axis, data.rank + indices.rank - 1
        window = tuple(axis for axis in range(rank) if not lead <= axis < lead + indices.rank)
        numbers = GatherDimensionNumbers(window, (self.axis,), (self.axis,))
        sizes = tuple(1 if axis == self.axis else size for axis, size in enumerate(data.shape))
        fill = np.array(-1).astype(data.dtype).tobytes() if self.mode == "fill" else b""
        policy = OutOfBounds.FILL if fill else OutOfBounds.CLAMP
        return graph.problem("take", LaxGather(data, graph.types[ids], numbers, sizes, policy, fill), x, ids)


@dataclass(frozen=True)
class TakeND(Node):
    """x[tuples of ids], which raise, along the first dimensions."""

    x: Node
    ids: Node

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        x, ids = arrays
        limits = np.array(x.shape[: ids.shape[-1]])
        if ((ids < -limits) | (ids >= limits)).any():
            raise IndexError
        found: NDArray[Any] = x[tuple(np.moveaxis(ids, -1, 0))]
        return found

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        x, ids = values
        return graph.problem("take nd", GatherND(graph.types[x], graph.types[ids]), x, ids)


@dataclass(frozen=True)
class Cut(Node):
    """Windows (start, count, step) of every dimension."""

    x: Node
    windows: tuple[tuple[int, int, int], ...]

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        (x,) = arrays
        for axis, (start, count, step) in enumerate(self.windows):
            x = np.take(x, start + step * np.arange(count), axis)
        return x

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        return graph.problem("cut", SliceView(graph.types[values[0]], tuple(Window(*each) for each in self.windows)), *values)


@dataclass(frozen=True)
class Turn(Node):
    x: Node
    order: tuple[int, ...]

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.transpose(arrays[0], self.order)

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        return graph.transposed("turn", values[0], self.order)


@dataclass(frozen=True)
class Shape(Node):
    x: Node
    sizes: tuple[int, ...]

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return arrays[0].reshape(self.sizes)

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        return graph.reshaped("shape", values[0], self.sizes)


@dataclass(frozen=True)
class Spread(Node):
    x: Node
    sizes: tuple[int, ...]

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.broadcast_to(arrays[0], self.sizes)

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        return graph.expanded("spread", values[0], self.sizes)


@dataclass(frozen=True)
class Join(Node):
    parts: tuple[Node, ...]
    axis: int

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(arrays, self.axis)

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        return graph.concatenated("join", values, self.axis)


@dataclass(frozen=True)
class Arithmetic(Node):
    """NumPy's function of that name; results have the type of the last operand, or bool."""

    operator: str
    operands: tuple[Node, ...]

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        found: NDArray[Any] = ELEMENTWISE[self.operator](*arrays)
        return found

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        answers = ("less", "less_equal", "greater_equal", "and")
        dtype = "bool" if self.operator in answers else graph.types[values[-1]].dtype
        return graph.elementwise(self.operator, self.operator, dtype, *values)


@dataclass(frozen=True)
class Other(Node):
    """An operator that does not index: running sums over all elements."""

    x: Node

    def of(self, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
        with np.errstate(over="ignore", invalid="ignore"):  # of float16, and where one of these is read again
            return np.cumsum(arrays[0].astype(np.int64)).astype(arrays[0].dtype).reshape(arrays[0].shape)

    def build(self, graph: GraphBuilder, values: Sequence[str]) -> str:
        kind = graph.types[values[0]]
        return graph.opaque("running sums", "running_sums", values, [TensorType(kind.shape, kind.dtype)])[0]


def nodes(term: Node) -> Iterator[Node]:
    """The term and everything in it, inner ones first."""
    for child in term.children:
        yield from nodes(child)
    yield term


def replaced(term: Node, old: Node, new: Node) -> Node:
    """The term with one of its parts, wherever it stands, replaced."""
    if term == old:
        return new
    if not term.children:
        return term
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(term):
        value = getattr(term, field.name)
        if isinstance(value, Node):
            changes[field.name] = replaced(value, old, new)
        elif isinstance(value, tuple) and value and isinstance(value[0], Node):
            changes[field.name] = tuple(replaced(each, old, new) for each in value)
    return dataclasses.replace(term, **changes)


def graph_of(term: Node, inputs: Sequence[Input]) -> IndexGraph:
    """The graph of a term; all `inputs` are inputs of it, whether it reads them or not."""
    graph = GraphBuilder()
    values: dict[Node, str] = {}
    for each in inputs:
        values[each] = graph.input(each.name, TensorType(each.sizes, np.dtype(each.dtype)))

    def build(node: Node) -> str:
        if node not in values:
            values[node] = node.build(graph, [build(child) for child in node.children])
        return values[node]

    return graph.build([build(term)])
