"""Read a layer of an IR: its version, attributes and ports, checked against what its operation takes, and its problem."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dmlgather.dialects.problem import TensorType
from dmlgather.openvino.layer_xml import Element, IRError
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

PRECISIONS = {
    "BIN": "u1",
    "BOOL": "boolean",
    "FP16": "f16",
    "FP32": "f32",
    "FP64": "f64",
    "UNSPECIFIED": None,
}
"""A port's `precision` -> the element type's name, where that is not the same in lower case. None: not known."""

MOST_DIMENSIONS = 64
"""The most dimensions of a tensor that are read; NumPy's arrays have no more, and DirectML's tensors have 8."""

OPSETS = range(1, NEWEST_OPSET + 1)
"""The operation sets that are read."""

PROBLEMS: Mapping[str, type[Any]] = {
    problem.name: problem
    for problem in (OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND, OpenVINOSlice, OpenVINOStridedSlice)
}
"""The operations of the family, by a layer's type. The fields of a problem have the names of inputs and attributes."""

FAMILY = tuple(PROBLEMS)


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a layer.

    type: the element type by OpenVINO's name ("f32"); None where the port has none. shape: None where the port has no sizes: a
    scalar or an unknown rank, which the format does not tell apart. In it, None is a size that is not known.
    """

    id: int
    type: str | None
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. id: None where it has none. opset: as in the text, "opset8". data: the attributes of its operation."""

    id: int | None
    name: str
    type: str
    opset: str
    data: Mapping[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    line: int | None

    def __str__(self) -> str:
        number = "" if self.id is None else f" {self.id}"
        return f"layer{number}{f' {self.name!r}' if self.name else ''} ({printable(self.type)})"


def read_layer(element: Element) -> Layer:
    """The layer that an element is. IRError for what breaks the format."""
    data = element.all("data")
    return Layer(
        id=_integer(element, "id") if element.get("id") is not None else None,
        name=printable(element.get("name") or ""),
        type=element.get("type") or "",
        opset=element.get("version") or "",
        data=data[0].attributes if data else {},
        inputs=_ports(element, "input"),
        outputs=_ports(element, "output"),
        line=element.line,
    )


def _ports(layer: Element, kind: str) -> tuple[Port, ...]:
    ports: dict[int, Port] = {}
    for element in (port for group in layer.all(kind) for port in group.all("port")):
        port = _port(element)
        if port.id in ports:
            raise IRError(f"{kind} port {port.id} occurs twice", element.line)
        ports[port.id] = port
    return tuple(ports.values())


def _port(element: Element) -> Port:
    precision = element.get("precision")
    kind = None if precision is None else PRECISIONS.get(precision.upper(), _element_type(precision))
    dims = element.all("dim")
    if len(dims) > MOST_DIMENSIONS:
        raise IRError(f"<{element.tag}> has {len(dims)} dimensions, expected at most {MOST_DIMENSIONS}", element.line)
    return Port(_integer(element, "id"), kind, tuple(map(_size, dims)) or None)


def _element_type(text: str) -> str | None:
    """An element type by OpenVINO's name, printable; None for one that is not known before the model runs."""
    name = printable(text.strip().lower())
    return None if name in ("", "dynamic", "undefined") else name


def _size(dim: Element) -> int | None:
    text = dim.text.strip()
    return None if text == "-1" else _number(text, "<dim>", dim.line, "-1 or a size")


def _integer(element: Element, name: str) -> int:
    text = element.get(name)
    if text is None:
        raise IRError(f"<{element.tag}> has no {name}", element.line)
    return _number(text, f"{name} of <{element.tag}>", element.line)


def _number(text: str, what: str, line: int | None, expected: str = "a number of 0 or more", *, signed: bool = False) -> int:
    """The number in a text: decimal digits, with a minus if `signed`. IRError, naming `what`, for anything else."""
    if not re.fullmatch(r"-?[0-9]{1,19}" if signed else r"[0-9]{1,19}", text.strip()):
        raise IRError(f"{what} is {printable(text[:40])!r}, expected {expected}", line)
    return int(text)


def version_of(layer: Layer) -> OperationVersion:
    """The version of the operation of a layer of the family. IRError where its operation set does not have it."""
    opset = next((number for number in OPSETS if layer.opset == f"opset{number}"), None)
    if opset is None:
        known = f"expected opset{OPSETS[0]} … opset{OPSETS[-1]}, which are known"
        raise IRError(f"{layer} has version {printable(layer.opset[:40])!r}, {known}", layer.line)
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
        return _number(text, f"{name} of {layer}", layer.line, "an integer", signed=True)

    text = layer.data[name]
    if not form.many:
        return integer(text)
    return tuple(map(integer, text.split(","))) if text.strip() else ()


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
