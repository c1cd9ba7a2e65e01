"""Runs many cases through the host-built kernels under a sanitizer, in buffers of exact size."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.backends.cuda.arguments import POINTERS
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import Launch
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.selftest.random_plans import PlanBuffers
from tests.kernels.units import KERNELS, has_barrier

_HEADER = struct.Struct("<7Q")
_LAUNCH = struct.Struct("<5Q64s")
_OURS = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Case:
    """A plan, its buffers and how it is launched. in_at, out_at: addresses of input and output modulo 16."""

    plan: IndexPlan
    buffers: PlanBuffers
    launches: tuple[Launch, ...]
    in_at: int = 0
    out_at: int = 0

    @classmethod
    def of(cls, plan: IndexPlan, buffers: PlanBuffers, alignment: int = 16, *, specialise: bool = True) -> Case:
        """With pointers that are multiples of `alignment` and of no more (up to 16)."""
        at = alignment % 16
        return cls(plan, buffers, launches_for(plan, alignment, 0, specialise=specialise), at, at)

    @classmethod
    def at(cls, plan: IndexPlan, buffers: PlanBuffers, in_at: int, out_at: int) -> Case:
        """With those pointers, planned for the alignment that they have."""
        return cls(plan, buffers, launches_for(plan, gcd(16, in_at, out_at), 0), in_at, out_at)


@dataclass(frozen=True, slots=True)
class Result:
    """What a case left behind: the output's bytes, and the smallest offset of a bad index under RAISE."""

    out: bytes
    first_bad: int | None


class SanitizerError(AssertionError):
    """A sanitizer spoke. number: of the case that ran; report: what it said."""

    def __init__(self, number: int, report: str) -> None:
        super().__init__(f"case {number}\n{report}")
        self.number, self.report = number, report


def run(program: Path, cases: Sequence[Case], folder: Path) -> list[Result]:
    """Run `cases` with a program of `tests.kernels.build.batch`. SanitizerError at the first report."""
    source, target = folder / "cases", folder / "results"
    source.write_bytes(b"".join(map(_packed, cases)))
    done = subprocess.run([program, source, target], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SanitizerError(int(done.stdout.split()[-1]), done.stderr)
    results = []
    with target.open("rb") as file:
        for case in cases:
            out = file.read(case.buffers.out.nbytes)
            (word,) = struct.unpack("<Q", file.read(8))
            results.append(Result(out, None if word == _OURS else word))
    return results


def _packed(case: Case) -> bytes:
    buffers = case.buffers
    indices: NDArray[Any] = np.empty(0, np.uint8) if buffers.indices is None else buffers.indices
    sizes = (buffers.data.nbytes, indices.nbytes, buffers.out.nbytes)
    parts = [_HEADER.pack(*sizes, case.in_at, indices.itemsize % 16, case.out_at, len(case.launches))]
    parts += [buffers.data.tobytes(), indices.tobytes(), buffers.out.tobytes()]
    for launch in case.launches:
        arguments = bytearray(launch.arguments)
        POINTERS.pack_into(arguments, 0, 0, 0, 0, case.plan.out_of_bounds is OutOfBounds.RAISE)
        parts += [_launch(launch)]
        parts += [bytes(arguments), launch.table]
    return b"".join(parts)


def _launch(launch: Launch) -> bytes:
    at = _OURS if launch.input_in_table is None else launch.input_in_table
    variant = launch.variant
    return _LAUNCH.pack(launch.grid, has_barrier(variant), launch.shared_bytes, len(launch.table), at, variant.name.encode())


def expected(case: Case) -> Result:
    out = case.buffers.out.copy()
    bad = reference.run(case.plan, case.buffers.data, case.buffers.indices, out)
    return Result(out.tobytes(), bad)


def mismatches(cases: list[Case], results: list[Result]) -> list[int]:
    """Numbers of the cases whose result is not the reference's."""
    wrong = []
    for number, (case, found) in enumerate(zip(cases, results, strict=True)):
        right = expected(case)
        if found.first_bad != right.first_bad or (right.first_bad is None and found.out != right.out):
            wrong.append(number)
    return wrong


def noticed(cases: list[Case], program: Path, folder: Path) -> bool:
    """Whether a sanitizer reports, in a kernel, or a result is wrong."""
    try:
        return bool(mismatches(cases, run(program, cases, folder)))
    except SanitizerError as caught:
        spoken = "AddressSanitizer" in caught.report or "runtime error" in caught.report
        return spoken and ".cuh:" in caught.report


def mutated(folder: Path, header: str, before: str, after: str) -> Path:
    """A copy of the kernels in which `before` in `header` reads `after`."""
    kernels = folder / "cuda_kernels"
    shutil.copytree(KERNELS, kernels)
    text = (kernels / header).read_text()
    assert text.count(before) == 1
    (kernels / header).write_text(text.replace(before, after))
    return kernels
