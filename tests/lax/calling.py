"""The function under test on every device, and how outcomes are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

import dmlgather as dg
from tests.lax.specification import Array, Call
from tests.test_operator_devices import DeviceArray


def run(call: Call, **more: Any) -> Any:
    """What the function under test returns."""
    return _run(call, call.operand, call.start_indices, **more)


def kernels(call: Call) -> Array:
    """What the interpreted kernels do with arrays that lie on a device as they lie here; needs an ArrayDriver installed."""
    result = _run(call, DeviceArray(call.operand), DeviceArray(call.start_indices))
    assert isinstance(result, DeviceArray)
    return result.held


def _run(call: Call, operand: Any, start_indices: Any, **more: Any) -> Any:
    numbers = dg.lax.GatherDimensionNumbers(*call.numbers)
    return dg.lax.gather(operand, start_indices, numbers, call.slice_sizes, mode=call.mode, fill_value=call.fill_value, **more)


def content(found: Any) -> object:
    """What two arrays are compared by: type, shape and every bit."""
    assert isinstance(found, np.ndarray)
    return found.dtype, found.shape, found.tobytes()


def check_good(call: Call, right: Array) -> None:
    """Every device gives that result, bit for bit."""
    results = {"cpu": run(call), "reference": run(call, device="reference"), "kernels": kernels(call)}
    for device, found in results.items():
        assert content(found) == content(right), f"{call} on {device}: got {found!r}, right is {right!r}"
