"""The function under test on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dmlgather as dg
from tests.dialects.contract import as_it_is
from tests.lax.specification import Call


def run(call: Call, move: Callable[[Any], Any] = as_it_is, **more: Any) -> Any:
    """What the function under test returns. move: is applied to the arrays."""
    named = {"mode": call.mode, "fill_value": call.fill_value} | more
    return dg.lax.gather(move(call.operand), move(call.start_indices), call.dimension_numbers, call.slice_sizes, **named)
