"""The types that a model declares for the values inside its graphs (value_info and graph outputs), and how they compare with
the types that ONNX's shape inference finds without them.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, Size, type_of_value
from dmlgather.onnx.problems.subgraphs import subgraphs
from dmlgather.onnx_checking.contradictions import confirmed_part, consistent_part
from dmlgather.onnx_checking.reading.shape_inference import graphs_in

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, NodeProto, ValueInfoProto

REPEATED = ("Loop", "Scan")
"""Operators that run their body graph several times. ONNX infers the types of the body's inputs from the inputs of the node, so
declarations of these types can be removed.
"""


@dataclass
class GraphDeclarations:
    """The declared and the inferred types of the values in one graph. `all`: all declared types, as the value_info of a
    serialised GraphProto. They are decoded only when a caller asks for one, because few models contradict themselves. `plain`:
    the types that shape inference finds without the declarations, in the same form. `input_sizes`: the names of sizes in the
    types of the model's inputs. Other names in `plain` were made up by shape inference. `unconfirmed`: the declared types that
    shape inference could not derive itself, or that it contradicts.
    """

    all: bytes = b""
    plain: bytes = b""
    input_sizes: frozenset[str] = frozenset()
    unconfirmed: dict[str, PartialType] = field(default_factory=dict)

    @cached_property
    def _declared(self) -> dict[str, ValueInfoProto]:
        return _values_of(self.all)

    @cached_property
    def _plain(self) -> dict[str, ValueInfoProto]:
        return _values_of(self.plain)

    def declared(self, name: str) -> PartialType:
        """Return the type that the graph declares for a value, even if shape inference contradicts it. Return NOTHING if none
        is declared.
        """
        return type_of_value(self._declared[name]) if name in self._declared else NOTHING

    def inferred(self, name: str) -> PartialType:
        """Return the type that shape inference finds for a value if it ignores the declared types.

        A size is None if shape inference made up its name. Return NOTHING if inference finds no type.
        """
        return keep_names(type_of_value(self._plain[name]), self.input_sizes) if name in self._plain else NOTHING


def _values_of(graph: bytes) -> dict[str, ValueInfoProto]:
    from onnx import GraphProto

    return {value.name: value for value in GraphProto.FromString(graph).value_info}


class Declarations:
    """The declared types of the main graph or of a local function, and of all graphs inside it. `misled`: True if shape
    inference relied on a declaration that turned out to be wrong, so its other results may be wrong too. `of_function`: True
    for a local function. onnxruntime ignores the types that a function declares, but not those in graphs inside its nodes.
    """

    def __init__(self, graphs: Iterable[GraphDeclarations] = ()) -> None:
        self._graphs, self.misled, self.of_function = list(graphs), False, False

    def of(self, graph: GraphProto) -> GraphDeclarations:
        """Return the declared types of one graph. It is found by the number that `compare_declarations` stored in its
        doc_string.
        """
        return self._graphs[int(graph.doc_string)] if self._graphs else GraphDeclarations()


def remove_declarations(graph: GraphProto) -> bool:
    """Remove the declared types of all values in a graph and in the graphs inside it. The types of the main inputs stay. Return
    True if there were any declared types.
    """
    removed = [_remove(inner.node, inner.output, inner.value_info) for inner in graphs_in(graph)]
    return any(removed)


def without_declarations(function: FunctionProto) -> FunctionProto:
    """Return a copy of a local function that declares no types for its values."""
    plain = type(function)()
    plain.CopyFrom(function)
    _remove(plain.node, (), getattr(plain, "value_info", []))  # ONNX 1.17 brought it
    for node in plain.node:
        for _, graph in subgraphs(node):
            remove_declarations(graph)
    return plain


def _remove(nodes: Iterable[NodeProto], outputs: Iterable[ValueInfoProto], value_info: MutableSequence[ValueInfoProto]) -> bool:
    """Remove the declared types of graph outputs and of the values in `value_info`, and those of the inputs of Loop and Scan
    bodies in `nodes`. Return True if there were any.
    """
    bodies = chain.from_iterable(subgraphs(node) for node in nodes if node.op_type in REPEATED)
    values = [*outputs, *chain.from_iterable(body.input for _, body in bodies)]
    has_declarations = bool(value_info) or any(value.HasField("type") for value in values)
    del value_info[:]
    for value in values:
        value.ClearField("type")
    return has_declarations


def compare_declarations(graph: GraphProto, plain: GraphProto) -> Declarations:
    """Compare the declared types in a graph with those that shape inference finds without them, and return both. `plain`: the
    same graph after inference without declarations. Changes `graph`: declarations that contradict `plain` are removed, and each
    graph's number is stored in its doc_string, where `Declarations.of` reads it.
    """
    dims = chain.from_iterable(value.type.tensor_type.shape.dim for value in graph.input)
    input_sizes = frozenset(dim.dim_param for dim in dims if dim.dim_param)
    pairs = zip(graphs_in(graph), graphs_in(plain), strict=True)
    return Declarations(_compare(number, *pair, input_sizes) for number, pair in enumerate(pairs))


def _compare(number: int, graph: GraphProto, plain: GraphProto, input_sizes: frozenset[str]) -> GraphDeclarations:
    from onnx import GraphProto

    graph.doc_string = str(number)
    values = [*graph.value_info, *graph.output, *(graph.input if number else ())]
    values = [value for value in values if value.HasField("type")]
    inferred_values = {value.name: value for value in (*plain.input, *plain.output, *plain.value_info) if value.HasField("type")}
    both = (values, inferred_values.values())
    declarations, inferences = (GraphProto(value_info=infos).SerializeToString() for infos in both)
    result = GraphDeclarations(declarations, inferences, input_sizes)
    inputs = {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input if not number}
    for value in values:
        if value.name in inputs or (value.name in inferred_values and inferred_values[value.name].type == value.type):
            continue
        declared, own = type_of_value(value), inferred_values.get(value.name)
        inferred = NOTHING if own is None else keep_names(type_of_value(own), input_sizes)
        holds = consistent_part(declared, inferred, _equal_or_unknown)
        if declared != holds:
            result.unconfirmed[value.name] = declared
            _restrict(value, holds)
        elif confirmed_part(declared, inferred) != declared:
            result.unconfirmed.setdefault(value.name, declared)
    return result


def keep_names(type_: PartialType, names: Set[str]) -> PartialType:
    """Return a copy of a type in which each named size becomes None, unless its name is in `names`."""
    return type_.each_size(lambda size: size if isinstance(size, int) or size in names else None)


def _restrict(value: ValueInfoProto, holds: PartialType) -> None:
    """Remove what is wrong in a declared type. `holds`: the part of the declared type that is right."""
    if holds.name is None:
        value.ClearField("type")
    elif holds.shape is None:
        value.type.tensor_type.ClearField("shape")
    else:
        for dim, size in zip(value.type.tensor_type.shape.dim, holds.shape, strict=True):
            if size is None:
                dim.ClearField("dim_value")


def _equal_or_unknown(declared: Size, inferred: Size) -> bool:
    return not isinstance(declared, int) or inferred in (None, declared)
