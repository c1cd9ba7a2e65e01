"""Judge a Gather layer where it stands: whether DirectML takes it at a feature level, where it differs, what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module

import numpy as np

from dmlgather.dialects.checked_model import CheckedNode, CheckedTensor, Unknown, Verdict
from dmlgather.dialects.element_types import OF_ML_DTYPES
from dmlgather.dialects.export_codes import CODES
from dmlgather.dialects.problem import TensorType
from dmlgather.dialects.unknown_sizes import Named, Range, assign, concrete, named
from dmlgather.dialects.verdicts import Judged, verdict, with_sizes
from dmlgather.directml import FeatureLevel, Finding
from dmlgather.openvino.model.constants import NOTHING
from dmlgather.openvino.model.layer_sites import LayerSite, PortInfo
from dmlgather.openvino.model.shape_inference import contradicted_inputs, contradicted_output, output_of
from dmlgather.openvino.problems.export import EXPORTER, differences
from dmlgather.openvino.problems.gather import TYPES, OpenVINOGather, axis_of

SMALLER_THAN_BYTES = ("i4", "u4", "nf4", "f4e2m1", "u1", "u2", "u3", "u6")
"""OpenVINO's element types of which several share a byte."""


_STATE_SIZES = "state its sizes, -1 for each that is not known: reshape the model with a known rank"


def judge(site: LayerSite, level: FeatureLevel) -> Judged:
    """Whether DirectML takes the layer at a feature level, and why not."""
    found = _judged(site, level)
    return replace(found, findings=(*contradicted_inputs(site), *found.findings))


def _judged(site: LayerSite, level: FeatureLevel) -> Judged:
    without = tuple(_no_bytes(site))
    if without:
        return Judged(Verdict.REFUSED, without)
    missing = tuple(_missing(site))
    if missing:
        return Judged(Verdict.UNKNOWN, missing)
    shapes = {given.role: named(given.role, given.shape or ()) for given in (site.data, site.indices)}
    orders = list(_equal_batches(site, shapes))
    usual, least = ({size: low for shape in shapes.values() for size in shape if isinstance(size, str)} for low in (2, 1))
    trials = [assign(shapes.values(), orders, lows) for lows in (usual, least)]
    trials = trials[: 2 if usual else 1]
    try:
        problems = [(sizes, _problem(site, shapes, sizes)) for sizes in trials]
    except (TypeError, ValueError):
        return Judged(Verdict.REFUSED, (_ill_formed(_told(site, shapes, trials)),))
    contradicted = tuple(contradicted_output(site))
    if contradicted:
        return Judged(Verdict.REFUSED, contradicted)
    conditions = [*(Range(1).condition(name) for name in least), *filter(None, [site.indices.assumed])]
    found = verdict(EXPORTER, problems, tuple(conditions), level)
    if found.verdict is not Verdict.TAKEN:
        return found
    problem = problems[0][1]
    size = shapes["data"][problem.axis]
    return replace(found, findings=tuple(differences(problem, size if isinstance(size, int) else None)))


def described(site: LayerSite, judged: Judged) -> CheckedNode:
    """The layer with what is known of it and its verdict."""
    known = isinstance(site.axis_value, np.ndarray)
    axis = tuple(int(value) for value in site.axis_value.reshape(-1)) if isinstance(site.axis_value, np.ndarray) else None
    return CheckedNode(
        place=site.place,
        graph=site.graph,
        name=site.layer.name,
        index=site.index,
        operator="Gather",
        opset=site.opset,
        version=site.version,
        inputs=(
            _tensor(site.data),
            _tensor(site.indices),
            _tensor(site.axis).model_copy(update={"values": axis} if known else {}),
        ),
        attributes={"batch_dims": site.batch_dims} if "batch_dims" in site.layer.data and site.version > 1 else {},
        outputs=(_tensor(output_of(site)),),
        verdict=judged.verdict,
        taken=judged.taken,
        lowest=judged.lowest,
        missing=tuple(finding.path for finding in judged.findings) if judged.verdict is Verdict.UNKNOWN else (),
        provided=judged.provided,
    )


def _tensor(given: PortInfo) -> CheckedTensor:
    return CheckedTensor(role=given.role, name=given.name, type=given.type, shape=given.shape)


def _problem(site: LayerSite, shapes: Mapping[str, Named], sizes: Mapping[str, int]) -> OpenVINOGather:
    """The layer's problem with those sizes. TypeError and ValueError as Gather's own; ModuleNotFoundError without ml_dtypes."""
    assert not isinstance(site.axis_value, Unknown), "it would be missing"
    data, indices = (_tensor_type(site, given, concrete(shapes[given.role], sizes)) for given in (site.data, site.indices))
    return OpenVINOGather(data, indices, axis_of(site.axis_value), site.batch_dims, site.version)


def _told(site: LayerSite, shapes: Mapping[str, Named], trials: Sequence[Mapping[str, int]]) -> str:
    """Which rule sizes break, and with which of them where the rule rests on them."""
    told: list[str] = []
    for sizes in trials:
        try:
            _problem(site, shapes, sizes)
        except (TypeError, ValueError) as error:
            told.append(str(error))
    alike = len(told) == len(trials) and len(set(told)) == 1
    return told[0] + ("" if alike else with_sizes(trials[0]))


def _tensor_type(site: LayerSite, given: PortInfo, shape: tuple[int, ...]) -> TensorType:
    if given.type not in TYPES.names:
        raise TypeError(f"{given.role} has type {given.type}, but Gather-{site.version} takes {', '.join(TYPES.names)}")
    assert given.type is not None, "it would be missing"
    if TYPES.names[given.type].startswith(OF_ML_DTYPES):
        import_module("ml_dtypes")  # that it is missing is no fault of the layer's, as a TypeError would have it
    return TensorType(shape, TYPES.dtype_of(given.type))


def _equal_batches(site: LayerSite, shapes: Mapping[str, Named]) -> Iterator[tuple[int | str, int | str]]:
    """Pairs of batch sizes, each at most the other: batches have equal sizes."""
    rank = len(shapes["indices"])
    batch = site.batch_dims + (rank if site.batch_dims < 0 else 0)
    for ours, theirs in zip(shapes["data"][: max(batch, 0)], shapes["indices"], strict=False):
        yield from ((ours, theirs), (theirs, ours))


def _no_bytes(site: LayerSite) -> Iterator[Finding]:
    """What is said of data that no DirectML gather moves, however large they are."""
    if site.data.type == "string" or site.data.type in SMALLER_THAN_BYTES:
        string = site.data.type == "string"
        yield CODES["EXP103"].finding(
            "data",
            expected="numbers or boolean, of whole bytes",
            got="strings" if string else f"{site.data.type}, of which several share a byte",
            remedy="gather positions of strings in DirectML and look the strings up on the host"
            if string
            else "convert the data to a type of whole bytes before the Gather",
        )


def _missing(site: LayerSite) -> Iterator[Finding]:
    """What the file does not say about a layer's inputs."""
    for given in (site.data, site.indices):
        type_, rank = ("a data type", "state its precision"), ("a number of dimensions", _STATE_SIZES)
        lacking = [*[type_] * (given.type is None), *[rank] * (given.shape is None)]
        if lacking:
            yield CODES["EXP301"].finding(
                given.role,
                expected=" and ".join(what for what, _ in lacking),
                got=str(given),
                remedy=" and ".join(remedy for _, remedy in lacking),
            )
    if isinstance(site.axis_value, Unknown):
        yield CODES["EXP302"].finding(
            "axis",
            expected="a Const, or a Convert of one, as a descriptor has one Axis",
            got=f"{site.axis.name!r}, {site.axis_value.reason}",
            remedy="check the whole IR, or make the axis a constant"
            if site.axis_value.reason == NOTHING
            else "make the axis a constant of the model",
        )


def _ill_formed(message: str) -> Finding:
    return CODES["EXP101"].finding(
        "",
        expected="a layer that the operator's version in force allows",
        got=message,
        remedy="mend the model; OpenVINO itself refuses the layer, or has no values for it",
    )
