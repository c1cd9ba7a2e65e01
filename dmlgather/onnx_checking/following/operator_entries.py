"""The form of an entry in the operator table, and the node that its rules receive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.onnx.problems.partial_types import PartialType, Size
from dmlgather.onnx.problems.subgraphs import integers_of
from dmlgather.onnx_checking.following.element_arithmetic import Arithmetic, Element, over
from dmlgather.onnx_checking.reading.size_names import ModelSizes
from dmlgather.onnx_checking.sizes.values import Unknown, Value

if TYPE_CHECKING:
    from onnx import NodeProto

    from dmlgather.onnx_checking.following.node_requests import NodeAnswer, NodeRequests

Shape = Sequence[Size]


@dataclass(frozen=True)
class KnownNode:
    """A node with all that is known about its inputs. Rules of operator entries receive it."""

    node: NodeProto
    opset: int
    types: Sequence[PartialType]
    values: Sequence[Value | None]
    names: ModelSizes
    requests: NodeRequests

    def ask(self, values: Sequence[Value | None]) -> NodeAnswer:
        """Let ONNX infer the outputs for inputs with these values."""
        return self.requests.ask(self.node, self.opset, self.types, values)

    @cached_property
    def integers(self) -> dict[str, int]:
        """Return the attributes that hold a single integer."""
        return integers_of(self.node)

    @property
    def data(self) -> np.dtype[Any]:
        """Return the first known data type of an input. Raise ValueError if no type is known."""
        dtype = next((type_.dtype for type_ in self.types if type_.dtype is not None), None)
        if dtype is None:
            raise ValueError("an input of unknown type")
        return dtype

    def arithmetic(self, dtype: np.dtype[Any] | None = None) -> Arithmetic:
        """Return an object that computes with elements of this data type."""
        integers = dtype is None or dtype.kind in "iu"
        floats = {attribute.name: attribute.f for attribute in self.node.attribute if attribute.HasField("f")}
        return Arithmetic(self.names.sizes, self.names.unknown, integers=integers, attributes={**self.integers, **floats})

    def shape(self, index: int) -> Shape | None:
        """Return the shape of an input, or None if it is unknown or the input is omitted."""
        return self.types[index].shape if self.has(index) else None

    def sizes(self, index: int) -> Shape:
        """Return the shape of an input. Raise ValueError if it is unknown."""
        shape = self.shape(index)
        if shape is None:
            raise ValueError(f"input {index} of unknown shape")
        return shape

    def has(self, index: int) -> bool:
        """Return True if the node has this input."""
        return index < len(self.node.input) and bool(self.node.input[index])

    def ints(self, name: str) -> list[int] | None:
        """Return an attribute that is a list of integers, or None."""
        return next((list(each.ints) for each in self.node.attribute if each.name == name and not each.ref_attr_name), None)

    def elements(self, index: int) -> list[Element] | None:
        """Return the elements of a one-dimensional input, or None if their number is unknown."""
        value: Value | None = self.values[index]
        if isinstance(value, np.ndarray):
            return value.reshape(-1).tolist()
        shape = self.shape(index)
        if shape is None or len(shape) != 1 or not isinstance(shape[0], int) or shape[0] > 64:
            return None
        return [value or Unknown("")] * shape[0]

    def bounds(self, name: str, index: int) -> list[Element] | None:
        """Return a list of integers, such as a Slice's starts, from an attribute (old operator versions) or an input."""
        attribute = self.ints(name)
        return list(attribute) if attribute is not None else self.elements(index) if self.has(index) else None

    def size(self, operation: str, *operands: Any) -> Size:
        """Apply an operation of `Sizes.compute` to sizes."""
        return size_of(self.arithmetic()(operation, *(Unknown("") if operand is None else operand for operand in operands)))

    def like(self, index: int, *, of: int | None = None) -> PartialType:
        """Return the type of an input. `of`: the position of another input that gives the data type."""
        return tensor(self.dtype(index if of is None else of), self.shape(index))

    def dtype(self, *numbers: int) -> np.dtype[Any] | None:
        """Return the data type of the first of these inputs that is not omitted. `numbers`: the positions of the inputs."""
        return next((self.types[index].dtype for index in numbers if self.has(index)), None)


def size_of(element: Element) -> Size:
    """Return an element if it is a size, otherwise None."""
    return element if isinstance(element, int | str) else None


def tensor(dtype: np.dtype[Any] | None, shape: Shape | None) -> PartialType:
    """Return the type of a tensor. None means unknown."""
    return PartialType(dtype, None if shape is None else tuple(shape))


SizeRule = Callable[[KnownNode], "list[Shape | None] | None"]
"""Computes the output shapes of a node from symbolic sizes. ValueError or None: nothing is known."""

TypeRule = Callable[[KnownNode], Sequence[PartialType]]
"""Infers the output types of a node; types of inputs may follow. ValueError: nothing is known."""

Ranks = Callable[[str], "int | None"]
"""Returns the rank of a value by its name."""

RankRule = Callable[["NodeProto", Ranks], Iterator[tuple[str, int]]]
"""Infers ranks of a node's inputs and outputs from each other. Yields names and ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEntry:
    """The facts that the check knows about an operator. Inputs are given by position, from 0.

    Rules for values:
    `run`: executes the operator on arrays. Returns the output, or a list of several outputs.
    `evaluated`: False to keep ONNX's reference evaluator from running the operator if there is no `run`.
    `moves`: the inputs whose elements become output elements, or None for all. `run` accepts ShapeArrays for these inputs.
    `elements`: computes one element of the output from an `Arithmetic` and one element of each input, broadcast as in NumPy.
    `computes`: computes the whole output.
    `elements` and `computes` handle symbolic sizes, and operators that ONNX's evaluator lacks.

    Rules for types:
    `sizes`: computes output shapes from symbolic sizes.
    `types`: infers types if ONNX's shape inference does not know the operator.
    `gives`: the input that has the data type of the outputs, or bool. None if an attribute states the data type.
    `rank`: infers ranks of inputs and outputs from each other.

    Roles of inputs:
    `host`: inputs that decide shapes, bounds, axes, repeats, counts or conditions, in any version. DirectML needs them before
    it runs. Indices, masks and lengths do not belong here: DirectML reads them from tensors.
    `unread`: inputs that give only their type, shape or length, not their elements.

    Sources: the operators' texts in ONNX and in onnxruntime's contrib operators, and the structures of directml.h.
    """

    run: Callable[..., Any] | None = None
    evaluated: bool = True
    moves: tuple[int, ...] | None = ()
    elements: Callable[..., Any] | None = None
    computes: Callable[[KnownNode], Value | None] | None = None
    sizes: SizeRule | None = None
    types: TypeRule | None = None
    gives: int | type[bool] | None = 0
    rank: RankRule | None = None
    host: tuple[int, ...] = ()
    unread: tuple[int, ...] = ()

    def dtype_of(self, call: KnownNode) -> np.dtype[Any] | None:
        """Return the data type of the outputs, or None if an attribute states it."""
        if isinstance(self.gives, int):
            return call.types[self.gives].dtype if call.types else None
        return None if self.gives is None else np.dtype(self.gives)

    def computed(self, call: KnownNode) -> Value | None:
        """Compute the output from inputs with symbolic sizes, or return None if that is impossible."""
        if self.elements is None:
            return None if self.computes is None else self.computes(call)
        dtype, result = call.types[self.gives if isinstance(self.gives, int) else 0].dtype, self.dtype_of(call)
        if dtype is None or result is None:
            raise ValueError("an input of unknown type")
        inputs = [None if isinstance(value, Unknown) else value for value in call.values]
        return over(self.elements, call.arithmetic(dtype), inputs, result)

    @property
    def passes_on(self) -> bool:
        """Return True if the outputs are known once all inputs are known. Symbolic sizes count as known."""
        return self.moves != () or any((self.run, self.elements, self.computes))


def following_shapes(rule: SizeRule | None, call: KnownNode) -> list[Shape | None] | None:
    """Apply a size rule to a node. Return None if no shape is known."""
    if rule is None:
        return None
    try:
        shapes = rule(call)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # inputs of unknown shape, or an ill-formed node
        return None
    if shapes is None or all(shape is None for shape in shapes):
        return None
    return [None if shape is None else list(map(_not_negative, shape)) for shape in shapes]


def following_types(rule: TypeRule | None, call: KnownNode) -> list[PartialType]:
    """Apply a type rule to a node. The result is empty if nothing can be inferred."""
    try:
        types = rule(call) if rule is not None else ()
    except (ArithmeticError, LookupError, TypeError, ValueError):  # inputs of unknown type, or an ill-formed node
        types = ()
    return [type_.each_size(_not_negative) for type_ in types]


def _not_negative(size: Size) -> Size:
    return None if isinstance(size, int) and size < 0 else size
