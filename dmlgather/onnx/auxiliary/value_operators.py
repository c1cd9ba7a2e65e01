"""Operators that pass or convert values: Identity, Constant, Cast. Source: the operators' pages in ONNX's documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgather.onnx.auxiliary.node_call import NodeCall
from dmlgather.onnx.auxiliary.versions import TYPES
from dmlgather.onnx.problems.partial_types import data_type

CASTABLE = (
    "bool",
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float", "double"),
)
"""The element types that Cast converts between here; versions list more."""

EXTERNAL = 1  # TensorProto.EXTERNAL


def identity(_: NodeCall, data: Any) -> Any:
    """What came."""
    return data


def constant(call: NodeCall) -> Any:
    """The stated value, in host memory."""
    if len(call.attributes) != 1:
        stated = ", ".join(call.attributes) or "none"
        raise ValueError(f"{call.version} takes exactly one of {', '.join(call.version.attributes)}; the node has {stated}")
    ((name, value),) = call.attributes.items()
    if name == "sparse_value":
        raise TypeError("sparse_value holds a sparse tensor, which is not supported: state a dense one as value")
    array = _CONSTANTS[name](value)
    TYPES.check(call.version, name, array.dtype, call.version.types)
    return array


def tensor(proto: Any) -> Any:
    """A TensorProto as a NumPy array, strings as objects. ValueError when its data lies in a file that was not loaded."""
    if proto.data_location == EXTERNAL:
        raise ValueError(f"its data lies outside the model and is not loaded ({location(proto)}); onnx.load(path) loads it")
    from onnx import numpy_helper

    return numpy_helper.to_array(proto)


def location(proto: Any) -> str:
    """The file that a TensorProto with external data names."""
    return next((entry.value for entry in proto.external_data if entry.key == "location"), "no location stated")


_CONSTANTS: Mapping[str, Callable[[Any], Any]] = {
    "value": tensor,
    "value_float": lambda value: np.array(value, np.float32),
    "value_floats": lambda value: np.array(value, np.float32),
    "value_int": lambda value: np.array(value, np.int64),
    "value_ints": lambda value: np.array(value, np.int64),
    "value_string": lambda value: np.array(value, object),
    "value_strings": lambda value: np.array(value, object),
}


def cast(call: NodeCall, data: Any) -> Any:
    """The elements of data converted to the type `to`, on data's device; data itself where it has that type.

    Floating point to bool is != 0; integers to integers keep the low bits. Floating point to integers is undefined in ONNX
    where a value does not fit, and is then what the processor makes of it.
    """
    dtype = target(call)
    _check_castable("from", TYPES.name_of(data.dtype))
    if data.dtype == dtype:
        return data
    with np.errstate(all="ignore"):  # what does not fit is ONNX's to define, not to warn about
        return data.astype(dtype)


def target(call: NodeCall) -> np.dtype[Any]:
    """What Cast converts to. TypeError for a type that its version does not list, or that is not supported."""
    from onnx import TensorProto

    if "to" not in call.attributes:
        raise ValueError(f"attribute to is missing: {call.version} requires it")
    to = call.attributes["to"]
    number = dict(TensorProto.DataType.items()).get(to, 0) if isinstance(to, str) else to  # a name in Cast-1
    name, dtype = data_type(number)
    if name is None or dtype is None:
        raise ValueError(f"attribute to is {to!r}, which is no data type of TensorProto")
    if name not in call.version.types:
        raise TypeError(f"attribute to is {name}, but {call.version} takes {', '.join(call.version.types)}")
    _check_castable("to", name)
    return dtype


def _check_castable(direction: str, element: str) -> None:
    if element not in CASTABLE:
        raise TypeError(f"Cast {direction} {element} is not supported; it converts between {', '.join(CASTABLE)}")
