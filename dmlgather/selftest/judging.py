"""What runs a trial, and whether it left what the reference leaves: the output's every byte, and nothing else changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dmlgather.plan import coordinates
from dmlgather.selftest.guarded import GuardedBytes
from dmlgather.selftest.trials import Trial
from dmlgather.wording import counted


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
