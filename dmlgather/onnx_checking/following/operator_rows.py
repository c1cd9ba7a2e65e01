"""A row of the table of operators, and a node as its rules see it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.onnx.problems.partial_types import PartialType, Size
from dmlgather.onnx.problems.subgraphs import integers_of
from dmlgather.onnx_checking.following.element_arithmetic import Arithmetic, Element, objects, over
from dmlgather.onnx_checking.reading.size_names import ModelSizes
from dmlgather.onnx_checking.sizes.values import Unknown, Value

if TYPE_CHECKING:
    from onnx import NodeProto

    from dmlgather.onnx_checking.following.node_requests import NodeAnswer, NodeRequests

Shape = Sequence[Size]


@dataclass(frozen=True)
class KnownNode:
    """A node with what is known of its inputs, by their numbers. requests: asks ONNX about it."""

    node: NodeProto
    opset: int
    types: Sequence[PartialType]
    values: Sequence[Value | None]
    names: ModelSizes
    requests: NodeRequests

    def ask(self, values: Sequence[Value | None]) -> NodeAnswer:
        """What ONNX says of the node with other values of its inputs."""
        return self.requests.ask(self.node, self.opset, self.types, values)

    @cached_property
    def integers(self) -> dict[str, int]:
        """The attributes that are one integer."""
        return integers_of(self.node)

    @property
    def data(self) -> np.dtype[Any]:
        """The data type of the first input whose type is known; ValueError where none is."""
        dtype = next((known.dtype for known in self.types if known.dtype is not None), None)
        if dtype is None:
            raise ValueError("an input of unknown type")
        return dtype

    def arithmetic(self, dtype: np.dtype[Any] | None = None) -> Arithmetic:
        """Computes with elements. dtype: of these."""
        integers = dtype is None or dtype.kind in "iu"
        floats = {each.name: each.f for each in self.node.attribute if each.HasField("f")}
        return Arithmetic(self.names.sizes, self.names.unknown, integers=integers, attributes={**self.integers, **floats})

    def shape(self, at: int) -> Shape | None:
        """The shape of an input; None where it is not known, or the input is left out."""
        return self.types[at].shape if self.has(at) else None

    def sizes(self, at: int) -> Shape:
        """The shape of an input; ValueError where it is not known."""
        shape = self.shape(at)
        if shape is None:
            raise ValueError(f"input {at} of unknown shape")
        return shape

    def has(self, at: int) -> bool:
        """Whether an input is given."""
        return at < len(self.node.input) and bool(self.node.input[at])

    def ints(self, name: str) -> list[int] | None:
        """An attribute that is a list of integers."""
        return next((list(each.ints) for each in self.node.attribute if each.name == name and not each.ref_attr_name), None)

    def elements(self, at: int) -> list[Element] | None:
        """The elements of an input of one dimension, unknown ones included; None where not even their number is known."""
        value: Value | None = self.values[at]
        if isinstance(value, np.ndarray):
            return objects(value).reshape(-1).tolist()
        shape = self.shape(at)
        if shape is None or len(shape) != 1 or not isinstance(shape[0], int) or shape[0] > 64:
            return None
        return [value or Unknown("")] * shape[0]

    def bounds(self, name: str, at: int) -> list[Element] | None:
        """An attribute or, in later versions, an input with a list of integers."""
        given = self.ints(name)
        return list(given) if given is not None else self.elements(at) if self.has(at) else None

    def size(self, operation: str, *operands: Any) -> Size:
        """The result of an operation on sizes; None where it is not known."""
        return size_of(self.arithmetic()(operation, *(Unknown("") if one is None else one for one in operands)))

    def like(self, at: int, *, of: int | None = None) -> PartialType:
        """The type of an input, with the data type of input `of`."""
        return tensor(self.dtype(at if of is None else of), self.shape(at))

    def dtype(self, *numbers: int) -> np.dtype[Any] | None:
        """The data type of the first of these inputs that is given."""
        return next((self.types[at].dtype for at in numbers if self.has(at)), None)


def size_of(element: Element) -> Size:
    """An element as a size; None where it is none that is known."""
    return element if isinstance(element, int | str) else None


def tensor(dtype: np.dtype[Any] | None, shape: Shape | None) -> PartialType:
    """The type of a tensor."""
    return PartialType(dtype, None if shape is None else tuple(shape))


SizeRule = Callable[[KnownNode], "list[Shape | None] | None"]
"""From a node to the shapes of its outputs, None for those of which nothing follows; None or ValueError where none does."""

TypeRule = Callable[[KnownNode], Sequence[PartialType]]
"""From a node to the types of its outputs, and perhaps of its inputs behind them; ValueError where none follows."""

Ranks = Callable[[str], "int | None"]
"""The rank of a value, by its name."""

RankRule = Callable[["NodeProto", Ranks], Iterator[tuple[str, int]]]
"""From a node and the ranks that are known to names with ranks that follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRow:
    """A row of the table: what is known of an operator. What it does not say does not follow.

    Constants. run: the output of known inputs, from the node with its attributes, and arrays; a list where there are several
    outputs. None: ONNX's reference evaluator computes it, if `evaluated`. moves: the numbers of the inputs whose elements are
    moved to the outputs; None for all; empty where it computes. Stand-ins with shapes alone may take the place of moved arrays.
    elements: one element of the output, from `Arithmetic` and the elements at one place of the inputs, as NumPy broadcasts them.
    computes: likewise the output, of an operator that computes otherwise. Both are for inputs with names, and for what the
    evaluator lacks.

    Sizes and ranks. sizes: shapes of the outputs where sizes have names. types: types of the outputs, and perhaps of the inputs
    behind them, of operators that ONNX's shape inference does not know. gives: the input that has the data type of the outputs,
    or bool; None where an attribute says it. rank: names with the ranks that follow from other ranks.

    Inputs. host: the numbers of those that decide shapes, bounds, axes, repeats, counts or conditions in any of the operator's
    versions: fields of DirectML's operator, sizes of its tensors, and which operators run at all. Indices, masks and lengths that
    DirectML reads from tensors are not among them. unread: those of which type, shape or length is read, but no element.

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
        """The data type of a node's outputs, where a rule gives their shapes or elements; None where it does not follow."""
        if isinstance(self.gives, int):
            return call.types[self.gives].dtype if call.types else None
        return None if self.gives is None else np.dtype(self.gives)

    def computed(self, call: KnownNode) -> Value | None:
        """The output where inputs have names; None where it does not follow."""
        if self.elements is None:
            return None if self.computes is None else self.computes(call)
        dtype, result = call.types[self.gives if isinstance(self.gives, int) else 0].dtype, self.dtype_of(call)
        if dtype is None or result is None:
            raise ValueError("an input of unknown type")
        inputs = [None if isinstance(value, Unknown) else value for value in call.values]
        return over(self.elements, call.arithmetic(dtype), inputs, result)

    @property
    def passes_on(self) -> bool:
        """Whether outputs are known where inputs are, names included."""
        return self.moves != () or any((self.run, self.elements, self.computes))


def following_shapes(rule: SizeRule | None, call: KnownNode) -> list[Shape | None] | None:
    """The shapes of a node's outputs, as far as they follow, None for an output of which nothing does. None where nothing follows
    for any, or there is no rule.
    """
    if rule is None:
        return None
    try:
        found = rule(call)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # inputs of unknown shape, or an ill-formed node
        return None
    if found is None or all(shape is None for shape in found):
        return None
    return [None if shape is None else list(map(_not_negative, shape)) for shape in found]


def following_types(rule: TypeRule | None, call: KnownNode) -> list[PartialType]:
    """The types that a rule gives of a node; none where there is no rule, or nothing follows."""
    try:
        found = rule(call) if rule is not None else ()
    except (ArithmeticError, LookupError, TypeError, ValueError):  # likewise
        found = ()
    return [known.each_size(_not_negative) for known in found]


def _not_negative(size: Size) -> Size:
    """A size, or None for a number below 0, which is none."""
    return None if isinstance(size, int) and size < 0 else size
