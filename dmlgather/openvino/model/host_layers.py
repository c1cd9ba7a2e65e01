"""Which layers of an IR are the host's arithmetic: their results reach only shapes, bounds, axes, counts and conditions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from dmlgather.dialects.size_arrays import KEPT_ELEMENTS
from dmlgather.openvino.model.ir_layers import Layer, LayerGraph, Port

_SHAPE = _AXES = _ONE = (1,)

HOST_PORTS: Mapping[str, tuple[int, ...]] = {
    "AdaptiveAvgPool": _SHAPE,
    "AdaptiveMaxPool": _SHAPE,
    "BatchToSpace": (1, 2, 3),
    "Broadcast": (1, 2),
    "Col2Im": (1, 2),
    "ConvolutionBackpropData": (2,),
    "CumSum": _AXES,
    "DFT": (1, 2),
    "Eye": (0, 1, 2),
    "Gather": (2,),
    "GroupConvolutionBackpropData": (2,),
    "IDFT": (1, 2),
    "IRDFT": (1, 2),
    "If": (0,),
    "Interpolate": (1, 2, 3),
    "Loop": (0, 1),
    "MVN": _AXES,
    "NonMaxSuppression": (2, 3, 4, 5),
    "NormalizeL2": _AXES,
    "OneHot": _ONE,
    "Pad": (1, 2, 3),
    "PriorBox": (0, 1),
    "PriorBoxClustered": (0, 1),
    "RDFT": (1, 2),
    "RandomUniform": (0,),
    "Range": (0, 1, 2),
    "ReduceL1": _AXES,
    "ReduceL2": _AXES,
    "ReduceLogicalAnd": _AXES,
    "ReduceLogicalOr": _AXES,
    "ReduceMax": _AXES,
    "ReduceMean": _AXES,
    "ReduceMin": _AXES,
    "ReduceProd": _AXES,
    "ReduceSum": _AXES,
    "Reshape": _SHAPE,
    "Roll": (1, 2),
    "STFT": (2, 3),
    "ScatterElementsUpdate": (3,),
    "ScatterUpdate": (3,),
    "Slice": (1, 2, 3, 4),
    "SliceScatter": (2, 3, 4, 5),
    "SpaceToBatch": (1, 2, 3),
    "Split": _AXES,
    "Squeeze": _AXES,
    "StridedSlice": (1, 2, 3),
    "Tile": _SHAPE,
    "TopK": _ONE,
    "Transpose": _AXES,
    "Unsqueeze": _AXES,
    "VariadicSplit": (1, 2),
}
"""The numbers of the inputs that decide shapes, bounds, axes, counts or conditions, by the layer's type. Source: the operations'
pages in OpenVINO's documentation.
"""

UNREAD_PORTS: Mapping[str, tuple[int, ...]] = {"ConvertLike": (1,), "ShapeOf": (0,)}
"""The numbers of the inputs of which only type or shape matter."""


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
            if source is not None and source[0].id in host and at not in HOST_PORTS.get(layer.type, ()):
                host.remove(source[0].id)
                others.append(source[0])
    return frozenset(host)


def _read_ports(layer: Layer) -> Iterator[tuple[int, Port]]:
    """The inputs whose elements matter, with their numbers."""
    return ((at, port) for at, port in enumerate(layer.inputs) if at not in UNREAD_PORTS.get(layer.type, ()))


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
