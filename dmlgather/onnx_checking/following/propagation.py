"""Infers more types and values of each node's outputs than ONNX's shape inference of the whole model."""

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
from dmlgather.onnx_checking.following.operator_entries import KnownNode, SizeRule, following_shapes, following_types, tensor
from dmlgather.onnx_checking.following.operators import entry_of
from dmlgather.onnx_checking.following.scopes import Scope, attribute_values
from dmlgather.onnx_checking.reading.file import ModelFile, infer
from dmlgather.onnx_checking.reading.local_functions import FunctionCall, function_graph, function_name
from dmlgather.onnx_checking.reading.shape_inference import MISTAKEN
from dmlgather.onnx_checking.reading.size_names import GraphNames
from dmlgather.onnx_checking.sizes.values import Unknown, Value

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

MOST_STEPS = 4_000
"""Step limit per model for values of loops, and again for types of loops and calls. Beyond it, they are unknown."""

STEPS_OF_CALL = 20
"""The steps that one shape inference of a local function counts as."""


class Propagation:
    """Infers the types and values of nodes' outputs, one node at a time."""

    def __init__(self, requests: NodeRequests, file: ModelFile) -> None:
        self.requests, self.file = requests, file
        self.steps = self._steps_for_types = MOST_STEPS
        self._finds_types = False

    def visit(self, node: NodeProto, opset: int | None, scope: Scope, inside: Mapping[str, Scope]) -> None:
        """Infer the types and values of a node's outputs, and store them in `scope`.

        `opset`: the version of ONNX's own domain. None for a call of a local function, or an ill-formed node.
        """
        types, values = scope.inputs(node)
        call = None if opset is None else KnownNode(node, opset, types, values, scope.reader.names, self.requests)
        for name in node.output:
            scope.withdraw_declared(name)
        if call is None or node.domain not in DOMAINS:
            _learn(node, scope, [computed_when_run(node, values)] * len(node.output))
            self._call(node, scope)
        elif node.op_type == "If" and inside:
            join_branches(node, scope, inside)
        elif any(True for _ in subgraphs(node)):
            self._repeat(call, scope)
        else:
            self._follow(call, scope)
        entry = entry_of(node)
        if call is not None and entry.types is not None and _is_open(node, scope):
            for name, type_ in zip((*node.output, *node.input), following_types(entry.types, call), strict=False):
                if name in scope.types or name in scope.values:  # the name belongs to this graph
                    scope.learn_type(name, type_)
        for name in node.output:
            scope.restore_declared(name)
            value = scope.value(name)
            if isinstance(value, Unknown) and value.decided_by is not None:
                scope.reader.names.note_origin(scope.type(name).shape, value.decided_by)
        scope.visited(node)

    def _repeat(self, call: KnownNode, scope: Scope) -> None:
        node = call.node
        lasting = self.lasting(node, call.opset, scope) if _is_open(node, scope) else None
        results = loop_results(node, scope, partial(self._run, call.opset, scope))
        values, result_types = results or ([computed_when_run(node, call.values)] * len(node.output), [])
        _learn(node, scope, values)
        for types in (result_types, lasting or ()):
            for name, type_ in zip(node.output, types, strict=False):
                if name:
                    scope.learn_type(name, type_)

    def lasting(self, node: NodeProto, opset: int, scope: Scope) -> list[PartialType] | None:
        """Return output types of a Loop or Scan that hold after any number of iterations, or None."""
        types = scan_types if node.op_type == "Scan" else loop_types
        with self._budget_for_types():
            return types(node, scope, partial(self._run, opset, scope))

    @contextmanager
    def _budget_for_types(self) -> Iterator[None]:
        """Count the steps in this context against the budget for types, not against the budget for values."""
        if self._finds_types:
            yield
            return
        steps_for_values, self.steps, self._finds_types = self.steps, self._steps_for_types, True
        try:
            yield
        finally:
            self._steps_for_types, self.steps, self._finds_types = self.steps, steps_for_values, False

    def _run(
        self,
        opset: int,
        outer: Scope,
        graph: GraphProto,
        values: Mapping[str, Value] | None = None,
        types: Mapping[str, PartialType] | None = None,
    ) -> Scope | None:
        """Visit a subgraph with these inputs. Return its scope, or None after too many steps."""
        self.steps -= 1 + len(graph.initializer)  # a scope costs as well
        if self.steps < 0:
            return None
        scope = Scope(graph, outer.reader.inside(outer.reader.path), outer, input_values=values)
        for name, type_ in (types or {}).items():
            scope.learn_input(name, type_)
            scope.retyped = True
        return scope if self._visit_all(graph, opset, scope) else None

    def _visit_all(self, graph: GraphProto, opset: int, scope: Scope) -> bool:
        """Visit the nodes of a graph. Return False after too many steps."""
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
        """Infer the outputs of a local function's call again, if more is known now than during ONNX's inference."""
        key = self.file.functions.called(node)
        lacks_shape = any(scope.types.get(name, NOTHING).shape is None for name in node.output if name)
        if key is None or not (_is_open(node, scope) and (lacks_shape or _helps(node, scope))):
            return
        with self._budget_for_types():
            self.steps -= STEPS_OF_CALL
            if self.steps < 0:
                return
            call, names = FunctionCall.of(node, *scope.inputs(node)), scope.reader.names
            function, outer_symbols = self.file.functions.without_declarations(key), names.snapshot()
            graph, _, _ = infer(self.file, function_graph(function, call), function.opset_import)
            input_values = dict(zip(function.input, call.values, strict=False))
            inner = Scope(graph, GraphNames(names, function_name(key), call.sizes), input_values=input_values)
            if self._visit_all(graph, own_opset(function.opset_import), inner):
                for name, result in zip(node.output, inner.results, strict=False):
                    if name:
                        scope.learn_type(name, outer_symbols.outside(inner.type(result)))

    def _follow(self, call: KnownNode, scope: Scope) -> None:
        node, entry = call.node, entry_of(call.node)
        unknown = next((value for value in attribute_values(node) if isinstance(value, Unknown)), None)
        _learn(node, scope, fold(call) if unknown is None else [unknown] * len(node.output))
        if unknown is not None or not _is_open(node, scope):
            return
        _learn_shapes(scope, call, entry.sizes)
        if _helps(node, scope) and _is_open(node, scope):
            for name, type_ in call.ask(call.values).types.items():
                scope.learn_type(name, type_)
        if all(scope.types.get(name, NOTHING).shape is None for name in node.output if name):  # ONNX does not know the operator
            _learn_shapes(scope, call, size_rules.broadcast if entry.elements else moved_shapes)


def _learn_shapes(scope: Scope, call: KnownNode, rule: SizeRule | None) -> None:
    for name, shape in zip(call.node.output, following_shapes(rule, call) or (), strict=False):
        scope.learn_type(name, tensor(entry_of(call.node).dtype_of(call), shape))


def _is_open(node: NodeProto, scope: Scope) -> bool:
    return any(scope.is_open(name) for name in node.output if name)


def _helps(node: NodeProto, scope: Scope) -> bool:
    """Return True if inferring the node again may find more than ONNX's inference of the graph did."""
    return (
        scope.retyped
        or node.op_type in MISTAKEN
        or any(map(scope.is_improved, node.input))
        or any(map(scope.is_declared, node.output))
    )


def _learn(node: NodeProto, scope: Scope, values: Iterable[Value]) -> None:
    for name, value in zip(node.output, values, strict=True):
        if name:
            scope.learn_value(name, value)
