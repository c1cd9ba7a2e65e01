"""Execution of single layers of an IR file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmlgather.calls.arguments import Fill, host_values
from dmlgather.calls.eager import EagerFunction, Request
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.openvino.layer_reading import PROBLEMS, Layer, Port, attributes_of, ports_of, read_layer, version_of
from dmlgather.openvino.layer_xml import Element, IRError, parse
from dmlgather.openvino.problems.operation_versions import TYPES
from dmlgather.package import missing_extra
from dmlgather.wording import alternatives


@EagerFunction
def run_layer(
    xml_layer: Any,
    *inputs: Any,
    data: Any = None,
    indices: Any = None,
    axis: Any = None,
    start: Any = None,
    stop: Any = None,
    step: Any = None,
    axes: Any = None,
    begin: Any = None,
    end: Any = None,
    strides: Any = None,
    out: Any = None,
    out_of_bounds: str | Fill | None = None,
    device: str | None = None,
    stream: Any = None,
) -> Request:
    """Run one layer of an IR: Gather, GatherElements, GatherND, Slice or StridedSlice, with its version and attributes.

    `xml_layer`: the text of a <layer> element, or an element of lxml or xml.etree.
    `inputs`: the arguments of the operation's function. Pass them in the order of the layer's ports, or by name (axis=0).
    `out`, `out_of_bounds`, `device`, `stream`: as in the operation's function.

    Attributes that the version does not have are ignored, such as batch_dims of Gather-1. Inputs and output must have the
    shapes and types of their ports. A size of -1 allows any size. A port without sizes allows any shape; a port without
    precision allows any type. The type of an input that is a Python integer or a sequence is not checked.

    Raises ValueError for a layer of another operation, for a missing port, and for a shape that a port does not allow;
    TypeError for a type that a port does not allow, and for a missing or extra input. The function of the operation may raise
    other errors. Text is parsed by lxml, which the extra openvino installs; without it, text raises ImportError. Text must not
    have a document type declaration.

    >>> ports = "<input><port id='0'/><port id='1'/><port id='2'/></input><output><port id='3'/></output>"
    >>> layer = f"<layer type='Gather' version='opset7'>{ports}</layer>"
    >>> dg.openvino.run_layer(layer, np.array([10, 20, 30]), np.array([2, -1]), axis=0).tolist()
    [30, 0]
    """
    try:
        layer = _read(xml_layer)
        version = version_of(layer)
        attributes, (ports, result) = attributes_of(layer, version), ports_of(layer, version)
    except ModuleNotFoundError as error:
        raise missing_extra("the text of a layer", "openvino", error) from None
    except IRError as error:
        place = f" in line {error.line}" if error.line else ""
        raise ValueError(f"xml_layer{place}: {error}") from None
    keywords = {"data": data, "indices": indices, "axis": axis, "start": start, "stop": stop, "step": step, "axes": axes}
    keywords |= {"begin": begin, "end": end, "strides": strides}
    named = {name: value for name, value in keywords.items() if value is not None}
    values = _all_inputs(layer, tuple(ports), inputs, named)
    bounds = {name: _bound(name, value, ports[name]) for name, value in values.items() if name in version.bounds}

    def problem(*types: TensorType) -> Problem:
        tensors = dict(zip(version.arrays, types, strict=True))
        for name, tensor in tensors.items():
            _check(ports[name], name, tensor)
        problem: Problem = PROBLEMS[version.operation](**tensors, **bounds, **attributes, version=version.since)
        _check(result, "output", problem.output)
        return problem

    arrays = {name: values[name] for name in version.arrays}
    # `keyed` is False, because the layer determines which arguments are arrays.
    return Request(problem, arrays, out_of_bounds, device, out, stream=stream, keyed=False)


def _read(layer: Any) -> Layer:
    """Read a layer from text or from an XML element. Raises IRError if it is invalid, and TypeError for other objects."""
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
    result = read_layer(element)
    if result.type not in PROBLEMS:
        raise IRError(f"{result} is no {alternatives(PROBLEMS)}", result.line)
    return result


def _all_inputs(layer: Layer, names: Sequence[str], inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return all inputs of a layer by name. Raises TypeError if one is missing, unknown or passed twice."""
    positional = dict(zip(names, inputs, strict=False))
    unknown = [name for name in named if name not in names]
    missing = [name for name in names if name not in positional and name not in named]
    if len(inputs) > len(names) or unknown or missing or positional.keys() & named.keys():
        got = ", ".join(filter(None, (f"{len(inputs)} by position", *(f"{name}=" for name in named))))
        raise TypeError(f"{layer} has the inputs {', '.join(names)}, but got {got}: pass each once")
    return {**positional, **named}


def _bound(name: str, values: Any, port: Port) -> Any:
    """Return an input that must be known on the host: an axis, or a bound of a slice.

    Raises TypeError or ValueError if the port does not allow its type or size.
    """
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        values = tuple(values)
        if port.shape is not None and port.shape not in ((len(values),), (None,)):
            raise ValueError(f"{name} has {len(values)} elements, but port {port.id} has {_shown(port)}")
        return values
    values = host_values(name, values)
    if isinstance(values, np.ndarray):
        _check(port, name, TensorType(tuple(values.shape), values.dtype))
    return values


def _check(port: Port, role: str, tensor: TensorType) -> None:
    """Raise TypeError if a port does not allow the tensor's type, ValueError if it does not allow the shape."""
    name = TYPES.name_of(tensor.dtype)
    if port.type not in (None, name):
        raise TypeError(f"{role} has type {name}, but port {port.id} has {port.type}")
    if port.shape is None:
        return
    if len(port.shape) != tensor.rank or any(size not in (None, n) for size, n in zip(port.shape, tensor.shape, strict=True)):
        raise ValueError(f"{role} has shape {list(tensor.shape)}, but port {port.id} has {_shown(port)}")


def _shown(port: Port) -> str:
    return f"[{', '.join('-1' if size is None else str(size) for size in port.shape or ())}]"
