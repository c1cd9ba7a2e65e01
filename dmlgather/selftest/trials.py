"""Trials: a random plan over random buffers, and what the reference makes of them. They follow from a seed and a number alone."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.backends.cuda.variants import VARIANTS, Variant
from dmlgather.plan import IndexPlan, coordinates
from dmlgather.selftest.random_plans import PlanBuffers, plan_for, random_buffers, random_plan, random_runs, unwritable_fill
from dmlgather.wording import counted

# Buffers between guard bands: random bytes on either side that a run must leave as they are.


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


# Trials: a random plan over random buffers, and what the reference makes of them. They follow from a seed and a number alone.


ROUND = 2 * len(VARIANTS)
"""Trials that have a plan for every kernel: each second one is drawn for a kernel, the others are free."""
LARGE_EVERY = 100
"""One of so many trials moves some megabytes, so that threads share it and stores go past the caches."""
LEAST_MOVED = (2**20, 2**23)
"""Bytes that such a trial moves at least; one of both."""
LARGEST_BUFFER = 2**26
"""Bytes of its input and of its output at most."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan, its buffers at addresses that are multiples of `alignment` bytes, and the outcome by the reference.

    number: among those of a seed. kernel: what the plan was drawn for, so that CUDA runs it with that kernel where it is planned
    for no multiprocessors; None where it was drawn freely. alignment: of input and output, 1 to 16; indices lie at multiples of
    their size. first_bad: as `reference.run` returns it. expected: the bytes of the output buffer, poison included; None where
    RAISE leaves them open.
    """

    number: int
    kernel: Variant | None
    plan: IndexPlan
    alignment: int
    rooms: tuple[GuardedBytes, GuardedBytes, GuardedBytes]
    first_bad: int | None
    expected: bytes | None

    @classmethod
    def of(
        cls,
        plan: IndexPlan,
        alignment: int,
        rng: random.Random,
        *,
        number: int = 0,
        kernel: Variant | None = None,
        guard: int = GUARD,
    ) -> Trial:
        """A plan over random buffers. guard: as of `GuardedBytes`."""
        buffers = random_buffers(plan, rng)
        out = buffers.out.copy()
        first_bad = reference.run(plan, buffers.data, buffers.indices, out)
        rooms = _rooms(buffers, alignment, rng, guard)
        return cls(number, kernel, plan, alignment, rooms, first_bad, out.tobytes() if first_bad is None else None)


def drawn(seed: int, number: int) -> Trial:
    """The trial of this number."""
    rng = random_of(seed, number)
    kernel = VARIANTS[number // 2 % len(VARIANTS)] if number % 2 == 0 else None
    plan, alignment = _free_plan(rng, number) if kernel is None else plan_for(kernel, rng)
    return Trial.of(plan, alignment, rng, number=number, kernel=kernel)


def random_of(*parts: object) -> random.Random:
    """A generator that follows from the parts, the same in every process and Python."""
    return random.Random("/".join(map(str, parts)))


def _free_plan(rng: random.Random, number: int) -> tuple[IndexPlan, int]:
    if number % LARGE_EVERY == LARGE_EVERY - 1:
        plan = _large_plan(rng)
    else:
        plan = random_runs(rng) if rng.random() < 0.3 else random_plan(rng)
    alignment = rng.choice((16, 16, 8, 4, 2, 1))
    return plan, plan.element_bytes if unwritable_fill(plan, alignment) else alignment


def _large_plan(rng: random.Random) -> IndexPlan:
    least = rng.choice(LEAST_MOVED)
    while True:
        plan = random_runs(rng, longest=400_000) if rng.random() < 0.3 else random_plan(rng, elements=2_000_000)
        size = plan.element_bytes
        if size * prod(plan.shape) >= least and size * max(plan.in_extent, plan.out_extent) <= LARGEST_BUFFER:
            return plan


def _rooms(
    buffers: PlanBuffers, alignment: int, rng: random.Random, guard: int
) -> tuple[GuardedBytes, GuardedBytes, GuardedBytes]:
    """Input, indices and output; input or output, or both, at an address that no greater power of two divides."""
    exact, other = alignment * rng.randrange(1, 16, 2) % 16, alignment * rng.randrange(16) % 16
    in_at, out_at = rng.sample((exact, other), 2)
    index_at = 0 if buffers.indices is None else buffers.indices.itemsize * rng.randrange(2)
    return (
        GuardedBytes(_bytes(buffers.data), in_at, rng, guard),
        GuardedBytes(_bytes(buffers.indices), index_at, rng, guard),
        GuardedBytes(_bytes(buffers.out), out_at, rng, guard),
    )


def _bytes(array: NDArray[Any] | None) -> bytes:
    return b"" if array is None else array.tobytes()


# What runs a trial, and whether it left what the reference leaves: the output's every byte, and nothing else changed.


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What a run left: the smallest offset of a bad index under RAISE, and the bytes of the rooms, guard bands included."""

    first_bad: int | None
    rooms: tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class JudgedWay:
    """One way to run a trial. parts: the kernels, or the loop, that do it. how: the same in words."""

    parts: tuple[str, ...]
    how: str
    run: Callable[[], Aftermath]


class JudgedDevice(ABC):
    """A device that is tested.

    name: "cpu", "cuda:1". kind: what one of its parts is called. parts: those that trials should reach, as far as known before.
    """

    name: str
    kind: str
    parts: tuple[str, ...]

    @abstractmethod
    def ways(self, trial: Trial, seed: int) -> Iterator[JudgedWay]:
        """Every way in which the device can run the trial, prepared. Whatever preparing raises is a fault of the device."""

    def is_fatal(self, _error: Exception) -> bool:
        """Whether nothing more can run after this error of a way or of its preparation."""
        return False


def fault(trial: Trial, left: Aftermath) -> str | None:
    """What is wrong with it, in a sentence; None where nothing is."""
    for name, room, after in zip(("input", "indices", "output"), trial.rooms, left.rooms, strict=True):
        if (where := room.damage(after)) is not None:
            return f"the run wrote outside of a buffer: {name}, {where}"
        if name != "output" and after[room.start : room.end] != room.content:
            return f"the run wrote to its {name}"
    if left.first_bad != trial.first_bad:
        return f"the first bad index is reported {_at(left.first_bad)}, expected {_at(trial.first_bad)}"
    return None if trial.expected is None else _wrong_output(trial, trial.rooms[2], left.rooms[2], trial.expected)


def _at(offset: int | None) -> str:
    return "nowhere" if offset is None else f"at element {offset} of the index buffer"


def _wrong_output(trial: Trial, room: GuardedBytes, after: bytes, expected: bytes) -> str | None:
    found = after[room.start : room.end]
    if found == expected:
        return None
    plan = trial.plan
    rows = [np.frombuffer(part, np.uint8).reshape(-1, plan.element_bytes) for part in (found, expected)]
    wrong = np.flatnonzero((rows[0] != rows[1]).any(axis=1))
    first = int(wrong[0])
    position = coordinates(first - plan.out_offset, plan.shape, plan.out_strides)
    place = "which belongs to no element of the plan" if position is None else f"at {[*position]} of {[*plan.shape]}"
    values = [f"0x{part[first].tobytes().hex()}" for part in rows]
    return (
        f"{wrong.size} of {counted(len(rows[0]), 'element')} of the output buffer differ from the reference's; the first is "
        f"number {first}, {place}: bytes {values[0]}, expected {values[1]}"
    )
