"""The functions under test, and how outcomes are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlgather as dg
from tests.dialects.onnx.specification import Array, Call

FUNCTIONS: dict[str, Any] = {
    "Gather": dg.onnx.gather,
    "GatherElements": dg.onnx.gather_elements,
    "GatherND": dg.onnx.gather_nd,
    "Slice": dg.onnx.slice,
}


def run(call: Call, **more: Any) -> Any:
    """What the function under test returns."""
    return FUNCTIONS[call.operator](*call.arrays, **call.named, opset=call.opset, **more)


def plan(call: Call, *arrays: Any, **more: Any) -> Any:
    """The plan of a call, or of the same call with other stand-ins for its arrays."""
    return FUNCTIONS[call.operator].plan(*(arrays or call.arrays), **call.named, opset=call.opset, **more)


def outcome(function: Any, *args: Any, **named: Any) -> Array | type[Exception]:
    """The array a function returns, or the kind of exception it raises."""
    try:
        result: Array = function(*args, **named)
    except (IndexError, TypeError, ValueError) as error:
        return type(error)
    assert isinstance(result, np.ndarray)
    return result


def content(found: Array | type[Exception]) -> object:
    """What two outcomes are compared by: type, shape and every bit."""
    if isinstance(found, type):
        return found
    return found.dtype, found.shape, found.tolist() if found.dtype.kind in "OT" else found.tobytes()
