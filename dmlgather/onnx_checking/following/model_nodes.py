"""Find the nodes of the family in a model, inside other nodes and local functions as well, with what is known of their inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dmlgather.files import FileError
from dmlgather.onnx.problems.node_reading import ARRAYS, INPUTS, check_by_schema, in_family
from dmlgather.onnx.problems.operator_versions import DOMAINS
from dmlgather.onnx.problems.partial_types import MOST_DIMENSIONS, NOTHING, PartialType
from dmlgather.onnx.problems.subgraphs import integers_of, operator_name, place_of, subgraphs
from dmlgather.onnx_checking.checked_model import SizeMaker
from dmlgather.onnx_checking.contradictions import Contradiction
from dmlgather.onnx_checking.following.constant_folding import computed_when_run
from dmlgather.onnx_checking.following.control_flow import differing_branches, scanned, taken_branch
from dmlgather.onnx_checking.following.kept_types import learn_kept, refuses
from dmlgather.onnx_checking.following.node_requests import NodeRequests
from dmlgather.onnx_checking.following.operators import row_of
from dmlgather.onnx_checking.following.propagation import Propagation
from dmlgather.onnx_checking.following.scopes import OWN, Scope
from dmlgather.onnx_checking.following.size_makers import note_given, note_made
from dmlgather.onnx_checking.reading.file import ModelFile, infer
from dmlgather.onnx_checking.reading.local_functions import FunctionCall, Key, function_graph, function_name
from dmlgather.onnx_checking.reading.size_names import GraphNames, ModelSizes
from dmlgather.onnx_checking.reading.statements import REPEATED
from dmlgather.onnx_checking.shape_computations import DataFlow
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.values import Array, Unknown, Value, exposed, is_known, is_partly
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, OperatorSetIdProto


# Ranks that follow from a whole graph, also backwards: the data of a convolution have the rank of its weights.
#
# Shapes are inferred forwards, so that a value without a declared shape hides all that is computed from it.

MOST_ROUNDS = 8
"""How often a graph is gone through, forwards and backwards. One round carries a rank along a chain of any length."""


def learn_ranks(graph: GraphProto, scope: Scope) -> None:
    """Keep the ranks of a graph's own values that follow from other ranks in it: first from those that are sure."""
    lacking = {name for name in (*scope.values, *scope.types) if scope.type(name).shape is None}
    found = _ranks(graph, scope, lacking, scope.unconfirmed)
    believed = _ranks(graph, scope, lacking - found.keys(), set()) if scope.unconfirmed else {}
    for name, number in (found | believed).items():
        if name in lacking:
            scope.learn_rank(name, number, name in believed)


def _ranks(graph: GraphProto, scope: Scope, lacking: Set[str], unsure: Set[str]) -> dict[str, int]:
    """The ranks that follow for values that lack them. unsure: values whose ranks are not used."""
    lacking |= unsure
    found: dict[str, int] = {}

    def rank(name: str) -> int | None:
        if name in found:
            return found[name]
        shape = scope.type(name).shape if name and name not in unsure else None
        return None if shape is None else len(shape)

    ruled = ((node, rule) for node in graph.node if node.input and (rule := row_of(node).rank) is not None)
    nodes = [(node, rule) for node, rule in ruled if not lacking.isdisjoint((*node.input, *node.output))]
    for _ in range(MOST_ROUNDS if nodes else 0):
        before = len(found)
        for node, rule in (*nodes, *reversed(nodes)):
            for name, number in rule(node, rank):
                if name in lacking and name not in found and number <= MOST_DIMENSIONS:
                    found[name] = number
        if len(found) == before:
            break
    return found


CHANGING = "another value in each iteration of the"
"""Why a value in a graph that runs several times is not known."""


@dataclass(frozen=True, slots=True)
class NodeValue:
    """An input or output of a node. name: empty for an input that is left out. elements: those that are known, or why none are.
    undefined: why a node cannot read it.
    """

    name: str
    type: PartialType
    elements: Value
    undefined: str | None = None

    @property
    def names(self) -> list[str]:
        """The names among its elements."""
        return [each for each in self.elements.flat if isinstance(each, str)] if is_partly(self.elements) else []


@dataclass(frozen=True, slots=True)
class ModelNode:
    """A node of the family in a model.

    place: its path, unique in the model. graph: the path of the graph around it. index: its position there. unreached: why no run
    of the model reaches it; None where one may. host: whether it is the host's arithmetic.
    """

    place: str
    graph: str
    index: int
    node: NodeProto
    opset: int
    inputs: tuple[NodeValue, ...]
    outputs: tuple[NodeValue, ...]
    unreached: str | None = None
    host: bool = False

    @property
    def roles(self) -> dict[str, NodeValue]:
        """The inputs by the operator's names for them."""
        return dict(zip(INPUTS[self.node.op_type], self.inputs, strict=False))

    @property
    def arrays(self) -> dict[str, NodeValue]:
        """Those of them of which only shape and type are needed."""
        return dict(zip(ARRAYS[self.node.op_type], self.inputs, strict=False))

    @property
    def numbers(self) -> dict[str, Array]:
        """The elements of those arrays of which all are known numbers."""
        return {role: value.elements for role, value in self.arrays.items() if is_known(value.elements)}

    @property
    def integers(self) -> dict[str, int]:
        """The attributes that are one integer."""
        return integers_of(self.node)

    @property
    def lacks_types(self) -> bool:
        """Whether type or rank of an input is not known, although its name is defined."""
        types = [each.type for each in self.inputs if each.name and not each.undefined]
        return any(each.name is None or (each.dtype is not None and each.shape is None) for each in types)


@dataclass
class ModelContents:
    """The nodes of a model.

    others: the number of nodes outside the family, by operator. remarks: why shapes are missing, by graph. undefined: nodes
    outside the family that read a name that is not defined before: place, name and reason. malformed: nodes outside the family
    that do not have the form of their operator: place, node, opset and reason. sizes: what the names of sizes in the types and
    elements stand for. origins: the input of the model that decides a symbol of these. makers: the node that gives one, as
    `ModelSizes` has it. contradictions: tensors of which the model states another type than follows. kept: what onnxruntime takes
    types to be in such a model where that is not what follows, by the path of the graph and the tensor.
    """

    opsets: dict[str, int]
    sites: list[ModelNode] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    remarks: dict[str, str] = field(default_factory=dict)
    undefined: list[tuple[str, str, str]] = field(default_factory=list)
    malformed: list[tuple[str, NodeProto, int, str]] = field(default_factory=list)
    sizes: Sizes = field(default_factory=Sizes)
    origins: Mapping[str, str] = field(default_factory=dict)
    makers: Mapping[str, SizeMaker | None] = field(default_factory=dict)
    contradictions: list[Contradiction] = field(default_factory=list)
    kept: dict[tuple[str, str], PartialType] = field(default_factory=dict)


def find_nodes(file: ModelFile) -> ModelContents:
    """All nodes of a model: the main graph first, then each function once, with what all its calls have in common."""
    visitor = _Visitor(file)
    visitor.visit_model()
    return visitor.contents


class _Visitor:
    def __init__(self, file: ModelFile) -> None:
        self.file, self.model, self.functions = file, file.model, file.functions
        self.calls: dict[Key, FunctionCall] = {}
        self.idle_calls: dict[Key, FunctionCall] = {}
        """Those that no run reaches."""
        self.flow = DataFlow(file.functions)
        self.places: set[str] = set()
        self.names = ModelSizes()
        self.propagation = Propagation(NodeRequests(file.limits, self.model.ir_version), file)
        self.overridable = self.model.ir_version >= 4
        self.unreached: str | None = None
        """Why no run reaches the graph that is visited: calls in it do not count, unless there are no others."""
        opsets = _opsets(self.model.opset_import, self.model.ir_version)
        self.contents = ModelContents(opsets, sizes=self.names.sizes, origins=self.names.origins, makers=self.names.makers)

    def visit_model(self) -> None:
        reader, statements = GraphNames(self.names, ""), self.file.statements
        scope = Scope(self.model.graph, reader, overridable=self.overridable, statements=statements)
        self._outermost(self.model.graph, "", scope, self.model.opset_import, self.file.remark)
        self.flow.add_main(self.model.graph)
        for key, function in self.functions.items():  # callers first, so that all calls are known
            self.unreached = None if key in self.calls else "nothing calls the function"
            call = self.calls.get(key) or self.idle_calls.get(key) or FunctionCall.unknown(function)
            graph = function_graph(function, call)
            self.functions.add_defaults(graph.node)
            inferred, remark, statements = infer(self.file, graph, function.opset_import)
            path, given = function_name(key), dict(zip(function.input, call.values, strict=False))
            reader = GraphNames(self.names, path, call.sizes)
            statements.of_function = True
            scope = Scope(inferred, reader, overridable=self.overridable, given=given, statements=statements)
            self._outermost(inferred, path, scope, function.opset_import, remark)
            self.flow.add_function(key, inferred)
        host = set(map(id, self.flow.host_nodes()))
        self.contents.sites = [
            replace(site, host=site.unreached is None and id(site.node) in host) for site in self.contents.sites
        ]

    def _outermost(self, graph: GraphProto, path: str, scope: Scope, imports: Sequence[OperatorSetIdProto], remark: str) -> None:
        """A graph that is in no other one. remark: why its shapes could not be inferred."""
        before = len(self.contents.sites)
        for value in graph.input:
            self.names.note_origin(scope.types[value.name].shape, value.name)
        self._graph(graph, path, scope, _opsets(imports, self.model.ir_version))
        if self.unreached is None and not remark and any(site.lacks_types for site in self.contents.sites[before:]):
            remark = infer(self.file, graph, imports, strict=True).remark
        if remark and not (remark == self.file.limits.late and remark in self.contents.remarks.values()):  # once is enough
            self.contents.remarks[path] = remark

    def _graph(self, graph: GraphProto, path: str, scope: Scope, opsets: Mapping[str, int]) -> None:
        learn_ranks(graph, scope)
        if scope.outer is None:
            note_given([value.name for value in graph.input], scope)
        for index, node in enumerate(graph.node):
            place, key = place_of(path, node, index), self.functions.called(node)
            opset = opsets.get("") if key is None else None
            if key is None and in_family(node):
                self._check_room(node, path, opset)
                unique, inputs = self._unique(place, index), _values(node.input, scope, node)
                self.propagation.visit(node, opset, scope, {})
                learn_kept(node, opset, scope, {}, self.propagation)
                note_made(node, unique, list(node.output), scope)
                self._note_contradictions(node, unique, node.output, path, scope)
                outputs = _values(node.output, scope)
                self.contents.sites.append(ModelNode(unique, path, index, node, opset or 0, inputs, outputs, self.unreached))
                continue
            self.contents.others[printable(operator_name(node))] += 1
            reasons = {name: reason for name in node.input if name and (reason := _undefined(name, node, scope))}
            self.contents.undefined += [(place, *pair) for pair in reasons.items()]
            if opset is not None:
                try:
                    check_by_schema(node, opset)
                except (TypeError, ValueError) as error:
                    self.contents.malformed.append((place, node, opset, str(error)))
                    opset = None  # nothing follows for its outputs
            if key is not None:
                self._call(key, node, scope)
            inside = self._inside(node, place, scope, opsets)
            if opset is not None and (reason := differing_branches(node, inside)) is not None:
                self.contents.malformed.append((place, node, opset, reason))
            self.propagation.visit(node, opset, scope, inside)
            learn_kept(node, opset, scope, inside, self.propagation)
            note_made(node, place, list(node.output), scope)
            self._note_contradictions(node, place, node.output, path, scope)

    def _note_contradictions(self, node: NodeProto, place: str, names: Iterable[str], path: str, scope: Scope) -> None:
        """Keep which of these names of a graph at a path contradict what follows by a node at a place."""
        for name in names:
            if name in scope.kept:
                self.contents.kept[path, name] = scope.kept[name]
            if name in scope.contradicted:
                stated, follows = scope.contradicted[name]
                kept, refused = scope.kept.get(name, follows), refuses(node, name, scope)
                types = stated, follows, kept, scope.first.get(name, kept)
                found = Contradiction(place, path, name, printable(operator_name(node)), *types, refused=refused)
                self.contents.contradictions.append(found)

    def _check_room(self, node: NodeProto, path: str, opset: int | None) -> None:
        """Refuse a model that states no opset for a node of the family, or has too many of them."""
        if opset is None:
            where = path or "its main graph"
            raise FileError(f"states no opset for ONNX's own operators, one of which is {node.op_type} in {where}")
        if len(self.contents.sites) == self.file.most_sites:
            raise FileError(
                f"has more than {self.file.most_sites} gathers and slices, which is the limit for a file of its size: "
                "check parts of the model"
            )

    def _inside(self, node: NodeProto, place: str, scope: Scope, opsets: Mapping[str, int]) -> dict[str, Scope]:
        """The scopes of the graphs in a node's attributes, once they are visited."""
        taken, unreached = taken_branch(node, scope), self.unreached
        inside: dict[str, Scope] = {}
        for attribute, graph in subgraphs(node):
            if taken not in (None, attribute):
                self.unreached = unreached or f"{printable(node.input[0])!r} always chooses {taken}"
            unknown = Unknown("an input of the graph", computed_when_run(node, scope.inputs(node)[1]).decided_by)
            if node.op_type in REPEATED:  # no input of the model decides it
                unknown = Unknown(f"{CHANGING} {node.op_type}")
            given: dict[str, Value] = {value.name: unknown for value in graph.input}
            reader = scope.reader.inside(f"{place}.{attribute}")
            inside[attribute] = inner = Scope(graph, reader, scope, overridable=self.overridable, given=given)
            self._check_inputs(node, graph, inner, opsets.get(""))
            note_made(node, place, [value.name for value in graph.input], inner)
            self._note_contradictions(node, place, given, f"{place}.{attribute}", inner)
            self._graph(graph, f"{place}.{attribute}", inside[attribute], opsets)
            self.unreached = unreached
        return inside

    def _check_inputs(self, node: NodeProto, graph: GraphProto, inner: Scope, opset: int | None) -> None:
        """Compare what is stated of the inputs of a graph inside a node, and keep what follows where anything is stated in it."""
        assert inner.outer is not None
        if node.op_type == "Scan":
            names = [value.name for value in graph.input]
            handed = scanned(node, graph, inner.outer.type) or [NOTHING] * len(names)
            found = {
                name: inner.follows(name).merged(known, inner.reader.names.joined)
                for name, known in zip(names, handed, strict=True)
            }
            inner.check_inputs(found)
            inner.merged |= zip(names, scanned(node, graph, inner.outer.taken_type) or (), strict=False)
            for name, known in found.items():
                inner.learn_input(name, known)
        elif node.op_type == "Loop" and inner.unconfirmed and opset is not None:  # ONNX infers no shapes of what it carries
            names = [value.name for value in graph.input[2:]]
            inner.check_inputs(dict(zip(names, map(inner.outer.type, node.input[2:]), strict=False)))
            inner.merged |= {
                name: inner.outer.taken_type(given).sized(None) for name, given in zip(names, node.input[2:], strict=False)
            }
            for name, known in zip(names, self.propagation.lasting(node, opset, inner.outer) or (), strict=False):
                inner.learn_input(name, known)

    def _unique(self, place: str, index: int) -> str:
        while place in self.places:  # names need not be unique
            place = f"{place}#{index}"
        self.places.add(place)
        return place

    def _call(self, key: Key, node: NodeProto, scope: Scope) -> None:
        call = FunctionCall.of(node, *scope.inputs(node))
        calls = self.calls if self.unreached is None else self.idle_calls
        calls[key] = calls[key].joined(call) if key in calls else call


def _opsets(imports: Iterable[OperatorSetIdProto], ir_version: int) -> dict[str, int]:
    """The imported versions by domain. Before IR version 3 a model could not import any, and meant the first."""
    opsets = {"" if entry.domain in DOMAINS else entry.domain: entry.version for entry in imports}
    return opsets or ({"": 1} if ir_version < 3 else {})


def _values(names: Iterable[str], scope: Scope, node: NodeProto | None = None) -> tuple[NodeValue, ...]:
    """Return what is known of names. node: that reads them; None for its outputs."""
    return tuple(
        NodeValue(name, scope.type(name), exposed(scope.value(name)), _undefined(name, node, scope) if name else None)
        for name in names
    )


def _undefined(name: str, node: NodeProto | None, scope: Scope) -> str | None:
    reason = scope.undefined(name)
    return OWN if reason is not None and node is not None and name in node.output else reason
