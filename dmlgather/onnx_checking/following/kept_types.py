"""What onnxruntime takes the types of tensors to be in a model that contradicts itself.

It walks over the nodes once, merges what it infers with what is stated, and infers what comes behind from the result. Of sizes
that differ it keeps none, so that it infers nothing behind, and keeps there what is stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import chain, repeat
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, type_of_value
from dmlgather.onnx.problems.subgraphs import integers_of
from dmlgather.onnx_checking.contradictions import lenient, numbers_may_be, same_type, uncontradicted
from dmlgather.onnx_checking.following.control_flow import with_axis
from dmlgather.onnx_checking.following.operator_rows import KnownNode, following_types
from dmlgather.onnx_checking.following.operators import row_of
from dmlgather.onnx_checking.following.scopes import MOST_FOLDED, Scope
from dmlgather.onnx_checking.reading.file import ModelFile, infer
from dmlgather.onnx_checking.reading.local_functions import FunctionCall, function_graph
from dmlgather.onnx_checking.reading.statements import of_given
from dmlgather.onnx_checking.sizes.values import Unknown

if TYPE_CHECKING:
    from onnx import NodeProto

    from dmlgather.onnx_checking.following.propagation import Propagation

IGNORED = ("Constant",)
"""The operators that onnxruntime replaces by initializers before it looks at what is stated of their outputs."""


def learn_kept(node: NodeProto, opset: int | None, scope: Scope, inside: Mapping[str, Scope], propagation: Propagation) -> None:
    """Keep what onnxruntime takes the types of a node's outputs to be, where that is not what follows. opset, inside: as
    `Propagation.visit` has them.
    """
    bodies = list(inside.values())
    misled = any(map(scope.is_kept, node.input)) or any(inner.kept for inner in bodies)
    if node.op_type in IGNORED or not (misled or any(name in scope.contradicted for name in node.output)):
        return
    types = [scope.taken_type(name) for name in node.input]
    values, unfolded = ([scope.folded(name, most) if name else None for name in node.input] for most in (MOST_FOLDED, 1))
    inferred: Iterable[PartialType]
    if bodies:
        inferred = _results(node, bodies) if misled or node.op_type != "Scan" else map(scope.follows, node.output)
    elif opset is None:
        inferred = _of_call(FunctionCall.of(node, types, values), node, propagation.file)
        scope.first |= {name: scope.declared(name) for name in node.output}
    else:
        call = KnownNode(node, opset, types, values, scope.reader.names, propagation.requests)
        inferred = _of_node(call)
        if any(isinstance(one, Unknown) is not isinstance(two, Unknown) for one, two in zip(values, unfolded, strict=True)):
            before = zip(node.output, _of_node(replace(call, values=unfolded)), strict=False)
            scope.first |= {name: lenient(scope.declared(name), found) for name, found in before}
    for name, found in zip(node.output, chain(inferred, repeat(NOTHING)), strict=False):
        scope.merged[name] = found
        kept = lenient(scope.declared(name), found)
        if name and _static(kept) != _static(scope.types.get(name, NOTHING)):
            scope.kept[name] = kept


def refuses(node: NodeProto, name: str, scope: Scope) -> bool:
    """Return whether onnxruntime does not load a model because of what is stated of a value that contradicts what follows.

    name: of an output of the node, or of an input of a graph inside it. scope: of the name.
    """
    stated, follows = scope.contradicted[name]
    if (scope.statements.of_function and scope.outer is not None) or (node.op_type == "Scan" and name not in node.output):
        return uncontradicted(stated, scope.merged.get(name, scope.follows(name)), numbers_may_be) != stated
    return node.op_type not in IGNORED and not same_type(scope.declared(name), follows)


def _results(node: NodeProto, bodies: Sequence[Scope]) -> Iterator[PartialType]:
    """The types of the results of graphs: of both branches in common; of a Loop, which may change shapes, only those of scans."""
    results = [list(map(inner.taken_type, inner.results)) for inner in bodies]
    if node.op_type == "If":
        yield from (reduce(PartialType.joined, each) for each in zip(*results, strict=False))
    elif node.op_type == "Loop":
        states = len(node.input) - 2
        yield from (known.sized(None) for known in results[0][1 : 1 + states])
        yield from (with_axis(known, 0, None) for known in results[0][1 + states :])
    elif node.op_type == "Scan":
        states = len(node.input) - integers_of(node).get("num_scan_inputs", 0)
        yield from results[0][:states]
        yield from (with_axis(known, 0, None) for known in results[0][states:])


def _of_call(call: FunctionCall, node: NodeProto, file: ModelFile) -> Iterable[PartialType]:
    """The types of what a local function gives, by what it states; none where the node calls none."""
    key = file.functions.called(node)
    if key is None:
        return ()
    function = file.functions[key]
    graph = infer(file, function_graph(function, call), function.opset_import).graph
    return [of_given(type_of_value(value), call.sizes) for value in graph.output]


def _of_node(call: KnownNode) -> Iterable[PartialType]:
    """The types of the outputs of a node without graphs."""
    row = row_of(call.node)
    if row.types is not None:
        return following_types(row.types, call)
    found = call.requests.ask(call.node, call.opset, call.types, call.values, evaluates=False).types
    return [found.get(name, NOTHING) for name in call.node.output]


def _static(known: PartialType) -> PartialType:
    """A type without the names of its sizes."""
    return known.each_size(lambda size: size if isinstance(size, int) else None)
