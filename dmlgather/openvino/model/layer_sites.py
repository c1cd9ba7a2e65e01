"""Every Gather layer of an IR with what is known where it stands, in bodies as well."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from dmlgather.openvino.model.constants import Value, Weights, shape_of, value_of
from dmlgather.openvino.model.ir_layers import Layer, LayerGraph, Model, Port, element_type, number_of
from dmlgather.openvino.model.ir_xml import IRError
from dmlgather.wording import printable

ROLES = ("data", "indices", "axis")
"""A Gather's inputs, in the order of its ports."""


OPSETS = range(1, 17)
"""The operation sets that have a Gather."""

Shape = tuple[int | None, ...]
"""None: a size that is not known."""


@dataclass(frozen=True, slots=True)
class PortInfo:
    """What is known of one input or output. type: OpenVINO's name. shape: None where the rank is not known.

    assumed: what is taken for granted of its shape, where the file does not say it. port: what an input's own port states,
    where it is joined to a layer, which counts for more.
    """

    role: str
    name: str
    type: str | None
    shape: Shape | None
    assumed: str = ""
    port: PortInfo | None = None

    def __str__(self) -> str:
        return f"{self.name!r} of type {typed(self.type, self.shape)}"


def typed(kind: str | None, shape: Shape | None) -> str:
    """A type with its sizes: "f32[2,?]"."""
    sizes = "..." if shape is None else ",".join("?" if size is None else str(size) for size in shape)
    return f"{kind or '?'}[{sizes}]"


@dataclass(frozen=True, slots=True)
class LayerSite:
    """A Gather layer where it stands. place: unique in the file. graph: the path of the body around it."""

    place: str
    graph: str
    index: int
    layer: Layer
    opset: int
    batch_dims: int
    data: PortInfo
    indices: PortInfo
    axis: PortInfo
    output: PortInfo
    axis_value: Value

    @property
    def version(self) -> int:
        """The version of Gather in force in the layer's operation set."""
        return version_in(self.opset)


@dataclass
class IRContents:
    """The Gather layers, and how many others there are of each type."""

    sites: list[LayerSite] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)


def find(model: Model, weights: Weights) -> IRContents:
    """Every layer of a model. IRError for a Gather that is not as the format has it."""
    found = IRContents()
    _graph(model.graph, "", weights, found, set())
    return found


def version_in(opset: int) -> int:
    """Gather's version in an operation set."""
    return max(version for version in (1, 7, 8) if version <= opset)


def opset_of(layer: Layer) -> int:
    """The number of the operation set that a Gather layer states, "opset8"."""
    for opset in OPSETS:
        if layer.opset == f"opset{opset}":
            return opset
    shown = printable(layer.opset[:40])
    expected = f"opset{OPSETS[0]} … opset{OPSETS[-1]}"
    raise IRError(f"{layer} has version {shown!r}, expected {expected}, the operation sets that have a Gather", layer.line)


def is_gather(layer: Layer) -> bool:
    """Whether a layer is OpenVINO's Gather, of an operation set, and not an extension's operator of that name."""
    return layer.type == "Gather" and (layer.opset == "" or layer.opset.lower().startswith("opset"))


def batch_dims_of(layer: Layer) -> int:
    """The batch_dims that a Gather layer states, 0 where it states none. Gather-1 has none, and OpenVINO looks at none there."""
    if version_in(opset_of(layer)) == 1:
        return 0
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


def _graph(graph: LayerGraph, path: str, weights: Weights, found: IRContents, places: set[str]) -> None:
    for index, layer in enumerate(graph.layers.values()):
        label = layer.name or f"{printable(layer.type)}_{index if layer.id is None else layer.id}"
        place = f"{path}/{label}" if path else label
        while place in places:  # names need not be unique
            place = f"{place}#{index}"
        places.add(place)
        if is_gather(layer):
            found.sites.append(_site(graph, layer, weights, (place, path, index)))
        else:
            found.others[_operator(layer)] += 1
        for name, body in layer.bodies:
            _graph(body, f"{place}.{name}", weights, found, places)


def _operator(layer: Layer) -> str:
    """What a layer outside of the family is counted as; a Gather of an extension by both names."""
    return printable(f"{layer.opset}.{layer.type}" if layer.type == "Gather" else layer.type)


def _site(graph: LayerGraph, layer: Layer, weights: Weights, where: tuple[str, str, int]) -> LayerSite:
    data, indices, axis, output = ports_of(layer)
    written = PortInfo("output", output.names.split(",")[0] or layer.name, output.type, output.dims or None)
    given = _given(graph, layer, "data", data)
    return LayerSite(
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


def _given(graph: LayerGraph, layer: Layer, role: str, port: Port) -> PortInfo:
    """What an input is: what the layer before it makes, as OpenVINO has it, and what the port states where that is not known."""
    stated = PortInfo(role, role, port.type, port.dims or None)
    joined = graph.source(layer, port)
    if joined is None:
        return stated
    source, theirs = joined
    kind, shape = _made(source, theirs)
    name = theirs.names.split(",")[0] or source.name
    return PortInfo(role, name, kind or stated.type, stated.shape if shape is None else shape, port=stated)


def _made(source: Layer, port: Port) -> tuple[str | None, Shape | None]:
    """Type and shape of an output: of a Const or a Parameter what its data state, of another layer what its port does."""
    if source.type not in ("Const", "Parameter"):
        return port.type, port.dims or None
    kind = element_type(source.data.get("element_type", "")) or port.type
    shape = shape_of(source)
    return kind, port.dims or None if shape is None else shape


def _indices(given: PortInfo, data: PortInfo, output: Port) -> PortInfo:
    """The indices; where the file does not tell a scalar from an unknown rank, what the other ports say of it.

    A known rank of the output means a known rank of the indices. A scalar output comes of scalar indices and one-dimensional
    data, and looks like one of unknown rank.
    """
    if given.shape is not None or data.shape is None or not (output.dims or len(data.shape) == 1):
        return given
    assumed = "" if output.dims else "indices are a scalar"
    return PortInfo(given.role, given.name, given.type, (), assumed, given.port)
