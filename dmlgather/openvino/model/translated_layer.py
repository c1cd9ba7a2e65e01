"""A layer that is translated to steps of a graph: the values that it reads, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.problem import TensorType
from dmlgather.openvino.model.ir_layers import Layer, Port
from dmlgather.openvino.model.layer_calls import ReadLayer


@dataclass(frozen=True)
class TranslatedLayer(ReadLayer):
    """A layer whose inputs are values of a graph.

    inputs: names of values, in the order of the ports. outputs: the names that its outputs should have.
    """

    graph: GraphBuilder
    inputs: Sequence[str]
    outputs: Sequence[str]

    @property
    def name(self) -> str:
        """The name of its steps, for messages."""
        return label(self.layer)

    @property
    def types(self) -> list[TensorType]:
        """The types of the inputs."""
        return [self.graph.types[name] for name in self.inputs]

    @property
    def data(self) -> str:
        """The first input. ValueError where the layer has none."""
        return self.input(0)

    @property
    def tensor(self) -> TensorType:
        """The type of the first input."""
        return self.graph.types[self.data]

    @property
    def output(self) -> str:
        """The name of the first output."""
        return self.outputs[0]

    def input(self, number: int) -> str:
        """An input. ValueError where there are fewer."""
        if number >= len(self.inputs):
            raise ValueError(f"it has {len(self.inputs)} inputs, expected more")
        return self.inputs[number]

    def known(self, number: int) -> NDArray[Any] | None:
        """The elements of an input that is a constant; None for others."""
        return self.graph.known(self.input(number))

    def numbers(self, number: int) -> list[int] | None:
        """The elements of an input that is a constant of integers, in order; None where it is none. TypeError for other types."""
        values = self.known(number)
        if values is None:
            return None
        if values.dtype.kind not in "iu":
            raise TypeError(f"input {number} has type {values.dtype}, expected integers")
        return [int(each) for each in values.reshape(-1)]

    @property
    def integers(self) -> bool:
        """Whether all inputs are integers or bools."""
        return all(tensor.dtype.kind in "biu" for tensor in self.types)

    @property
    def broadcasts(self) -> bool:
        """Whether the inputs are broadcast as NumPy does it."""
        return self.text("auto_broadcast", "numpy") == "numpy" or len({tensor.shape for tensor in self.types}) == 1

    @property
    def broadcast_shape(self) -> tuple[int, ...]:
        """The shape of all inputs together. ValueError where there is none."""
        return np.broadcast_shapes(*(tensor.shape for tensor in self.types))


def label(layer: Layer) -> str:
    """The name of a layer in messages."""
    return f"{layer.type} layer {layer.name!r}" if layer.name else f"{layer.type} layer {layer.id}"


def tensor_name(layer: Layer, port: Port) -> str:
    """How users know an output of a layer: by the first of the tensor's names, else by the layer's."""
    if port.names:
        return port.names.split(",")[0]
    return layer.name if len(layer.outputs) == 1 else f"{layer.name}.{layer.outputs.index(port)}"
