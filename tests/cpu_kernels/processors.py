"""The instruction sets of this machine, and processors that qemu emulates. Tests of others are skipped."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass

import pytest

from hatch_build import LOOPS
from tests.cpu_kernels.cases import machine_sets

SETS = tuple(LOOPS[platform.machine()])
"""Instruction sets of the engine on this platform."""
NAMES = {"baseline": "SSE2", "avx2": "AVX2 with BMI2", "avx512": "AVX-512 with VBMI", "neon": "NEON"}


def need(*sets: str) -> None:
    """Skip the test if the processor lacks one of these instruction sets."""
    for name in sets:
        if name not in machine_sets():
            pytest.skip(f"this processor has no {NAMES[name]}: its loops were not run")


@dataclass(frozen=True, slots=True)
class Emulated:
    """A processor that qemu emulates with these options, and the instruction sets that the engine finds there."""

    name: str
    machine: str
    options: tuple[str, ...]
    sets: tuple[str, ...]

    def launcher(self) -> tuple[str, ...]:
        """Return the command that runs a program on it. Skip the test without qemu."""
        program = f"qemu-{self.machine}"
        found = shutil.which(program) or shutil.which(f"{program}-static")
        if found is None:
            pytest.skip(f"{program} is not on PATH: {self.name} was not run; apt-get install qemu-user")
        return (found, *self.options)


# Leaves out features that only a system uses. qemu does not emulate them and would print a warning.
HASWELL = Emulated(
    "a processor with AVX2 and without AVX-512",
    "x86_64",
    ("-cpu", "Haswell-noTSX,-pcid,-x2apic,-tsc-deadline,-invpcid"),
    ("baseline", "avx2"),
)
OLDEST = Emulated("the oldest x86-64, for which wheels are compiled", "x86_64", ("-cpu", "Opteron_G1,-pni"), ("baseline",))
ARM64 = Emulated("arm64", "aarch64", (), ("neon",))

X86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="this is no x86-64: programs for other x86-64 were not run")
