"""How an index value becomes a position, in the documented pseudocode of the gathers.

The pseudocode of an operator is in the module of its declaration. It works on logical arrays, without plans: tests check the
lowering against it. It is written for reading, not for speed.
"""

from __future__ import annotations

from typing import Any


def position(value: Any, size: int) -> int:
    """The position along a dimension of `size` that an index value selects.

    `size` is added once to a negative value, which only signed types have. A result that is outside is clamped.
    """
    found = int(value)
    if found < 0:
        found += size
    return min(max(found, 0), size - 1)
