"""The layers of the family in an IR, those in bodies included, each with its tensors and what is known of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from dmlgather.dialects.checked_model import CheckedTensor, Unknown
from dmlgather.dialects.sizes import KEPT_ELEMENTS, Sizes, size_array
from dmlgather.dialects.unknown_sizes import Named
from dmlgather.openvino.model.constants import NOT_CONNECTED, Value, Weights, shape_of
from dmlgather.openvino.model.ir_layers import Layer, LayerGraph, Model, Port, PortKey, Shape, element_type
from dmlgather.openvino.model.layer_calls import MOST_DIMENSIONS, LayerCall, UnknownResultError
from dmlgather.openvino.model.layer_reading import attributes_of, opset_of, ports_of, version_of
from dmlgather.openvino.model.layer_table import LAYERS, UNKNOWN, LayerRow, evaluated, row_of
from dmlgather.openvino.problems.operation_versions import VERSIONS, OperationVersion
from dmlgather.wording import printable


class SizeNames:
    """The names of sizes that a model leaves open: "tokens[1]" for the second of the tensor `tokens`. Several tensors may have
    the same name; their sizes do not.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self._owners: dict[str, object] = {}

    def named(self, shape: Shape, tensor: str, owner: object) -> Named:
        """A shape with names for the sizes that are not known. owner: what tells tensors of that name apart."""
        if None not in shape:
            return tuple(size for size in shape if size is not None)
        name, number = tensor, 1
        while self._owners.setdefault(name, owner) != owner:
            number += 1
            name = f"{tensor}#{number}"
        return tuple(self.sizes.symbol(f"{name}[{axis}]") if size is None else size for axis, size in enumerate(shape))


class Tensors:
    """The tensors of a graph."""

    def __init__(self, graph: LayerGraph, names: SizeNames, path: str = "") -> None:
        """path: of the graph in its model; empty for the main graph."""
        self.graph, self.names, self.path = graph, names, path

    def input(self, layer: Layer, role: str, port: Port) -> CheckedTensor:
        """An input with the type and shape that the layer before it gives; its own port gives what is missing."""
        connected = self.graph.source(layer, port)
        if connected is None:
            return CheckedTensor(role=role, name=role, type=port.type, shape=port.shape)
        source, output = connected
        kind, shape = output.type, output.shape
        if source.type in ("Const", "Parameter"):  # whose attributes count for more than their ports
            kind, shape = element_type(source.data.get("element_type", "")) or kind, shape_of(source, shape)
        name = output.names.split(",")[0] or source.name
        return CheckedTensor(role=role, name=name, type=kind or port.type, shape=port.shape if shape is None else shape)

    def shape(self, layer: Layer, tensor: CheckedTensor, port: Port) -> Named | None:
        """The shape of an input with names for the sizes that are not known; None where the rank is not known."""
        if tensor.shape is None:
            return None
        connected = self.graph.source(layer, port)
        end = (layer.id, tensor.role) if connected is None else (connected[0].id, connected[1].id)
        sizes = tuple(size if isinstance(size, int) else None for size in tensor.shape)
        return self.names.named(sizes, tensor.name, (self.path, *end))

    def output(self, layer: Layer, port: Port) -> CheckedTensor:
        """The output of a layer as its port has it."""
        name = port.names.split(",")[0] or layer.name
        return CheckedTensor(role="output", name=name, type=port.type, shape=port.shape)


class Folding:
    """The values of one graph of layers."""

    def __init__(self, tensors: Tensors, weights: Weights) -> None:
        """weights: from which constants are read when they are needed."""
        self.tensors, self.graph, self.weights = tensors, tensors.graph, weights
        self._values: dict[PortKey, Value] = {}

    def value(self, layer: Layer, port: Port, largest: int = KEPT_ELEMENTS) -> Value:
        """The value of a layer's input port, or why it is not known. largest: elements that a constant may have there."""
        connected = self.graph.source(layer, port)
        if connected is None:
            return Unknown(NOT_CONNECTED)
        source, output = connected
        if source.type == "Const":
            return self.weights.constant(source, largest)
        assert source.id is not None, "an edge leads to it"
        key = (source.id, output.id)
        if key not in self._values:
            self._evaluate(source)
        return self._values[key]

    def _evaluate(self, layer: Layer) -> None:
        """Evaluate a layer, after the layers that it needs; chains may be longer than Python's stack."""
        waiting, entered = [layer], set()
        while waiting:
            current = waiting[-1]
            needed = [each for each in self._needed(current) if not self._evaluated(each)]
            if needed and current.id not in entered:
                entered.add(current.id)
                waiting.extend(needed)
                continue
            waiting.pop()
            if not self._evaluated(current):
                for port, value in zip(current.outputs, self._outputs(current), strict=True):
                    assert current.id is not None
                    self._values[current.id, port.id] = value

    def _evaluated(self, layer: Layer) -> bool:
        return all((layer.id, port.id) in self._values for port in layer.outputs)

    def _needed(self, layer: Layer) -> Iterator[Layer]:
        row = row_of(layer)
        if row.run is not None and not row.from_types:
            sources = (self.graph.source(layer, port) for port in layer.inputs)
            yield from (source for source, _ in filter(None, sources) if source.type != "Const")

    def _outputs(self, layer: Layer) -> list[Value]:
        row = row_of(layer)
        if row.run is None:
            computed = Unknown(f"computed when the model runs, by {layer}", computed=True)
            return [Unknown("an input of the graph") if layer.type == "Parameter" else computed] * len(layer.outputs)
        try:
            values = self._run(layer, row)
        except UnknownResultError as error:
            return [Unknown(str(error), computed=True)] * len(layer.outputs)
        except (ValueError, TypeError, IndexError, ArithmeticError) as error:
            reason = f"computed by {layer}, which is ill-formed: {printable(str(error))}"
            return [Unknown(reason, computed=True)] * len(layer.outputs)
        return [self._kept(layer, value) for value in values]

    def _run(self, layer: Layer, row: LayerRow) -> list[np.ndarray]:
        if row.from_types:
            inputs: list[Value] = [self._sizes(layer)]
        else:
            inputs = [self._values_of_input(layer, port) for port in layer.inputs]
        for port, value in zip(layer.inputs, inputs, strict=True):
            if isinstance(value, Unknown):
                raise UnknownResultError(value.computed_from(self.tensors.input(layer, "", port).name).reason)
            if value.ndim > MOST_DIMENSIONS:
                raise UnknownResultError(f"computed by {layer}: {value.ndim} dimensions")
        known = [value for value in inputs if not isinstance(value, Unknown)]
        return evaluated(row, LayerCall(layer, known, self.tensors.names.sizes))

    def _values_of_input(self, layer: Layer, port: Port) -> Value:
        connected = self.graph.source(layer, port)
        if connected is not None and connected[0].type != "Const" and connected[0].id is not None:
            key = (connected[0].id, connected[1].id)
            return self._values.get(key, Unknown(f"computed by {layer}, which needs its own result", computed=True))
        return self.value(layer, port)

    def _kept(self, layer: Layer, value: np.ndarray) -> Value:
        return value if value.size <= KEPT_ELEMENTS else Unknown(f"{value.size} elements that {layer} computes")

    def _sizes(self, layer: Layer) -> Value:
        """What ShapeOf gives: sizes that are not known are symbols."""
        if len(layer.inputs) != 1:
            raise ValueError(f"it has {len(layer.inputs)} inputs, expected 1")
        tensor = self.tensors.input(layer, "data", layer.inputs[0])
        shape = self.tensors.shape(layer, tensor, layer.inputs[0])
        if shape is None:
            return Unknown(f"the shape of {tensor.name!r}, which is not known", computed=True)
        return size_array(shape)


# Which layers of an IR are the host's arithmetic: their results reach only shapes, bounds, axes, counts and conditions.


def host_layers(graph: LayerGraph) -> frozenset[int]:
    """The ids of the layers that are the host's arithmetic, bodies aside. What enters or leaves a body counts as the device's.

    A layer is one if its tensors have at most KEPT_ELEMENTS elements, and every layer that reads a result of it reads it as a
    shape, a bound or the like, or is one itself.
    """
    reads = (graph.source(layer, port) for layer in graph.layers.values() for _, port in _read_ports(layer))
    used = {source[0].id for source in reads if source is not None}
    host = {number for number, layer in graph.layers.items() if number in used and _is_small(graph, layer)}
    others = [layer for number, layer in graph.layers.items() if number not in host]
    while others:
        layer = others.pop()
        for at, port in _read_ports(layer):
            source = graph.source(layer, port)
            if source is not None and source[0].id in host and at not in LAYERS.get(layer.type, UNKNOWN).host:
                host.remove(source[0].id)
                others.append(source[0])
    return frozenset(host)


def _read_ports(layer: Layer) -> Iterator[tuple[int, Port]]:
    """The inputs whose elements matter, with their numbers."""
    return ((at, port) for at, port in enumerate(layer.inputs) if at not in LAYERS.get(layer.type, UNKNOWN).unread)


def _is_small(graph: LayerGraph, layer: Layer) -> bool:
    """Whether all tensors of a layer that it reads or makes are small."""
    ports = [*layer.outputs, *(_given(graph, layer, port) for _, port in _read_ports(layer))]
    return layer.type != "Parameter" and not layer.bodies and all(map(_is_small_port, ports))


def _given(graph: LayerGraph, layer: Layer, port: Port) -> Port:
    connected = graph.source(layer, port)
    return port if connected is None else connected[1]


def _is_small_port(port: Port) -> bool:
    """A port without sizes is a scalar, or of unknown rank."""
    sizes = port.shape or ()
    return None not in sizes and math.prod(size for size in sizes if size is not None) <= KEPT_ELEMENTS


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
