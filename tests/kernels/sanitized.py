"""Runs many cases through the host-built kernels under a sanitizer, in buffers of exact size."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cuda.arguments import POINTERS
from dmlgather.backends.cuda.launch import Launch
from dmlgather.backends.cuda.launches import launches_for
from dmlgather.backends.cuda.variants import Kind
from dmlgather.plan import IndexPlan, OutOfBounds
from tests.plans import Buffers

_HEADER = struct.Struct("<6Q")
_LAUNCH = struct.Struct("<4Q64s")
_OURS = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Case:
    """A plan, its buffers and how it is launched."""

    plan: IndexPlan
    buffers: Buffers
    launches: tuple[Launch, ...]
    alignment: int = 16

    @classmethod
    def of(cls, plan: IndexPlan, buffers: Buffers, alignment: int = 16, *, specialise: bool = True) -> Case:
        return cls(plan, buffers, launches_for(plan, alignment, 0, specialise=specialise), alignment)


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
    parts = [_HEADER.pack(*sizes, case.alignment, indices.itemsize, len(case.launches))]
    parts += [buffers.data.tobytes(), indices.tobytes(), buffers.out.tobytes()]
    for launch in case.launches:
        barrier = launch.variant.kind is Kind.TRANSPOSE
        at = _OURS if launch.input_in_table is None else launch.input_in_table
        arguments = bytearray(launch.arguments)
        POINTERS.pack_into(arguments, 0, 0, 0, 0, case.plan.out_of_bounds is OutOfBounds.RAISE)
        parts += [_LAUNCH.pack(launch.grid, barrier, len(launch.table), at, launch.variant.name.encode())]
        parts += [bytes(arguments), launch.table]
    return b"".join(parts)
