"""The layers, ports and edges of an IR, read from its XML and checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dmlgather.openvino.model.ir_xml import Element, IRError
from dmlgather.wording import alternatives, printable

PRECISIONS = {
    "BIN": "u1",
    "BOOL": "boolean",
    "FP16": "f16",
    "FP32": "f32",
    "FP64": "f64",
    "UNSPECIFIED": None,
}
"""A port's `precision` -> the element type's name, where that is not the same in lower case. None: not known."""

FORMATS = (10, 11)
"""The versions of the format that OpenVINO reads."""

MOST_DIMENSIONS = 64
"""The most dimensions of a tensor that are read; NumPy's arrays have no more, and DirectML's tensors have 8."""

PortKey = tuple[int, int]
"""A layer's id, and the id of one of its ports."""

Shape = tuple[int | None, ...]
"""None: a size that is not known."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a layer.

    type: the element type by OpenVINO's name ("f32"); None where the port has none. shape: None where the port has no sizes: a
    scalar or an unknown rank, which the format does not tell apart. names: of the tensor, separated by commas.
    """

    id: int
    type: str | None
    shape: Shape | None
    names: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. id: None for a layer outside a model. opset: as in the file, "opset8". data: the attributes of its operation."""

    id: int | None
    name: str
    type: str
    opset: str
    data: Mapping[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    line: int | None
    bodies: tuple[tuple[str, LayerGraph], ...] = ()

    def __str__(self) -> str:
        number = "" if self.id is None else f" {self.id}"
        return f"layer{number}{f' {self.name!r}' if self.name else ''} ({printable(self.type)})"


@dataclass(frozen=True, slots=True)
class LayerGraph:
    """The layers of a model or of a body by their ids, and the output port that each input port is connected to."""

    layers: Mapping[int, Layer]
    sources: Mapping[PortKey, tuple[Layer, Port]]

    def source(self, layer: Layer, port: Port) -> tuple[Layer, Port] | None:
        """The layer and the output port that a layer's input port is connected to."""
        return None if layer.id is None else self.sources.get((layer.id, port.id))


@dataclass(frozen=True, slots=True)
class Model:
    """The content of an IR file. version: of its format; None for a single layer."""

    graph: LayerGraph
    version: int | None


def read_model(root: Element) -> Model:
    """The model of an IR's outermost element. IRError for what breaks the format."""
    if root.tag == "layer":
        layer = read_layer(root)
        return Model(LayerGraph({layer.id or 0: layer}, {}), None)
    version = _integer(root, "version")
    if version not in FORMATS:
        raise IRError(
            f"is an IR of version {version}, expected {alternatives(FORMATS)}, which OpenVINO reads: convert the model again",
            root.line,
        )
    return Model(_graph(root), version)


def read_layer(element: Element) -> Layer:
    """One layer, with the graphs inside it; its id may be missing. IRError for what breaks the format."""
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
        bodies=tuple((child.tag, _graph(child)) for child in element.children if f"_{child.tag}".endswith("_body")),
    )


def _graph(element: Element) -> LayerGraph:
    layers: dict[int, Layer] = {}
    for child in _children(element, "layers", "layer"):
        layer = read_layer(child)
        if layer.id is None or not layer.type:
            raise IRError(f"{layer} has no {'type' if layer.type == '' else 'id'}", layer.line)
        if layer.id in layers:
            first = layers[layer.id]
            raise IRError(f"{layer} has the id of {first}{f' in line {first.line}' if first.line else ''}", layer.line)
        layers[layer.id] = layer
    outputs = {(number, port.id): (layer, port) for number, layer in layers.items() for port in layer.outputs}
    inputs = {(number, port.id): (layer, port) for number, layer in layers.items() for port in layer.inputs}
    sources: dict[PortKey, tuple[Layer, Port]] = {}
    for edge in _children(element, "edges", "edge"):
        source, target = _end(edge, layers, "from", outputs), _end(edge, layers, "to", inputs)
        if target in sources:
            raise IRError(f"a second edge leads to port {target[1]} of {layers[target[0]]}", edge.line)
        sources[target] = outputs[source]
    return LayerGraph(layers, sources)


def _end(edge: Element, layers: Mapping[int, Layer], which: str, ports: Mapping[PortKey, tuple[Layer, Port]]) -> PortKey:
    number, port = _integer(edge, f"{which}-layer"), _integer(edge, f"{which}-port")
    if number not in layers:
        raise IRError(f"an edge leads {which} layer {number}, which does not exist", edge.line)
    if (number, port) not in ports:
        kind = "output" if which == "from" else "input"
        raise IRError(f"an edge leads {which} {kind} port {port} of {layers[number]}, which it does not have", edge.line)
    return number, port


def _ports(layer: Element, kind: str) -> tuple[Port, ...]:
    ports: dict[int, Port] = {}
    for element in _children(layer, kind, "port"):
        port = _port(element)
        if port.id in ports:
            raise IRError(f"{kind} port {port.id} occurs twice", element.line)
        ports[port.id] = port
    return tuple(ports.values())


def _port(element: Element) -> Port:
    precision = element.get("precision")
    kind = None if precision is None else PRECISIONS.get(precision.upper(), element_type(precision))
    dims = element.all("dim")
    check_rank(len(dims), f"<{element.tag}>", element.line)
    sizes = tuple(map(_size, dims))
    return Port(_integer(element, "id"), kind, sizes or None, printable(element.get("names") or ""))


def element_type(text: str) -> str | None:
    """An element type by OpenVINO's name, printable; None for one that is not known before the model runs."""
    name = printable(text.strip().lower())
    return None if name in ("", "dynamic", "undefined") else name


def check_rank(dimensions: int, what: str, line: int | None) -> None:
    """IRError for a tensor of too many dimensions."""
    if dimensions > MOST_DIMENSIONS:
        raise IRError(f"{what} has {dimensions} dimensions, expected at most {MOST_DIMENSIONS}", line)


def _size(dim: Element) -> int | None:
    text = dim.text.strip()
    return None if text == "-1" else number_of(text, "<dim>", dim.line, "-1 or a size")


def _children(element: Element, group: str, tag: str) -> Iterator[Element]:
    for inside in element.all(group):
        yield from inside.all(tag)


def _integer(element: Element, name: str) -> int:
    text = element.get(name)
    if text is None:
        raise IRError(f"<{element.tag}> has no {name}", element.line)
    return number_of(text, f"{name} of <{element.tag}>", element.line)


def number_of(text: str, what: str, line: int | None, expected: str = "a number of 0 or more", *, signed: bool = False) -> int:
    """The number in a text: decimal digits, with a minus if `signed`. IRError, naming `what`, for anything else."""
    if not re.fullmatch(r"-?[0-9]{1,19}" if signed else r"[0-9]{1,19}", text.strip()):
        raise IRError(f"{what} is {printable(text[:40])!r}, expected {expected}", line)
    return int(text)
