"""The function under test on every device, and how outcomes are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlgather as dg
from tests.gpus import placed
from tests.lax.specification import Array, Call


def run(call: Call, **more: Any) -> Any:
    """What the function under test returns."""
    return _run(call, call.operand, call.start_indices, **more)


def kernels(call: Call) -> Array:
    """What a GPU does with arrays that lie there as they lie here."""
    result: Array = _run(call, placed(call.operand), placed(call.start_indices)).get()
    return result


def _run(call: Call, operand: Any, start_indices: Any, **more: Any) -> Any:
    numbers = dg.lax.GatherDimensionNumbers(*call.numbers)
    return dg.lax.gather(operand, start_indices, numbers, call.slice_sizes, mode=call.mode, fill_value=call.fill_value, **more)


def content(found: Any) -> object:
    """What two arrays are compared by: type, shape and every bit."""
    assert isinstance(found, np.ndarray)
    return found.dtype, found.shape, found.tobytes()


def check_good(call: Call, right: Array) -> None:
    """The CPU and the reference give that result, bit for bit."""
    results = {"cpu": run(call), "reference": run(call, device="reference")}
    for device, found in results.items():
        assert content(found) == content(right), f"{call} on {device}: got {found!r}, right is {right!r}"
