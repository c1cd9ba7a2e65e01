"""Operators that pass or convert values: Identity, Constant, Cast. Source: the operators' pages in ONNX's documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dmlgather.onnx.problems.data_types import check_type, data_type, type_name
from dmlgather.onnx.problems.node_reading import ParsedNode

CASTABLE = (
    "bool",
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float", "double"),
)
"""The element types that Cast converts between here; versions list more."""

EXTERNAL = 1  # TensorProto.EXTERNAL

_ELEMENTS: Mapping[str, Any] = {"float": np.float32, "int": np.int64, "string": object}
"""NumPy's types of the values of Constant that are no tensors."""


def identity(_: ParsedNode, data: Any) -> Any:
    """Data itself, not a copy."""
    return data


def constant(node: ParsedNode) -> Any:
    """The value of the attribute, in host memory."""
    if len(node.attributes) != 1:
        names = ", ".join(node.attributes) or "none"
        raise ValueError(f"{node.version} takes exactly one of {', '.join(node.version.attributes)}; the node has {names}")
    ((name, value),) = node.attributes.items()
    if name == "sparse_value":
        raise TypeError("sparse_value holds a sparse tensor, which is not supported: use value, with a dense one")
    array = tensor(value) if name == "value" else np.array(value, _ELEMENTS[name.removeprefix("value_").removesuffix("s")])
    check_type(node.version, name, array.dtype, node.version.types)
    return array


def tensor(proto: Any) -> Any:
    """A TensorProto as a NumPy array, strings as objects. ValueError when its data lies in a file that was not loaded."""
    if proto.data_location == EXTERNAL:
        raise ValueError(f"its data lies outside the model and is not loaded ({location(proto)}); onnx.load(path) loads it")
    from onnx import numpy_helper

    return numpy_helper.to_array(proto)


def initializer(proto: Any) -> Any:
    """An initializer as a NumPy array. ValueError, naming it, as `tensor`, and where its data do not fit its shape or type."""
    try:
        return tensor(proto)
    except (TypeError, ValueError) as error:
        raise ValueError(f"initializer {proto.name!r}: {error}") from None


def location(proto: Any) -> str:
    """The file that a TensorProto with external data names."""
    return next((entry.value for entry in proto.external_data if entry.key == "location"), "an unnamed file")


def cast(node: ParsedNode, data: Any) -> Any:
    """The elements of data converted to the type `to`, on data's device; data itself where it has that type.

    Floating point to bool is != 0; integers to integers keep the low bits. Floating point to integers is undefined in ONNX
    where a value does not fit, and is then what the processor makes of it.
    """
    dtype = target(node)
    _check_castable("from", type_name(data.dtype))
    if data.dtype == dtype:
        return data
    with np.errstate(all="ignore"):  # of values that do not fit, which ONNX leaves undefined
        return data.astype(dtype)


def target(node: ParsedNode) -> np.dtype[Any]:
    """The type that Cast converts to. TypeError for one that its version does not list, or that is not supported."""
    to = node.attributes["to"]
    dtype = data_type(to)
    if dtype is None:
        raise ValueError(f"attribute to is {to!r}, which is no data type of TensorProto")
    if type_name(dtype) not in node.version.types:
        raise TypeError(f"attribute to is {type_name(dtype)}, but {node.version} takes {', '.join(node.version.types)}")
    _check_castable("to", type_name(dtype))
    return dtype


def _check_castable(direction: str, element: str) -> None:
    if element not in CASTABLE:
        raise TypeError(f"Cast {direction} {element} is not supported; it converts between {', '.join(CASTABLE)}")
