"""Read a layer of the family: its version, attributes and ports, checked against what its operation takes, and its problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dmlgather.dialects.problem import TensorType
from dmlgather.openvino.model.ir_layers import Layer, Port, number_of
from dmlgather.openvino.model.ir_xml import IRError
from dmlgather.openvino.problems.gather import OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND
from dmlgather.openvino.problems.operation_versions import (
    NEWEST_OPSET,
    AttributeForm,
    OpenVINOProblem,
    OperationVersion,
    version_in,
)
from dmlgather.openvino.problems.slices import OpenVINOSlice, OpenVINOStridedSlice
from dmlgather.wording import alternatives, counted, printable

OPSETS = range(1, NEWEST_OPSET + 1)
"""The operation sets that are read."""


def opset_of(layer: Layer) -> int:
    """The number in a layer's operation set, "opset8". IRError for any other text."""
    for opset in OPSETS:
        if layer.opset == f"opset{opset}":
            return opset
    shown = printable(layer.opset[:40])
    raise IRError(f"{layer} has version {shown!r}, expected opset{OPSETS[0]} … opset{OPSETS[-1]}, which are known", layer.line)


def version_of(layer: Layer) -> OperationVersion:
    """The version of the operation of a layer of the family. IRError where its operation set does not have it."""
    opset = opset_of(layer)
    try:
        return version_in(layer.type, opset)
    except ValueError as error:
        raise IRError(f"{layer} has version {layer.opset!r}: {error}", layer.line) from None


def attributes_of(layer: Layer, version: OperationVersion) -> dict[str, int | tuple[int, ...]]:
    """The attributes that mean something in the version, by name; OpenVINO ignores others. IRError for a required one that is
    missing, and for what is no integer, or no list of them.
    """
    found: dict[str, int | tuple[int, ...]] = {}
    for name, form in version.attributes.items():
        if name in layer.data:
            found[name] = _integers(layer, name, form)
        elif form.required:
            raise IRError(f"{layer} has no {name}, which {version} requires", layer.line)
    return found


def ports_of(layer: Layer, version: OperationVersion) -> tuple[Mapping[str, Port], Port]:
    """A layer's input ports by the operation's names for them, and its output port. IRError for another number of ports."""
    least, most = version.required, len(version.inputs)
    if not least <= len(layer.inputs) <= most or len(layer.outputs) != 1:
        raise IRError(
            f"{layer} has {len(layer.inputs)} input and {counted(len(layer.outputs), 'output port')}, expected "
            f"{alternatives(range(least, most + 1))} inputs ({', '.join(version.inputs)}) and 1 output",
            layer.line,
        )
    return dict(zip(version.inputs, layer.inputs, strict=False)), layer.outputs[0]


def _integers(layer: Layer, name: str, form: AttributeForm) -> int | tuple[int, ...]:
    def integer(text: str) -> int:
        return number_of(text, f"{name} of {layer}", layer.line, "an integer", signed=True)

    text = layer.data[name]
    if not form.many:
        return integer(text)
    return tuple(map(integer, text.split(","))) if text.strip() else ()


PROBLEMS: Mapping[str, type[Any]] = {
    problem.name: problem
    for problem in (OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND, OpenVINOSlice, OpenVINOStridedSlice)
}
"""The operations of the family, by a layer's type. The fields of a problem have the names of inputs and attributes."""

FAMILY = tuple(PROBLEMS)


def problem_of(
    version: OperationVersion,
    types: Mapping[str, TensorType],
    bounds: Mapping[str, Any],
    attributes: Mapping[str, int | tuple[int, ...]],
) -> OpenVINOProblem:
    """The problem of a layer.

    types: of each of `version.arrays`. bounds: the elements of those of `version.bounds` that the layer has, as host arrays or
    sequences of integers; the axis of Gather may be an integer. attributes: by name, of `version.attributes`. TypeError and
    ValueError where they break a rule of the operation.
    """
    problem: OpenVINOProblem = PROBLEMS[version.operation](**types, **bounds, **attributes, version=version.since)
    return problem
