"""Which nodes give the sizes of a model that its inputs do not state, and which of these sizes depend on data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.partial_types import Size
from dmlgather.onnx.problems.subgraphs import operator_name
from dmlgather.onnx_checking.checked_model import SizeMaker
from dmlgather.onnx_checking.following.operators import row_of
from dmlgather.onnx_checking.following.scopes import Scope
from dmlgather.onnx_checking.sizes.values import Unknown
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import NodeProto

COUNTS = {
    "Compress": (None, "the number of elements that {} keeps"),
    "NonMaxSuppression": (0, "the number of boxes that {} selects"),
    "NonZero": (1, "the number of elements that {} finds"),
    "Unique": (None, "the number of different elements that {} finds"),
}
"""Operators that count: by name, the dimension of their results that has the number, None for all, and what it is."""

ANY_SIZE = "a size that {} gives"
"""What any other size is."""


def note_given(names: list[str], scope: Scope) -> None:
    """Keep that no node gives the sizes in the types of a graph's inputs."""
    for _, symbol in _new(names, scope):
        scope.reader.names.makers[symbol] = None


def note_made(node: NodeProto, place: str, names: list[str], scope: Scope) -> None:
    """Keep that a node gives the sizes in the types of these names that no node before it gives."""
    made = list(_new(names, scope))
    if made:
        depends, operator = _depends_on_data(node, scope), printable(operator_name(node))
        label = printable(node.name) or place.rpartition("/")[2]
        for axis, symbol in made:
            counted, text = COUNTS.get(operator, (None, ANY_SIZE))
            said = (text if counted in (None, axis) else ANY_SIZE).format(f"{operator} {label!r}")
            scope.reader.names.makers[symbol] = SizeMaker(place=place, operator=operator, text=said, from_data=depends)


def _new(names: list[str], scope: Scope) -> Iterator[tuple[int, str]]:
    """The symbols in the types of names of which nothing is kept, each with its dimension."""
    for name in filter(None, names):
        for axis, size in enumerate(scope.type(name).shape or ()):
            yield from ((axis, symbol) for symbol in _symbols(size, scope) if symbol not in scope.reader.names.makers)


def _symbols(size: Size, scope: Scope) -> list[str]:
    return sorted(scope.reader.names.sizes.symbols(size)) if isinstance(size, str) else []


def _depends_on_data(node: NodeProto, scope: Scope) -> bool:
    """Whether sizes of a node's results depend on data: it counts, or takes a shape, bound, condition or size that does."""
    if operator_name(node) in COUNTS:
        return True
    types, values = scope.inputs(node)
    known = (values[number] for number in row_of(node).host if number < len(values))
    if any(isinstance(value, Unknown) and value.decided_by is not None and not value.of_sizes for value in known):
        return True
    makers = scope.reader.names.makers
    read = (makers.get(symbol) for each in types for size in each.shape or () for symbol in _symbols(size, scope))
    return any(maker is not None and maker.from_data for maker in read)
