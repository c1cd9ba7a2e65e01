"""Index expressions as users write them: lists, ranges, NumPy's integers and bools, and what NumPy refuses."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.dialects.expressions import some_expression

REFUSED: tuple[Any, ...] = (
    *(1.0, "a", b"0", {0}, 1j, object(), 2**64, -(2**63) - 1, 2**63, np.uint64(2**64 - 1)),
    *([1.0], [0.5, 1], [[0, 1], [0]], [None], ["a"], [slice(1)], [2**64], [2**63], range(99, 100), -(2**63)),
    *(np.float32(1), np.array(1.0), np.zeros(0, "f4"), np.array([1.0]), np.array([0], object), np.array([1], "M8[s]")),
    *(slice(1.0), slice(None, None, 0), slice("a"), slice(None, np.array([1, 2])), slice(0, None, 0.5)),
)
"""Entries that NumPy refuses wherever there is a dimension for them."""


def some_spelling(rng: random.Random, shape: tuple[int, ...]) -> Any:
    """What stands between the brackets: a good expression or a bad one, for data of that shape."""
    refused = rng.random() < 0.2
    entries = [_spelled(rng, entry) for entry in some_expression(rng, shape, faults=0 if refused else 0.12)]
    if refused:
        # A word behind a tuple is the type of a placeholder.
        entries.insert(rng.randint(0, len(entries)), rng.choice([entry for entry in REFUSED if not isinstance(entry, str)]))
    return entries[0] if len(entries) == 1 and rng.random() < 0.5 else tuple(entries)


def _spelled(rng: random.Random, entry: Any) -> Any:
    """The same entry, written in one of its other ways."""
    if isinstance(entry, bool):
        return rng.choice((entry, np.bool_(entry), np.array(entry)))
    if isinstance(entry, int) and abs(entry) < 2**31:
        return rng.choice((entry, np.int32(entry), np.array(entry), np.int64(entry), _Whole(entry)))
    if isinstance(entry, slice) and entry.start is not None and abs(entry.start) < 2**31:
        return slice(np.int16(entry.start), entry.stop, entry.step)
    if not isinstance(entry, np.ndarray):
        return entry
    ways = [entry, entry, entry.tolist(), entry[::-1][::-1]]
    if entry.dtype != bool:
        # As an unsigned integer of 64 bits, a negative index is a large one, which NumPy reads as a negative one again.
        ways += [entry.astype(np.int64).view(np.uint64), entry.astype(">i4"), tuple(entry.tolist())]
    return rng.choice(ways)


class _Whole:
    """An integer of a class of its own."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value

    def __repr__(self) -> str:
        return f"_Whole({self._value})"
