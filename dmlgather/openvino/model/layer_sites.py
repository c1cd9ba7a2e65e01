"""The layers of the family in an IR, those in bodies included, each with what is known of its inputs and output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dmlgather.dialects.checked_model import CheckedTensor, Unknown
from dmlgather.dialects.sizes import Sizes
from dmlgather.dialects.unknown_sizes import Named
from dmlgather.openvino.model.constants import Value, Weights
from dmlgather.openvino.model.folding import Folding
from dmlgather.openvino.model.host_layers import host_layers
from dmlgather.openvino.model.ir_layers import Layer, LayerGraph, Model, Port
from dmlgather.openvino.model.layer_reading import attributes_of, opset_of, ports_of, version_of
from dmlgather.openvino.model.tensors import SizeNames, Tensors
from dmlgather.openvino.problems.operation_versions import VERSIONS, OperationVersion
from dmlgather.wording import printable

MOST_INDICES = 1 << 20
"""The most elements of constant indices that are read, to tell whether one is out of range."""


@dataclass(frozen=True, slots=True)
class LayerSite:
    """A layer of the family in its model.

    place: unique in the file. graph: the path of the body around it. index: its position there. opset: the number of its set of
    operations. inputs: with the types and shapes of what they are connected to, by role. shapes: of the arrays, with names for
    the sizes that are not known, by role; those of unknown rank are missing. output: as its port has it. values: the elements of
    the bounds, and of indices that are constant, by role, or why they are not known. condition: an assumption about the shape of
    indices, where the file does not give it; empty where it does. host: whether it is the host's arithmetic.
    """

    place: str
    graph: str
    index: int
    layer: Layer
    opset: int
    version: OperationVersion
    attributes: Mapping[str, int | tuple[int, ...]]
    inputs: Mapping[str, CheckedTensor]
    shapes: Mapping[str, Named]
    output: CheckedTensor
    values: Mapping[str, Value]
    condition: str = ""
    host: bool = False

    @property
    def arrays(self) -> tuple[CheckedTensor, ...]:
        """The inputs that DirectML reads when it runs: data, and indices where there are any."""
        return tuple(self.inputs[role] for role in self.version.arrays)


@dataclass
class IRContents:
    """The layers of the family, and the number of other layers of each type. names: of the sizes that are not known."""

    names: SizeNames = field(default_factory=lambda: SizeNames(Sizes()))
    sites: list[LayerSite] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)


def find(model: Model, weights: Path) -> IRContents:
    """Every layer of a model. weights: the .bin file, which need not exist. IRError for a layer of the family that breaks the
    format.
    """
    contents = IRContents()
    _add_graph(contents, model.graph, "", Weights(weights), set())
    return contents


def _add_graph(contents: IRContents, graph: LayerGraph, path: str, weights: Weights, places: set[str]) -> None:
    tensors = Tensors(graph, contents.names, path)
    folding = Folding(tensors, weights)
    host = host_layers(graph)
    for index, layer in enumerate(graph.layers.values()):
        label = layer.name or f"{printable(layer.type)}_{index if layer.id is None else layer.id}"
        place = f"{path}/{label}" if path else label
        while place in places:  # names need not be unique
            place = f"{place}#{index}"
        places.add(place)
        if layer.type not in VERSIONS:
            contents.others[printable(layer.type)] += 1
        elif layer.opset and not layer.opset.lower().startswith("opset"):  # an extension's operator of that name
            contents.others[printable(f"{layer.opset}.{layer.type}")] += 1
        else:
            site = _site(layer, tensors, folding, (place, path, index))
            contents.sites.append(replace(site, host=layer.id in host))
        for name, body in layer.bodies:
            _add_graph(contents, body, f"{place}.{name}", weights, places)


def _site(layer: Layer, tensors: Tensors, folding: Folding, where: tuple[str, str, int]) -> LayerSite:
    version = version_of(layer)
    ports, output = ports_of(layer, version)
    inputs = {role: tensors.input(layer, role, port) for role, port in ports.items()}
    condition = ""
    # The format does not tell a scalar from an unknown rank, but an output of known rank means indices of known rank. A scalar
    # output, which scalar indices give with one-dimensional data, looks like an output of unknown rank.
    data, indices = inputs["data"], inputs.get("indices")
    scalar = layer.type == "Gather" and indices is not None and indices.shape is None
    if scalar and data.shape is not None and (output.shape or len(data.shape) == 1):
        inputs["indices"] = inputs["indices"].model_copy(update={"shape": ()})
        condition = "" if output.shape else "indices are a scalar"
    return LayerSite(
        *where,
        layer,
        opset_of(layer),
        version,
        attributes_of(layer, version),
        inputs,
        {role: shape for role in version.arrays if (shape := tensors.shape(layer, inputs[role], ports[role])) is not None},
        tensors.output(layer, output),
        {role: value for role, port in ports.items() if (value := _value(layer, role, port, folding, version)) is not None},
        condition,
    )


def _value(layer: Layer, role: str, port: Port, folding: Folding, version: OperationVersion) -> Value | None:
    """The elements of a bound, or of indices that are known; None for another input."""
    if role in version.bounds:
        return folding.value(layer, port)
    if role != "indices":
        return None
    value = folding.value(layer, port, MOST_INDICES)
    return None if isinstance(value, Unknown) else value
