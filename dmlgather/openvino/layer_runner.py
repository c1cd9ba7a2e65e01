"""Run one Gather layer as it stands in an IR file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
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
    """Run one Gather layer as written in an IR: its version and batch_dims are the layer's, and its ports must fit the arrays.

    xml_layer: the text of a <layer> element, or the element itself, of lxml or xml.etree. data, indices, axis: as for `gather`,
    of the shapes and types that the layer's ports state, but for an axis that is a number and no array; a size of -1 is any, and
    a port without sizes or without precision says nothing of them. Of Gather-1, which has no batch_dims, none is looked at.
    out_of_bounds, device: as for `gather`. Returns what `gather` does, of the output port's shape.

    Raises ValueError for what is no Gather layer or has no such ports, for a shape that a port does not have, and as `gather`
    does; TypeError for a type that a port does not have, and as `gather` does. The text is read by lxml (`pip install
    'dmlgather[openvino]'`, ImportError without it), and a document type in it is refused.
    """
    layer = _Layer.read(xml_layer)
    place = host_values("axis", axis)
    if isinstance(place, np.ndarray):  # a number fits wherever an axis does
        _check(layer.axis, "axis", TensorType(tuple(place.shape), place.dtype))
    return Request(partial(layer.problem, axis=axis_of(place)), {"data": data, "indices": indices}, out_of_bounds, device)


@dataclass(frozen=True, slots=True)
class _Layer:
    """What a Gather layer states."""

    version: int
    batch_dims: int
    data: Port
    indices: Port
    axis: Port
    output: Port

    @classmethod
    def read(cls, given: Any) -> _Layer:
        try:
            layer = _element(given)
            if layer.type != "Gather":
                raise IRError(f"{layer} is no Gather", layer.line)
            return cls(version_in(opset_of(layer)), batch_dims_of(layer), *ports_of(layer))
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"the text of a layer is read by a package that is missing ({error}): {NEEDED}") from None
        except IRError as error:
            where = f" in line {error.line}" if error.line else ""
            raise ValueError(f"xml_layer{where}: {error}") from None

    def problem(self, data: TensorType, indices: TensorType, axis: int) -> OpenVINOGather:
        """The problem that the layer states for such arrays."""
        _check(self.data, "data", data)
        _check(self.indices, "indices", indices)
        problem = OpenVINOGather(data, indices, axis, self.batch_dims, self.version)
        _check(self.output, "output", problem.output)
        return problem


def _element(given: Any) -> Layer:
    if isinstance(given, str | bytes):
        given = parse(given if isinstance(given, str) else _decoded(given))
    if not isinstance(given, Element) and not hasattr(given, "attrib"):
        raise TypeError(f"xml_layer is of type {type(given).__name__}, expected the text of a <layer>, or an element")
    element = given if isinstance(given, Element) else Element.of(given)
    if element.tag != "layer":
        raise IRError(f"<{element.tag}> is no <layer>", element.line)
    return read_layer(element)


def _decoded(given: bytes) -> str:
    try:
        return given.decode()
    except UnicodeDecodeError as error:
        raise IRError(f"is not UTF-8 text: byte 0x{given[error.start]:02x} at offset {error.start}") from None


def _check(port: Port, role: str, found: TensorType) -> None:
    """TypeError or ValueError unless a tensor has the type and the sizes that a port states."""
    name = TYPES.name_of(found.dtype)
    if port.type not in (None, name):
        raise TypeError(f"{role} has type {name}, but port {port.id} has {port.type}")
    fits = len(port.dims) == found.rank and all(size in (None, n) for size, n in zip(port.dims, found.shape, strict=True))
    if port.dims and not fits:
        sizes = ["-1" if size is None else str(size) for size in port.dims]
        raise ValueError(f"{role} has shape {list(found.shape)}, but port {port.id} has [{', '.join(sizes)}]")
