"""Trials of the self-test: a random plan, random buffers, and the expected output. Seed and number determine a trial."""

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

GUARD = 256
"""The smallest size of a guard band, in bytes."""
BASE_ALIGNMENT = 16
"""Alignment in bytes of a region, which has guard bands and content. Its copies on a device have this alignment too."""


class GuardedBytes:
    """A buffer's content between two guard bands: random bytes that a run must not change.

    `region`: all bytes: band, content, band.
    `start`, `end`: the slice of the region that is the content.
    """

    def __init__(self, content: bytes, misalignment: int, rng: random.Random, guard: int = GUARD) -> None:
        """Draw the bands.

        `misalignment`: the content's address modulo `BASE_ALIGNMENT`.
        `guard`: bytes of a band, a multiple of `BASE_ALIGNMENT`. Use 0 under a memory checker, which detects accesses out of
        bounds itself.
        """
        self.start = guard + misalignment
        self.end = self.start + len(content)
        self.region = rng.randbytes(self.start) + content + rng.randbytes(guard)

    @property
    def content(self) -> bytes:
        """Return the bytes between the bands."""
        return self.region[self.start : self.end]

    def damage(self, after: bytes) -> str | None:
        """Return the first byte that a run wrote outside the content, as text, or None. `after`: the region after the run."""
        before_start = _different_bytes(self.region[: self.start], after[: self.start])
        behind_end = _different_bytes(self.region[self.end :], after[self.end :])
        if before_start.size:
            return f"byte {self.start - before_start[-1]} before its start"
        return f"byte {behind_end[0] + 1} behind its end" if behind_end.size else None


def _different_bytes(before: bytes, after: bytes) -> NDArray[np.intp]:
    """Return the offsets of bytes that differ."""
    return np.flatnonzero(np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8))


TRIALS_PER_ROUND = 2 * len(VARIANTS)
"""The number of trials that reach all kernels. Trials with even numbers have a plan for one kernel, the others any plan."""
LARGE_PERIOD = 100
"""One trial in this many has a large plan, so that the CPU engine uses several threads and non-temporal stores."""
MIN_LARGE_BYTES = (2**20, 2**23)
"""The smallest number of bytes that a large plan copies. One of the two is drawn."""
MAX_BUFFER_BYTES = 2**26
"""The largest size of a large plan's input, and of its output, in bytes."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan, its buffers, and the result of the reference backend.

    `number`: the trial's number for the seed.
    `kernel`: the kernel for which the plan was drawn, or None for any plan. CUDA uses this kernel if it plans with
    `multiprocessors=0`.
    `alignment`: the alignment of the input's and the output's address, 1 to 16 bytes. Indices are aligned to their size.
    `buffers`: input, indices, output.
    `first_bad`: the result of `reference.run`.
    `expected`: the bytes of the output buffer, with the poison that no element overwrites; None if an index is bad under RAISE,
    because the output is undefined then.
    """

    number: int
    kernel: Variant | None
    plan: IndexPlan
    alignment: int
    buffers: tuple[GuardedBytes, GuardedBytes, GuardedBytes]
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
        """Return a trial of a plan with random buffers. `guard`: the bytes of a guard band, a multiple of `BASE_ALIGNMENT`."""
        arrays = random_buffers(plan, rng)
        out = arrays.out.copy()
        first_bad = reference.run(plan, arrays.data, arrays.indices, out)
        buffers = _guarded_buffers(arrays, alignment, rng, guard)
        return cls(number, kernel, plan, alignment, buffers, first_bad, out.tobytes() if first_bad is None else None)


def draw_trial(seed: int, number: int) -> Trial:
    """Return trial `number` of a seed."""
    rng = seeded_rng(seed, number)
    kernel = VARIANTS[number // 2 % len(VARIANTS)] if number % 2 == 0 else None
    plan, alignment = _free_plan(rng, number) if kernel is None else plan_for(kernel, rng)
    return Trial.of(plan, alignment, rng, number=number, kernel=kernel)


def seeded_rng(*seed: object) -> random.Random:
    """Return a generator seeded with these values. It draws the same numbers in every process and version of Python."""
    return random.Random("/".join(map(str, seed)))


def _free_plan(rng: random.Random, number: int) -> tuple[IndexPlan, int]:
    """Return any plan and an alignment for it."""
    if number % LARGE_PERIOD == LARGE_PERIOD - 1:
        plan = _large_plan(rng)
    else:
        plan = random_runs(rng) if rng.random() < 0.3 else random_plan(rng)
    alignment = rng.choice((16, 16, 8, 4, 2, 1))
    return plan, plan.element_bytes if unwritable_fill(plan, alignment) else alignment


def _large_plan(rng: random.Random) -> IndexPlan:
    min_bytes = rng.choice(MIN_LARGE_BYTES)
    while True:
        plan = random_runs(rng, longest=400_000) if rng.random() < 0.3 else random_plan(rng, elements=2_000_000)
        size = plan.element_bytes
        if size * prod(plan.shape) >= min_bytes and size * max(plan.in_extent, plan.out_extent) <= MAX_BUFFER_BYTES:
            return plan


def _guarded_buffers(
    arrays: PlanBuffers, alignment: int, rng: random.Random, guard: int
) -> tuple[GuardedBytes, GuardedBytes, GuardedBytes]:
    """Return input, indices and output. The input or the output, or both, have exactly this alignment and no larger alignment."""
    exact, other = alignment * rng.randrange(1, 16, 2) % 16, alignment * rng.randrange(16) % 16
    in_misalignment, out_misalignment = rng.sample((exact, other), 2)
    index_misalignment = 0 if arrays.indices is None else arrays.indices.itemsize * rng.randrange(2)
    return (
        GuardedBytes(_bytes(arrays.data), in_misalignment, rng, guard),
        GuardedBytes(_bytes(arrays.indices), index_misalignment, rng, guard),
        GuardedBytes(_bytes(arrays.out), out_misalignment, rng, guard),
    )


def _bytes(array: NDArray[Any] | None) -> bytes:
    return b"" if array is None else array.tobytes()


@dataclass(frozen=True, slots=True)
class TrialRunResult:
    """The result of a run.

    `first_bad`: the smallest offset of a bad index under RAISE, in elements of the index buffer.
    `regions`: the bytes of input, indices and output after the run, with guard bands.
    """

    first_bad: int | None
    regions: tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A prepared run of a trial.

    `parts`: the names of the kernels, or of the CPU loop, that run.
    `how`: the program's description.
    """

    parts: tuple[str, ...]
    how: str
    run: Callable[[], TrialRunResult]


class DeviceUnderTest(ABC):
    """A device that the self-test tests.

    `name`: "cpu", "cuda:1".
    `kind`: the name for a part: "kernel" or "loop".
    `parts`: the parts whose names are known before the test. The report lists those that no trial reached.
    """

    name: str
    kind: str
    parts: tuple[str, ...]

    @abstractmethod
    def prepared_runs(self, trial: Trial, seed: int) -> Iterator[PreparedRun]:
        """Yield prepared runs of a trial. Any exception while preparing a run is a fault of the device."""

    def is_fatal(self, _error: Exception) -> bool:
        """Return True if the device cannot run anything after this error."""
        return False


def find_fault(trial: Trial, result: TrialRunResult) -> str | None:
    """Return the first fault of a run as a sentence, or None if the result equals the reference's."""
    for name, buffer, after in zip(("input", "indices", "output"), trial.buffers, result.regions, strict=True):
        if (where := buffer.damage(after)) is not None:
            return f"the run wrote outside of a buffer: {name}, {where}"
        if name != "output" and after[buffer.start : buffer.end] != buffer.content:
            return f"the run wrote to its {name}"
    if result.first_bad != trial.first_bad:
        return f"the first bad index is reported {_index_place(result.first_bad)}, expected {_index_place(trial.first_bad)}"
    return None if trial.expected is None else _output_fault(trial, trial.buffers[2], result.regions[2], trial.expected)


def _index_place(offset: int | None) -> str:
    return "nowhere" if offset is None else f"at element {offset} of the index buffer"


def _output_fault(trial: Trial, buffer: GuardedBytes, after: bytes, expected: bytes) -> str | None:
    got = after[buffer.start : buffer.end]
    if got == expected:
        return None
    plan = trial.plan
    got_rows, expected_rows = (np.frombuffer(part, np.uint8).reshape(-1, plan.element_bytes) for part in (got, expected))
    wrong = np.flatnonzero((got_rows != expected_rows).any(axis=1))
    first = int(wrong[0])
    position = coordinates(first - plan.out_offset, plan.shape, plan.out_strides)
    place = "which belongs to no element of the plan" if position is None else f"at {[*position]} of {[*plan.shape]}"
    return (
        f"{wrong.size} of {counted(len(got_rows), 'element')} of the output buffer differ from the reference's; the first is "
        f"number {first}, {place}: bytes 0x{got_rows[first].tobytes().hex()}, expected 0x{expected_rows[first].tobytes().hex()}"
    )
