"""The tensors of a graph of layers: their names, types and shapes, as the layers before them give them."""

from __future__ import annotations

from dmlgather.dialects.checked_model import CheckedTensor
from dmlgather.dialects.sizes import Sizes
from dmlgather.dialects.unknown_sizes import Named
from dmlgather.openvino.model.constants import shape_of
from dmlgather.openvino.model.ir_layers import Layer, LayerGraph, Port, Shape, element_type


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
