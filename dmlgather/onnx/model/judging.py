"""Judge a node of the family where it stands: whether DirectML takes it at a feature level, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dmlgather.dialects.checked_model import Unknown, Verdict
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.unknown_sizes import Named, assign, concrete, named
from dmlgather.dialects.verdicts import Judged, verdict, with_sizes
from dmlgather.directml import FeatureLevel, Finding
from dmlgather.onnx.model.node_records import integers
from dmlgather.onnx.model.scopes import NOWHERE
from dmlgather.onnx.model.sizes import wanted_sizes
from dmlgather.onnx.model.walking import NodeSite, NodeValue
from dmlgather.onnx.problems.constant_indices import outside
from dmlgather.onnx.problems.export import EXPORTER
from dmlgather.onnx.problems.nodes import ARRAYS, BOUNDS, INPUTS, UnknownTypeError, UnknownValueError, problem_of
from dmlgather.wording import printable


def judge(site: NodeSite, level: FeatureLevel) -> Judged:
    """Whether DirectML takes the node at a feature level, and why not."""
    lost = tuple(undefined(role, given.name, given.absent) for role, given in _roles(site) if given.absent)
    if lost:
        return Judged(Verdict.REFUSED, lost)
    shapes = {role: shape for role, given in _arrays(site).items() if (shape := _shape(site, role, given)) is not None}
    sizes = assign(shapes.values(), _orders(site, shapes), {})
    try:
        problem = _problem(site, shapes, sizes)
        trials, provided = _trials(site, shapes, problem, sizes)
        found = verdict(EXPORTER, [(trial, _problem(site, shapes, trial)) for trial in trials], provided, level)
        wrong = _indices_outside(site, problem)
        return found if wrong is None else Judged(Verdict.REFUSED, (wrong, *found.findings))
    except (UnknownTypeError, UnknownValueError) as error:
        missing = tuple(_missing(site)) or (_reference(error),)
        return Judged(Verdict.UNKNOWN, missing if site.reached else tuple(map(_never_called, missing)))
    except (TypeError, ValueError) as error:
        return Judged(Verdict.REFUSED, (_ill_formed(f"{error}{with_sizes(sizes)}"),))


def undefined(role: str, name: str, reason: str) -> Finding:
    """What is said of a name that a node reads and that is not defined before it."""
    return CODES["EXP304"].finding(
        role,
        expected="an input or initializer of the graph or of one around it, or an output of an earlier node",
        got=f"{printable(name)!r}, which is {reason}",
        remedy="correct the name"
        if reason == NOWHERE
        else "sort the nodes, so that each stands after those whose outputs it reads",
    )


def _indices_outside(site: NodeSite, problem: Problem) -> Finding | None:
    """What is wrong with indices that are constants, along the dimensions of data whose sizes the model states."""
    if site.node.op_type == "Slice" or isinstance(site.inputs[1].value, Unknown):
        return None
    return outside(problem, site.inputs[1].value, [isinstance(size, int) for size in site.inputs[0].type.shape or ()])


def _roles(site: NodeSite) -> Iterator[tuple[str, NodeValue]]:
    """The inputs with what the operator calls them."""
    return zip(INPUTS[site.node.op_type], site.inputs, strict=False)


def _arrays(site: NodeSite) -> dict[str, NodeValue]:
    return dict(zip(ARRAYS[site.node.op_type], site.inputs, strict=False))


def _shape(site: NodeSite, role: str, given: NodeValue) -> Named | None:
    """The shape with names for unknown sizes; None where too little is known."""
    shape = given.type.shape
    if shape is None or given.type.dtype is None:
        return None
    if site.node.op_type == "GatherND" and role == "indices" and shape and not isinstance(shape[-1], int):
        return None
    return named(role, shape)


def _problem(site: NodeSite, shapes: Mapping[str, Named], sizes: Mapping[str, int]) -> Problem:
    """The node's problem with those sizes. TypeError and ValueError as `problem_of`."""
    tensors: list[TensorType | None] = [None] * len(site.inputs)
    for number, (role, given) in enumerate(_arrays(site).items()):
        if role in shapes and given.type.dtype is not None:
            tensors[number] = TensorType(concrete(shapes[role], sizes), given.type.dtype)
        elif given.type.dtype is None and given.type.name is not None:
            raise TypeError(f"{role} is a {given.type.name}, not a tensor")
    values = [None if isinstance(given.value, Unknown) else given.value for given in site.inputs]
    return problem_of(site.node, site.opset, tensors, values)


def _orders(site: NodeSite, shapes: Mapping[str, Named]) -> Iterator[tuple[int | str, int | str]]:
    """Pairs of sizes of which the operator requires that the first is at most the second."""
    if "data" not in shapes or "indices" not in shapes:
        return
    pairs = list(zip(shapes["indices"], shapes["data"], strict=False))
    if site.node.op_type == "GatherElements":
        axis = integers(site).get("axis", 0)
        yield from (pair for at, pair in enumerate(pairs) if at not in (axis, axis + len(shapes["data"])))
    elif site.node.op_type == "GatherND":
        for small, large in pairs[: max(0, integers(site).get("batch_dims", 0))]:
            yield from ((small, large), (large, small))


def _trials(
    site: NodeSite, shapes: Mapping[str, Named], problem: Problem, sizes: dict[str, int]
) -> tuple[list[dict[str, int]], tuple[str, ...]]:
    """Sizes to judge with, ordinary ones first, and the conditions under which no tensor is empty."""
    ranges, wanted = wanted_sizes(sizes, problem, shapes["data"])
    orders = list(_orders(site, shapes))
    trials = [assign(shapes.values(), orders, lows) for lows in wanted] or [sizes]  # the latter where a tensor is always empty
    conditions = tuple(known.condition(printable(name)) for name, known in ranges.items()) if wanted else ()
    return list({tuple(trial.items()): trial for trial in trials}.values()), conditions


def _missing(site: NodeSite) -> Iterator[Finding]:
    """What the model does not say about a node's inputs."""
    for role, given in _arrays(site).items():
        name = printable(given.name)
        if given.type.dtype is None or given.type.shape is None:
            yield CODES["EXP301"].finding(
                role,
                expected="a data type and a number of dimensions",
                got=f"{name!r} of type {given.type}{_origin(given)}",
                remedy=f"state the type of {name!r} in the model's value_info, or the types of what it is computed from",
            )
        elif _shape(site, role, given) is None:
            yield CODES["EXP302"].finding(
                role,
                expected="a known size of the last dimension, which is how many axes are indexed",
                got=f"{name!r} of type {given.type}",
                remedy=f"state that size of {name!r} in the model, as a number",
            )
    for role, given in _roles(site):
        if role not in BOUNDS:
            continue
        name = printable(given.name)
        if name and isinstance(given.value, Unknown):
            yield CODES["EXP302"].finding(
                role,
                expected="constants, as DirectML's slices have their bounds in the descriptor",
                got=f"{name!r}{_origin(given)}",
                remedy=f"make {name!r} a Constant or an initializer, or build a descriptor for each value it takes",
            )


def _origin(given: NodeValue) -> str:
    return f", {printable(given.value.reason)}" if isinstance(given.value, Unknown) else ""


def _never_called(finding: Finding) -> Finding:
    """The finding in a function that nothing calls, where more statements would be of no help."""
    remedy = "call the function, or leave it out of the model: nothing calls it, so that nothing is known of its inputs"
    return finding.model_copy(update={"remedy": remedy})


def _reference(error: UnknownTypeError | UnknownValueError) -> Finding:
    return CODES["EXP302"].finding(
        error.input,
        expected="one value for all calls of the function",
        got=f"a reference to the function's attribute {printable(error.value)!r}",
        remedy="inline the function's calls, or call it with one value",
    )


def _ill_formed(message: str) -> Finding:
    return CODES["EXP101"].finding(
        "",
        expected="a node that the operator's version in force allows",
        got=printable(message),
        remedy="mend the node, or what the model says of its inputs: ONNX itself refuses it",
    )
