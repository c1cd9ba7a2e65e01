"""Judge a layer: whether DirectML takes it at a feature level, where it differs, what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dmlgather.dialects.checked_model import CheckedNode, CheckedTensor, KnownCall, Unknown, Verdict, typed
from dmlgather.dialects.constant_indices import first_out_of_range
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.exporter import not_whole_bytes
from dmlgather.dialects.problem import Problem
from dmlgather.dialects.size_arrays import has_names
from dmlgather.dialects.sizes import Sizes
from dmlgather.dialects.unknown_sizes import trial_sizes
from dmlgather.dialects.verdicts import Judged, verdict, with_sizes
from dmlgather.directml import FeatureLevel, Finding
from dmlgather.openvino.model.constants import NOT_CONNECTED, Value
from dmlgather.openvino.model.layer_sites import LayerSite
from dmlgather.openvino.model.shape_inference import contradicted_inputs, contradicted_output, output_of
from dmlgather.openvino.model.site_sizes import LongSizeError, missing_bound, problem_with, site_sizes
from dmlgather.openvino.problems.export import EXPORTER, differences
from dmlgather.plan import OutOfBounds

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
    findings = differences(problem, size if isinstance(size, int) else None)
    if wrong is not None:
        findings = (each.model_copy(update={"got": f"{each.got}; {wrong.place} is {wrong.value}"}) for each in findings)
    return replace(judged, findings=tuple(findings))


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
