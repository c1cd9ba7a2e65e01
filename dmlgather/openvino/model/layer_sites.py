"""The Gather layers of an IR, those in bodies included, each with what is known of its inputs and output."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from dmlgather.dialects.checked_model import CheckedTensor
from dmlgather.openvino.model.constants import Value, shape_of, value_of
from dmlgather.openvino.model.ir_layers import Layer, LayerGraph, Model, Port, element_type
from dmlgather.openvino.model.layer_reading import attributes_of, opset_of, ports_of, version_of
from dmlgather.openvino.problems.operation_versions import version_in
from dmlgather.wording import printable


@dataclass(frozen=True, slots=True)
class LayerSite:
    """A Gather layer in its model.

    place: unique in the file. graph: the path of the body around it. index: its position there. data, indices, axis: the inputs
    with the types and shapes of what they are connected to. output: as its port has it. axis_value: the axis's elements.
    condition: an assumption about the shape of indices, where the file does not give it; empty where it does.
    """

    place: str
    graph: str
    index: int
    layer: Layer
    opset: int
    batch_dims: int
    data: CheckedTensor
    indices: CheckedTensor
    axis: CheckedTensor
    output: CheckedTensor
    axis_value: Value
    condition: str = ""

    @property
    def version(self) -> int:
        """The version of Gather in the layer's operation set."""
        return version_in("Gather", self.opset).since


@dataclass
class IRContents:
    """The Gather layers, and the number of other layers of each type."""

    sites: list[LayerSite] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)


def find(model: Model, weights: Path) -> IRContents:
    """Every layer of a model. weights: the .bin file, which need not exist. IRError for a Gather that breaks the format."""
    contents = IRContents()
    _add_graph(contents, model.graph, "", weights, set())
    return contents


def _add_graph(contents: IRContents, graph: LayerGraph, path: str, weights: Path, places: set[str]) -> None:
    for index, layer in enumerate(graph.layers.values()):
        label = layer.name or f"{printable(layer.type)}_{index if layer.id is None else layer.id}"
        place = f"{path}/{label}" if path else label
        while place in places:  # names need not be unique
            place = f"{place}#{index}"
        places.add(place)
        if layer.type != "Gather":
            contents.others[printable(layer.type)] += 1
        elif layer.opset and not layer.opset.lower().startswith("opset"):  # an extension's operator of that name
            contents.others[printable(f"{layer.opset}.Gather")] += 1
        else:
            contents.sites.append(_site(graph, layer, weights, (place, path, index)))
        for name, body in layer.bodies:
            _add_graph(contents, body, f"{place}.{name}", weights, places)


def _site(graph: LayerGraph, layer: Layer, weights: Path, where: tuple[str, str, int]) -> LayerSite:
    version = version_of(layer)
    inputs, output = ports_of(layer, version)
    data, indices, axis = (_input(graph, layer, role, port) for role, port in inputs.items())
    batch_dims = attributes_of(layer, version).get("batch_dims", 0)
    assert isinstance(batch_dims, int)
    condition = ""
    # The format does not tell a scalar from an unknown rank, but an output of known rank means indices of known rank. A scalar
    # output, which scalar indices give with one-dimensional data, looks like an output of unknown rank.
    if indices.shape is None and data.shape is not None and (output.shape or len(data.shape) == 1):
        indices = indices.model_copy(update={"shape": ()})
        condition = "" if output.shape else "indices are a scalar"
    name = output.names.split(",")[0] or layer.name
    return LayerSite(
        *where,
        layer,
        opset_of(layer),
        batch_dims,
        data,
        indices,
        axis,
        CheckedTensor(role="output", name=name, type=output.type, shape=output.shape),
        value_of(graph, layer, inputs["axis"], weights),
        condition,
    )


def _input(graph: LayerGraph, layer: Layer, role: str, port: Port) -> CheckedTensor:
    """An input with the type and shape that the layer before it gives; its own port gives what is missing."""
    connected = graph.source(layer, port)
    if connected is None:
        return CheckedTensor(role=role, name=role, type=port.type, shape=port.shape)
    source, output = connected
    kind, shape = output.type, output.shape
    if source.type in ("Const", "Parameter"):  # whose attributes count for more than their ports
        kind, shape = element_type(source.data.get("element_type", "")) or kind, shape_of(source, shape)
    name = output.names.split(",")[0] or source.name
    return CheckedTensor(role=role, name=name, type=kind or port.type, shape=port.shape if shape is None else shape)
