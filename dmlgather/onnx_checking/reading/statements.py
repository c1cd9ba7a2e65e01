"""What a model states of the values that its nodes give, and what shape inference finds without these statements."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, Size, type_of_value
from dmlgather.onnx.problems.subgraphs import subgraphs
from dmlgather.onnx_checking.contradictions import sure_part, uncontradicted
from dmlgather.onnx_checking.reading.shape_inference import graphs_in

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, NodeProto, ValueInfoProto

REPEATED = ("Loop", "Scan")
"""The operators whose graphs run several times, with other inputs; their types follow from those of the node."""


@dataclass
class GraphStatements:
    """What is stated of the values of one graph.

    all: every statement, as value_info of a GraphProto that is serialised, because most models contradict themselves nowhere.
    plain: what inference finds of each value without statements, likewise. given: the names of sizes that the inputs have; it
    made the others up. stated: the types of those values that it does not confirm without statements.
    """

    all: bytes = b""
    plain: bytes = b""
    given: frozenset[str] = frozenset()
    stated: dict[str, PartialType] = field(default_factory=dict)

    @cached_property
    def _declared(self) -> dict[str, ValueInfoProto]:
        return _values_of(self.all)

    @cached_property
    def _plain(self) -> dict[str, ValueInfoProto]:
        return _values_of(self.plain)

    def declared(self, name: str) -> PartialType:
        """The type that is stated of a value, whether it is confirmed or not."""
        return type_of_value(self._declared[name]) if name in self._declared else NOTHING

    def follows(self, name: str) -> PartialType:
        """The type of a value that follows without statements; None for the sizes that have no name in the inputs."""
        return of_given(type_of_value(self._plain[name]), self.given) if name in self._plain else NOTHING


def _values_of(graph: bytes) -> dict[str, ValueInfoProto]:
    """The value_info of a serialised GraphProto."""
    from onnx import GraphProto

    return {value.name: value for value in GraphProto.FromString(graph).value_info}


class Statements:
    """What is stated of the values of a graph and of the graphs in its nodes.

    misled: whether a statement that inference took for true turned out to contradict what follows. of_function: whether they are
    those of a local function, of which onnxruntime only reads those in graphs inside nodes.
    """

    def __init__(self, graphs: Iterable[GraphStatements] = ()) -> None:
        self._graphs, self.misled, self.of_function = list(graphs), False, False

    def of(self, graph: GraphProto) -> GraphStatements:
        """What is stated of the values of one of these graphs."""
        return self._graphs[int(graph.doc_string)] if self._graphs else GraphStatements()


def without_statements(graph: GraphProto) -> bool:
    """Drop what a graph states of values that are no inputs of it; whether there was anything."""
    found = [_without(inside.node, inside.output, inside.value_info) for inside in graphs_in(graph)]
    return any(found)


def unstated(function: FunctionProto) -> FunctionProto:
    """Return a copy of a function without what it states of its values."""
    plain = type(function)()
    plain.CopyFrom(function)
    _without(plain.node, (), getattr(plain, "value_info", []))  # ONNX 1.17 brought it
    for node in plain.node:
        for _, graph in subgraphs(node):
            without_statements(graph)
    return plain


def _without(nodes: Iterable[NodeProto], outputs: Iterable[ValueInfoProto], value_info: MutableSequence[ValueInfoProto]) -> bool:
    """Drop what is stated in a graph with these nodes, and of the inputs of graphs in them; whether there was anything."""
    bodies = chain.from_iterable(subgraphs(node) for node in nodes if node.op_type in REPEATED)
    values = [*outputs, *chain.from_iterable(body.input for _, body in bodies)]
    found = bool(value_info) or any(value.HasField("type") for value in values)
    del value_info[:]
    for value in values:
        value.ClearField("type")
    return found


def compared(graph: GraphProto, plain: GraphProto) -> Statements:
    """The statements in a graph. plain: the graph as it is inferred without them.

    Statements that contradict it are dropped from the graph; graphs get their numbers as texts.
    """
    dims = chain.from_iterable(value.type.tensor_type.shape.dim for value in graph.input)
    given = frozenset(dim.dim_param for dim in dims if dim.dim_param)
    pairs = zip(graphs_in(graph), graphs_in(plain), strict=True)
    return Statements(_compared(number, *pair, given) for number, pair in enumerate(pairs))


def _compared(number: int, graph: GraphProto, plain: GraphProto, given: frozenset[str]) -> GraphStatements:
    from onnx import GraphProto

    graph.doc_string = str(number)
    values = [*graph.value_info, *graph.output, *(graph.input if number else ())]
    values = [value for value in values if value.HasField("type")]
    known = {value.name: value for value in (*plain.input, *plain.output, *plain.value_info) if value.HasField("type")}
    every, alone = (GraphProto(value_info=each).SerializeToString() for each in (values, known.values()))
    found = GraphStatements(every, alone, given)
    inputs = {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input if not number}
    for value in values:
        if value.name in inputs or (value.name in known and known[value.name].type == value.type):
            continue
        own = type_of_value(value)
        follows = of_given(type_of_value(known[value.name]), given) if value.name in known else NOTHING
        holds = uncontradicted(own, follows, _is_or_open)
        if own != holds:
            found.stated[value.name] = own
            _reduce(value, holds)
        elif sure_part(own, follows) != own:
            found.stated.setdefault(value.name, own)
    return found


def of_given(known: PartialType, given: Set[str]) -> PartialType:
    """The type without the names of sizes that are not among those given."""
    return known.each_size(lambda size: size if isinstance(size, int) or size in given else None)


def _reduce(value: ValueInfoProto, holds: PartialType) -> None:
    """Leave of a statement what holds."""
    if holds.name is None:
        value.ClearField("type")
    elif holds.shape is None:
        value.type.tensor_type.ClearField("shape")
    else:
        for dim, size in zip(value.type.tensor_type.shape.dim, holds.shape, strict=True):
            if size is None:
                dim.ClearField("dim_value")


def _is_or_open(stated: Size, follows: Size) -> bool:
    return not isinstance(stated, int) or follows in (None, stated)
