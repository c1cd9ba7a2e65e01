"""Run one Gather layer of an IR file."""

from __future__ import annotations

from typing import Any

import numpy as np

from dmlgather.dialects.problem import TensorType
from dmlgather.eager import EagerFunction, Request, host_values
from dmlgather.openvino.model.ir_layers import Layer, Port, read_layer
from dmlgather.openvino.model.ir_xml import NEEDED, Element, IRError, parse
from dmlgather.openvino.model.layer_sites import batch_dims_of, opset_of, ports_of, version_in
from dmlgather.openvino.problems.gather import TYPES, OpenVINOGather, axis_of
from dmlgather.policy import Fill


@EagerFunction
def run_layer(
    xml_layer: Any,
    data: Any,
    indices: Any,
    axis: Any,
    *,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
) -> Request:
    """Run one Gather layer of an IR: its version and batch_dims are the layer's, and the arrays must fit its ports.

    xml_layer: the text of a <layer> element, or the element itself, of lxml or xml.etree. data, indices, axis: as for `gather`,
    with the shapes and types of the layer's ports. A size of -1 allows any size; a port without sizes or without precision
    allows any shape or type; an axis that is a number and no array fits any port. Of Gather-1, batch_dims is ignored.
    out_of_bounds, device: as for `gather`. Returns what `gather` does, of the output port's shape.

    Raises ValueError for what is no Gather layer or lacks a port, for a shape that a port does not allow, and as `gather` does;
    TypeError for a type that a port does not allow, and as `gather` does. Text is read by lxml (`pip install
    'dmlgather[openvino]'`, ImportError without it); a document type in it is refused.

    >>> ports = "<input><port id='0'/><port id='1'/><port id='2'/></input><output><port id='3'/></output>"
    >>> layer = f"<layer type='Gather' version='opset7'>{ports}</layer>"
    >>> dg.openvino.run_layer(layer, np.array([10, 20, 30]), np.array([2, -1]), axis=0).tolist()
    [30, 0]
    """
    try:
        layer = _read(xml_layer)
        version, batch_dims, ports = version_in(opset_of(layer)), batch_dims_of(layer), ports_of(layer)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"the text of a layer is read by a package that is missing ({error}): {NEEDED}") from None
    except IRError as error:
        where = f" in line {error.line}" if error.line else ""
        raise ValueError(f"xml_layer{where}: {error}") from None
    values = host_values("axis", axis)
    if isinstance(values, np.ndarray):
        _check(ports[2], "axis", TensorType(tuple(values.shape), values.dtype))
    place = axis_of(values)

    def problem(data: TensorType, indices: TensorType) -> OpenVINOGather:
        _check(ports[0], "data", data)
        _check(ports[1], "indices", indices)
        problem = OpenVINOGather(data, indices, place, batch_dims, version)
        _check(ports[3], "output", problem.output)
        return problem

    return Request(problem, {"data": data, "indices": indices}, out_of_bounds, device)


def _read(layer: Any) -> Layer:
    """A Gather layer from its text or its element. IRError for another layer, TypeError for anything else."""
    if isinstance(layer, bytes):
        try:
            layer = layer.decode()
        except UnicodeDecodeError as error:
            raise IRError(f"is not UTF-8 text: byte 0x{layer[error.start]:02x} at offset {error.start}") from None
    if not isinstance(layer, str) and not hasattr(layer, "attrib"):
        raise TypeError(f"xml_layer is of type {type(layer).__name__}, expected the text of a <layer>, or an element")
    element = parse(layer) if isinstance(layer, str) else Element.of(layer)
    if element.tag != "layer":
        raise IRError(f"<{element.tag}> is no <layer>", element.line)
    gather = read_layer(element)
    if gather.type != "Gather":
        raise IRError(f"{gather} is no Gather", gather.line)
    return gather


def _check(port: Port, role: str, tensor: TensorType) -> None:
    """TypeError or ValueError unless a tensor has the type and the sizes of a port."""
    name = TYPES.name_of(tensor.dtype)
    if port.type not in (None, name):
        raise TypeError(f"{role} has type {name}, but port {port.id} has {port.type}")
    if port.shape is None:
        return
    if len(port.shape) != tensor.rank or any(size not in (None, n) for size, n in zip(port.shape, tensor.shape, strict=True)):
        sizes = ["-1" if size is None else str(size) for size in port.shape]
        raise ValueError(f"{role} has shape {list(tensor.shape)}, but port {port.id} has [{', '.join(sizes)}]")
