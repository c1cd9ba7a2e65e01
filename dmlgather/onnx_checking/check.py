"""Check an ONNX model file: every node of the family is judged, and nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.directml import FeatureLevel, Finding
from dmlgather.directml.findings import FileProblem, LocatedFinding
from dmlgather.files import FileError
from dmlgather.onnx.problems.depth_space import DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.export import EXPORTER, TO_THE_FRONT, broken_rule, index_out_of_range
from dmlgather.onnx.problems.node_reading import ARRAYS, INPUTS, UnknownTypeError, UnknownValueError, problem_of
from dmlgather.onnx.problems.operator_versions import BOUNDS, version_of
from dmlgather.onnx.problems.slice import Slice
from dmlgather.onnx_checking.checked_model import (
    CheckedModel,
    CheckedNode,
    CheckedTensor,
    KnownCall,
    Provider,
    ProviderNode,
    Verdict,
)
from dmlgather.onnx_checking.contradictions import finding_of
from dmlgather.onnx_checking.following.node_sites import CHANGING, ModelContents, NodeSite, NodeValue, find_nodes
from dmlgather.onnx_checking.following.scopes import NOWHERE
from dmlgather.onnx_checking.provider.kernels import check_level
from dmlgather.onnx_checking.provider.verdicts import provided
from dmlgather.onnx_checking.reading.file import read_model
from dmlgather.onnx_checking.relatives import relatives_among
from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.sliced_axes import SlicedAxis
from dmlgather.onnx_checking.sizes.unknown_sizes import Named, NodeSizes, TrialSizes, named, trial_sizes
from dmlgather.onnx_checking.sizes.values import Unknown, has_names, with_numbers
from dmlgather.onnx_checking.verdicts import Judged, Stated, contradicting, contradictions, of_host, verdict, with_sizes
from dmlgather.package import missing_extra
from dmlgather.wording import printable

# What is known of the sizes of an ONNX node: its shapes, the axes that it slices, and what its operator requires of sizes.

NUMBERS = ("axes", "steps")
"""The inputs of Slice that must be numbers; its bounds may be sizes."""


def arrays(site: NodeSite) -> dict[str, NodeValue]:
    """The inputs of which only shape and type are needed, by role."""
    return dict(zip(ARRAYS[site.node.op_type], site.inputs, strict=False))


def roles(site: NodeSite) -> dict[str, NodeValue]:
    """All inputs by the operator's names for them."""
    return dict(zip(INPUTS[site.node.op_type], site.inputs, strict=False))


def shape_of(site: NodeSite, role: str, value: NodeValue) -> Named | None:
    """The shape with names for unknown sizes; None where too little is known."""
    shape = value.type.shape
    if shape is None or value.type.dtype is None:
        return None
    if site.node.op_type == "GatherND" and role == "indices" and shape and not isinstance(shape[-1], int):
        return None
    return named(role, shape)


def node_sizes(site: NodeSite, sizes: Sizes) -> NodeSizes:
    """What is known of a node's sizes. sizes: of its model. TypeError and ValueError as `problem_of`."""
    shapes = {role: shape for role, value in arrays(site).items() if (shape := shape_of(site, role, value)) is not None}
    axes = tuple(_sliced_axes(site, shapes["data"])) if site.node.op_type == "Slice" and "data" in shapes else ()
    units = _block_units(site, shapes.get("data", ()))
    return NodeSizes(sizes, shapes, axes, tuple(_orders(site, shapes)), units, _least(site, shapes, sizes))


def constant_indices(site: NodeSite) -> NDArray[Any] | None:
    """The indices of a gather, where all are known numbers."""
    indices = arrays(site).get("indices")
    return None if indices is None or isinstance(indices.elements, Unknown) or has_names(indices.elements) else indices.elements


def problem_with(site: NodeSite, shapes: Mapping[str, tuple[int, ...]], number: Callable[[KnownSize], int]) -> Problem:
    """The node's problem with those shapes of its arrays, by role. number: makes a number of each bound. TypeError and ValueError
    as `problem_of`.
    """
    tensors: list[TensorType | None] = []
    bounds: list[NDArray[Any] | None] = []
    for role, value in roles(site).items():
        is_array = role in arrays(site)
        if is_array and role not in shapes and value.type.kind is not None:
            raise TypeError(f"{role} is a {value.type.kind}, not a tensor")
        known = role in shapes and value.type.dtype is not None
        tensors.append(TensorType(shapes[role], value.type.dtype) if known else None)  # type: ignore[arg-type] # it is known
        bounds.append(None if is_array else _numbers(value, number))
    return problem_of(site.node, site.opset, tensors, bounds)


def _numbers(value: NodeValue, number: Callable[[KnownSize], int]) -> NDArray[Any] | None:
    """The elements of a bound, with numbers for their names; None where they are not known."""
    elements = value.elements
    if isinstance(elements, Unknown) or not has_names(elements):
        return None if isinstance(elements, Unknown) else elements
    return with_numbers(elements, number, value.type.dtype or np.int64)


def _sliced_axes(site: NodeSite, data: Named) -> Iterator[SlicedAxis]:
    """The axes that a Slice has bounds for."""
    inputs = roles(site)
    names = {role: value.elements for role, value in inputs.items() if not isinstance(value.elements, Unknown)}
    names = {role: elements for role, elements in names.items() if has_names(elements)}
    for role in NUMBERS:
        if role in names:
            raise UnknownValueError(role, inputs[role].name, f"{role} is computed from sizes that are not known")
    problem = problem_with(site, {"data": (1,) * len(data)}, lambda size: size if isinstance(size, int) else 0)
    assert isinstance(problem, Slice)
    starts, ends = (list(names[role].flat) if role in names else getattr(problem, role) for role in ("starts", "ends"))
    for axis, start, end, step in zip(problem.axes or (), starts, ends, problem.steps or (), strict=True):
        yield SlicedAxis(data[axis], start, max(TO_THE_FRONT) if step < 0 and end in TO_THE_FRONT else end, step)


def _orders(site: NodeSite, shapes: Mapping[str, Named]) -> Iterator[tuple[KnownSize, KnownSize]]:
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


def _least(site: NodeSite, shapes: Mapping[str, Named], sizes: Sizes) -> dict[KnownSize, int]:
    """How large the unknown sizes of data must be, so that constant indices are in range, unless they cannot be so large."""
    indices = constant_indices(site)
    if indices is None or not indices.size or "data" not in shapes or "indices" not in shapes:
        return {}
    data = shapes["data"]
    fitting = tuple(indices.shape[axis] if axis < indices.ndim else 1 for axis in range(len(data)))
    problem = problem_with(site, {"data": fitting, "indices": indices.shape}, int)
    least: dict[KnownSize, int] = {}
    for at, axis in enumerate(problem.lookup_axes):
        along = indices.reshape(-1, len(problem.lookup_axes))[:, at]
        needed = max(int(along.max()) + 1, -int(along.min()) if problem.wraps else 1)
        if isinstance(data[axis], str):
            least[data[axis]] = max(needed, least.get(data[axis], 1))
    return {size: needed for size, needed in least.items() if (most := sizes.most(size)) is None or needed <= most}


def _block_units(site: NodeSite, data: Named) -> dict[KnownSize, int]:
    """What the unknown sizes of data must be multiples of, where the operator moves blocks."""
    operator = {problem.name: problem for problem in (DepthToSpace, SpaceToDepth)}.get(site.node.op_type)
    blocksize = site.integers.get("blocksize", 0)
    units = operator.units(blocksize) if operator and blocksize > 0 else {}
    return {size: unit for axis, unit in units.items() for size in data[axis : axis + 1] if isinstance(size, str)}


# Whether DirectML takes a node of a model at a feature level, why not, and what is not known.


def judge(site: NodeSite, level: FeatureLevel, sizes: Sizes, origins: Mapping[str, str], *, cut: bool = False) -> Judged:
    """Whether DirectML takes the node at a feature level, and why not. sizes: of the node's model. origins: the input of the
    model that decides a symbol of these. cut: as of `trial_sizes`.
    """
    undefined = tuple(undefined_name(role, value.name, value.undefined) for role, value in roles(site).items() if value.undefined)
    if undefined:
        return Judged(Verdict.REFUSED, undefined)
    if site.unreached is not None:
        return Judged(Verdict.UNREACHED, reason=site.unreached)
    try:
        node = node_sizes(site, sizes)
        found = trial_sizes(node, cut)
        apart = found.possible is False and bool(node.least)
        if apart:
            found = trial_sizes(replace(node, least={}), cut)
        if found.possible is None:
            return Judged(Verdict.UNKNOWN, (_no_sizes(node, origins),))
        problems = list(_problems(site, node, found))
    except (UnknownTypeError, UnknownValueError) as error:
        return Judged(Verdict.UNKNOWN, tuple(_missing(site, sizes, origins)) or (_reference(error),))
    except (TypeError, ValueError) as error:
        return Judged(Verdict.REFUSED, (broken_rule(site.node, site.opset, printable(str(error)), error),))
    judged = verdict(EXPORTER, problems, found.provided, level)
    call = None if node.symbols else KnownCall(problems[0][1], _elements(site))
    wrong = _index_out_of_range(site, node, *problems[0], apart=apart)
    return replace(judged, call=call) if wrong is None else Judged(Verdict.REFUSED, (wrong, *judged.findings), call=call)


def _problems(site: NodeSite, node: NodeSizes, found: TrialSizes) -> Iterator[tuple[dict[str, int], Problem]]:
    """The node's problem for each trial. TypeError and ValueError as `problem_of`; those about sizes name them."""
    for values in found.values:
        shapes = {role: node.concrete(shape, values) for role, shape in node.shapes.items()}
        try:
            yield values, problem_with(site, shapes, partial(node.sizes.at, values=values))
        except (UnknownTypeError, UnknownValueError):
            raise
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error}{with_sizes(values) if len(found.values) == 1 else ''}") from error


def undefined_name(role: str, name: str, reason: str) -> Finding:
    """The finding that a node reads a name that is not defined before it."""
    return CODES["EXP304"].finding(
        role,
        expected="an input or initializer of the graph or of one around it, or an output of an earlier node",
        got=f"{printable(name)!r}, which is {reason}",
        remedy="correct the name" if reason == NOWHERE else "sort the nodes: each comes after those whose outputs it reads",
    )


def _index_out_of_range(
    site: NodeSite, node: NodeSizes, values: Mapping[str, int], problem: Problem, *, apart: bool
) -> Finding | None:
    """The first constant index that is out of range whatever the unknown sizes are. values: of the symbols in these, with which
    `problem` is the node's. apart: whether the indices are in range for some sizes each, but not together.
    """
    indices = constant_indices(site)
    if indices is None:
        return None
    unknown = {axis: size for axis, size in enumerate(node.shapes["data"]) if isinstance(size, str)}
    found = index_out_of_range(problem, indices, {axis: node.sizes.most(size) for axis, size in unknown.items()})
    if found is None and apart:
        found = index_out_of_range(problem, indices)
        return found and found.model_copy(update={"got": f"{found.got}{with_sizes(values)}"})
    return found


def _elements(site: NodeSite) -> dict[str, NDArray[Any]]:
    """The arrays whose elements are known numbers, by role."""
    known = {role: value.elements for role, value in arrays(site).items() if not isinstance(value.elements, Unknown)}
    return {role: elements for role, elements in known.items() if not has_names(elements)}


def _no_sizes(node: NodeSizes, origins: Mapping[str, str]) -> Finding:
    """The finding that no sizes were found for which the node has a meaning."""
    symbols = ", ".join(map(printable, node.symbols))
    return CODES["EXP302"].finding(
        "data",
        expected="sizes for which no tensor is empty",
        got=f"sizes that depend on {symbols} in a way for which none were found{_deciding_inputs(node.symbols, origins)}",
        remedy=f"declare {symbols} in the model, as numbers",
    )


def _missing(site: NodeSite, sizes: Sizes, origins: Mapping[str, str]) -> Iterator[Finding]:
    """What the model does not say about a node's inputs."""
    for role, value in roles(site).items():
        name, is_array = printable(value.name), role in ARRAYS[site.node.op_type]
        origin = _origin(value)
        if is_array and (value.type.dtype is None or value.type.shape is None):
            yield CODES["EXP301"].finding(
                role,
                expected="a data type and a number of dimensions",
                got=f"{name!r} of type {value.type}{origin}",
                remedy=f"declare the type of {name!r} in the model's value_info, or the types of what it is computed from",
            )
        elif is_array and shape_of(site, role, value) is None:
            yield CODES["EXP302"].finding(
                role,
                expected="a known size of the last dimension, which is how many axes are indexed",
                got=f"{name!r} of type {value.type}",
                remedy=f"declare that size of {name!r} in the model, as a number",
            )
        elif role in NUMBERS and (names := _names(value)):
            symbols = list(dict.fromkeys(symbol for each in names for symbol in sorted(sizes.symbols(each))))
            yield CODES["EXP302"].finding(
                role,
                expected="numbers, as DirectML's slices have their axes and steps in the descriptor",
                got=f"{name!r}, computed from sizes: {printable(', '.join(names))}{_deciding_inputs(symbols, origins)}",
                remedy=f"declare {printable(', '.join(symbols))} in the model, as numbers",
            )
        elif not is_array and name and origin:
            change = "unroll the loop" if CHANGING in origin else f"make {name!r} a Constant or an initializer that is no input"
            yield CODES["EXP302"].finding(
                role,
                expected="constants, as DirectML's slices have their bounds in the descriptor",
                got=f"{name!r}{origin}",
                remedy=f"{change}, or build a descriptor for each value it takes",
            )


def _names(value: NodeValue) -> list[str]:
    """The names among the elements of an input."""
    if isinstance(value.elements, Unknown) or not has_names(value.elements):
        return []
    return [each for each in value.elements.flat if isinstance(each, str)]


def _deciding_inputs(symbols: Iterable[str], origins: Mapping[str, str]) -> str:
    """The inputs of the model that decide symbols; empty where none is known."""
    names = dict.fromkeys(repr(printable(origins[symbol])) for symbol in symbols if symbol in origins)
    return f"; they depend on the model's input{'s' * (len(names) > 1)} {', '.join(names)}" if names else ""


def _origin(value: NodeValue) -> str:
    """Why an input's elements are not known; else empty."""
    if not isinstance(value.elements, Unknown):
        return ""
    decided_by = value.elements.decided_by
    depends = f"; it depends on the model's input {printable(decided_by)!r}" if decided_by not in (None, value.name) else ""
    return f", {printable(value.elements.reason)}{depends}"


def _reference(error: UnknownTypeError | UnknownValueError) -> Finding:
    return CODES["EXP302"].finding(
        error.input,
        expected="one value for all calls of the function",
        got=f"a reference to the function's attribute {printable(error.value)!r}",
        remedy="inline the function's calls, or call it with one value",
    )


def check_model(
    path: Path,
    level: str | FeatureLevel = "6_4",
    include_host: bool = False,
    provider: str | Provider | None = None,
) -> CheckedModel:
    """Read the model at `path` and judge its nodes at a feature level. External data is not read.

    include_host: whether nodes that are the host's arithmetic are judged as if DirectML had to take them. provider: a program of
    which is said what it does with each node.
    A file that cannot be understood has one problem. ValueError for an unknown level or provider, and for a level that is too low
    for the provider.
    """
    level = FeatureLevel.parse(level)
    wanted = None if provider is None else Provider(provider)
    if wanted is not None:
        check_level(level)
    try:
        file = read_model(path)
        contents = find_nodes(file)
        judged = [(site, judge(site, level, contents.sizes, contents.origins)) for site in contents.sites]
        if not include_host:
            judged = [(site, of_host(each) if site.host else each) for site, each in judged]
        judged = _reconciled(judged, level, contents)
        found = None if wanted is None else provided(file, contents, _known(judged), level)
    except ImportError as error:
        message = str(missing_extra("an ONNX model", "onnx", error))
        return CheckedModel(str(path), problems=(FileProblem(file=str(path), message=message),))
    except FileError as error:
        return CheckedModel(str(path), problems=(FileProblem(file=str(path), message=str(error)),))
    findings = [
        *_graph_findings(contents),
        *((site.place, finding) for site, each in judged for finding in each.findings),
        *contradictions(_stated(judged, contents.sizes)),
        *(found.findings if found else ()),
    ]
    return CheckedModel(
        str(path),
        opsets=contents.opsets,
        nodes=tuple(
            _checked(site, _with_makers(each, contents), found.nodes.get(site.place) if found else None) for site, each in judged
        ),
        others=dict(sorted(contents.others.items())),
        relatives=relatives_among(contents.others),
        findings=tuple(LocatedFinding.of(finding, str(path), None, None, place) for place, finding in findings),
        calls={site.place: each.call for site, each in judged if each.call is not None},
        provider=found.summary if found else None,
    )


def _known(judged: Iterable[tuple[NodeSite, Judged]]) -> Iterator[tuple[NodeSite, Problem | None, tuple[str, ...]]]:
    """The nodes, each with what it computes, where that is known, and the codes of its findings."""
    for site, each in judged:
        yield site, each.call.problem if each.call else None, tuple(finding.code for finding in each.findings)


def _reconciled(
    judged: list[tuple[NodeSite, Judged]], level: FeatureLevel, contents: ModelContents
) -> list[tuple[NodeSite, Judged]]:
    """The verdicts, where nodes whose conditions contradict each other may have bounds that are cut off, as ONNX does."""
    cut: set[str] = set()
    while more := contradicting(_stated(judged, contents.sizes)) - cut:
        cut |= more
        for number, (site, _) in enumerate(judged):
            if site.place in more:
                wider = judge(site, level, contents.sizes, contents.origins, cut=True)
                if wider.verdict is Verdict.TAKEN:
                    judged[number] = (site, wider)
    return judged


def _graph_findings(contents: ModelContents) -> Iterator[tuple[str, Finding]]:
    """Findings with the places of graphs whose shapes are missing, and of other nodes that read names that are not defined or
    do not have the form of their operator.
    """
    for graph, reason in contents.remarks.items() if contents.sites else ():
        yield (
            graph,
            CODES["EXP303"].finding(
                "",
                expected="a model whose shapes ONNX can infer",
                got=reason,
                remedy="correct the model, or declare the types of its values in value_info; only these are known",
            ),
        )
    for place, name, reason in contents.undefined:
        yield place, undefined_name("", name, reason)
    for place, node, opset, reason in contents.malformed:
        yield place, broken_rule(node, opset, printable(reason))
    for each in contents.contradictions:
        yield each.place, finding_of(each, contents.sizes)


def _stated(judged: Iterable[tuple[NodeSite, Judged]], sizes: Sizes) -> Iterator[Stated]:
    """The conditions of the nodes that are taken."""
    for site, each in judged:
        if each.within is not None and each.provided:
            named = (size for value in site.inputs for size in (*(value.type.shape or ()), *_bounds(value)))
            symbols = (sizes.symbols(size) for size in named if isinstance(size, str))
            yield Stated(site.place, each.within, frozenset(chain.from_iterable(symbols)))


def _bounds(value: NodeValue) -> Iterator[KnownSize]:
    if isinstance(value.elements, np.ndarray) and has_names(value.elements):
        yield from value.elements.flat


def _with_makers(judged: Judged, contents: ModelContents) -> Judged:
    """The verdict, with the nodes that give the sizes in its conditions."""
    named = ({name: maker for name in each.symbols if (maker := contents.makers.get(name))} for each in judged.conditions)
    conditions = (each.model_copy(update={"makers": makers}) for each, makers in zip(judged.conditions, named, strict=True))
    return replace(judged, conditions=tuple(conditions))


def _checked(site: NodeSite, judged: Judged, provider: ProviderNode | None) -> CheckedNode:
    try:
        version = version_of(site.node.op_type, site.opset).since
    except ValueError:
        version = None
    return judged.checked_node(
        place=site.place,
        graph=site.graph,
        name=site.node.name,
        index=site.index,
        operator=site.node.op_type,
        opset=site.opset,
        version=version,
        inputs=tuple(_inputs(site)),
        attributes=site.integers,
        outputs=tuple(_tensor("output", value) for value in site.outputs),
        provider=provider,
    )


def _inputs(site: NodeSite) -> Iterator[CheckedTensor]:
    roles = INPUTS[site.node.op_type]
    for number, value in enumerate(site.inputs):
        if value.name:
            yield _tensor(roles[number] if number < len(roles) else f"input {number}", value)
    for attribute in site.node.attribute:
        if attribute.name in BOUNDS and not attribute.ref_attr_name:
            values = tuple(attribute.ints)
            yield CheckedTensor(role=attribute.name, name="", type="int64", shape=(len(values),), values=values)


def _tensor(role: str, value: NodeValue) -> CheckedTensor:
    values = None
    if role in BOUNDS and isinstance(value.elements, np.ndarray) and value.elements.dtype.kind in "iuO":
        values = tuple(each if isinstance(each, str) else int(each) for each in value.elements.flat)
    return CheckedTensor(role=role, name=value.name, type=value.type.name, shape=value.type.shape, values=values)
