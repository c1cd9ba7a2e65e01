"""What follows for the outputs of a node from what is known of its inputs: types and values, node after node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.operator_versions import DOMAINS, own_opset
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType
from dmlgather.onnx.problems.subgraphs import subgraphs
from dmlgather.onnx_checking.following import size_rules
from dmlgather.onnx_checking.following.constant_folding import computed_when_run, fold, moved_shapes
from dmlgather.onnx_checking.following.control_flow import join_branches, loop_results, loop_types, scan_types, taken_branch
from dmlgather.onnx_checking.following.node_requests import NodeRequests
from dmlgather.onnx_checking.following.operator_rows import KnownNode, SizeRule, following_shapes, following_types, tensor
from dmlgather.onnx_checking.following.operators import row_of
from dmlgather.onnx_checking.following.scopes import Scope, attribute_values
from dmlgather.onnx_checking.reading.file import ModelFile, infer
from dmlgather.onnx_checking.reading.local_functions import FunctionCall, Key, function_graph, function_name
from dmlgather.onnx_checking.reading.shape_inference import MISTAKEN
from dmlgather.onnx_checking.reading.size_names import GraphNames
from dmlgather.onnx_checking.sizes.values import Unknown, Value

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

MOST_STEPS = 4_000
"""The most nodes, graphs and initializers that are visited again, in all loops of a model together, to find out what the loops
compute; as many again for the types that they keep.
"""

STEPS_OF_CALL = 20
"""What shape inference of a function counts as."""

NO_TYPES: Mapping[str, PartialType] = {}
NO_VALUES: Mapping[str, Value] = {}


class Propagation:
    """Finds out what is known of the outputs of a model's nodes, each after those before it. requests: asks ONNX about a node.
    file: the model's.
    """

    def __init__(self, requests: NodeRequests, file: ModelFile) -> None:
        self.requests, self.file = requests, file
        self.steps = self._steps_for_types = MOST_STEPS
        self._finds_types = False

    def visit(self, node: NodeProto, opset: int | None, scope: Scope, inside: Mapping[str, Scope]) -> None:
        """Keep what follows for a node's outputs. opset: of ONNX's own domain; None where the node is not from it, or calls a
        function. inside: the scopes of the graphs in its attributes that were visited, by attribute.
        """
        types, values = scope.inputs(node)
        call = None if opset is None else KnownNode(node, opset, types, values, scope.reader.names, self.requests)
        for name in node.output:
            scope.doubt(name)
        if call is None or node.domain not in DOMAINS:
            _learn(node, scope, [computed_when_run(node, values)] * len(node.output))
            self._call(node, scope)
        elif node.op_type == "If" and inside:
            join_branches(node, scope, inside)
        elif any(True for _ in subgraphs(node)):
            self._repeat(call, scope)
        else:
            self._follow(call, scope)
        row = row_of(node)
        if call is not None and row.types is not None and _is_open(node, scope):
            for name, known in zip((*node.output, *node.input), following_types(row.types, call), strict=False):
                if name in scope.types or name in scope.values:  # not one of a graph around it
                    scope.learn_type(name, known)
        for name in node.output:
            scope.settle(name)
            value = scope.value(name)
            if isinstance(value, Unknown) and value.decided_by is not None:
                scope.reader.names.note_origin(scope.type(name).shape, value.decided_by)
        scope.visited(node)

    def _repeat(self, call: KnownNode, scope: Scope) -> None:
        """Keep what follows for the outputs of a node with graphs that run several times."""
        node = call.node
        lasting = self.lasting(node, call.opset, scope) if _is_open(node, scope) else None
        results = loop_results(node, scope, partial(self._run, call.opset, scope))
        found, types = results or ([computed_when_run(node, call.values)] * len(node.output), [])
        _learn(node, scope, found)
        for each in (types, lasting or ()):
            for name, known in zip(node.output, each, strict=False):
                if name:
                    scope.learn_type(name, known)

    def lasting(self, node: NodeProto, opset: int, scope: Scope) -> list[PartialType] | None:
        """As `loop_types` and `scan_types`. Its steps are counted apart from those for values, of which a loop may take all."""
        types = scan_types if node.op_type == "Scan" else loop_types
        with self._types_alone():
            return types(node, scope, partial(self._run, opset, scope))

    @contextmanager
    def _types_alone(self) -> Iterator[None]:
        """Count the steps for types."""
        if self._finds_types:
            yield
            return
        values, self.steps, self._finds_types = self.steps, self._steps_for_types, True
        try:
            yield
        finally:
            self._steps_for_types, self.steps, self._finds_types = self.steps, values, False

    def _run(
        self,
        opset: int,
        outer: Scope,
        graph: GraphProto,
        given: Mapping[str, Value] = NO_VALUES,
        types: Mapping[str, PartialType] = NO_TYPES,
    ) -> Scope | None:
        """The scope of a graph inside a node once its nodes are visited; None where that takes too many steps."""
        self.steps -= 1 + len(graph.initializer)  # a scope costs as well
        if self.steps < 0:
            return None
        scope = Scope(graph, outer.reader.inside(outer.reader.path), outer, given=given)
        for name, known in types.items():
            scope.learn_input(name, known)
            scope.retyped = True
        return scope if self._visit_all(graph, opset, scope) else None

    def _visit_all(self, graph: GraphProto, opset: int, scope: Scope) -> bool:
        """Visit the nodes of a graph; whether that takes no more steps than are left."""
        for node in graph.node:
            self.steps -= 1
            if self.steps < 0:
                return False
            taken, branches = taken_branch(node, scope), subgraphs(node) if node.op_type == "If" else ()
            inside = {name: self._run(opset, scope, branch) for name, branch in branches if taken in (None, name)}
            if None in inside.values():
                return False
            self.visit(node, opset, scope, {name: inner for name, inner in inside.items() if inner is not None})
        return True

    def _call(self, node: NodeProto, scope: Scope) -> None:
        """Keep the types of what a local function gives, where these may be others than ONNX found: it infers no more of a
        function than what it finds of a whole model, of whose calls it may know less.
        """
        key = self.file.functions.called(node)
        lacks_shape = any(scope.types.get(name, NOTHING).shape is None for name in node.output if name)
        if key is None or not (_is_open(node, scope) and (lacks_shape or _helps(node, scope))):
            return
        with self._types_alone():
            self._visit_function(key, node, scope)

    def _visit_function(self, key: Key, node: NodeProto, scope: Scope) -> None:
        """Keep the types of what a function gives to a node."""
        self.steps -= STEPS_OF_CALL
        if self.steps < 0:
            return
        functions = self.file.functions
        call, names = FunctionCall.of(node, *scope.inputs(node)), scope.reader.names
        function, before = functions.unstated(key), names.snapshot()
        graph, _, _ = infer(self.file, function_graph(function, call), function.opset_import)
        given = dict(zip(function.input, call.values, strict=False))
        inner = Scope(graph, GraphNames(names, function_name(key), call.sizes), given=given)
        if self._visit_all(graph, own_opset(function.opset_import), inner):
            for name, result in zip(node.output, inner.results, strict=False):
                if name:
                    scope.learn_type(name, before.outside(inner.type(result)))

    def _follow(self, call: KnownNode, scope: Scope) -> None:
        """Keep what follows for the outputs of a node of ONNX's own domain without graphs."""
        node, row = call.node, row_of(call.node)
        unknown = next((value for value in attribute_values(node) if isinstance(value, Unknown)), None)
        _learn(node, scope, fold(call) if unknown is None else [unknown] * len(node.output))
        if unknown is not None or not _is_open(node, scope):
            return
        _learn_shapes(scope, call, row.sizes)
        if _helps(node, scope) and _is_open(node, scope):
            for name, known in call.ask(call.values).types.items():
                scope.learn_type(name, known)
        if all(scope.types.get(name, NOTHING).shape is None for name in node.output if name):  # ONNX does not know the operator
            _learn_shapes(scope, call, size_rules.broadcast if row.elements else moved_shapes)


def _learn_shapes(scope: Scope, call: KnownNode, rule: SizeRule | None) -> None:
    for name, shape in zip(call.node.output, following_shapes(rule, call) or (), strict=False):
        scope.learn_type(name, tensor(row_of(call.node).dtype_of(call), shape))


def _is_open(node: NodeProto, scope: Scope) -> bool:
    return any(scope.is_open(name) for name in node.output if name)


def _helps(node: NodeProto, scope: Scope) -> bool:
    """Whether more may follow for a node's outputs than shape inference of the whole graph found."""
    return (
        scope.retyped
        or node.op_type in MISTAKEN
        or any(map(scope.is_better, node.input))
        or any(map(scope.is_stated, node.output))
    )


def _learn(node: NodeProto, scope: Scope, values: Iterable[Value]) -> None:
    for name, value in zip(node.output, values, strict=True):
        if name:
            scope.learn_value(name, value)
