"""Executes plans like a device: launches of NVRTC's PTX, in buffers of exact size at addresses of a device."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.backends.cuda.arguments import CONSTANTS, CONSTANTS_OFFSET, POINTERS
from dmlgather.backends.cuda.driver import kernel_source, unit_source
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import DEFAULT_SHARED, SHARED_BYTES, Launch
from dmlgather.backends.cuda.variants import Variant
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.selftest.random_plans import PlanBuffers
from tests.kernels.ptx.compile import ptx_of
from tests.kernels.ptx.machine import Buffer, Module, Violation

NOTHING_BAD = 2**64 - 1
FARTHEST = 2**45
"""Bytes of the largest buffer that can be placed."""


@functools.cache
def module_of(source: str, architecture: str) -> Module:
    """Return the kernels of a source, read once per process."""
    return Module(ptx_of(source, architecture), source)


def whole_unit(variant: Variant) -> str:
    return unit_source(variant.unit)


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of launches. source_of: returns a source with the variant's entry point."""

    architecture: str = "compute_90"
    source_of: Callable[[Variant], str] = whole_unit

    def module(self, variant: Variant) -> Module:
        return module_of(self.source_of(variant), self.architecture)


AS_WRITTEN = Kernels()
"""The project's kernels."""
ALONE = Kernels(source_of=kernel_source)
"""The project's kernels, each compiled alone."""


def broken(before: str, after: str) -> Kernels:
    """Return the kernels with `after` instead of `before` in their source, each compiled alone."""

    def source_of(variant: Variant) -> str:
        text = kernel_source(variant)
        assert text.count(before) == 1, f"{text.count(before)} times in {variant.unit}: {before}"
        return text.replace(before, after)

    return Kernels(source_of=source_of)


INPUT, INDICES, OUTPUT, WORD, TABLE = range(5)
"""The numbers of a launch's buffers."""


def address(rng: random.Random, buffer: int, size: int, at: int = 0) -> int:
    """Return an address for a buffer of `size` bytes (up to FARTHEST), apart from the buffers of other numbers.

    The address is `at` modulo 16. The buffer contains a multiple of 2^32, or begins or ends at one.
    """
    boundary = 4 * FARTHEST * (1 + 64 * buffer + rng.randrange(64)) + 2 * FARTHEST + 2**32 * rng.randrange(2**10)
    return boundary - 16 * rng.randint(0, -(-size // 16)) + at


class Word:
    """The word in which launches report the smallest offset of a bad index under RAISE."""

    def __init__(self, rng: random.Random) -> None:
        self._value = np.full(1, NOTHING_BAD, np.uint64)
        self.buffer = Buffer(address(rng, WORD, 8), self._value.view(np.uint8), atomic=True)

    @property
    def first_bad(self) -> int | None:
        value = int(self._value[0])
        return None if value == NOTHING_BAD else value


@dataclass(frozen=True, slots=True)
class Placed:
    """The buffers of a plan at their addresses. indices: None without lookups; word: None except under RAISE."""

    data: Buffer
    indices: Buffer | None
    out: Buffer
    word: Word | None

    def run(self, launch: Launch, rng: random.Random, kernels: Kernels = AS_WRITTEN) -> None:
        """Run a launch with its table at an address from `rng`. Raises Violation."""
        table = Buffer(address(rng, TABLE, len(launch.table)), np.frombuffer(launch.table, np.uint8), readable=True)
        word = self.word.buffer if self.word else None
        source = self.data.address if launch.input_in_table is None else table.address + launch.input_in_table
        block = bytearray(launch.arguments)
        pointers = (self.indices.address if self.indices else 0, self.out.address, word.address if word else 0)
        POINTERS.pack_into(block, 0, source, *pointers)
        CONSTANTS.pack_into(block, CONSTANTS_OFFSET, table.address)
        kernels.module(launch.variant).launch(
            launch.variant.name,
            launch.grid,
            bytes(block),
            [buffer for buffer in (self.data, self.indices, self.out, word, table) if buffer is not None and buffer.size],
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            shared_limit=SHARED_BYTES if launch.variant.opts_in else DEFAULT_SHARED,
        )


@dataclass(frozen=True, slots=True)
class Case:
    """A plan with its buffers and launch parameters. in_at, out_at: addresses of input and output modulo 16."""

    plan: IndexPlan
    buffers: PlanBuffers
    launches: tuple[Launch, ...]
    in_at: int = 0
    out_at: int = 0

    @classmethod
    def of(
        cls,
        plan: IndexPlan,
        buffers: PlanBuffers,
        alignment: int = 16,
        *,
        multiprocessors: int = 0,
        shared_bytes: int = SHARED_BYTES,
        specialise: bool = True,
    ) -> Case:
        """Return a case with pointers that are multiples of `alignment`, but of no greater power of two up to 16.

        multiprocessors: 0 lets threads walk in the smallest plans. shared_bytes: the device's limit for a block. specialise:
        False runs the general kernels.
        """
        at = alignment % 16
        return cls(plan, buffers, launches_for(plan, alignment, multiprocessors, shared_bytes, specialise=specialise), at, at)

    @classmethod
    def at(cls, plan: IndexPlan, buffers: PlanBuffers, in_at: int, out_at: int) -> Case:
        """Return a case with these pointers, planned for their alignment."""
        return cls(plan, buffers, launches_for(plan, gcd(16, in_at, out_at), 0), in_at, out_at)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a case: the output's bytes, and the smallest offset of a bad index under RAISE."""

    out: bytes
    first_bad: int | None


def execute(case: Case, kernels: Kernels = AS_WRITTEN) -> Result:
    """Run a case over copies of its buffers. Their addresses depend on their contents. Raises Violation."""
    given = case.buffers
    data, target = _bytes(given.data), _bytes(given.out)
    rng = random.Random(target.tobytes()[:64] + data.tobytes()[:64])
    source = Buffer(address(rng, INPUT, data.size, case.in_at), data, readable=True)
    out = Buffer(address(rng, OUTPUT, target.size, case.out_at), target, writable=True)
    indices = None
    if given.indices is not None:
        content, width = _bytes(given.indices), given.indices.itemsize
        at = width * rng.randrange(16 // width)
        indices = Buffer(address(rng, INDICES, content.size, at), content, readable=True)
    word = Word(rng) if case.plan.out_of_bounds is OutOfBounds.RAISE else None
    placed = Placed(source, indices, out, word)
    for launch in case.launches:
        placed.run(launch, rng, kernels)
    return Result(target.tobytes(), word.first_bad if word else None)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.frombuffer(array.tobytes(), np.uint8).copy()


def run(
    plan: IndexPlan,
    data: NDArray[Any],
    indices: NDArray[Any] | None,
    out: NDArray[Any],
    *,
    architecture: str = AS_WRITTEN.architecture,
    **how: Any,
) -> int | None:
    """Execute `plan` over three buffers, like `backends.reference.run`. how: arguments of `Case.of`. Raises Violation."""
    result = execute(Case.of(plan, PlanBuffers(data, indices, out), **how), Kernels(architecture))
    out.view(np.uint8)[:] = np.frombuffer(result.out, np.uint8)
    return result.first_bad


def differs(case: Case, kernels: Kernels = AS_WRITTEN) -> bool:
    """Return True if the result differs from the reference's. Raises Violation."""
    found, right = execute(case, kernels), case.buffers.out.copy()
    bad = reference.run(case.plan, case.buffers.data, case.buffers.indices, right)
    return found.first_bad != bad or (bad is None and found.out != right.tobytes())


def mismatches(cases: Iterable[Case], kernels: Kernels = AS_WRITTEN) -> list[int]:
    """Return the numbers of the cases whose result differs from the reference's. Raises Violation."""
    return [number for number, case in enumerate(cases) if differs(case, kernels)]


def judged(case: Case, before: str, after: str) -> tuple[str, str]:
    """Return the fault of a case, or "", with the kernels unchanged and with `after` instead of `before` in them."""
    return _wrong(case, ALONE), _wrong(case, broken(before, after))


def _wrong(case: Case, kernels: Kernels) -> str:
    try:
        return "the result is not the reference's" if differs(case, kernels) else ""
    except Violation as violation:
        return str(violation)
