"""A model's nodes for inputs of known types, as one fused graph: views join the gathers around them, and what decides shapes is
computed beforehand, on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.devices import CPU, Device
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import Step
from dmlgather.dialects.problem import TensorType
from dmlgather.eager import execute
from dmlgather.fusion import fuse
from dmlgather.onnx import auxiliary
from dmlgather.onnx.backend.device_tensors import DeviceTensor
from dmlgather.onnx.backend.graph import NodeGraph, PreparedNode
from dmlgather.onnx.model.node_labels import label
from dmlgather.onnx.model.node_steps import steps_of
from dmlgather.onnx.model.translated_node import TranslatedNode
from dmlgather.onnx.problems.node_reading import problem_of


def decides_shapes(graph: NodeGraph) -> frozenset[str]:
    """The names of all values whose elements decide the shape of a result, directly or by what is computed of them."""
    found: set[str] = set()
    for each in reversed(graph.nodes):
        node = each.node
        if node.op_type != "Shape" and not found.isdisjoint(node.output):
            found.update(node.input)
        found.update(node.input[each.arrays :])
    return frozenset(filter(None, found))


class FusedNodes:
    """The nodes of a model for inputs of these types. Threads may share it."""

    def __init__(
        self,
        graph: NodeGraph,
        inputs: Mapping[str, TensorType],
        known: Mapping[str, NDArray[Any]],
        deciding: frozenset[str],
        moved: Callable[[str, NDArray[Any]], Any],
    ) -> None:
        """inputs: the types of the inputs that a caller gives. known: the elements of constants, and of those inputs that decide
        shapes. deciding: as `decides_shapes` finds. moved: gives the array of a constant in the device's memory.

        TypeError and ValueError where an input breaks a rule of a node, or an output has another type than the model declares,
        IndexError for a bad index in what decides shapes.
        """
        nodes = _Nodes(inputs, known, deciding)
        for each in graph.nodes:
            nodes.add(each)
        built = nodes.builder.build([nodes.value(name) for name, _ in graph.outputs])
        for (name, declared), value in zip(graph.outputs, built.outputs, strict=True):
            if declared.dtype not in {None, built.types[value].dtype}:
                raise TypeError(f"output {name!r} has another type than the model declares")
        fused = fuse(built)
        self.launches = fused.launches
        written = {name for step in fused.graph.steps for name in step.outputs}
        read = [name for step in fused.graph.steps for name in step.inputs]
        self._outputs, self._casts = built.outputs, nodes.casts
        self._passed_on = {
            name: DeviceTensor(array, CPU) for name, array in fused.graph.constants.items() if name in built.outputs
        }
        self._constants = {name: moved(name, array) for name, array in fused.graph.constants.items() if name in read}
        self._inputs = tuple(name for name in fused.graph.inputs if name in read)
        outputs = tuple(name for name in fused.graph.outputs if name in written)
        bare = replace(fused.graph, inputs=(*self._inputs, *self._constants), outputs=outputs, constants={})
        self._fused = replace(fused, graph=bare, source=bare)

    def run(self, values: Mapping[str, DeviceTensor], device: Device) -> list[DeviceTensor]:
        """The model's outputs in order; one that is an input or a constant shares its memory. values: the inputs. IndexError for
        a bad index.
        """
        memory = device.memory
        arrays = {name: values[name].on(memory) for name in self._inputs}
        found = self._fused.run(arrays | self._constants, compute=self._cast, device=str(device))
        made = self._passed_on | {name: DeviceTensor(array, memory, object()) for name, array in found.items()}
        return [made[name] if name in made else values[name] for name in self._outputs]

    def results(self, given: Mapping[str, NDArray[Any]], device: Device) -> list[NDArray[Any]]:
        """The model's outputs in order: packed arrays that no one else has. IndexError for a bad index.

        given: arrays on the host for the inputs, of the types that these nodes are for.
        """
        read = {name: given[name] for name in self._inputs}
        made = self._fused.run(read | self._constants, compute=self._cast, device=device.kind)
        results: list[NDArray[Any]] = []
        for number, name in enumerate(self._outputs):
            array = made[name] if name in made else self._passed_on[name].on(CPU) if name in self._passed_on else given[name]
            own = name in made and name not in self._outputs[:number] and array.flags.c_contiguous
            results.append(array if own else np.array(array, order="C"))
        return results

    def _cast(self, step: Step, inputs: Sequence[Any]) -> list[Any]:
        """The result of a Cast to or from floating point."""
        each = self._casts[step.name]
        return [auxiliary.compute(each.node, each.opset, inputs)]


class _Nodes:
    """Nodes that are added to a graph one by one. casts: those of its opaque steps, by the step's name."""

    def __init__(self, inputs: Mapping[str, TensorType], known: Mapping[str, NDArray[Any]], deciding: frozenset[str]) -> None:
        self.builder, self.casts = GraphBuilder(), dict[str, PreparedNode]()
        self._deciding, self._known = deciding, dict(known)
        self._values = {name: self.builder.input(name, tensor) for name, tensor in inputs.items() if name not in known}

    def value(self, name: str) -> str:
        """The name in the graph of a value of the model."""
        if name not in self._values:
            self._values[name] = self.builder.constant(self._known[name], name)
        return self._values[name]

    def add(self, each: PreparedNode) -> None:
        """Compute a node that decides shapes, or add its steps."""
        node = each.node
        result = node.output[0]
        if node.op_type == "Shape":
            self._known[result] = auxiliary.compute(node, each.opset, [self._stand_in(node.input[0])])
        elif result in self._deciding:
            self._known[result] = self._computed(each)
        else:
            inputs = [self.value(name) if name and number < each.arrays else None for number, name in enumerate(node.input)]
            values = [self._known.get(name) for name in node.input]
            call = TranslatedNode(node, each.opset, label(node), self.builder, inputs, values)
            self._values[result] = (steps_of(call) or self._cast(each, call))[0]

    def _stand_in(self, name: str) -> Any:
        """An array without elements in memory, of the shape and type of a value."""
        tensor = self.builder.types[self.value(name)] if name not in self._known else self._known[name]
        return np.broadcast_to(np.zeros((), tensor.dtype), tensor.shape)

    def _computed(self, each: PreparedNode) -> NDArray[Any]:
        """The result of a node whose inputs are all known."""
        arrays = [self._known[name] if name else None for name in each.node.input]
        if auxiliary.is_auxiliary(each.node):
            return np.asarray(auxiliary.compute(each.node, each.opset, arrays))
        types = [None if array is None else TensorType(array.shape, array.dtype) for array in arrays]
        problem = problem_of(each.node, each.opset, types, arrays)
        return np.asarray(execute(problem, arrays[: each.arrays]))

    def _cast(self, each: PreparedNode, call: TranslatedNode) -> tuple[str, ...]:
        """The step of a Cast to or from floating point."""
        dtype = auxiliary.compute(each.node, each.opset, [np.zeros(0, call.tensor.dtype)]).dtype
        tensor = TensorType(call.tensor.shape, dtype)
        found = self.builder.opaque(call.name, each.node.op_type, [call.data], [tensor], outputs=[call.output])
        self.casts[self.builder.steps[-1].name] = each
        return found
