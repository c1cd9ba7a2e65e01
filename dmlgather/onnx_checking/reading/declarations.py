"""Types that a model declares for the values of its nodes, and types that shape inference finds without these declarations."""

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
"""Operators whose graphs run several times. The inputs change, but their types follow from the node's inputs."""


@dataclass
class GraphDeclarations:
    """The declared types of the values of one graph. `all`: every declaration, as value_info of a serialised GraphProto. It is
    decoded only if needed, because most models have no contradictions. `plain`: the types that inference finds without
    declarations, also as a serialised GraphProto. `input_sizes`: the names of sizes in the inputs; inference made up all other
    names. `unconfirmed`: the declared types that inference without declarations does not confirm.
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
        """Return the declared type of a value, confirmed or not."""
        return type_of_value(self._declared[name]) if name in self._declared else NOTHING

    def inferred(self, name: str) -> PartialType:
        """Return the type of a value by inference without declarations. A size is None if its name is not in the inputs."""
        return keep_names(type_of_value(self._plain[name]), self.input_sizes) if name in self._plain else NOTHING


def _values_of(graph: bytes) -> dict[str, ValueInfoProto]:
    from onnx import GraphProto

    return {value.name: value for value in GraphProto.FromString(graph).value_info}


class Declarations:
    """The declared types in a graph and in the graphs in its nodes. `misled`: True if inference relied on a wrong declaration.
    `of_function`: True if the graph is that of a local function. onnxruntime ignores the declarations of a function, but not
    those in graphs inside its nodes.
    """

    def __init__(self, graphs: Iterable[GraphDeclarations] = ()) -> None:
        self._graphs, self.misled, self.of_function = list(graphs), False, False

    def of(self, graph: GraphProto) -> GraphDeclarations:
        """Return the declarations of one of the graphs."""
        return self._graphs[int(graph.doc_string)] if self._graphs else GraphDeclarations()


def remove_declarations(graph: GraphProto) -> bool:
    """Remove the declarations of a graph, except those of its inputs. Return True if there were any."""
    removed = [_remove(inner.node, inner.output, inner.value_info) for inner in graphs_in(graph)]
    return any(removed)


def without_declarations(function: FunctionProto) -> FunctionProto:
    """Return a copy of a function without the declarations of its values."""
    plain = type(function)()
    plain.CopyFrom(function)
    _remove(plain.node, (), getattr(plain, "value_info", []))  # ONNX 1.17 brought it
    for node in plain.node:
        for _, graph in subgraphs(node):
            remove_declarations(graph)
    return plain


def _remove(nodes: Iterable[NodeProto], outputs: Iterable[ValueInfoProto], value_info: MutableSequence[ValueInfoProto]) -> bool:
    """Remove the declarations of these values, and of inputs of graphs in these nodes. Return True if there were any."""
    bodies = chain.from_iterable(subgraphs(node) for node in nodes if node.op_type in REPEATED)
    values = [*outputs, *chain.from_iterable(body.input for _, body in bodies)]
    has_declarations = bool(value_info) or any(value.HasField("type") for value in values)
    del value_info[:]
    for value in values:
        value.ClearField("type")
    return has_declarations


def compare_declarations(graph: GraphProto, plain: GraphProto) -> Declarations:
    """Return the declarations in a graph, after comparing them with `plain`, the graph as inferred without declarations. Remove
    declarations that contradict `plain` from the graph. Store each graph's number in its doc_string.
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
    """Return the type with None for each name of a size that is not in `names`."""
    return type_.each_size(lambda size: size if isinstance(size, int) or size in names else None)


def _restrict(value: ValueInfoProto, holds: PartialType) -> None:
    """Remove the part of a declaration that does not hold."""
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
