"""The types that a model declares for inner values (value_info and graph outputs), compared with the inferred types."""

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
"""Operators that repeat their body. ONNX infers the types of its inputs, so declarations of them can be removed."""


@dataclass
class GraphDeclarations:
    """The declared and the inferred types of one graph. `all` and `plain` stay serialised, because most types are never read.
    `all`: the declared types.
    `plain`: the types that shape inference finds without declarations.
    `input_sizes`: the size names in the model's input types. Other names in `plain` were made up by shape inference.
    `unconfirmed`: the declared types that shape inference does not find itself, or contradicts.
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
        """Return the declared type of a value, even if shape inference contradicts it, or NOTHING."""
        return type_of_value(self._declared[name]) if name in self._declared else NOTHING

    def inferred(self, name: str) -> PartialType:
        """Return the type that shape inference finds without declarations, or NOTHING."""
        return keep_names(type_of_value(self._plain[name]), self.input_sizes) if name in self._plain else NOTHING


def _values_of(graph: bytes) -> dict[str, ValueInfoProto]:
    from onnx import GraphProto

    return {value.name: value for value in GraphProto.FromString(graph).value_info}


class Declarations:
    """The declared types of the main graph or a local function, and of its subgraphs.
    `misled`: True if shape inference relied on a wrong declaration, so other results may be wrong too.
    `of_function`: True for a local function. onnxruntime ignores types declared in it, except inside subgraphs.
    """

    def __init__(self, graphs: Iterable[GraphDeclarations] = ()) -> None:
        self._graphs, self.misled, self.of_function = list(graphs), False, False

    def of(self, graph: GraphProto) -> GraphDeclarations:
        """Return the declared types of one graph. `graph.doc_string` holds the number of the graph."""
        return self._graphs[int(graph.doc_string)] if self._graphs else GraphDeclarations()


def remove_declarations(graph: GraphProto) -> bool:
    """Remove the declared types in a graph, except the types of the graph's inputs. Return True if there were any."""
    removed = [_remove(inner.node, inner.output, inner.value_info) for inner in graphs_in(graph)]
    return any(removed)


def without_declarations(function: FunctionProto) -> FunctionProto:
    """Return a copy of a local function without declared types."""
    plain = type(function)()
    plain.CopyFrom(function)
    _remove(plain.node, (), getattr(plain, "value_info", []))  # ONNX 1.17 brought it
    for node in plain.node:
        for _, graph in subgraphs(node):
            remove_declarations(graph)
    return plain


def _remove(nodes: Iterable[NodeProto], outputs: Iterable[ValueInfoProto], value_info: MutableSequence[ValueInfoProto]) -> bool:
    """Remove the declared types of a graph, and of the inputs of Loop and Scan bodies. Return True if there were any."""
    bodies = chain.from_iterable(subgraphs(node) for node in nodes if node.op_type in REPEATED)
    values = [*outputs, *chain.from_iterable(body.input for _, body in bodies)]
    has_declarations = bool(value_info) or any(value.HasField("type") for value in values)
    del value_info[:]
    for value in values:
        value.ClearField("type")
    return has_declarations


def compare_declarations(graph: GraphProto, plain: GraphProto) -> Declarations:
    """Compare the declared types with the types in `plain`, inferred without declarations. Remove wrong types from `graph`."""
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
    """Replace symbolic sizes by None, unless the symbol is in `names`."""
    return type_.each_size(lambda size: size if isinstance(size, int) or size in names else None)


def _restrict(value: ValueInfoProto, holds: PartialType) -> None:
    """Remove a declared type, shape or size if it is unknown in `holds`."""
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
