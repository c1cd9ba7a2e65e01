"""Judge a Gather layer: whether DirectML takes it at a feature level, where it differs, what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module

from dmlgather.dialects.checked_model import CheckedNode, CheckedTensor, KnownCall, Unknown, Verdict, typed
from dmlgather.dialects.element_types import OF_ML_DTYPES
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.exporter import not_whole_bytes
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.size_search import Values
from dmlgather.dialects.sizes import Sizes
from dmlgather.dialects.unknown_sizes import Named, NodeSizes, named, trials
from dmlgather.dialects.verdicts import Judged, verdict, with_sizes
from dmlgather.directml import FeatureLevel, Finding
from dmlgather.openvino.model.constants import NOT_CONNECTED
from dmlgather.openvino.model.layer_sites import LayerSite
from dmlgather.openvino.model.shape_inference import contradicted_inputs, contradicted_output, output_of
from dmlgather.openvino.problems.data_types import TYPES
from dmlgather.openvino.problems.export import EXPORTER, differences
from dmlgather.openvino.problems.gather import OpenVINOGather, axis_of

SMALLER_THAN_BYTES = ("i4", "u4", "nf4", "f4e2m1", "u1", "u2", "u3", "u6")
"""OpenVINO's element types of which several share a byte."""


def judge(site: LayerSite, level: FeatureLevel) -> Judged:
    """Whether DirectML takes the layer at a feature level, and why not."""
    judged = _judge(site, level)
    return replace(judged, findings=(*contradicted_inputs(site), *judged.findings))


def _judge(site: LayerSite, level: FeatureLevel) -> Judged:
    if site.data.type in ("string", *SMALLER_THAN_BYTES):
        got = "strings" if site.data.type == "string" else f"{site.data.type}, of which several share a byte"
        return Judged(Verdict.REFUSED, (not_whole_bytes("numbers or boolean, of whole bytes", got),))
    missing = tuple(_missing(site))
    if missing:
        return Judged(Verdict.UNKNOWN, missing)
    shapes = {tensor.role: named(tensor.role, tensor.shape or ()) for tensor in (site.data, site.indices)}
    node = NodeSizes(Sizes(), shapes, orders=tuple(_equal_batches(site, shapes)))
    found = trials(node)
    try:
        problems = [(values, _problem(site, node, values)) for values in found.values]
    except (TypeError, ValueError) as error:
        return Judged(Verdict.REFUSED, (_ill_formed(f"{error}{with_sizes(found.values[0]) if len(found.values) == 1 else ''}"),))
    contradicted = tuple(contradicted_output(site))
    if contradicted:
        return Judged(Verdict.REFUSED, contradicted)
    judged = verdict(EXPORTER, problems, found.provided, level)
    provided = (*judged.provided, site.condition) if judged.lowest and site.condition else judged.provided
    judged = replace(judged, provided=provided, call=None if node.symbols or site.condition else KnownCall(problems[0][1]))
    if judged.verdict is not Verdict.TAKEN:
        return judged
    problem = problems[0][1]
    size = shapes["data"][problem.axis]
    return replace(judged, findings=tuple(differences(problem, size if isinstance(size, int) else None)))


def described(site: LayerSite, judged: Judged) -> CheckedNode:
    """The layer with what is known of it and its verdict."""
    axis = site.axis_value
    values = None if isinstance(axis, Unknown) or axis.dtype.kind not in "iu" else tuple(map(int, axis.reshape(-1)))
    return CheckedNode(
        place=site.place,
        graph=site.graph,
        name=site.layer.name,
        index=site.index,
        operator="Gather",
        opset=site.opset,
        version=site.version,
        inputs=(site.data, site.indices, site.axis.model_copy(update={"values": values})),
        attributes={"batch_dims": site.batch_dims} if "batch_dims" in site.layer.data and site.version > 1 else {},
        outputs=(output_of(site),),
        verdict=judged.verdict,
        taken=judged.taken,
        lowest=judged.lowest,
        missing=tuple(finding.path for finding in judged.findings) if judged.verdict is Verdict.UNKNOWN else (),
        provided=judged.provided,
    )


def _problem(site: LayerSite, node: NodeSizes, values: Values) -> OpenVINOGather:
    """The layer's problem with those sizes. TypeError and ValueError as the problem's; ModuleNotFoundError without ml_dtypes."""
    assert not isinstance(site.axis_value, Unknown), "it would be missing"
    shapes = {role: node.concrete(shape, values) for role, shape in node.shapes.items()}
    data, indices = (_tensor_type(site, tensor, shapes[tensor.role]) for tensor in (site.data, site.indices))
    return OpenVINOGather(data, indices, axis_of(site.axis_value), site.batch_dims, site.version)


def _tensor_type(site: LayerSite, tensor: CheckedTensor, shape: tuple[int, ...]) -> TensorType:
    if tensor.type not in TYPES.names:
        raise TypeError(f"{tensor.role} has type {tensor.type}, but Gather-{site.version} takes {', '.join(TYPES.names)}")
    assert tensor.type is not None, "it would be missing"
    if TYPES.names[tensor.type].startswith(OF_ML_DTYPES):
        import_module("ml_dtypes")  # whose absence is not the layer's fault, as a TypeError would say
    return TensorType(shape, TYPES.dtype_of(tensor.type))


def _equal_batches(site: LayerSite, shapes: Mapping[str, Named]) -> Iterator[tuple[int | str, int | str]]:
    """Pairs of batch sizes, each at most the other: batches have equal sizes."""
    batch = site.batch_dims + (len(shapes["indices"]) if site.batch_dims < 0 else 0)
    for pair in zip(shapes["data"][: max(batch, 0)], shapes["indices"], strict=False):
        yield from (pair, pair[::-1])


def _missing(site: LayerSite) -> Iterator[Finding]:
    """What the file does not say about a layer's inputs."""
    for tensor in (site.data, site.indices):
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
    if isinstance(site.axis_value, Unknown):
        alone = site.axis_value.reason == NOT_CONNECTED
        yield CODES["EXP302"].finding(
            "axis",
            expected="a Const, or a Convert of one, as a descriptor has one Axis",
            got=f"{site.axis.name!r}, {site.axis_value.reason}",
            remedy=f"{'check the whole IR, or ' if alone else ''}make the axis a constant of the model",
        )


def _ill_formed(message: str) -> Finding:
    return CODES["EXP101"].finding(
        "",
        expected="a layer that the operator's version in force allows",
        got=message,
        remedy="correct the model; OpenVINO refuses the layer, or has no values for it",
    )
