"""What the documented pseudocode of the gathers shares: how an index value becomes a position.

The documented references stand with the operators' declarations. They work on logical arrays, know no plan, and judge the
lowering; they are written for reading, not for speed.
"""

from __future__ import annotations

from typing import Any


def position(value: Any, size: int) -> int:
    """The position along a dimension of `size` that an index value means.

    A negative value, which only signed types have, counts from the end: once. What is still outside is clamped.
    """
    found = int(value)
    if found < 0:
        found += size
    return min(max(found, 0), size - 1)
