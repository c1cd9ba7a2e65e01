"""Reading of single layers in OpenVINO's IR format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dmlgather.openvino.layer_xml import Element, IRError
from dmlgather.openvino.problems.gather import OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND
from dmlgather.openvino.problems.operation_versions import NEWEST_OPSET, AttributeForm, OperationVersion, version_in
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
"""OpenVINO's element types by the `precision` of a port; None if unknown. Other precisions are the type in upper case."""

MOST_DIMENSIONS = 64
"""Largest rank of a port, as in NumPy."""

OPSETS = range(1, NEWEST_OPSET + 1)
"""Operation sets that can be read."""

PROBLEMS: Mapping[str, type[Any]] = {
    problem.name: problem
    for problem in (OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND, OpenVINOSlice, OpenVINOStridedSlice)
}
"""Problem classes by the type of the layer. Their fields have the names of the layer's inputs and attributes."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a layer. `type`: a type such as "f32".

    An unknown type, shape or size is None. The shape of a scalar is None, too: such a port states no sizes.
    """

    id: int
    type: str | None
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of an IR file.

    `type`: the operation, such as "Gather". `opset`: the operation set, such as "opset8". `data`: the attributes as text.
    """

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
    """Read a <layer> element. Raises IRError if an id is missing or repeated, or if a shape is malformed."""
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
        dims = element.all("dim")
        if len(dims) > MOST_DIMENSIONS:
            raise IRError(f"<{element.tag}> has {len(dims)} dimensions, expected at most {MOST_DIMENSIONS}", element.line)
        port = Port(_integer(element, "id"), _element_type(element.get("precision") or ""), tuple(map(_size, dims)) or None)
        if port.id in ports:
            raise IRError(f"{kind} port {port.id} occurs twice", element.line)
        ports[port.id] = port
    return tuple(ports.values())


def _element_type(precision: str) -> str | None:
    """Return OpenVINO's element type for the attribute `precision` of a port, or None if the model decides it at run time."""
    name = printable(precision.strip().lower())
    return PRECISIONS.get(precision.upper(), None if name in ("", "dynamic", "undefined") else name)


def _size(dim: Element) -> int | None:
    text = dim.text.strip()
    return None if text == "-1" else _number(text, "<dim>", dim.line, "-1 or a size")


def _integer(element: Element, name: str) -> int:
    text = element.get(name)
    if text is None:
        raise IRError(f"<{element.tag}> has no {name}", element.line)
    return _number(text, f"{name} of <{element.tag}>", element.line)


def _number(text: str, label: str, line: int | None, expected: str = "a number of 0 or more", *, signed: bool = False) -> int:
    """Return the integer in a text. Raises IRError for any other text, and for a negative integer unless `signed` is True.

    `label`: the name of the text in the message. `line`: the line number. `expected`: the description of a valid text.
    """
    if not re.fullmatch(r"-?[0-9]{1,19}" if signed else r"[0-9]{1,19}", text.strip()):
        raise IRError(f"{label} is {printable(text[:40])!r}, expected {expected}", line)
    return int(text)


def version_of(layer: Layer) -> OperationVersion:
    """Return the version of a layer's operation. Raises IRError if the operation set is unknown or too old."""
    opset = next((number for number in OPSETS if layer.opset == f"opset{number}"), None)
    if opset is None:
        expected = f"expected opset{OPSETS[0]} … opset{OPSETS[-1]}, which are known"
        raise IRError(f"{layer} has version {printable(layer.opset[:40])!r}, {expected}", layer.line)
    try:
        return version_in(layer.type, opset)
    except ValueError as error:
        raise IRError(f"{layer} has version {layer.opset!r}: {error}", layer.line) from None


def attributes_of(layer: Layer, version: OperationVersion) -> dict[str, int | tuple[int, ...]]:
    """Return the attributes of a layer by name. Unknown attributes are ignored, as in OpenVINO.

    Raises IRError if a required attribute is missing, or if a value is malformed.
    """
    values: dict[str, int | tuple[int, ...]] = {}
    for name, form in version.attributes.items():
        if name in layer.data:
            values[name] = _integers(layer, name, form)
        elif form.required:
            raise IRError(f"{layer} has no {name}, which {version} requires", layer.line)
    return values


def ports_of(layer: Layer, version: OperationVersion) -> tuple[Mapping[str, Port], Port]:
    """Return the input ports of a layer by input name, and its output port. Raises IRError if there are too many or too few."""
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
