"""The outputs of If, Loop and Scan, and the branch that an If takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from dmlgather.onnx.problems.operator_versions import DOMAINS
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, Size
from dmlgather.onnx.problems.subgraphs import integers_of, subgraphs
from dmlgather.onnx_checking.following.constant_folding import computed_when_run
from dmlgather.onnx_checking.following.scopes import Scope
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS, Unknown, Value, is_known, same

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

BRANCHES = ("else_branch", "then_branch")

MOST_ITERATIONS = KEPT_ELEMENTS
"""Limit of iterations to compute. Loops that compute a shape have fewer."""

MOST_WIDENINGS = 4
"""Limit of passes over a Loop's body to find types that hold in every iteration."""

Run = Callable[["GraphProto", Mapping[str, Value], Mapping[str, PartialType]], Scope | None]
"""Visits a subgraph with these input values and types. Returns None after too many steps."""


def taken_branch(node: NodeProto, scope: Scope) -> str | None:
    """Return the attribute with the branch that an If takes, if it is known."""
    if node.op_type != "If" or node.domain not in DOMAINS or len(node.input) != 1:
        return None
    condition = scope.value(node.input[0])
    if not is_known(condition) or condition.size != 1:
        return None
    return BRANCHES[bool(condition.reshape(-1)[0])]


def join_branches(node: NodeProto, scope: Scope, inside: Mapping[str, Scope]) -> None:
    """Store types and values of an If's outputs: from the taken branch, or the facts that hold for both branches."""
    taken = taken_branch(node, scope)
    scopes = [inside[taken]] if taken else [inside[branch] for branch in BRANCHES if branch in inside]
    unknown = computed_when_run(node, [scope.value(name) for name in node.input])
    for number, name in enumerate(node.output):
        results = [(inner, inner.results[number]) for inner in scopes if number < len(inner.results)]
        if not name or len(results) < len(scopes) or not results:
            continue
        values = [inner.value(result) for inner, result in results]
        is_common = not isinstance(values[0], Unknown) and all(same(values[0], value) for value in values)
        scope.learn_value(name, values[0] if taken or is_common else unknown)
        types = [inner.type(result) for inner, result in results]
        scope.learn_type(name, reduce(PartialType.joined, types))


def differing_branches(node: NodeProto, inside: Mapping[str, Scope]) -> str | None:
    """Return a message if an output's data type depends on the branch. ONNX refuses that even if one branch never runs."""
    scopes = [inside[branch] for branch in BRANCHES if branch in inside] if node.op_type == "If" else []
    for name, results in zip(node.output, zip(*(inner.results for inner in scopes), strict=False), strict=False):
        types = [inner.type(result) for inner, result in zip(scopes, results, strict=True)]
        names = [each.name for each in types]
        if len(names) == 2 and None not in names and names[0] != names[1]:
            return f"output {name!r} is {names[0]} in {BRANCHES[0]} and {names[1]} in {BRANCHES[1]}"
    return None


def loop_results(node: NodeProto, scope: Scope, run: Run) -> tuple[list[Value], list[PartialType]] | None:
    """Compute a Loop iteration by iteration. Return the values and types of its outputs, or None."""
    body = _body(node)
    if body is None:
        return None
    carried, types = [scope.value(name) for name in node.input[2:]], [scope.type(name) for name in node.input[2:]]
    limit, condition = (scope.value(name) if name else None for name in node.input[:2])
    most = MOST_ITERATIONS + 1 if limit is None else _number(limit)
    continues = True if condition is None else _number(condition)
    iterations: list[list[Value]] = []
    scanned_types: list[list[PartialType]] = []
    names = [value.name for value in body.input]
    for number in range(most or 0):
        if not continues:
            break
        inputs = [np.array(number, np.int64), np.array(True), *carried]
        inner = run(body, dict(zip(names, inputs, strict=True)), dict(zip(names[2:], types, strict=True)))
        if inner is None or number == MOST_ITERATIONS:
            return None
        results, result_types = [inner.value(name) for name in inner.results], [inner.type(name) for name in inner.results[1:]]
        continues, carried = _number(results[0]), results[1 : 1 + len(carried)]
        types = result_types[: len(types)]
        iterations.append(results[1 + len(carried) :])
        scanned_types.append(result_types[len(types) :])
    if most is None or continues is None:
        return None
    if not iterations:
        nothing = Unknown("computed when the model runs, by Loop, which has no iteration", computed=True)
        missing = len(node.output) - len(carried)  # scan outputs are empty, with unknown shapes
        return [*carried, *[nothing] * missing], [*types, *[NOTHING] * missing]
    scan_output_types = [reduce(PartialType.joined, type_) for type_ in zip(*scanned_types, strict=True)]
    types += [with_axis(type_, 0, len(iterations)) for type_ in scan_output_types]
    return [*carried, *map(_stacked, zip(*iterations, strict=True))], types


def loop_types(node: NodeProto, scope: Scope, run: Run) -> list[PartialType] | None:
    """Return types of a Loop's outputs that hold after any number of iterations, or None. They are loop invariants: they hold
    before the first iteration, and each iteration preserves them.
    """
    body = _body(node)
    if body is None:
        return None
    names, outer_symbols = [value.name for value in body.input], scope.reader.names.snapshot()
    inputs: dict[str, Value] = dict.fromkeys(names, Unknown("another value in each iteration"))
    types = [scope.type(name) for name in node.input[2:]]
    for _ in range(MOST_WIDENINGS):
        inner = run(body, inputs, dict(zip(names[2:], types, strict=True)))
        if inner is None:
            return None
        results = [outer_symbols.outside(inner.type(name)) for name in inner.results[1:]]
        widened = [old.joined(new) for old, new in zip(types, results, strict=False)]
        if widened == types:
            return [*types, *(with_axis(type_, 0, None) for type_ in results[len(types) :])]
        types = widened
    return None


def scan_types(node: NodeProto, scope: Scope, run: Run) -> list[PartialType] | None:
    """Return the types of a Scan's outputs, or None if they are not found."""
    body = next((graph for name, graph in subgraphs(node) if name == "body"), None)
    types = None if body is None or node.op_type != "Scan" else scan_body_types(node, body, scope.type)
    if body is None or types is None or len(body.output) != len(node.output):
        return None
    names, outer_symbols = [value.name for value in body.input], scope.reader.names.snapshot()
    inner = run(body, dict.fromkeys(names, Unknown("another value in each iteration")), dict(zip(names, types, strict=True)))
    if inner is None:
        return None
    count = _scan_input_count(node)
    states, data = len(types) - count, node.input[len(types) - count :]
    results = [outer_symbols.outside(inner.type(name)) for name in inner.results]
    shapes = [(scope.type(name).shape, axis) for name, axis in zip(data, _axes(node, "scan_input_axes", count), strict=True)]
    length = next((shape[axis] for shape, axis in shapes if shape is not None and -len(shape) <= axis < len(shape)), None)
    axes = _axes(node, "scan_output_axes", len(results) - states)
    return [*results[:states], *(with_axis(type_, axis, length) for type_, axis in zip(results[states:], axes, strict=True))]


def scan_body_types(node: NodeProto, body: GraphProto, type_of: Callable[[str], PartialType]) -> list[PartialType] | None:
    """Return the types of a Scan body's inputs: state variables, then slices of scan inputs.

    None if body and node have different numbers of inputs, as in opset 8.
    """
    types, count = list(map(type_of, node.input)), _scan_input_count(node)
    if len(body.input) != len(types) or count > len(types):
        return None
    states = len(types) - count
    axes = _axes(node, "scan_input_axes", count)
    return [*types[:states], *(_without_axis(type_, axis) for type_, axis in zip(types[states:], axes, strict=True))]


def _scan_input_count(node: NodeProto) -> int:
    return integers_of(node).get("num_scan_inputs", 0)


def _axes(node: NodeProto, name: str, count: int) -> list[int]:
    """Return the axes in an attribute. If their number is not `count`, return `count` zeros."""
    axes = next((list(each.ints) for each in node.attribute if each.name == name), [])
    return axes if len(axes) == count else [0] * count


def _without_axis(type_: PartialType, axis: int) -> PartialType:
    """Return the type of a tensor without one axis."""
    if type_.shape is None or not -len(type_.shape) <= axis < len(type_.shape):
        return type_.sized(None)
    position = axis % len(type_.shape)
    return type_.sized((*type_.shape[:position], *type_.shape[position + 1 :]))


def with_axis(type_: PartialType, axis: int, size: Size) -> PartialType:
    """Return the type of a stack of `size` tensors along a new axis."""
    if type_.shape is None or not -len(type_.shape) <= axis + (axis < 0) <= len(type_.shape):
        return type_.sized(None)
    position = axis % (len(type_.shape) + 1)
    return type_.sized((*type_.shape[:position], size, *type_.shape[position:]))


def _body(node: NodeProto) -> GraphProto | None:
    """Return the body of a Loop, or None if its inputs or outputs do not match the node's."""
    bodies = [graph for name, graph in subgraphs(node) if name == "body"]
    if node.op_type != "Loop" or len(bodies) != 1 or len(node.input) < 2:
        return None
    fits = len(bodies[0].input) == len(node.input) and len(bodies[0].output) == 1 + len(node.output)
    return bodies[0] if fits and len(node.output) >= len(node.input) - 2 else None


def _number(value: Value) -> int | None:
    return int(value.reshape(-1)[0]) if is_known(value) and value.size == 1 else None


def _stacked(values: Sequence[Value]) -> Value:
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    shapes, dtypes = {array.shape for array in arrays}, {array.dtype for array in arrays}
    if len(arrays) < len(values) or len(shapes) > 1 or sum(array.size for array in arrays) > KEPT_ELEMENTS:
        return Unknown("computed when the model runs, by Loop", computed=True)
    return np.stack(arrays if len(dtypes) == 1 else [array.astype(object) for array in arrays])
