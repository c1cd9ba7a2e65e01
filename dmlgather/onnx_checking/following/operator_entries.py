"""The entry of an operator in the operator table, and the description of a node that the entry's rules get."""

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
    """A node with what is known of its inputs. `types`, `values`: those of the inputs, in their order. `names`: the sizes of
    the model. `requests`: asks ONNX about nodes.
    """

    node: NodeProto
    opset: int
    types: Sequence[PartialType]
    values: Sequence[Value | None]
    names: ModelSizes
    requests: NodeRequests

    def ask(self, values: Sequence[Value | None]) -> NodeAnswer:
        """Return ONNX's answer for the node, with these values of its inputs."""
        return self.requests.ask(self.node, self.opset, self.types, values)

    @cached_property
    def integers(self) -> dict[str, int]:
        """Return the attributes with one integer."""
        return integers_of(self.node)

    @property
    def data(self) -> np.dtype[Any]:
        """Return the data type of the first input whose type is known; ValueError if there is none."""
        dtype = next((type_.dtype for type_ in self.types if type_.dtype is not None), None)
        if dtype is None:
            raise ValueError("an input of unknown type")
        return dtype

    def arithmetic(self, dtype: np.dtype[Any] | None = None) -> Arithmetic:
        """Return the arithmetic on elements of `dtype`."""
        integers = dtype is None or dtype.kind in "iu"
        floats = {attribute.name: attribute.f for attribute in self.node.attribute if attribute.HasField("f")}
        return Arithmetic(self.names.sizes, self.names.unknown, integers=integers, attributes={**self.integers, **floats})

    def shape(self, index: int) -> Shape | None:
        """Return the shape of input `index`, or None if the shape is not known or the input is left out."""
        return self.types[index].shape if self.has(index) else None

    def sizes(self, index: int) -> Shape:
        """Return the shape of input `index`; ValueError if it is not known."""
        shape = self.shape(index)
        if shape is None:
            raise ValueError(f"input {index} of unknown shape")
        return shape

    def has(self, index: int) -> bool:
        """Return True if the node has input `index`."""
        return index < len(self.node.input) and bool(self.node.input[index])

    def ints(self, name: str) -> list[int] | None:
        """Return an attribute with a list of integers, or None if it is left out."""
        return next((list(each.ints) for each in self.node.attribute if each.name == name and not each.ref_attr_name), None)

    def elements(self, index: int) -> list[Element] | None:
        """Return the elements of a one-dimensional input; some may be Unknown. Returns None if their number is not known."""
        value: Value | None = self.values[index]
        if isinstance(value, np.ndarray):
            return value.reshape(-1).tolist()
        shape = self.shape(index)
        if shape is None or len(shape) != 1 or not isinstance(shape[0], int) or shape[0] > 64:
            return None
        return [value or Unknown("")] * shape[0]

    def bounds(self, name: str, index: int) -> list[Element] | None:
        """Return a list of integers: the attribute `name` or, in later versions of the operator, input `index`."""
        attribute = self.ints(name)
        return list(attribute) if attribute is not None else self.elements(index) if self.has(index) else None

    def size(self, operation: str, *operands: Any) -> Size:
        """Return the result of an operation on sizes; None if it is not known."""
        return size_of(self.arithmetic()(operation, *(Unknown("") if operand is None else operand for operand in operands)))

    def like(self, index: int, *, of: int | None = None) -> PartialType:
        """Return the type of input `index`. `of`: the input that gives the data type; None for `index`."""
        return tensor(self.dtype(index if of is None else of), self.shape(index))

    def dtype(self, *numbers: int) -> np.dtype[Any] | None:
        """Return the data type of the first of these inputs that the node has."""
        return next((self.types[index].dtype for index in numbers if self.has(index)), None)


def size_of(element: Element) -> Size:
    """Return an element as a size, or None if it is Unknown or otherwise no size."""
    return element if isinstance(element, int | str) else None


def tensor(dtype: np.dtype[Any] | None, shape: Shape | None) -> PartialType:
    """Return the type of a tensor."""
    return PartialType(dtype, None if shape is None else tuple(shape))


SizeRule = Callable[[KnownNode], "list[Shape | None] | None"]
"""A function from a node to the shapes of its outputs. An unknown shape is None. If all shapes are unknown, the function may
return None or raise ValueError.
"""

TypeRule = Callable[[KnownNode], Sequence[PartialType]]
"""A function from a node to the types of its outputs. Types of its inputs may follow them. ValueError if nothing is known."""

Ranks = Callable[[str], "int | None"]
"""A function from a value's name to its rank, or to None if the rank is not known."""

RankRule = Callable[["NodeProto", Ranks], Iterator[tuple[str, int]]]
"""A function from a node and the known ranks to pairs of a name and its rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEntry:
    """The entry of an operator in the table. If a rule is None, nothing is inferred by it. Inputs are given by their numbers.

    Rules for values. `run`: computes the outputs from the parsed node and known inputs; it returns a list if there are several
    outputs. If `run` is None and `evaluated` is True, ONNX's reference evaluator computes them. `moves`: the inputs whose
    elements are moved to the outputs. None means all inputs; an operator that computes elements has none. `run` takes
    ShapeArrays for these inputs. `elements`: computes one element of the output. Its arguments are an `Arithmetic` and one
    element of each input, broadcast as in NumPy. `computes`: computes the output of an operator that is not element-wise.
    `elements` and `computes` are for inputs with names of sizes, and for operators that the evaluator lacks.

    Rules for types. `sizes`: computes the outputs' shapes from sizes with names. `types`: computes the types of the outputs, if
    ONNX's shape inference does not know the operator. `gives`: the input with the outputs' data type, or bool; None if an
    attribute states the data type. `rank`: infers ranks from other ranks.

    Roles of inputs. `host`: the inputs that decide shapes, bounds, axes, repeats, counts or conditions in any version of the
    operator. In DirectML these are fields of operators or sizes of tensors, or they decide which operators run. Indices, masks
    and lengths do not count, because DirectML reads them from tensors. `unread`: the inputs whose elements are not read; only
    their type, shape or length is.

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
        """Return the data type of outputs whose shapes or elements a rule computes, or None if it is not known."""
        if isinstance(self.gives, int):
            return call.types[self.gives].dtype if call.types else None
        return None if self.gives is None else np.dtype(self.gives)

    def computed(self, call: KnownNode) -> Value | None:
        """Return the output for inputs with names of sizes, or None if it is not known."""
        if self.elements is None:
            return None if self.computes is None else self.computes(call)
        dtype, result = call.types[self.gives if isinstance(self.gives, int) else 0].dtype, self.dtype_of(call)
        if dtype is None or result is None:
            raise ValueError("an input of unknown type")
        inputs = [None if isinstance(value, Unknown) else value for value in call.values]
        return over(self.elements, call.arithmetic(dtype), inputs, result)

    @property
    def passes_on(self) -> bool:
        """Return True if known inputs give known outputs. An input with names of sizes counts as known."""
        return self.moves != () or any((self.run, self.elements, self.computes))


def following_shapes(rule: SizeRule | None, call: KnownNode) -> list[Shape | None] | None:
    """Return the shapes of a node's outputs; an unknown shape is None. Returns None if all are unknown, or without a rule."""
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
    """Return the types that a rule infers for a node. The list is empty if nothing is known, or without a rule."""
    try:
        types = rule(call) if rule is not None else ()
    except (ArithmeticError, LookupError, TypeError, ValueError):  # inputs of unknown type, or an ill-formed node
        types = ()
    return [type_.each_size(_not_negative) for type_ in types]


def _not_negative(size: Size) -> Size:
    return None if isinstance(size, int) and size < 0 else size
