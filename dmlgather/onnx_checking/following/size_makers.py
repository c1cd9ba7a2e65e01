"""Finds the node that makes a size: the first node with an output of this size, if no graph input has it. Reports name this
node, for example "the number of elements that NonZero 'nz' finds".
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
"""Operators with an output size that is a count of elements. For each: the dimension of the output that has this size (None for
any), and a description of the count.
"""

ANY_SIZE = "a size that {} gives"
"""The description of all other sizes that a node makes."""


def note_input_sizes(names: list[str], scope: Scope) -> None:
    """Record that the sizes in the types of graph inputs are not made by a node. `names`: the inputs."""
    for _, symbol in _unrecorded(names, scope):
        scope.reader.names.makers[symbol] = None


def note_output_sizes(node: NodeProto, place: str, names: list[str], scope: Scope) -> None:
    """Record which sizes a node makes: those in the types of its outputs that no graph input and no earlier node has. `place`:
    the path of the node. `names`: the outputs.
    """
    new_sizes = list(_unrecorded(names, scope))
    if new_sizes:
        depends, operator = _depends_on_data(node, scope), printable(operator_name(node))
        label = printable(node.name) or place.rpartition("/")[2]
        for axis, symbol in new_sizes:
            counted_axis, text = COUNTS.get(operator, (None, ANY_SIZE))
            meaning = (text if counted_axis in (None, axis) else ANY_SIZE).format(f"{operator} {label!r}")
            scope.reader.names.makers[symbol] = SizeMaker(place=place, operator=operator, text=meaning, from_data=depends)


def _unrecorded(names: list[str], scope: Scope) -> Iterator[tuple[int, str]]:
    """Yield the symbols that have no recorded maker, each with the dimension where it occurs. `names`: the values whose types
    are searched.
    """
    symbols, makers = scope.reader.names.sizes.symbols, scope.reader.names.makers
    for name in filter(None, names):
        for axis, size in enumerate(scope.type(name).shape or ()):
            yield from ((axis, symbol) for symbol in sorted(symbols(size)) if symbol not in makers)


def _depends_on_data(node: NodeProto, scope: Scope) -> bool:
    """Return True if the data in tensors decide a node's output sizes, not only the sizes of the model's inputs. This is so if
    the node counts elements, or if it reads a shape, bound, condition or size that depends on data.
    """
    if operator_name(node) in COUNTS:
        return True
    types, values = scope.inputs(node)
    decisive_values = (values[number] for number in entry_of(node).host if number < len(values))
    if any(isinstance(value, Unknown) and value.decided_by is not None and not value.of_sizes for value in decisive_values):
        return True
    symbols, makers = scope.reader.names.sizes.symbols, scope.reader.names.makers
    input_makers = (makers.get(symbol) for type_ in types for size in type_.shape or () for symbol in symbols(size))
    return any(maker is not None and maker.from_data for maker in input_makers)
