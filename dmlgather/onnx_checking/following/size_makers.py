"""Finds the node that makes a size: the first node with an output of this size, unless a graph input has it.

Reports name this node, for example "the number of elements that NonZero 'nz' finds".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.subgraphs import operator_name
from dmlgather.onnx_checking.checked_model import SizeMaker
from dmlgather.onnx_checking.following.operators import entry_of
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
"""Operators that count elements: the axis with this size (None: any), and its description."""

ANY_SIZE = "a size that {} gives"


def note_input_sizes(names: list[str], scope: Scope) -> None:
    """Record that no node makes the sizes of these graph inputs."""
    for _, symbol in _unrecorded(names, scope):
        scope.reader.names.makers[symbol] = None


def note_output_sizes(node: NodeProto, place: str, names: list[str], scope: Scope) -> None:
    """Record the node as the maker of all new symbols in the shapes of its outputs `names`."""
    new_sizes = list(_unrecorded(names, scope))
    if new_sizes:
        depends, operator = _depends_on_data(node, scope), printable(operator_name(node))
        label = printable(node.name) or place.rpartition("/")[2]
        for axis, symbol in new_sizes:
            counted_axis, text = COUNTS.get(operator, (None, ANY_SIZE))
            meaning = (text if counted_axis in (None, axis) else ANY_SIZE).format(f"{operator} {label!r}")
            scope.reader.names.makers[symbol] = SizeMaker(place=place, operator=operator, text=meaning, from_data=depends)


def _unrecorded(names: list[str], scope: Scope) -> Iterator[tuple[int, str]]:
    """Yield the axis and name of each symbol in the shapes of these values. Symbols in `makers` are left out."""
    symbols, makers = scope.reader.names.sizes.symbols, scope.reader.names.makers
    for name in filter(None, names):
        for axis, size in enumerate(scope.type(name).shape or ()):
            yield from ((axis, symbol) for symbol in sorted(symbols(size)) if symbol not in makers)


def _depends_on_data(node: NodeProto, scope: Scope) -> bool:
    """Return True if a node's output sizes depend on data, not only on sizes of model inputs."""
    if operator_name(node) in COUNTS:
        return True
    types, values = scope.inputs(node)
    decisive_values = (values[number] for number in entry_of(node).host if number < len(values))
    if any(isinstance(value, Unknown) and value.decided_by is not None and not value.of_sizes for value in decisive_values):
        return True
    symbols, makers = scope.reader.names.sizes.symbols, scope.reader.names.makers
    input_makers = (makers.get(symbol) for type_ in types for size in type_.shape or () for symbol in symbols(size))
    return any(maker is not None and maker.from_data for maker in input_makers)
