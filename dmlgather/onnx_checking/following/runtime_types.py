"""The types that onnxruntime uses if declared types contradict the inferred ones.

onnxruntime visits the nodes once. It merges each inferred type with the declared type, and goes on with the result. If the two
types have different sizes, it keeps neither. From an unknown size it infers nothing, so it keeps the declared types of the next
nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, repeat
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, type_of_value
from dmlgather.onnx.problems.subgraphs import integers_of
from dmlgather.onnx_checking.contradictions import consistent_part, numbers_may_be, runtime_merge, same_type
from dmlgather.onnx_checking.following.control_flow import with_axis
from dmlgather.onnx_checking.following.operator_entries import KnownNode, following_types
from dmlgather.onnx_checking.following.operators import entry_of
from dmlgather.onnx_checking.following.scopes import MOST_FOLDED, Scope
from dmlgather.onnx_checking.reading.declarations import REPEATED, keep_names
from dmlgather.onnx_checking.reading.file import ModelFile, infer
from dmlgather.onnx_checking.reading.local_functions import FunctionCall, function_graph
from dmlgather.onnx_checking.sizes.values import Unknown

if TYPE_CHECKING:
    from onnx import NodeProto

    from dmlgather.onnx_checking.following.propagation import Propagation

IGNORED = ("Constant",)
"""onnxruntime replaces these nodes by initializers before it reads the declared types of their outputs."""


def learn_runtime_types(
    node: NodeProto, opset: int | None, scope: Scope, inside: Mapping[str, Scope], propagation: Propagation
) -> None:
    """Store the types that onnxruntime uses for a node's outputs, if they differ from the inferred types."""
    bodies = list(inside.values())
    misled = any(map(scope.has_runtime_type, node.input)) or any(inner.runtime_types for inner in bodies)
    if node.op_type in IGNORED or not (misled or any(name in scope.contradicted for name in node.output)):
        return
    types = [scope.runtime_type(name) for name in node.input]
    values, unfolded = ([scope.folded(name, most) if name else None for name in node.input] for most in (MOST_FOLDED, 1))
    inferred: Iterable[PartialType]
    if bodies:
        inferred = _results(node, bodies) if misled or node.op_type != "Scan" else map(scope.inferred, node.output)
    elif opset is None:
        inferred = _function_types(FunctionCall.of(node, types, values), node, propagation.file)
        scope.first_runtime_types |= {name: scope.declared(name) for name in node.output}
    else:
        call = KnownNode(node, opset, types, values, scope.reader.names, propagation.requests)
        inferred = _node_types(call)
        if any(isinstance(one, Unknown) is not isinstance(two, Unknown) for one, two in zip(values, unfolded, strict=True)):
            unfolded_types = zip(node.output, _node_types(replace(call, values=unfolded)), strict=False)
            scope.first_runtime_types |= {name: runtime_merge(scope.declared(name), type_) for name, type_ in unfolded_types}
    for name, type_ in zip(node.output, chain(inferred, repeat(NOTHING)), strict=False):
        scope.runtime_inferred[name] = type_
        runtime_type = runtime_merge(scope.declared(name), type_)
        if name and _static(runtime_type) != _static(scope.types.get(name, NOTHING)):
            scope.runtime_types[name] = runtime_type


def refuses(node: NodeProto, name: str, scope: Scope) -> bool:
    """Return True if onnxruntime refuses to load the model because of a contradicted declaration."""
    declared, inferred = scope.contradicted[name]
    if (scope.declarations.of_function and scope.outer is not None) or (node.op_type == "Scan" and name not in node.output):
        return consistent_part(declared, scope.runtime_inferred.get(name, scope.inferred(name)), numbers_may_be) != declared
    return node.op_type not in IGNORED and not same_type(scope.declared(name), inferred)


def _results(node: NodeProto, bodies: Sequence[Scope]) -> Iterator[PartialType]:
    """Yield the output types that follow from a node's subgraphs."""
    results = [list(map(inner.runtime_type, inner.results)) for inner in bodies]
    if node.op_type == "If":
        yield from (reduce(PartialType.joined, types) for types in zip(*results, strict=False))
    elif node.op_type in REPEATED:
        is_loop = node.op_type == "Loop"
        outputs = results[0][1:] if is_loop else results[0]
        states = len(node.input) - (2 if is_loop else integers_of(node).get("num_scan_inputs", 0))
        yield from (type_.sized(None) if is_loop else type_ for type_ in outputs[:states])
        yield from (with_axis(type_, 0, None) for type_ in outputs[states:])


def _function_types(call: FunctionCall, node: NodeProto, file: ModelFile) -> Iterable[PartialType]:
    """Return the output types of a local function, or () if the node calls none."""
    key = file.functions.called(node)
    if key is None:
        return ()
    function = file.functions[key]
    graph = infer(file, function_graph(function, call), function.opset_import).graph
    return [keep_names(type_of_value(value), call.sizes) for value in graph.output]


def _node_types(call: KnownNode) -> Iterable[PartialType]:
    entry = entry_of(call.node)
    if entry.types is not None:
        return following_types(entry.types, call)
    types = call.requests.ask(call.node, call.opset, call.types, call.values, evaluates=False).types
    return [types.get(name, NOTHING) for name in call.node.output]


def _static(type_: PartialType) -> PartialType:
    return type_.each_size(lambda size: size if isinstance(size, int) else None)
