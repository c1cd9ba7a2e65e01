"""The values and types of the outputs of If, Loop and Scan, and the branch that an If takes."""

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
"""The most iterations of a Loop that are computed one by one. Beyond this, the outputs are unknown. Loops that compute a shape
have fewer iterations.
"""

MOST_WIDENINGS = 4
"""The most passes over a Loop's body to find types that are true in every iteration. Beyond this, the types are unknown."""

Run = Callable[["GraphProto", Mapping[str, Value], Mapping[str, PartialType]], Scope | None]
"""A function that visits the nodes of a subgraph. Its arguments are the subgraph, the known values of its inputs, and their
types. It returns the scope with all values and types, or None if the visit takes too many steps.
"""


def taken_branch(node: NodeProto, scope: Scope) -> str | None:
    """Return the attribute with the branch that an If takes: "then_branch" or "else_branch". Return None if the condition is
    not known, and for other operators.
    """
    if node.op_type != "If" or node.domain not in DOMAINS or len(node.input) != 1:
        return None
    condition = scope.value(node.input[0])
    if not is_known(condition) or condition.size != 1:
        return None
    return BRANCHES[bool(condition.reshape(-1)[0])]


def join_branches(node: NodeProto, scope: Scope, inside: Mapping[str, Scope]) -> None:
    """Store the values and types of an If's outputs in `scope`. They are those of the branch that the If takes. If the
    condition is not known, they are what is true for both branches. `inside`: the scope of each branch, by attribute name.
    """
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
    """Return a message if the two branches of an If give the same output different data types. Return None if they do not. ONNX
    and onnxruntime refuse such a model even if one branch is never taken. `inside`: the scope of each branch, by attribute
    name.
    """
    scopes = [inside[branch] for branch in BRANCHES if branch in inside] if node.op_type == "If" else []
    for name, results in zip(node.output, zip(*(inner.results for inner in scopes), strict=False), strict=False):
        types = [inner.type(result) for inner, result in zip(scopes, results, strict=True)]
        names = [each.name for each in types]
        if len(names) == 2 and None not in names and names[0] != names[1]:
            return f"output {name!r} is {names[0]} in {BRANCHES[0]} and {names[1]} in {BRANCHES[1]}"
    return None


def loop_results(node: NodeProto, scope: Scope, run: Run) -> tuple[list[Value], list[PartialType]] | None:
    """Compute the outputs of a Loop by visiting its body once for each iteration. Return their values and types. Return None if
    a condition is not known, if there are more than MOST_ITERATIONS iterations, and for other operators. `run`: visits the
    body.
    """
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
    """Return types of a Loop's outputs that are true after any number of iterations. The types of carried values are loop
    invariants: they are true before the first iteration, and each iteration preserves them. Return None if no such types are
    found, and for other operators. `run`: visits the body.
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
    """Return the types of a Scan's outputs. A state variable has the same shape in all iterations, as ONNX requires. Return
    None if the types are not found, and for other operators. `run`: visits the body.
    """
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
    """Return the types of the inputs of a Scan's body: the state variables, then one slice of each scan input. Return None if
    body and node have different numbers of inputs, as always in opset 8. `type_of`: returns the type of a value by its name.
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
    """Return a list of axes from an attribute of a Scan. `count`: the length that the list must have. If the attribute is
    missing or has another length, all axes are 0.
    """
    axes = next((list(each.ints) for each in node.attribute if each.name == name), [])
    return axes if len(axes) == count else [0] * count


def _without_axis(type_: PartialType, axis: int) -> PartialType:
    """Return the type of a tensor after one axis has been removed, as for a slice of size 1 along this axis."""
    if type_.shape is None or not -len(type_.shape) <= axis < len(type_.shape):
        return type_.sized(None)
    position = axis % len(type_.shape)
    return type_.sized((*type_.shape[:position], *type_.shape[position + 1 :]))


def with_axis(type_: PartialType, axis: int, size: Size) -> PartialType:
    """Return the type of a stack of `size` tensors of the same type. `axis`: the new axis along which they are stacked."""
    if type_.shape is None or not -len(type_.shape) <= axis + (axis < 0) <= len(type_.shape):
        return type_.sized(None)
    position = axis % (len(type_.shape) + 1)
    return type_.sized((*type_.shape[:position], size, *type_.shape[position:]))


def _body(node: NodeProto) -> GraphProto | None:
    """Return the body of a Loop. Return None for other operators, and if the numbers of inputs and outputs of body and node do
    not match.
    """
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
