"""The copy loops of this machine's instruction sets, with random boxes in exact buffers. Judge: a loop over bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import built, processes
from tests.cpu_kernels import processors
from tests.cpu_kernels.building import KERNELS
from tests.cpu_kernels.copy_loops import BROKEN, FLAGS, SOURCES, WARNINGS, program, run_program
from tests.cpu_kernels.processors import HASWELL, OLDEST, SETS, X86_64, Emulated
from tests.noticing import BrokenPrograms

UNITS = {"run", "streamed run", "short run", "strided", "transposed", "tiled"}
PIECES = {"pieces", "streamed pieces"}
TARGETS = (("aarch64-linux-gnu", "neon"), ("aarch64-macos", "neon"), ("x86_64-windows-gnu", "avx512"))
LACKS = 3
"""Exit status of a program whose instructions the processor lacks."""


def check_all_loops_ran(isa: str, done: subprocess.CompletedProcess[str], least: int) -> None:
    """Assert that the program found no wrong byte, and chose each loop the minimal number of times."""
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    chosen = {name: int(times) for name, times in (line.rsplit(" ", 1) for line in done.stdout.splitlines())}
    assert set(chosen) == (UNITS if isa == "baseline" else UNITS | PIECES)
    assert min(chosen.values()) >= least


@pytest.mark.slow
@pytest.mark.parametrize("isa", SETS)
def test_every_loop_copies_its_box_and_nothing_else(isa: str) -> None:
    """Outputs have no wrong byte inside or outside the box, and no byte outside the buffers is read or written."""
    processors.need(isa)
    check_all_loops_ran(isa, run_program(program(isa), 1, 6000), 20)


@pytest.mark.slow
@X86_64
@pytest.mark.parametrize("isa", SETS)
def test_the_test_program_itself_needs_only_the_baseline(isa: str) -> None:
    """With the flags of another set, AddressSanitizer's part of `main` uses that set before the program checks for it."""
    if not shutil.which("objdump"):
        pytest.skip("objdump is not on PATH: the instructions of the test programs were not looked at")
    command = ["objdump", "-d", "--no-show-raw-insn", "--disassemble=main", str(program(isa))]
    listing = processes.run(command, check=True).stdout
    instructions = re.findall(r"^ *[0-9a-f]+:\t(\w+)", listing, re.MULTILINE)
    assert len(instructions) > 100
    assert [name for name in instructions if name.startswith("v")] == []  # like all processors with AVX or later


@pytest.mark.heavy
@X86_64
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("processor", [HASWELL, OLDEST], ids=["AVX2", "oldest"])
def test_emulated_processors_run_the_loops_that_they_have(processor: Emulated, isa: str) -> None:
    """The programs have no sanitizers, as qemu cannot emulate their memory."""
    done = run_program(program(isa, own=("-O2",)), 1, 600, processor.launcher())
    if isa in processor.sets:
        check_all_loops_ran(isa, done, 2)
    else:
        assert (done.returncode, done.stdout, done.stderr) == (LACKS, "", "")


def judge(change: str, seed: int) -> tuple[str, str]:
    """Return the faults of the box of a seed in the correct loops, and in broken ones."""
    with tempfile.TemporaryDirectory() as folder:
        both = program(BROKEN[change].isa), BROKEN[change].program(Path(folder))
    sound, broken = (run_program(made, seed, 1) for made in both)
    return sound.stdout + sound.stderr if sound.returncode else "", broken.stdout + broken.stderr if broken.returncode else ""


PROGRAMS = BrokenPrograms("tests/cpu_kernels/test_copy_loops.py", BROKEN, judge)


@pytest.mark.slow
@pytest.mark.parametrize("change", BROKEN)
def test_broken_loops_are_noticed(change: str) -> None:
    """A wrong byte or a sanitizer shows the error. The correct loops pass with the same box."""
    processors.need(BROKEN[change].isa)
    said = PROGRAMS.check(change)
    assert "is wrong" in said or any(f"{name}:" in said for name in SOURCES)


@pytest.mark.heavy
@pytest.mark.parametrize(("target", "isa"), TARGETS)
def test_copy_loops_compile_for_other_platforms(target: str, isa: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *WARNINGS, "-O1", f"-DISA={isa}", *FLAGS[isa]]
    built.run([*command, "-c", str(KERNELS / "copy_loops.c"), "-o", str(tmp_path / "loops.o")])
