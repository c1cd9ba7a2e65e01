"""Values in an IR that follow from constants and from shapes, of which some sizes may not be known.

A value is looked for when a layer of the family needs it; then the layers that it is computed from are evaluated, each once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.dialects.size_arrays import KEPT_ELEMENTS, size_array
from dmlgather.openvino.model.constants import NOT_CONNECTED, Value, Weights
from dmlgather.openvino.model.ir_layers import Layer, Port, PortKey
from dmlgather.openvino.model.layer_arithmetic import OPERATIONS
from dmlgather.openvino.model.layer_operations import MOST_DIMENSIONS, Computed, Operation, UnknownResultError
from dmlgather.openvino.model.tensors import Tensors
from dmlgather.wording import printable


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
        if layer.type in OPERATIONS and layer.type != "ShapeOf":
            sources = (self.graph.source(layer, port) for port in layer.inputs)
            yield from (source for source, _ in filter(None, sources) if source.type != "Const")

    def _outputs(self, layer: Layer) -> list[Value]:
        run = OPERATIONS.get(layer.type)
        if run is None or not layer.opset.lower().startswith("opset"):
            computed = Unknown(f"computed when the model runs, by {layer}", computed=True)
            return [Unknown("an input of the graph") if layer.type == "Parameter" else computed] * len(layer.outputs)
        try:
            values = self._run(layer, run)
        except UnknownResultError as error:
            return [Unknown(str(error), computed=True)] * len(layer.outputs)
        except (ValueError, TypeError, IndexError, ArithmeticError) as error:
            reason = f"computed by {layer}, which is ill-formed: {printable(str(error))}"
            return [Unknown(reason, computed=True)] * len(layer.outputs)
        return [self._kept(layer, np.asarray(value, object) if isinstance(value, str) else np.asarray(value)) for value in values]

    def _run(self, layer: Layer, run: Computed) -> list[np.ndarray]:
        if layer.type == "ShapeOf":
            inputs: list[Value] = [self._sizes(layer)]
        else:
            inputs = [self._values_of_input(layer, port) for port in layer.inputs]
        for port, value in zip(layer.inputs, inputs, strict=True):
            if isinstance(value, Unknown):
                raise UnknownResultError(value.computed_from(self.tensors.input(layer, "", port).name).reason)
            if value.ndim > MOST_DIMENSIONS:
                raise UnknownResultError(f"computed by {layer}: {value.ndim} dimensions")
        results = run(Operation(layer, [value for value in inputs if not isinstance(value, Unknown)], self.tensors.names.sizes))
        if len(results) != len(layer.outputs):
            raise ValueError(f"it has {len(layer.outputs)} outputs, expected {len(results)}")
        return results

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
