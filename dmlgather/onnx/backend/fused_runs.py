"""Runs of a model as fused graphs: one for the types of the inputs and the values that decide shapes, made once and kept."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from threading import Lock
from typing import Any

from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.onnx.backend.device_tensors import DeviceTensor
from dmlgather.onnx.backend.fused_nodes import FusedNodes, decides_shapes
from dmlgather.onnx.backend.graph import NodeGraph

RUNS_KEPT = 32
"""Fused graphs of a model that are kept (least recently used leave first)."""

LONG = 1024
"""Bytes of an array from which on a digest of it is kept in its place."""


class FusedRuns:
    """The fused graphs of a model on a device. Threads may share it."""

    def __init__(self, graph: NodeGraph, constants: Mapping[str, DeviceTensor], device: Device) -> None:
        self._graph, self._constants, self._device = graph, constants, device
        self._deciding = decides_shapes(graph)
        self._kept: OrderedDict[Hashable, FusedNodes | None] = OrderedDict()
        self._lock = Lock()

    def key_of(self, arrays: Mapping[str, Any]) -> Hashable:
        """What a fused graph is made for: the types of the inputs, and the elements of those that decide shapes. arrays: inputs
        that a caller gives, or at least their types; on the host those that decide shapes.
        """
        key: list[Hashable] = []
        for name, array in arrays.items():
            key.append((name, array.dtype, array.shape))
            if name in self._deciding:
                key.append(_content(array))
        return tuple(key)

    def made_for(self, key: Hashable) -> FusedNodes | None:
        """The fused nodes for a key, where they exist."""
        with self._lock:
            nodes = self._kept.get(key)
            if nodes is not None:
                self._kept.move_to_end(key)
            return nodes

    def nodes_for(self, given: Mapping[str, DeviceTensor]) -> FusedNodes | None:
        """The fused nodes for inputs like these, which the caller gave. None where the nodes have to run one by one: where one of
        them will raise, and for inputs that are seen for the first time and may never come again: if they decide shapes, or the
        model is a single node.
        """
        known = {name: tensor.on(CPU) for name, tensor in given.items() if name in self._deciding}
        key = self.key_of({name: known.get(name, tensor.type) for name, tensor in given.items()})
        with self._lock:
            new, nodes = key not in self._kept, self._kept.pop(key, None)
            self._kept[key] = nodes
            if len(self._kept) > RUNS_KEPT:
                self._kept.popitem(last=False)
        if nodes is not None or (new and (known or len(self._graph.nodes) < 2)):
            return nodes
        types = {name: tensor.type for name, tensor in given.items()}
        constants = {name: array for name, array in self._graph.constants.items() if name not in given}
        try:
            nodes = FusedNodes(self._graph, types, constants | known, self._deciding, self._moved)
        except (IndexError, TypeError, ValueError):
            return None
        with self._lock:
            if key in self._kept:
                self._kept[key] = nodes
        return nodes

    def _moved(self, name: str, array: NDArray[Any]) -> Any:
        """A constant of a fused graph in the memory of the device."""
        memory = self._device.memory
        known = self._constants.get(name)
        return arrays.move(array, CPU, memory) if known is None or self._graph.constants[name] is not array else known.on(memory)


def _content(array: NDArray[Any]) -> bytes:
    """The elements of an array, or a digest of them."""
    content = array.tobytes()
    return content if len(content) < LONG else hashlib.sha256(content).digest()
