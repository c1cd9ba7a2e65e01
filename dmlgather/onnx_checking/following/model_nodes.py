"""Finds the gathers and slices of a model, with all that is known before it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from dmlgather.files import FileError
from dmlgather.onnx.problems.node_reading import ARRAYS, INPUTS, check_by_schema, in_family
from dmlgather.onnx.problems.operator_versions import DOMAINS
from dmlgather.onnx.problems.partial_types import MOST_DIMENSIONS, NOTHING, PartialType
from dmlgather.onnx.problems.subgraphs import integers_of, operator_name, place_of, subgraphs
from dmlgather.onnx_checking.checked_model import SizeMaker
from dmlgather.onnx_checking.contradictions import Contradiction
from dmlgather.onnx_checking.following.constant_folding import computed_when_run
from dmlgather.onnx_checking.following.control_flow import differing_branches, scan_body_types, taken_branch
from dmlgather.onnx_checking.following.node_requests import NodeRequests
from dmlgather.onnx_checking.following.operators import entry_of
from dmlgather.onnx_checking.following.propagation import Propagation
from dmlgather.onnx_checking.following.runtime_types import learn_runtime_types, refuses
from dmlgather.onnx_checking.following.scopes import OWN, Scope
from dmlgather.onnx_checking.following.size_makers import note_input_sizes, note_output_sizes
from dmlgather.onnx_checking.reading.declarations import REPEATED
from dmlgather.onnx_checking.reading.file import ModelFile, infer
from dmlgather.onnx_checking.reading.local_functions import FunctionCall, Key, function_graph, function_name
from dmlgather.onnx_checking.reading.size_names import GraphNames, ModelSizes
from dmlgather.onnx_checking.shape_computations import DataFlow
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.values import Array, Unknown, Value, all_or_unknown, is_known, is_partly
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, OperatorSetIdProto


# Ranks are also inferred backwards: the data of a convolution have the rank of its weights.
# ONNX's shape inference only goes forwards, and stops at a value of unknown shape.

MOST_ROUNDS = 8
"""Limit of passes to infer ranks. A rank travels along a whole chain of nodes in one pass."""


def learn_ranks(graph: GraphProto, scope: Scope) -> None:
    """Infer unknown ranks and store them in `scope`. Ranks that are only declared are used last."""
    lacking = {name for name in (*scope.values, *scope.types) if scope.type(name).shape is None}
    confirmed = _ranks(graph, scope, lacking, scope.unconfirmed)
    unconfirmed = _ranks(graph, scope, lacking - confirmed.keys(), set()) if scope.unconfirmed else {}
    for name, rank in (confirmed | unconfirmed).items():
        if name in lacking:
            scope.learn_rank(name, rank, name in unconfirmed)


def _ranks(graph: GraphProto, scope: Scope, lacking: Set[str], unsure: Set[str]) -> dict[str, int]:
    """Infer the ranks of the values in `lacking` and `unsure`. The present ranks in `unsure` are not used."""
    lacking |= unsure
    ranks: dict[str, int] = {}

    def rank(name: str) -> int | None:
        if name in ranks:
            return ranks[name]
        shape = scope.type(name).shape if name and name not in unsure else None
        return None if shape is None else len(shape)

    with_rules = ((node, rule) for node in graph.node if node.input and (rule := entry_of(node).rank) is not None)
    nodes = [(node, rule) for node, rule in with_rules if not lacking.isdisjoint((*node.input, *node.output))]
    for _ in range(MOST_ROUNDS if nodes else 0):
        count = len(ranks)
        for node, rule in (*nodes, *reversed(nodes)):
            for name, number in rule(node, rank):
                if name in lacking and name not in ranks and number <= MOST_DIMENSIONS:
                    ranks[name] = number
        if len(ranks) == count:
            break
    return ranks


CHANGING = "another value in each iteration of the"
"""The start of a reason why a value is unknown. The kind of node follows, for example "Loop"."""


@dataclass(frozen=True, slots=True)
class NodeValue:
    """The known facts about an input or output. `undefined`: why the node cannot read this name, or None if it can."""

    name: str
    type: PartialType
    elements: Value
    undefined: str | None = None

    @property
    def names(self) -> list[str]:
        """Return the symbolic sizes among the elements."""
        return [each for each in self.elements.flat if isinstance(each, str)] if is_partly(self.elements) else []


@dataclass(frozen=True, slots=True)
class ModelNode:
    """A gather or slice in a model. `place`, `graph`: paths. `unreached`: why no run executes the node, or None."""

    place: str
    graph: str
    index: int
    proto: NodeProto
    opset: int
    inputs: tuple[NodeValue, ...]
    outputs: tuple[NodeValue, ...]
    unreached: str | None = None
    is_shape_computation: bool = False

    @property
    def roles(self) -> dict[str, NodeValue]:
        """Return the inputs by their names in the schema, for example "data" and "indices"."""
        return dict(zip(INPUTS[self.proto.op_type], self.inputs, strict=False))

    @property
    def arrays(self) -> dict[str, NodeValue]:
        """Return data and indices, by name in the schema. Only these inputs may be unknown before the run."""
        return dict(zip(ARRAYS[self.proto.op_type], self.inputs, strict=False))

    @property
    def numbers(self) -> dict[str, Array]:
        """Return the elements of the inputs in `arrays` whose elements are all known."""
        return {role: value.elements for role, value in self.arrays.items() if is_known(value.elements)}

    @property
    def integers(self) -> dict[str, int]:
        """Return the attributes that hold a single integer."""
        return integers_of(self.proto)

    @property
    def lacks_types(self) -> bool:
        """Return True if the type or rank of a defined input is unknown."""
        types = [value.type for value in self.inputs if value.name and not value.undefined]
        return any(type_.name is None or (type_.dtype is not None and type_.shape is None) for type_ in types)


UNCALLED = "nothing calls the function"
"""The reason why no run executes the nodes of a local function."""


class UndefinedRead(NamedTuple):
    """A name that is read before it is defined, by a node or as an output of a graph.
    `role`: "outputs" for an output of a graph, else empty.
    `called`: False if the name is in a local function without calls.
    """

    place: str
    role: str
    name: str
    reason: str
    called: bool
    is_judged: bool


class RepeatedNames(NamedTuple):
    """A graph in which nodes, or values, share names. `called`: False for a local function without calls."""

    graph: str
    names: Mapping[str, int]
    called: bool


@dataclass
class ModelContents:
    """All that the check needs to know about a model.
    `remarks`: why shape inference failed, by graph.
    `repeated_names`: graphs in which nodes share names. `redefined`: graphs in which values share names.
    `malformed`: other nodes that break the schema of the operator: place, node, opset, reason.
    `origins`: the model input that decides each symbol.
    `makers`: the first node with an output of each symbolic size.
    `runtime_types`: types that onnxruntime uses in place of the inferred ones, by graph and value.
    """

    opsets: dict[str, int]
    ir_version: int
    nodes: list[ModelNode] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    remarks: dict[str, str] = field(default_factory=dict)
    undefined: list[UndefinedRead] = field(default_factory=list)
    repeated_names: list[RepeatedNames] = field(default_factory=list)
    redefined: list[RepeatedNames] = field(default_factory=list)
    malformed: list[tuple[str, NodeProto, int, str]] = field(default_factory=list)
    sizes: Sizes = field(default_factory=Sizes)
    origins: Mapping[str, str] = field(default_factory=dict)
    makers: Mapping[str, SizeMaker | None] = field(default_factory=dict)
    contradictions: list[Contradiction] = field(default_factory=list)
    runtime_types: dict[tuple[str, str], PartialType] = field(default_factory=dict)


def find_nodes(file: ModelFile) -> ModelContents:
    """Visit the nodes of the main graph, then of each local function. A function gets the arguments that all calls share."""
    visitor = _Visitor(file)
    visitor.visit_model()
    return visitor.contents


class _Visitor:
    def __init__(self, file: ModelFile) -> None:
        self.file, self.model, self.functions = file, file.model, file.functions
        self.calls: dict[Key, FunctionCall] = {}
        self.idle_calls: dict[Key, FunctionCall] = {}
        """Calls that no run executes. They count only for functions without other calls."""
        self.flow = DataFlow(file.functions)
        self.places: set[str] = set()
        self.names = ModelSizes()
        self.propagation = Propagation(NodeRequests(file.limits, self.model.ir_version), file)
        self.overridable = self.model.ir_version >= 4
        self.unreached: str | None = None
        """Why no run executes the visited graph, or None."""
        opsets = _opsets(self.model.opset_import, self.model.ir_version)
        self.contents = ModelContents(
            opsets, self.model.ir_version, sizes=self.names.sizes, origins=self.names.origins, makers=self.names.makers
        )

    def visit_model(self) -> None:
        reader, declarations = GraphNames(self.names, ""), self.file.declarations
        scope = Scope(self.model.graph, reader, overridable=self.overridable, declarations=declarations)
        self._outermost(self.model.graph, "", scope, self.model.opset_import, self.file.remark)
        self.flow.add_main(self.model.graph)
        for key, function in self.functions.items():  # callers first, so that all calls are known
            self.unreached = None if key in self.calls else UNCALLED
            call = self.calls.get(key) or self.idle_calls.get(key) or FunctionCall.unknown(function)
            graph = function_graph(function, call)
            self.functions.add_defaults(graph.node)
            inferred, remark, declarations = infer(self.file, graph, function.opset_import)
            path, input_values = function_name(key), dict(zip(function.input, call.values, strict=False))
            reader = GraphNames(self.names, path, call.sizes)
            declarations.of_function = True
            scope = Scope(inferred, reader, overridable=self.overridable, input_values=input_values, declarations=declarations)
            self._outermost(inferred, path, scope, function.opset_import, remark)
            self.flow.add_function(key, inferred)
        shape_computations = set(map(id, self.flow.shape_computations()))
        self.contents.nodes = [
            replace(node, is_shape_computation=node.unreached is None and id(node.proto) in shape_computations)
            for node in self.contents.nodes
        ]

    def _outermost(self, graph: GraphProto, path: str, scope: Scope, imports: Sequence[OperatorSetIdProto], remark: str) -> None:
        """Visit the main graph or a local function. `remark`: why shape inference failed, or empty."""
        before = len(self.contents.nodes)
        for value in graph.input:
            self.names.note_origin(scope.types[value.name].shape, value.name)
        self._graph(graph, path, scope, _opsets(imports, self.model.ir_version))
        if self.unreached is None and not remark and any(node.lacks_types for node in self.contents.nodes[before:]):
            remark = infer(self.file, graph, imports, strict=True).remark
        if remark and not (remark == self.file.limits.late and remark in self.contents.remarks.values()):  # shown only once
            self.contents.remarks[path] = remark

    def _graph(self, graph: GraphProto, path: str, scope: Scope, opsets: Mapping[str, int]) -> None:
        called = self.unreached != UNCALLED
        if repeated := _repeated(node.name for node in graph.node if node.op_type != "Constant"):  # Constants become initializers
            self.contents.repeated_names.append(RepeatedNames(path, repeated, called))
        given = {value.name for value in (*graph.input, *graph.initializer)}
        if redefined := _repeated((*given, *(name for node in graph.node for name in node.output))):
            self.contents.redefined.append(RepeatedNames(path, redefined, called))
        learn_ranks(graph, scope)
        if scope.outer is None:
            note_input_sizes([value.name for value in graph.input], scope)
        for index, node in enumerate(graph.node):
            place, key = place_of(path, node, index), self.functions.called(node)
            opset = opsets.get("") if key is None else None
            is_judged, inside = key is None and in_family(node), dict[str, Scope]()
            if is_judged:
                self._check_opset_and_count(node, path, opset)
                place, inputs = self._unique(place, index), _values(node.input, scope, node)
            else:
                self.contents.others[printable(operator_name(node))] += 1
                if opset is not None:
                    try:
                        check_by_schema(node, opset)
                    except (TypeError, ValueError) as error:
                        self.contents.malformed.append((place, node, opset, str(error)))
                        opset = None  # no types are inferred for its outputs
                if key is not None:
                    self._call(key, node, scope)
                inside = self._inside(node, place, scope, opsets)
                if opset is not None and (differing := differing_branches(node, inside)) is not None:
                    self.contents.malformed.append((place, node, opset, differing))
            reasons = {name: reason for name in node.input if name and (reason := _undefined(name, node, scope))}
            self.contents.undefined += [UndefinedRead(place, "", *pair, called, is_judged) for pair in reasons.items()]
            self.propagation.visit(node, opset, scope, inside)
            learn_runtime_types(node, opset, scope, inside, self.propagation)
            note_output_sizes(node, place, list(node.output), scope)
            self._note_contradictions(node, place, node.output, path, scope)
            if is_judged:
                outputs = _values(node.output, scope)
                self.contents.nodes.append(ModelNode(place, path, index, node, opset or 0, inputs, outputs, self.unreached))

        missing = {value.name: reason for value in graph.output if value.name and (reason := scope.undefined(value.name))}
        self.contents.undefined += [UndefinedRead(path, "outputs", *pair, called, False) for pair in missing.items()]

    def _note_contradictions(self, node: NodeProto, place: str, names: Iterable[str], path: str, scope: Scope) -> None:
        """Record contradictory types of the values `names`: outputs of `node`, or inputs of its subgraphs."""
        for name in names:
            if name in scope.runtime_types:
                self.contents.runtime_types[path, name] = scope.runtime_types[name]
            if name in scope.contradicted:
                declared, inferred = scope.contradicted[name]
                runtime = scope.runtime_types.get(name, inferred)
                types = declared, inferred, runtime, scope.first_runtime_types.get(name, runtime)
                operator, refused = printable(operator_name(node)), refuses(node, name, scope)
                contradiction = Contradiction(place, path, name, operator, *types, scope.is_output(name), refused)
                self.contents.contradictions.append(contradiction)

    def _check_opset_and_count(self, node: NodeProto, path: str, opset: int | None) -> None:
        """Raise FileError if the model has no opset for this node, or too many gathers and slices."""
        if opset is None:
            where = path or "its main graph"
            raise FileError(f"states no opset for ONNX's own operators, one of which is {node.op_type} in {where}")
        if len(self.contents.nodes) == self.file.most_nodes:
            raise FileError(
                f"has more than {self.file.most_nodes} gathers and slices, which is the limit for a file of its size: "
                "check parts of the model"
            )

    def _inside(self, node: NodeProto, place: str, scope: Scope, opsets: Mapping[str, int]) -> dict[str, Scope]:
        """Visit the subgraphs of a node. Return their scopes, by attribute name."""
        branch, unreached = taken_branch(node, scope), self.unreached
        inside: dict[str, Scope] = {}
        for attribute, graph in subgraphs(node):
            inner_place = f"{place}.{printable(attribute)}"
            if branch not in (None, attribute):
                self.unreached = unreached or f"{printable(node.input[0])!r} always chooses {printable(str(branch))}"
            unknown = Unknown("an input of the graph", computed_when_run(node, scope.inputs(node)[1]).decided_by)
            if node.op_type in REPEATED:  # no input of the model decides it
                unknown = Unknown(f"{CHANGING} {node.op_type}")
            input_values: dict[str, Value] = {value.name: unknown for value in graph.input}
            reader = scope.reader.inside(inner_place)
            inside[attribute] = inner = Scope(graph, reader, scope, overridable=self.overridable, input_values=input_values)
            self._check_inputs(node, graph, inner, opsets.get(""))
            note_output_sizes(node, place, [value.name for value in graph.input], inner)
            self._note_contradictions(node, place, input_values, inner_place, inner)
            self._graph(graph, inner_place, inside[attribute], opsets)
            self.unreached = unreached
        return inside

    def _check_inputs(self, node: NodeProto, graph: GraphProto, inner: Scope, opset: int | None) -> None:
        """Compare the declared types of a subgraph's inputs with the types that the outer node passes to it."""
        assert inner.outer is not None
        if node.op_type == "Scan":
            names = [value.name for value in graph.input]
            body_types = scan_body_types(node, graph, inner.outer.type) or [NOTHING] * len(names)
            join, pairs = inner.reader.names.joined, zip(names, body_types, strict=True)
            inferred = {name: inner.inferred(name).merged(type_, join) for name, type_ in pairs}
            inner.check_inputs(inferred)
            inner.runtime_inferred |= zip(names, scan_body_types(node, graph, inner.outer.runtime_type) or (), strict=False)
            for name, type_ in inferred.items():
                inner.learn_input(name, type_)
        elif node.op_type == "Loop" and inner.unconfirmed and opset is not None:  # ONNX infers no shapes of carried values
            names = [value.name for value in graph.input[2:]]
            inner.check_inputs(dict(zip(names, map(inner.outer.type, node.input[2:]), strict=False)))
            carried = [inner.outer.runtime_type(name).sized(None) for name in node.input[2:]]
            inner.runtime_inferred |= zip(names, carried, strict=False)
            for name, type_ in zip(names, self.propagation.lasting(node, opset, inner.outer) or (), strict=False):
                inner.learn_input(name, type_)

    def _unique(self, place: str, index: int) -> str:
        while place in self.places:  # several nodes may have the same name
            place = f"{place}#{index}"
        self.places.add(place)
        return place

    def _call(self, key: Key, node: NodeProto, scope: Scope) -> None:
        call = FunctionCall.of(node, *scope.inputs(node))
        calls = self.calls if self.unreached is None else self.idle_calls
        calls[key] = calls[key].joined(call) if key in calls else call


def _opsets(imports: Iterable[OperatorSetIdProto], ir_version: int) -> dict[str, int]:
    opsets = {"" if entry.domain in DOMAINS else entry.domain: entry.version for entry in imports}
    return opsets or ({"": 1} if ir_version < 3 else {})


def _values(names: Iterable[str], scope: Scope, node: NodeProto | None = None) -> tuple[NodeValue, ...]:
    """Return what is known about a node's inputs or outputs. `node`: the node for inputs, None for outputs."""
    return tuple(
        NodeValue(name, scope.type(name), all_or_unknown(scope.value(name)), _undefined(name, node, scope) if name else None)
        for name in names
    )


def _repeated(names: Iterable[str]) -> dict[str, int]:
    return {name: count for name, count in Counter(filter(None, names)).items() if count > 1}


def _undefined(name: str, node: NodeProto | None, scope: Scope) -> str | None:
    reason = scope.undefined(name)
    return OWN if reason is not None and node is not None and name in node.output else reason
