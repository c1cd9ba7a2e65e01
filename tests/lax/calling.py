"""The function under test on every device."""

from __future__ import annotations

from typing import Any

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
