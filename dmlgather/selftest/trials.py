"""Trials of the self-test. A seed and a number determine the plan, the buffers and the expected output."""

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
"""Fewest bytes of a guard band."""
BASE_ALIGNMENT = 16
"""Bytes to which a buffer with its guard bands is aligned, also on a device."""


class GuardedBytes:
    """A buffer between two guard bands. A guard band is a range of random bytes that a run must not change.

    `region`: all bytes: the first band, the buffer, the second band.
    """

    def __init__(self, content: bytes, misalignment: int, rng: random.Random, guard: int = GUARD) -> None:
        """Put `content` between two random guard bands of `guard` bytes. `guard` is a multiple of `BASE_ALIGNMENT`.

        `misalignment`: the address of the content modulo `BASE_ALIGNMENT`. The first band is longer by this number of bytes.
        Pass `guard` = 0 under a memory checker, which detects accesses out of bounds itself.
        """
        self.start = guard + misalignment
        self.end = self.start + len(content)
        self.region = rng.randbytes(self.start) + content + rng.randbytes(guard)

    @property
    def content(self) -> bytes:
        """The bytes of the buffer, without the guard bands."""
        return self.region[self.start : self.end]

    def damage(self, after: bytes) -> str | None:
        """Return where a run has changed a guard band, as text. Return None if both bands are unchanged.

        `after`: all bytes after the run.
        """
        before_start = _different_bytes(self.region[: self.start], after[: self.start])
        behind_end = _different_bytes(self.region[self.end :], after[self.end :])
        if before_start.size:
            return f"byte {self.start - before_start[-1]} before its start"
        return f"byte {behind_end[0] + 1} behind its end" if behind_end.size else None


def _different_bytes(before: bytes, after: bytes) -> NDArray[np.intp]:
    return np.flatnonzero(np.frombuffer(before, np.uint8) != np.frombuffer(after, np.uint8))


TRIALS_PER_ROUND = 2 * len(VARIANTS)
"""Consecutive trials that test all kernels. Every other trial has a plan for one kernel."""
LARGE_PERIOD = 100
"""One trial in this many is large, so that the CPU engine uses several threads and non-temporal stores."""
MIN_LARGE_BYTES = (2**20, 2**23)
"""Minimum bytes that a large plan copies. One of the two is drawn."""
MAX_BUFFER_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class Trial:
    """A random plan with its buffers (input, indices, output), and the correct result, as the reference backend computes it.

    `kernel`: the CUDA kernel that the plan was drawn for, or None. A `CudaProgram` for 0 multiprocessors uses this kernel.
    `alignment`: the alignment of input and output, in bytes.
    `first_bad`: the smallest offset of a bad index, if the plan is a RAISE plan and has one.
    `expected`: the correct output buffer; None if there is a bad index.
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
        """Return a trial of `plan` with random buffers.

        `guard`: the size of each guard band in bytes, a multiple of `BASE_ALIGNMENT`.
        """
        arrays = random_buffers(plan, rng)
        out = arrays.out.copy()
        first_bad = reference.run(plan, arrays.data, arrays.indices, out)
        buffers = _guarded_buffers(arrays, alignment, rng, guard)
        return cls(number, kernel, plan, alignment, buffers, first_bad, out.tobytes() if first_bad is None else None)


def draw_trial(seed: int, number: int) -> Trial:
    """Return trial `number` of the self-test with this seed. Equal arguments give equal trials."""
    rng = seeded_rng(seed, number)
    kernel = VARIANTS[number // 2 % len(VARIANTS)] if number % 2 == 0 else None
    plan, alignment = _free_plan(rng, number) if kernel is None else plan_for(kernel, rng)
    return Trial.of(plan, alignment, rng, number=number, kernel=kernel)


def seeded_rng(*seed: object) -> random.Random:
    """Return a generator that draws the same numbers for the same seed, in every process and version of Python."""
    return random.Random("/".join(map(str, seed)))


def _free_plan(rng: random.Random, number: int) -> tuple[IndexPlan, int]:
    """Return a random plan for no particular kernel, and an alignment in bytes for its buffers."""
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
    """Put the buffers of a plan between guard bands.

    Input and output are aligned to `alignment` bytes. One of them, at random, is not aligned to twice as many bytes.
    """
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
    """The result of a run: the offset of a bad index or None, and all buffers with their guard bands."""

    first_bad: int | None
    regions: tuple[bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A trial that is ready to run on a device.

    `parts`: the names of the CUDA kernels, or of the CPU loop, that it runs. `how`: the description that `explain` prints.
    """

    parts: tuple[str, ...]
    how: str
    run: Callable[[], TrialRunResult]


class DeviceUnderTest(ABC):
    """A tested device, such as "cpu" or "cuda:1".

    `kind`: the word for one of `parts` in reports: "kernel" on a GPU, "loop" on the CPU.
    `parts`: all kernels or loops that are known before the test. The report lists those that no trial has run.
    """

    name: str
    kind: str
    parts: tuple[str, ...]

    @abstractmethod
    def prepared_runs(self, trial: Trial, seed: int) -> Iterator[PreparedRun]:
        """Yield the trial, prepared for each way in which the device can run it.

        Any exception is a fault of the device.
        """

    def is_fatal(self, _error: Exception) -> bool:
        """Return True if the device cannot run anything after this error."""
        return False


def find_fault(trial: Trial, result: TrialRunResult) -> str | None:
    """Compare the result of a run with the reference result. Return the first fault as a sentence, or None."""
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
