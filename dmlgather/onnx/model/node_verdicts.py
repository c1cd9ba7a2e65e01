"""Whether DirectML takes a node of a model at a feature level, why not, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from dmlgather.dialects.checked_model import KnownCall, Unknown, Verdict
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.unknown_sizes import Named, assign, concrete, named
from dmlgather.dialects.verdicts import Judged, verdict, with_sizes
from dmlgather.directml import FeatureLevel, Finding
from dmlgather.onnx.model.node_sites import NodeSite, NodeValue
from dmlgather.onnx.model.scopes import NOWHERE
from dmlgather.onnx.model.trial_sizes import block_units, trial_sizes
from dmlgather.onnx.problems.constant_indices import index_out_of_range
from dmlgather.onnx.problems.export import EXPORTER, broken_rule
from dmlgather.onnx.problems.node_reading import ARRAYS, INPUTS, UnknownTypeError, UnknownValueError, problem_of
from dmlgather.wording import printable


def judge(site: NodeSite, level: FeatureLevel) -> Judged:
    """Whether DirectML takes the node at a feature level, and why not."""
    undefined = tuple(undefined_name(role, value.name, value.undefined) for role, value in _roles(site) if value.undefined)
    if undefined:
        return Judged(Verdict.REFUSED, undefined)
    shapes = {role: shape for role, value in _arrays(site).items() if (shape := _shape(site, role, value)) is not None}
    units = block_units(site.node.op_type, site.integers.get("blocksize", 0), shapes.get("data", ()))
    sizes = assign(shapes.values(), _orders(site, shapes), units)
    try:
        problem = _problem(site, shapes, sizes)
        trials, provided = _trials(site, shapes, problem, dict.fromkeys(sizes, 1) | units)
        judged = verdict(EXPORTER, [(trial, _problem(site, shapes, trial)) for trial in trials], provided, level)
        call = None if sizes else KnownCall(problem, _elements(site))
        wrong = _index_out_of_range(site, problem)
        return replace(judged, call=call) if wrong is None else Judged(Verdict.REFUSED, (wrong, *judged.findings), call=call)
    except (UnknownTypeError, UnknownValueError) as error:
        missing = tuple(_missing(site)) or (_reference(error),)
        return Judged(Verdict.UNKNOWN, missing if site.reached else tuple(map(_never_called, missing)))
    except (TypeError, ValueError) as error:
        return Judged(Verdict.REFUSED, (broken_rule(site.node, site.opset, printable(f"{error}{with_sizes(sizes)}")),))


def undefined_name(role: str, name: str, reason: str) -> Finding:
    """The finding that a node reads a name that is not defined before it."""
    return CODES["EXP304"].finding(
        role,
        expected="an input or initializer of the graph or of one around it, or an output of an earlier node",
        got=f"{printable(name)!r}, which is {reason}",
        remedy="correct the name" if reason == NOWHERE else "sort the nodes: each comes after those whose outputs it reads",
    )


def _index_out_of_range(site: NodeSite, problem: Problem) -> Finding | None:
    """A constant index that is out of range along a dimension of known size."""
    indices = _arrays(site).get("indices")
    if indices is None or isinstance(indices.elements, Unknown):
        return None
    return index_out_of_range(problem, indices.elements, [isinstance(size, int) for size in site.inputs[0].type.shape or ()])


def _roles(site: NodeSite) -> Iterator[tuple[str, NodeValue]]:
    """The inputs with the operator's names for them."""
    return zip(INPUTS[site.node.op_type], site.inputs, strict=False)


def _arrays(site: NodeSite) -> dict[str, NodeValue]:
    return dict(zip(ARRAYS[site.node.op_type], site.inputs, strict=False))


def _elements(site: NodeSite) -> dict[str, NDArray[Any]]:
    """The arrays whose elements are known, by role."""
    known = {role: value.elements for role, value in _arrays(site).items()}
    return {role: elements for role, elements in known.items() if not isinstance(elements, Unknown)}


def _shape(site: NodeSite, role: str, value: NodeValue) -> Named | None:
    """The shape with names for unknown sizes; None where too little is known."""
    shape = value.type.shape
    if shape is None or value.type.dtype is None:
        return None
    if site.node.op_type == "GatherND" and role == "indices" and shape and not isinstance(shape[-1], int):
        return None
    return named(role, shape)


def _problem(site: NodeSite, shapes: Mapping[str, Named], sizes: Mapping[str, int]) -> Problem:
    """The node's problem with those sizes. TypeError and ValueError as `problem_of`."""
    tensors: list[TensorType | None] = [None] * len(site.inputs)
    for number, (role, value) in enumerate(_arrays(site).items()):
        if role in shapes and value.type.dtype is not None:
            tensors[number] = TensorType(concrete(shapes[role], sizes), value.type.dtype)
        elif value.type.kind is not None:
            raise TypeError(f"{role} is a {value.type.kind}, not a tensor")
    values = [None if isinstance(each.elements, Unknown) else each.elements for each in site.inputs]
    return problem_of(site.node, site.opset, tensors, values)


def _orders(site: NodeSite, shapes: Mapping[str, Named]) -> Iterator[tuple[int | str, int | str]]:
    """Pairs of sizes of which the operator requires that the first is at most the second."""
    if "data" not in shapes or "indices" not in shapes:
        return
    pairs = list(zip(shapes["indices"], shapes["data"], strict=False))
    if site.node.op_type == "GatherElements":
        axis = site.integers.get("axis", 0)
        yield from (pair for at, pair in enumerate(pairs) if at not in (axis, axis + len(shapes["data"])))
    elif site.node.op_type == "GatherND":
        for small, large in pairs[: max(0, site.integers.get("batch_dims", 0))]:
            yield from ((small, large), (large, small))


def _trials(
    site: NodeSite, shapes: Mapping[str, Named], problem: Problem, units: dict[str, int]
) -> tuple[list[dict[str, int]], tuple[str, ...]]:
    """Sizes to judge with, ordinary ones first, and the conditions under which no tensor is empty. units: of unknown sizes."""
    ranges, lowest = trial_sizes(units, problem, shapes["data"])
    orders = list(_orders(site, shapes))
    trials = [assign(shapes.values(), orders, lows) for lows in lowest or [units]]  # the latter where a tensor is always empty
    conditions = tuple(known.condition(printable(name)) for name, known in ranges.items()) if lowest else ()
    return list({tuple(trial.items()): trial for trial in trials}.values()), conditions


def _missing(site: NodeSite) -> Iterator[Finding]:
    """What the model does not say about a node's inputs."""
    for role, value in _roles(site):
        name, is_array = printable(value.name), role in ARRAYS[site.node.op_type]
        origin = f", {printable(value.elements.reason)}" if isinstance(value.elements, Unknown) else ""
        if is_array and (value.type.dtype is None or value.type.shape is None):
            yield CODES["EXP301"].finding(
                role,
                expected="a data type and a number of dimensions",
                got=f"{name!r} of type {value.type}{origin}",
                remedy=f"declare the type of {name!r} in the model's value_info, or the types of what it is computed from",
            )
        elif is_array and _shape(site, role, value) is None:
            yield CODES["EXP302"].finding(
                role,
                expected="a known size of the last dimension, which is how many axes are indexed",
                got=f"{name!r} of type {value.type}",
                remedy=f"declare that size of {name!r} in the model, as a number",
            )
        elif not is_array and name and origin:
            yield CODES["EXP302"].finding(
                role,
                expected="constants, as DirectML's slices have their bounds in the descriptor",
                got=f"{name!r}{origin}",
                remedy=f"make {name!r} a Constant or an initializer, or build a descriptor for each value it takes",
            )


def _never_called(finding: Finding) -> Finding:
    """The finding in a function that nothing calls, where declaring more in the model does not help."""
    remedy = "call the function, or leave it out of the model: nothing calls it, so that nothing is known of its inputs"
    return finding.model_copy(update={"remedy": remedy})


def _reference(error: UnknownTypeError | UnknownValueError) -> Finding:
    return CODES["EXP302"].finding(
        error.input,
        expected="one value for all calls of the function",
        got=f"a reference to the function's attribute {printable(error.value)!r}",
        remedy="inline the function's calls, or call it with one value",
    )
