"""Buffers between guard bands: random bytes on either side that a run must leave as they are."""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray

GUARD = 256
"""Bytes of a band, at least."""
BASE = 16
"""A room begins at a multiple of so many bytes, wherever it is copied to."""


class GuardedBytes:
    """A buffer's content in a room with guard bands.

    room: the bytes of band, content and band. start, end: where in it the content lies; `start` is `at` bytes past a multiple of
    `BASE`, and so is its address.
    """

    def __init__(self, content: bytes, at: int, rng: random.Random, guard: int = GUARD) -> None:
        """guard: a multiple of `BASE`; 0 where a tool watches what is accessed."""
        self.start = guard + at
        self.end = self.start + len(content)
        self.room = rng.randbytes(self.start) + content + rng.randbytes(guard)

    @property
    def content(self) -> bytes:
        """The bytes between the bands."""
        return self.room[self.start : self.end]

    def damage(self, after: bytes) -> str | None:
        """Where a run that left the room as `after` has written outside of the buffer, in words; None where nowhere."""
        ahead = _differences(self.room[: self.start], after[: self.start])
        behind = _differences(self.room[self.end :], after[self.end :])
        if ahead.size:
            return f"byte {self.start - ahead[-1]} before its start"
        return f"byte {behind[0] + 1} behind its end" if behind.size else None


def _differences(before: bytes, after: bytes) -> NDArray[np.intp]:
    """The places of the bytes that differ."""
    return np.flatnonzero(np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8))
