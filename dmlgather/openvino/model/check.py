"""Check an OpenVINO IR file: every layer of the family is judged, and nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from dmlgather.dialects.checked_model import CheckedModel, CheckedNode, CheckedTensor, KnownCall, Unknown, Verdict, typed
from dmlgather.dialects.element_types import OF_ML_DTYPES
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.exporter import first_out_of_range, not_whole_bytes
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.relatives import OPENVINO_RELATIVES, found
from dmlgather.dialects.sizes import KnownSize, Sizes, has_names, known_sizes, with_numbers
from dmlgather.dialects.sliced_axes import SlicedAxis
from dmlgather.dialects.unknown_sizes import NodeSizes, trial_sizes
from dmlgather.dialects.verdicts import Judged, of_host, verdict, with_sizes
from dmlgather.directml import FeatureLevel, Finding
from dmlgather.directml.findings import FileProblem, LocatedFinding
from dmlgather.files import FileError
from dmlgather.openvino.model.constants import NOT_CONNECTED, Value
from dmlgather.openvino.model.ir_layers import Port, read_model
from dmlgather.openvino.model.ir_xml import ForeignError, IRError, read_xml
from dmlgather.openvino.model.layer_reading import problem_of
from dmlgather.openvino.model.layer_sites import LayerSite, find
from dmlgather.openvino.problems.data_types import TYPES, integer_type
from dmlgather.openvino.problems.export import EXPORTER
from dmlgather.openvino.problems.operation_versions import OpenVINOProblem
from dmlgather.openvino.problems.slices import entries
from dmlgather.package import missing_extra
from dmlgather.plan import OutOfBounds

# What is known of the sizes of a layer: its shapes, the axes that it slices, and what its operation requires of sizes.

END = 2**63 - 1
"""A bound behind the end of every axis."""

NAMED_BOUNDS = ("start", "stop", "begin", "end")
"""The inputs that may depend on sizes that are not known; of the others, a descriptor needs the numbers."""


class LongSizeError(Exception):
    """A bound is an expression that is too long to compute with."""


def missing_bound(site: LayerSite, role: str) -> Unknown | None:
    """Why a bound is not known well enough; None where it is."""
    value = site.values[role]
    if isinstance(value, Unknown):
        return value
    if role in NAMED_BOUNDS or not has_names(value):
        return None
    return Unknown(f"which depends on {', '.join(each for each in value.reshape(-1) if isinstance(each, str))}")


def site_sizes(site: LayerSite, sizes: Sizes) -> NodeSizes:
    """What is known of the sizes of a layer whose arrays have known ranks and whose bounds are known. sizes: of its model.

    LongSizeError for a bound that is too long.
    """
    axes = _AXES[site.layer.type](site, sizes) if site.layer.type in _AXES else ()
    return NodeSizes(sizes, site.shapes, tuple(axes), tuple(_orders(site)))


def problem_with(site: LayerSite, node: NodeSizes, values: Mapping[str, int]) -> OpenVINOProblem:
    """The layer's problem with those sizes. TypeError and ValueError as the problem's; ModuleNotFoundError without ml_dtypes."""
    types = {each.role: _tensor_type(site, each, node.concrete(site.shapes[each.role], values)) for each in site.arrays}

    def number(size: KnownSize) -> int:
        # A bound for no dimension of data has symbols without values; the problem's own rules refuse it.
        return node.sizes.at(size, {symbol: values.get(symbol, 1) for symbol in node.sizes.symbols(size)})

    bounds = {role: _known_numbers(site, role, number) for role in site.version.bounds if role in site.values}
    return problem_of(site.version, types, bounds, site.attributes)


def _known_numbers(site: LayerSite, role: str, number: Callable[[KnownSize], int]) -> Any:
    """The elements of a bound, with numbers for their names."""
    value = site.values[role]
    assert not isinstance(value, Unknown), "it would be missing"
    if not has_names(value):
        return value
    return with_numbers(value, number, integer_type(site.inputs[role].type))


def _tensor_type(site: LayerSite, tensor: CheckedTensor, shape: tuple[int, ...]) -> TensorType:
    if tensor.type not in TYPES.names:
        raise TypeError(f"{tensor.role} has type {tensor.type}, but {site.version} takes {', '.join(TYPES.names)}")
    assert tensor.type is not None, "it would be missing"
    if TYPES.names[tensor.type].startswith(OF_ML_DTYPES):
        import_module("ml_dtypes")  # whose absence is not the layer's fault, as a TypeError would say
    return TensorType(shape, TYPES.dtype_of(tensor.type))


def _elements(value: Value) -> list[KnownSize]:
    assert not isinstance(value, Unknown), "it would be missing"
    if value.dtype.kind not in "iuO":  # which the problem's own rules refuse
        return []
    return known_sizes(value)


def _bounds(site: LayerSite, role: str, count: int, default: int) -> list[KnownSize]:
    """A bound with one entry for each of `count`; the problem's own rules judge another number."""
    found = _elements(site.values[role]) if role in site.values else []
    return [*found, *[default] * count][:count]


def _slice_axes(site: LayerSite, _: Sizes) -> Iterator[SlicedAxis]:
    data, count = site.shapes["data"], len(_elements(site.values["start"]))
    starts, stops = (_bounds(site, role, count, 0) for role in ("start", "stop"))
    steps = _bounds(site, "step", count, 1)
    axes = _bounds(site, "axes", count, 0) if "axes" in site.values else list(range(count))
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        assert isinstance(step, int)
        assert isinstance(axis, int)
        if -len(data) <= axis < len(data) and step:
            yield SlicedAxis(data[axis], start, stop, step)


def _strided_axes(site: LayerSite, sizes: Sizes) -> Iterator[SlicedAxis]:
    data, count = site.shapes["data"], len(_elements(site.values["begin"]))
    begins, ends = (_bounds(site, role, count, 0) for role in ("begin", "end"))
    strides = _bounds(site, "strides", count, 1)
    masks = {name: (*_mask(site, name), *(0,) * count)[:count] for name in site.version.attributes}
    try:
        found = list(entries(len(data), masks["new_axis_mask"], masks["shrink_axis_mask"], masks["ellipsis_mask"]))
    except ValueError:  # which the problem will raise too
        return
    for axis, number, shrinks in found:
        if axis is None or number is None:
            continue
        begin, stride = begins[number], strides[number]
        assert isinstance(stride, int)
        if shrinks:
            yield SlicedAxis(data[axis], begin, _end_of_one(begin, sizes), 1)
        elif stride:
            first, behind = (0, END) if stride > 0 else (END, -END - 1)
            yield SlicedAxis(
                data[axis],
                first if masks["begin_mask"][number] else begin,
                behind if masks["end_mask"][number] else ends[number],
                stride,
            )


def _end_of_one(begin: KnownSize, sizes: Sizes) -> KnownSize:
    """The end of the one element at `begin`. That of an expression never ends the axis from behind: -1 is left out."""
    end = sizes.compute("add", begin, 1)
    if end is None:
        raise LongSizeError
    return END if begin == -1 else end


def _mask(site: LayerSite, name: str) -> tuple[int, ...]:
    mask = site.attributes.get(name, ())
    return mask if isinstance(mask, tuple) else (mask,)


_AXES: Mapping[str, Callable[[LayerSite, Sizes], Iterator[SlicedAxis]]] = {"Slice": _slice_axes, "StridedSlice": _strided_axes}


def _orders(site: LayerSite) -> Iterator[tuple[KnownSize, KnownSize]]:
    """Pairs of sizes of which the operation requires that the first is at most the second; two pairs for equal sizes."""
    if "indices" not in site.shapes:
        return
    pairs = list(zip(site.shapes["data"], site.shapes["indices"], strict=False))
    if site.layer.type == "GatherElements":
        axis = site.attributes.get("axis", 0)
        equal = [pair for at, pair in enumerate(pairs) if at not in (axis, _number(axis) + len(site.shapes["data"]))]
    else:
        batch = _number(site.attributes.get("batch_dims", 0))
        equal = pairs[: max(batch + (len(site.shapes["indices"]) if batch < 0 else 0), 0)]
    for pair in equal:
        yield from (pair, pair[::-1])


def _number(attribute: int | tuple[int, ...]) -> int:
    assert isinstance(attribute, int)
    return attribute


# What OpenVINO infers when it reads a model, compared with what the file's ports say, which OpenVINO ignores.

SAVE_AGAIN = "have OpenVINO read the model and save it again, which infers what ports say"


def output_of(site: LayerSite, shapes: Sequence[tuple[int, ...]] = ()) -> CheckedTensor:
    """The output of a layer. shapes: those that it has with several values of the sizes that are not known; what all have in
    common is known. Where there are none, the shape is as the output port has it.
    """
    output = site.output.model_copy(update={"type": site.inputs["data"].type or site.output.type})
    if not shapes or site.condition:
        return output
    first, *others = shapes
    sizes = (size if all(other[axis] == size for other in others) else None for axis, size in enumerate(first))
    return output.model_copy(update={"shape": tuple(sizes)})


def contradicted_output(site: LayerSite, output: CheckedTensor) -> Iterator[Finding]:
    """The finding about an output port that a well-formed layer's inputs contradict."""
    (port,) = site.layer.outputs
    if contradict(output, port):
        yield CODES["EXP101"].finding(
            "output",
            expected=f"{typed(output.type, output.shape)}, which follows from the inputs",
            got=f"{typed(port.type, port.shape)}, which the output port has",
            remedy=f"correct the layer; if its inputs are right, {SAVE_AGAIN}",
            source=f"[OPENVINO] {site.layer.type}",
        )


def contradicted_inputs(site: LayerSite) -> Iterator[Finding]:
    """Findings about input ports that contradict the layers that they are connected to, which OpenVINO believes."""
    for tensor, port in zip(site.inputs.values(), site.layer.inputs, strict=True):
        if contradict(tensor, port):
            yield CODES["EXP303"].finding(
                tensor.role,
                expected=f"{typed(tensor.type, tensor.shape)}, the type of {tensor.name!r}, which OpenVINO uses",
                got=f"{typed(port.type, port.shape)}, which the layer's port has",
                remedy=SAVE_AGAIN,
                source=f"[OPENVINO] {site.layer.type}",
            )


def contradict(tensor: CheckedTensor, port: Port) -> bool:
    """Whether no tensor has the type and shape of both, as far as they are known."""
    if None not in (tensor.type, port.type) and tensor.type != port.type:
        return True
    if tensor.shape is None or port.shape is None:
        return False
    pairs = list(zip(tensor.shape, port.shape, strict=False))
    return len(tensor.shape) != len(port.shape) or any(None not in pair and pair[0] != pair[1] for pair in pairs)


# Judge a layer: whether DirectML takes it at a feature level, where it differs, what is not known.

SMALLER_THAN_BYTES = ("i4", "u4", "nf4", "f4e2m1", "u1", "u2", "u3", "u6")
"""OpenVINO's element types of which several share a byte."""


def judge(site: LayerSite, level: FeatureLevel, sizes: Sizes) -> tuple[Judged, CheckedTensor]:
    """Whether DirectML takes the layer at a feature level, and why not; and its output. sizes: of the layer's model."""
    judged, output = _judge(site, level, sizes)
    return replace(judged, findings=(*contradicted_inputs(site), *judged.findings)), output


def _judge(site: LayerSite, level: FeatureLevel, sizes: Sizes) -> tuple[Judged, CheckedTensor]:
    kind = site.inputs["data"].type
    if kind in SMALLER_THAN_BYTES:
        got = f"{kind}, of which several share a byte"
        return Judged(Verdict.REFUSED, (not_whole_bytes("numbers or boolean, of whole bytes", got),)), site.output
    missing = tuple(_missing(site))
    if missing:
        return Judged(Verdict.UNKNOWN, missing), output_of(site)
    try:
        node = site_sizes(site, sizes)
    except LongSizeError:
        return Judged(Verdict.UNKNOWN, (_no_sizes(["a bound of many operations"]),)), output_of(site)
    found = trial_sizes(node)
    try:
        problems = [(values, problem_with(site, node, values)) for values in found.values]
    except (TypeError, ValueError) as error:
        shown = with_sizes(found.values[0]) if len(found.values) == 1 else ""
        return Judged(Verdict.REFUSED, (_ill_formed(f"{error}{shown}"),)), output_of(site)
    output = output_of(site, [problem.output.shape for _, problem in problems])
    contradicted = tuple(contradicted_output(site, output))
    if contradicted:
        return Judged(Verdict.REFUSED, contradicted), output
    if found.possible is None:
        return Judged(Verdict.UNKNOWN, (_no_sizes(node.symbols),)), output
    judged = verdict(EXPORTER, problems, found.provided, level)
    provided = (*judged.provided, site.condition) if judged.lowest and site.condition else judged.provided
    judged = replace(judged, provided=provided, call=None if node.symbols or site.condition else KnownCall(problems[0][1]))
    return _with_differences(site, judged, problems[0][1]), output


def _with_differences(site: LayerSite, judged: Judged, problem: Problem) -> Judged:
    """The verdict with what indices out of range do. Those that are constants are known."""
    indices = site.values.get("indices")
    known = [isinstance(size, int) for size in site.shapes["data"]]
    wrong = None
    if isinstance(indices, np.ndarray) and not has_names(indices):
        wrong = first_out_of_range(problem, indices, known)
        if wrong is None and all(known[axis] for axis in problem.lookup_axes):
            return judged
    if wrong is not None and problem.out_of_bounds is OutOfBounds.RAISE:
        finding = CODES["EXP111"].finding(
            wrong.place,
            expected=wrong.valid,
            got=str(wrong.value),
            remedy="correct the constant: OpenVINO has no element for it, and DirectML reads another one",
        )
        return Judged(Verdict.REFUSED, (finding, *judged.findings), call=judged.call)
    if judged.verdict is not Verdict.TAKEN:
        return judged
    size = site.shapes["data"][problem.lookup_axes[0]] if problem.lookup_axes else None
    findings = EXPORTER.differences(problem, size if isinstance(size, int) else None)
    if wrong is not None:
        findings = tuple(each.model_copy(update={"got": f"{each.got}; {wrong.place} is {wrong.value}"}) for each in findings)
    return replace(judged, findings=findings)


def described(site: LayerSite, judged: Judged, output: CheckedTensor) -> CheckedNode:
    """The layer with what is known of it and its verdict."""
    inputs = (tensor.model_copy(update={"values": _numbers(site, role)}) for role, tensor in site.inputs.items())
    return judged.checked_node(
        place=site.place,
        graph=site.graph,
        name=site.layer.name,
        index=site.index,
        operator=site.layer.type,
        opset=site.opset,
        version=site.version.since,
        inputs=tuple(inputs),
        attributes=dict(site.attributes),
        outputs=(output,),
    )


def _numbers(site: LayerSite, role: str) -> tuple[int, ...] | None:
    """The elements of a bound that are numbers."""
    value: Value | None = site.values.get(role)
    if role not in site.version.bounds or value is None or isinstance(value, Unknown) or value.dtype.kind not in "iu":
        return None
    return tuple(map(int, value.reshape(-1)))


def _missing(site: LayerSite) -> Iterator[Finding]:
    """What the file does not say about a layer's inputs."""
    for tensor in site.arrays:
        missing = {}
        if tensor.type is None:
            missing["a data type"] = "add its precision"
        if tensor.shape is None:
            missing["a number of dimensions"] = "add its sizes, -1 for each unknown one: reshape the model with a known rank"
        if missing:
            yield CODES["EXP301"].finding(
                tensor.role,
                expected=" and ".join(missing),
                got=f"{tensor.name!r} of type {typed(tensor.type, tensor.shape)}",
                remedy=" and ".join(missing.values()),
            )
        elif site.layer.type == "GatherND" and tensor.role == "indices" and tensor.shape and tensor.shape[-1] is None:
            yield CODES["EXP302"].finding(
                tensor.role,
                expected="a known size of the last dimension, which is how many axes are indexed",
                got=f"{tensor.name!r} of type {typed(tensor.type, tensor.shape)}",
                remedy="reshape the model with a known size there",
            )
    for role in site.version.bounds:
        unknown = missing_bound(site, role) if role in site.values else None
        if unknown is not None:
            alone = unknown.reason == NOT_CONNECTED
            why = "as a descriptor has one Axis" if role == "axis" else "as DirectML's slices have their bounds in the descriptor"
            yield CODES["EXP302"].finding(
                role,
                expected=f"a Const, or what follows from constants and shapes, {why}",
                got=f"{site.inputs[role].name!r}, {unknown.reason}",
                remedy=f"{'check the whole IR, or ' if alone else ''}make it a constant of the model",
            )


def _no_sizes(symbols: Sequence[str]) -> Finding:
    """The finding that no sizes were found for which the layer has a meaning."""
    return CODES["EXP302"].finding(
        "data",
        expected="sizes for which no tensor is empty",
        got=f"sizes that depend on {', '.join(symbols)} in a way for which none were found",
        remedy="reshape the model with known sizes",
    )


def _ill_formed(message: str) -> Finding:
    return CODES["EXP101"].finding(
        "",
        expected="a layer that the operator's version in force allows",
        got=message,
        remedy="correct the model; OpenVINO refuses the layer, or has no values for it",
    )


def check_ir(path: Path, level: str | FeatureLevel = "6_4", include_host: bool = False) -> CheckedModel:
    """Read the IR at `path` and judge its layers of the family at a feature level. Of the .bin beside it, only indices, axes and
    bounds are read, and what they are computed from.

    include_host: whether layers that are the host's arithmetic are judged as if DirectML had to take them.
    A file that cannot be understood has one problem. ValueError for an unknown level.
    """
    level = FeatureLevel.parse(level)
    file = str(path)
    try:
        model = read_model(read_xml(path))
        contents = find(model, path.with_suffix(".bin"))
        judged = [(site, *judge(site, level, contents.names.sizes)) for site in contents.sites]
        if not include_host:
            judged = [(site, of_host(each) if site.host else each, output) for site, each, output in judged]
    except ModuleNotFoundError as error:
        message = str(missing_extra("an OpenVINO IR", "openvino", error))
        return CheckedModel(file, problems=(FileProblem(file=file, message=message),))
    except FileError as error:
        line, column = (error.line, error.column) if isinstance(error, IRError) else error.position or (None, None)
        problem = FileProblem(file=file, line=line, column=column, message=str(error))
        return CheckedModel(file, foreign=isinstance(error, ForeignError), problems=(problem,))
    return CheckedModel(
        file,
        format=model.version,
        nodes=tuple(described(*pair) for pair in judged),
        others=dict(sorted(contents.others.items())),
        relatives=found(OPENVINO_RELATIVES, contents.others),
        findings=tuple(
            LocatedFinding.of(finding, file, site.layer.line, None, site.place)
            for site, judgement, _ in judged
            for finding in judgement.findings
        ),
        calls={site.place: judgement.call for site, judgement, _ in judged if judgement.call is not None},
    )
