"""Every Gather layer of an IR with what is known where it stands, in bodies as well."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from dmlgather.dialects.openvino.ir.constants import Value, Weights, shape_of, value_of
from dmlgather.dialects.openvino.ir.file import IRError
from dmlgather.dialects.openvino.ir.layers import Graph, Layer, Model, Port, number_of
from dmlgather.wording import printable

ROLES = ("data", "indices", "axis")
"""A Gather's inputs, in the order of its ports."""


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of one input or output. type: OpenVINO's name. shape: None where the rank is not known.

    assumed: what is taken for granted of its shape, where the file does not say it.
    """

    role: str
    name: str
    type: str | None
    shape: tuple[int | None, ...] | None
    assumed: str = ""

    def __str__(self) -> str:
        sizes = "..." if self.shape is None else ",".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name!r} of type {self.type or '?'}[{sizes}]"


@dataclass(frozen=True, slots=True)
class Site:
    """A Gather layer where it stands. place: unique in the file. graph: the path of the body around it."""

    place: str
    graph: str
    index: int
    layer: Layer
    opset: int
    batch_dims: int
    data: Given
    indices: Given
    axis: Given
    output: Given
    axis_value: Value

    @property
    def version(self) -> int:
        """The version of Gather in force in the layer's operation set."""
        return version_in(self.opset)


@dataclass
class Found:
    """The Gather layers, and how many others there are of each type."""

    sites: list[Site] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)


def find(model: Model, weights: Weights) -> Found:
    """Every layer of a model. IRError for a Gather that is not as the format has it."""
    found = Found()
    _graph(model.graph, "", weights, found, set())
    return found


def version_in(opset: int) -> int:
    """Gather's version in an operation set."""
    return max(version for version in (1, 7, 8) if version <= opset)


def opset_of(layer: Layer) -> int:
    """The number of the operation set that a Gather layer states, "opset8"."""
    text = layer.opset.strip().lower()
    if not text.startswith("opset") or not text[5:].isdecimal() or not 1 <= int(text[5:9]) <= 99:
        raise IRError(f"{layer} has version {printable(layer.opset[:40])!r}, expected opset1, opset7 or opset8", layer.line)
    return int(text[5:9])


def batch_dims_of(layer: Layer) -> int:
    """The batch_dims that a Gather layer states, 0 where it states none."""
    return number_of(layer.data.get("batch_dims", "0"), f"batch_dims of {layer}", layer.line, "an integer", signed=True)


def ports_of(layer: Layer) -> tuple[Port, Port, Port, Port]:
    """A Gather layer's ports: data, indices, axis, output. IRError where one is missing."""
    if len(layer.inputs) != 3 or len(layer.outputs) != 1:
        raise IRError(
            f"{layer} has {len(layer.inputs)} input and {len(layer.outputs)} output ports, expected 3 inputs "
            f"({', '.join(ROLES)}) and 1 output",
            layer.line,
        )
    data, indices, axis = layer.inputs
    return data, indices, axis, layer.outputs[0]


def _graph(graph: Graph, path: str, weights: Weights, found: Found, places: set[str]) -> None:
    for index, layer in enumerate(graph.layers.values()):
        label = layer.name or f"{printable(layer.type)}_{index if layer.id is None else layer.id}"
        place = f"{path}/{label}" if path else label
        while place in places:  # names need not be unique
            place = f"{place}#{index}"
        places.add(place)
        if layer.type == "Gather":
            found.sites.append(_site(graph, layer, weights, (place, path, index)))
        else:
            found.others[printable(layer.type)] += 1
        for name, body in layer.bodies:
            _graph(body, f"{place}.{name}", weights, found, places)


def _site(graph: Graph, layer: Layer, weights: Weights, where: tuple[str, str, int]) -> Site:
    data, indices, axis, output = ports_of(layer)
    written = Given("output", output.names.split(",")[0] or layer.name, output.type, output.dims or None)
    given = _given(graph, layer, "data", data)
    return Site(
        *where,
        layer,
        opset_of(layer),
        batch_dims_of(layer),
        given,
        _indices(_given(graph, layer, "indices", indices), given, output),
        _given(graph, layer, "axis", axis),
        written,
        value_of(graph, layer, axis, weights),
    )


def _given(graph: Graph, layer: Layer, role: str, port: Port) -> Given:
    joined = graph.source(layer, port)
    if joined is None:
        return Given(role, role, port.type, port.dims or None)
    source, theirs = joined
    stated = source.type in ("Const", "Parameter")
    kind = port.type or theirs.type or (source.data.get("element_type") if stated else None)
    shape = port.dims or theirs.dims or (shape_of(source) if stated else None)
    return Given(role, theirs.names.split(",")[0] or source.name, None if kind == "dynamic" else kind, shape)


def _indices(given: Given, data: Given, output: Port) -> Given:
    """The indices; where the file does not tell a scalar from an unknown rank, what the other ports say of it.

    A known rank of the output means a known rank of the indices. A scalar output comes of scalar indices and one-dimensional
    data, and looks like one of unknown rank.
    """
    if given.shape is not None or data.shape is None or not (output.dims or len(data.shape) == 1):
        return given
    assumed = "" if output.dims else "indices are a scalar"
    return Given(given.role, given.name, given.type, (), assumed)
