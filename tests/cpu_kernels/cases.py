"""Cases for `engine_driver`: a plan as the engine's words, its buffers, and the reference's result."""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.selftest.random_plans import PlanBuffers
from tests import processes

POLICIES = (OutOfBounds.CLAMP, OutOfBounds.FILL, OutOfBounds.RAISE, OutOfBounds.PROMISE)
SETS = {"best": 0, "baseline": 1, "avx2": 2, "avx512": 3, "neon": 4}
"""The numbers of policies (positions) and instruction sets in `engine.h`."""

HEAD_WORDS = 16
_EITHER = 2
AT_END = 64
"""Address of a buffer that lies at the end of its memory."""


def machine_sets(processor: str = platform.machine()) -> tuple[str, ...]:
    """Return the instruction sets with loops in the engine that this machine has, according to the system."""
    if processor == "aarch64":
        return ("neon",)
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = set(next(line for line in lines if line.startswith("flags")).split())
    wide = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi"}
    avx2 = {"avx2", "bmi1", "bmi2"} <= flags
    return ("baseline", *(("avx2",) if avx2 else ()), *(("avx512",) if avx2 and wide <= flags else ()))


@dataclass(frozen=True, slots=True)
class Settings:
    """Words of the head that do not change the result: threads, units of a block, instruction set."""

    threads: int = 1
    block_units: int = 0
    loops: str = "best"


def plan_words(plan: IndexPlan, settings: Settings = Settings()) -> list[int]:
    """Return the plan in the form of `engine.h`."""
    kind, fill = plan.index_type, int.from_bytes(plan.fill.ljust(16, b"\0"), "little")
    head = [plan.rank, len(plan.lookups), plan.element_bytes, kind.bytes if kind else 0, int(bool(kind and kind.signed))]
    head += [POLICIES.index(plan.out_of_bounds), plan.in_extent, plan.index_extent, plan.out_extent]
    head += [plan.in_offset, plan.out_offset, *struct.unpack("<qq", fill.to_bytes(16, "little"))]
    head += [settings.threads, settings.block_units, SETS[settings.loops]]
    words = [*head, *plan.shape, *plan.out_strides, *plan.in_strides]
    for lookup in plan.lookups:
        words += [lookup.index_offset, lookup.limit, lookup.wrap, lookup.in_stride, *lookup.index_strides]
    return words


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a buffer at an offset."""

    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Memory:
    """A buffer: its size, its address modulo 64 (or AT_END), and the parts that are not zero."""

    size: int
    at: int
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, array: NDArray[np.generic] | None, at: int = 0) -> Memory:
        """Return memory with the bytes of an array."""
        content = b"" if array is None else array.tobytes()
        return cls(len(content), at, (Part(0, content),) if content else ())

    def packed(self) -> Iterable[bytes]:
        yield struct.pack("<3q", self.size, self.at, len(self.parts))
        for part in self.parts:
            yield struct.pack("<2q", part.offset, len(part.content))
            yield part.content
            yield bytes(-len(part.content) % 8)


NOWHERE = Memory(0, 0, ())


@dataclass(frozen=True, slots=True)
class Case:
    """Words, their number as given to `dmlgather_prepare`, whether it accepts them, and the result of running them.

    accepted: None if either answer is right. callers: threads that run the program at once; 0: it is not run. ambiguous: the
    output depends on an order and is not compared. returned: by each run. data, indices, out, expected: the buffers, and the
    final contents of `out`, with the same parts (under RAISE with a bad index: the possible contents).
    """

    words: Sequence[int]
    accepted: bool | None = True
    callers: int = 0
    ambiguous: bool = False
    returned: int = -1
    data: Memory = NOWHERE
    indices: Memory = NOWHERE
    out: Memory = NOWHERE
    expected: Memory = NOWHERE
    stated: int | None = None
    title: str = ""

    @classmethod
    def of(
        cls,
        plan: IndexPlan,
        buffers: PlanBuffers,
        settings: Settings = Settings(),
        *,
        at: tuple[int, int, int] = (0, 0, 0),
        callers: int = 1,
    ) -> Case:
        """Return a run of a plan over buffers. at: addresses of input, indices and output."""
        expected = buffers.out.copy()
        bad = reference.run(plan, buffers.data, buffers.indices, expected)
        if bad is not None and all(lookup.limit for lookup in plan.lookups):
            reference.run(replace(plan, out_of_bounds=OutOfBounds.CLAMP), buffers.data, buffers.indices, expected)
        return cls(
            words=plan_words(plan, settings),
            callers=callers,
            returned=-1 if bad is None else bad,
            data=Memory.of(buffers.data, at[0]),
            indices=Memory.of(buffers.indices, at[1]),
            out=Memory.of(buffers.out, at[2]),
            expected=Memory.of(expected, at[2]),
            title=f"{settings}, {at=}, {callers=}\n{plan}",
        )

    def forced(self, loops: str) -> Case:
        """Return the same case for the loops of an instruction set."""
        return replace(self, words=[*self.words[: HEAD_WORDS - 1], SETS[loops], *self.words[HEAD_WORDS:]])

    def packed(self) -> Iterable[bytes]:
        """Yield the case in the format that `engine_driver` reads."""
        stated = len(self.words) if self.stated is None else self.stated
        accepted = _EITHER if self.accepted is None else self.accepted
        yield struct.pack("<6q", len(self.words), stated, accepted, self.callers, self.ambiguous, self.returned)
        yield struct.pack(f"<{len(self.words)}q", *self.words)
        for memory in (self.data, self.indices, self.out, self.expected):
            yield from memory.packed()


NOTHING_MORE: Mapping[str, str] = {}


class EngineError(AssertionError):
    """A failed case. number: of the case. report: the message of the driver or a sanitizer."""

    def __init__(self, number: int, report: str, title: str) -> None:
        super().__init__(f"case {number}: {report}\n{title}")
        self.number, self.report = number, report


def stored(cases: Iterable[Case], file: Path) -> list[str]:
    """Write the cases to a file for `run_file`, and return their titles."""
    titles = []
    with file.open("wb") as target:
        for case in cases:
            target.writelines(case.packed())
            titles.append(case.title)
    return titles


def run_file(
    driver: Path, file: Path, titles: Sequence[str], launcher: Sequence[str] = (), environment: Mapping[str, str] = NOTHING_MORE
) -> list[str]:
    """Run stored cases, and return the engine's description of each program. EngineError at the first failure.

    launcher: a command that runs the driver. environment: additional variables.
    """
    command, more = [*launcher, str(driver), str(file)], {**os.environ, **environment}
    done = processes.run(command, errors="replace", timeout=600, env=more)
    lines = done.stdout.splitlines()
    if done.returncode:
        number = int(lines[-1].split()[0]) if lines else 0
        raise EngineError(number, f"exit code {done.returncode}\n{done.stderr}", titles[number])
    assert len(lines) == len(titles)
    return [line.partition(" ")[2] for line in lines]


def run(
    driver: Path,
    cases: Iterable[Case],
    folder: Path,
    launcher: Sequence[str] = (),
    environment: Mapping[str, str] = NOTHING_MORE,
) -> list[str]:
    """Run cases as `run_file`, with a temporary file."""
    file = folder / "cases"
    titles = stored(cases, file)
    try:
        return run_file(driver, file, titles, launcher, environment)
    finally:
        file.unlink()
