"""Buffers between guard bands: random bytes on either side that a run must leave as they are."""

from __future__ import annotations

import random

GUARD = 256
"""Bytes of a band at least."""
BASE = 16
"""A room begins at a multiple of so many bytes, wherever it is copied to."""


class GuardedBytes:
    """A buffer's content in a room with guard bands.

    room: the bytes of band, content and band. start, end: where in it the content lies; `start` is `at` bytes past a multiple of
    `BASE`, and so is its address.
    """

    def __init__(self, content: bytes, at: int, rng: random.Random) -> None:
        self.start = GUARD + at
        self.end = self.start + len(content)
        self.room = rng.randbytes(self.start) + content + rng.randbytes(GUARD)

    @property
    def content(self) -> bytes:
        """The bytes between the bands."""
        return self.room[self.start : self.end]

    def damage(self, after: bytes) -> str | None:
        """Where a run that left the room as `after` has written outside of the buffer, in words; None where nowhere."""
        if (ahead := _last_difference(self.room[: self.start], after[: self.start])) is not None:
            return f"byte {self.start - ahead} before its begin"
        if (behind := _first_difference(self.room[self.end :], after[self.end :])) is not None:
            return f"byte {behind + 1} behind its end"
        return None


def _first_difference(before: bytes, after: bytes) -> int | None:
    return next((place for place, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]), None)


def _last_difference(before: bytes, after: bytes) -> int | None:
    return next((place for place in reversed(range(len(before))) if before[place] != after[place]), None)
