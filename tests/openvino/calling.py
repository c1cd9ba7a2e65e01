"""The functions under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dmlgather as dg
from tests.dialects.contract import as_it_is
from tests.openvino.specification import Call

FUNCTIONS: dict[str, Any] = {
    "Gather": dg.openvino.gather,
    "GatherElements": dg.openvino.gather_elements,
    "GatherND": dg.openvino.gather_nd,
    "Slice": dg.openvino.slice,
    "StridedSlice": dg.openvino.strided_slice,
}


def run(call: Call, move: Callable[[Any], Any] = as_it_is, **more: Any) -> Any:
    """What the function under test returns. move: is applied to the arrays."""
    return FUNCTIONS[call.operation](*map(move, call.arrays), **call.named, **more)
