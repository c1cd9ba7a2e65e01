"""If and Loop: which branch runs, and what the results of branches and of loops are."""

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
"""The most iterations of a loop that are followed: what it computes for more is no shape."""

MOST_WIDENINGS = 4
"""How often a loop is gone through to find what holds of the types that it carries."""

Run = Callable[["GraphProto", Mapping[str, Value], Mapping[str, PartialType]], Scope | None]
"""From a graph and the values and types of its inputs to its scope once its nodes are visited; None where that takes too long."""

Results = tuple[list[Value], list[PartialType]]
"""The values and the types of the outputs of a node."""


def taken_branch(node: NodeProto, scope: Scope) -> str | None:
    """The attribute of an If whose graph runs; None where that is not known, or the node is no If."""
    if node.op_type != "If" or node.domain not in DOMAINS or len(node.input) != 1:
        return None
    condition = scope.value(node.input[0])
    if not is_known(condition) or condition.size != 1:
        return None
    return BRANCHES[bool(condition.reshape(-1)[0])]


def join_branches(node: NodeProto, scope: Scope, inside: Mapping[str, Scope]) -> None:
    """Keep what is known of the outputs of an If: those of the branch that runs, or what both have in common."""
    taken = taken_branch(node, scope)
    scopes = [inside[taken]] if taken else [inside[branch] for branch in BRANCHES if branch in inside]
    unknown = computed_when_run(node, [scope.value(name) for name in node.input])
    for at, name in enumerate(node.output):
        found = [(inner, inner.results[at]) for inner in scopes if at < len(inner.results)]
        if not name or len(found) < len(scopes) or not found:
            continue
        given = [inner.value(result) for inner, result in found]
        common = given[0] if all(same(given[0], one) for one in given) and not isinstance(given[0], Unknown) else unknown
        scope.learn_value(name, given[0] if taken else common)
        types = [inner.type(result) for inner, result in found]
        scope.learn_type(name, reduce(PartialType.joined, types))


def differing_branches(node: NodeProto, inside: Mapping[str, Scope]) -> str | None:
    """Return in words which output of an If has another data type in each branch; None where there is none. ONNX and onnxruntime
    refuse it, also where one branch never runs.
    """
    scopes = [inside[branch] for branch in BRANCHES if branch in inside] if node.op_type == "If" else []
    for name, results in zip(node.output, zip(*(inner.results for inner in scopes), strict=False), strict=False):
        types = [inner.type(result) for inner, result in zip(scopes, results, strict=True)]
        names = [each.name for each in types]
        if len(names) == 2 and None not in names and names[0] != names[1]:
            return f"output {name!r} is {names[0]} in {BRANCHES[0]} and {names[1]} in {BRANCHES[1]}"
    return None


def loop_results(node: NodeProto, scope: Scope, run: Run) -> Results | None:
    """The outputs of a Loop whose conditions are known in each iteration; None where they are not, or the node is none."""
    body = _body(node)
    if body is None:
        return None
    carried, types = [scope.value(name) for name in node.input[2:]], [scope.type(name) for name in node.input[2:]]
    limit, goes_on = (scope.value(name) if name else None for name in node.input[:2])
    most = MOST_ITERATIONS + 1 if limit is None else _number(limit)
    going = True if goes_on is None else _number(goes_on)
    iterations: list[list[Value]] = []
    scanned_types: list[list[PartialType]] = []
    names = [value.name for value in body.input]
    for number in range(most or 0):
        if not going:
            break
        inputs = [np.array(number, np.int64), np.array(True), *carried]
        inner = run(body, dict(zip(names, inputs, strict=True)), dict(zip(names[2:], types, strict=True)))
        if inner is None or number == MOST_ITERATIONS:
            return None
        results, found = [inner.value(name) for name in inner.results], [inner.type(name) for name in inner.results[1:]]
        going, carried = _number(results[0]), results[1 : 1 + len(carried)]
        types = found[: len(types)]
        iterations.append(results[1 + len(carried) :])
        scanned_types.append(found[len(types) :])
    if most is None or going is None:
        return None
    if not iterations:
        return _without_scans(node, carried), [*types, *[NOTHING] * (len(node.output) - len(types))]
    rows = [reduce(PartialType.joined, each) for each in zip(*scanned_types, strict=True)]
    return [*carried, *map(_stacked, zip(*iterations, strict=True))], [
        *types,
        *(with_axis(row, 0, len(iterations)) for row in rows),
    ]


def loop_types(node: NodeProto, scope: Scope, run: Run) -> list[PartialType] | None:
    """What holds of the types of a Loop's outputs after any number of iterations; None where that is not found out, or the node
    is none. What holds of a carried value before each iteration, and after one before which it holds, holds at the end.
    """
    body = _body(node)
    if body is None:
        return None
    names, before = [value.name for value in body.input], scope.reader.names.snapshot()
    inputs: dict[str, Value] = dict.fromkeys(names, Unknown("another value in each iteration"))
    types = [scope.type(name) for name in node.input[2:]]
    for _ in range(MOST_WIDENINGS):
        inner = run(body, inputs, dict(zip(names[2:], types, strict=True)))
        if inner is None:
            return None
        found = [before.outside(inner.type(name)) for name in inner.results[1:]]
        wider = [one.joined(two) for one, two in zip(types, found, strict=False)]
        if wider == types:
            return [*types, *(with_axis(row, 0, None) for row in found[len(types) :])]
        types = wider
    return None


def scan_types(node: NodeProto, scope: Scope, run: Run) -> list[PartialType] | None:
    """The types of a Scan's outputs; None where they are not found out, or the node is none. Its states keep their shapes."""
    body = next((graph for name, graph in subgraphs(node) if name == "body"), None)
    types = None if body is None or node.op_type != "Scan" else scanned(node, body, scope.type)
    if body is None or types is None or len(body.output) != len(node.output):
        return None
    names, before = [value.name for value in body.input], scope.reader.names.snapshot()
    inner = run(body, dict.fromkeys(names, Unknown("another value in each iteration")), dict(zip(names, types, strict=True)))
    if inner is None:
        return None
    count = _scans(node)
    states, data = len(types) - count, node.input[len(types) - count :]
    found = [before.outside(inner.type(name)) for name in inner.results]
    shapes = [(scope.type(name).shape, axis) for name, axis in zip(data, _axes(node, "scan_input_axes", count), strict=True)]
    length = next((shape[axis] for shape, axis in shapes if shape is not None and -len(shape) <= axis < len(shape)), None)
    axes = _axes(node, "scan_output_axes", len(found) - states)
    return [*found[:states], *(with_axis(row, axis, length) for row, axis in zip(found[states:], axes, strict=True))]


def scanned(node: NodeProto, body: GraphProto, type_of: Callable[[str], PartialType]) -> list[PartialType] | None:
    """The types of what a Scan hands to its body; None where that does not fit, as in opset 8. type_of: of a name."""
    types, count = list(map(type_of, node.input)), _scans(node)
    if len(body.input) != len(types) or count > len(types):
        return None
    states = len(types) - count
    axes = _axes(node, "scan_input_axes", count)
    return [*types[:states], *(_without_axis(known, axis) for known, axis in zip(types[states:], axes, strict=True))]


def _scans(node: NodeProto) -> int:
    """The number of inputs that a Scan goes through."""
    return integers_of(node).get("num_scan_inputs", 0)


def _axes(node: NodeProto, name: str, count: int) -> list[int]:
    """An attribute of a Scan with so many axes, which are 0 where it is left out."""
    axes = next((list(each.ints) for each in node.attribute if each.name == name), [])
    return axes if len(axes) == count else [0] * count


def _without_axis(known: PartialType, axis: int) -> PartialType:
    """The type of a tensor's slices along an axis."""
    if known.shape is None or not -len(known.shape) <= axis < len(known.shape):
        return known.sized(None)
    at = axis % len(known.shape)
    return known.sized((*known.shape[:at], *known.shape[at + 1 :]))


def with_axis(row: PartialType, axis: int, size: Size) -> PartialType:
    """The type of values of one type along a new axis."""
    if row.shape is None or not -len(row.shape) <= axis + (axis < 0) <= len(row.shape):
        return row.sized(None)
    at = axis % (len(row.shape) + 1)
    return row.sized((*row.shape[:at], size, *row.shape[at:]))


def _body(node: NodeProto) -> GraphProto | None:
    """The graph that a Loop repeats; None for one that does not fit the node's inputs and outputs, and for other nodes."""
    bodies = [graph for name, graph in subgraphs(node) if name == "body"]
    if node.op_type != "Loop" or len(bodies) != 1 or len(node.input) < 2:
        return None
    fits = len(bodies[0].input) == len(node.input) and len(bodies[0].output) == 1 + len(node.output)
    return bodies[0] if fits and len(node.output) >= len(node.input) - 2 else None


def _number(value: Value) -> int | None:
    return int(value.reshape(-1)[0]) if is_known(value) and value.size == 1 else None


def _stacked(values: Sequence[Value]) -> Value:
    """The values of all iterations, along a new first axis."""
    arrays = [value for value in values if isinstance(value, np.ndarray)]
    if (
        len(arrays) < len(values)
        or len({value.shape for value in arrays}) > 1
        or sum(value.size for value in arrays) > KEPT_ELEMENTS
    ):
        return Unknown("computed when the model runs, by Loop", computed=True)
    return np.stack([value.astype(object) for value in arrays] if len({value.dtype for value in arrays}) > 1 else arrays)


def _without_scans(node: NodeProto, carried: Sequence[Value]) -> list[Value]:
    """The outputs after no iteration: what iterations give is empty, of a shape that is not known."""
    nothing = Unknown("computed when the model runs, by Loop, which has no iteration", computed=True)
    return [*carried, *[nothing] * (len(node.output) - len(carried))]
