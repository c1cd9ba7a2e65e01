"""The functions under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dmlgather as dg
from tests.dialects.contract import as_it_is
from tests.onnx.specification import Call

FUNCTIONS: dict[str, Any] = {
    "Gather": dg.onnx.gather,
    "GatherElements": dg.onnx.gather_elements,
    "GatherND": dg.onnx.gather_nd,
    "Slice": dg.onnx.slice,
    "DepthToSpace": dg.onnx.depth_to_space,
    "SpaceToDepth": dg.onnx.space_to_depth,
}


def run(call: Call, move: Callable[[Any], Any] = as_it_is, **more: Any) -> Any:
    """What the function under test returns. move: is applied to the arrays."""
    return FUNCTIONS[call.operator](*map(move, call.arrays), **call.named, opset=call.opset, **more)


def plan(call: Call, *arrays: Any, **more: Any) -> Any:
    """The plan of a call, or of the same call with other stand-ins for its arrays."""
    return FUNCTIONS[call.operator].plan(*(arrays or call.arrays), **call.named, opset=call.opset, **more)
