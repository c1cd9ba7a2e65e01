"""Reads the version, attributes and ports of layers in OpenVINO's IR format, and checks them against the operation."""

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
"""OpenVINO's name of an element type, by the `precision` of a port; None if the type is unknown.

A precision that is not listed is the name in upper case, such as "I64" for i64.
"""

MOST_DIMENSIONS = 64
"""Largest rank of a port that is read; a higher rank is an error. NumPy has the same limit; DirectML's limit is 8."""

OPSETS = range(1, NEWEST_OPSET + 1)
"""The numbers of the operation sets that are supported, such as 8 for "opset8"."""

PROBLEMS: Mapping[str, type[Any]] = {
    problem.name: problem
    for problem in (OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND, OpenVINOSlice, OpenVINOStridedSlice)
}
"""The problem class of each gather and slice operation, by the type of the layer.

A class's fields have the names of the layer's inputs and attributes.
"""


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a layer.

    `type`: OpenVINO's name of the element type, such as "f32"; None if unknown. `shape`: the sizes, with None for an unknown
    size. If the port states no sizes, `shape` is None: the tensor is a scalar or has an unknown rank.
    """

    id: int
    type: str | None
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of an IR file: an operation with its attributes and ports.

    `id`: the layer's number; None if the layer states none. `type`: the operation, such as "Gather". `opset`: the operation set
    that defines the operation, such as "opset8". `data`: the operation's attributes as text. `line`: the line of the file; None
    if unknown.
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
    """Return the Layer that a <layer> element describes.

    Raises IRError if an id is missing or is not a number, if two ports have the same id, and for a bad or too large shape.
    """
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
    """Return OpenVINO's name of the element type that a port's `precision` states, such as "f32" for "FP32".

    The name has no control characters. Return None if the type is unknown until the model runs.
    """
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
    """Return the integer that a text states in decimal digits.

    `label`, `line`, `expected`: parts of the error message. `signed`: True if a minus sign is allowed. Raises IRError for
    another text.
    """
    if not re.fullmatch(r"-?[0-9]{1,19}" if signed else r"[0-9]{1,19}", text.strip()):
        raise IRError(f"{label} is {printable(text[:40])!r}, expected {expected}", line)
    return int(text)


def version_of(layer: Layer) -> OperationVersion:
    """Return the version of the operation that the layer's operation set contains.

    Raises IRError if the operation set is unknown, or older than the operation.
    """
    opset = next((number for number in OPSETS if layer.opset == f"opset{number}"), None)
    if opset is None:
        expected = f"expected opset{OPSETS[0]} … opset{OPSETS[-1]}, which are known"
        raise IRError(f"{layer} has version {printable(layer.opset[:40])!r}, {expected}", layer.line)
    try:
        return version_in(layer.type, opset)
    except ValueError as error:
        raise IRError(f"{layer} has version {layer.opset!r}: {error}", layer.line) from None


def attributes_of(layer: Layer, version: OperationVersion) -> dict[str, int | tuple[int, ...]]:
    """Return the values of a layer's attributes that its operation's version has, by name.

    As in OpenVINO, other attributes are ignored. Raises IRError if a required attribute is missing, and for a value that is
    neither an integer nor a list of integers.
    """
    values: dict[str, int | tuple[int, ...]] = {}
    for name, form in version.attributes.items():
        if name in layer.data:
            values[name] = _integers(layer, name, form)
        elif form.required:
            raise IRError(f"{layer} has no {name}, which {version} requires", layer.line)
    return values


def ports_of(layer: Layer, version: OperationVersion) -> tuple[Mapping[str, Port], Port]:
    """Return a dict of a layer's input ports by the names of the operation's inputs, and its output port.

    Raises IRError for a number of ports that the operation does not allow.
    """
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
