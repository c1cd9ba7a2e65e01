"""The copy loops of every instruction set of this machine: random boxes in exact buffers, against a loop of bytes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests import built
from tests.cpu_kernels import processors
from tests.cpu_kernels.building import KERNELS
from tests.cpu_kernels.copy_loops import BROKEN, FLAGS, SOURCES, WARNINGS, program, tried
from tests.cpu_kernels.processors import HASWELL, OLDEST, SETS, X86_64, Emulated
from tests.noticing import BrokenPrograms

UNITS = {"run", "streamed run", "short run", "strided", "transposed", "tiled"}
PIECES = {"pieces", "streamed pieces"}
TARGETS = (("aarch64-linux-gnu", "neon"), ("aarch64-macos", "neon"), ("x86_64-windows-gnu", "avx512"))
LACKS = 3
"""The exit status of a program whose instructions the processor lacks."""


def all_chosen(isa: str, done: subprocess.CompletedProcess[str], least: int) -> None:
    """The program found no wrong byte, and each loop was chosen so many times."""
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    chosen = {name: int(times) for name, times in (line.rsplit(" ", 1) for line in done.stdout.splitlines())}
    assert set(chosen) == (UNITS if isa == "baseline" else UNITS | PIECES)
    assert min(chosen.values()) >= least


@pytest.mark.slow
@pytest.mark.parametrize("isa", SETS)
def test_every_loop_copies_its_box_and_nothing_else(isa: str) -> None:
    """Outputs have no wrong byte, inside or outside the box; no byte outside the buffers is read or written."""
    processors.need(isa)
    all_chosen(isa, tried(program(isa), 1, 6000), 20)


@pytest.mark.slow
@X86_64
@pytest.mark.parametrize("isa", SETS)
def test_what_asks_the_processor_needs_nothing_but_the_baseline(isa: str) -> None:
    """Where its flags are another set's, AddressSanitizer's part of `main` uses that set before the program asks for it."""
    if not shutil.which("objdump"):
        pytest.skip("objdump is not on PATH: the instructions of the test programs were not looked at")
    command = ["objdump", "-d", "--no-show-raw-insn", "--disassemble=main", str(program(isa))]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    instructions = re.findall(r"^ *[0-9a-f]+:\t(\w+)", listing, re.MULTILINE)
    assert len(instructions) > 100
    assert [name for name in instructions if name.startswith("v")] == []  # as all do that came with AVX or later


@pytest.mark.heavy
@X86_64
@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize("processor", [HASWELL, OLDEST], ids=["AVX2", "oldest"])
def test_other_processors_run_their_loops_and_lack_the_others(processor: Emulated, isa: str) -> None:
    """Without sanitizers, whose memory qemu cannot emulate."""
    done = tried(program(isa, own=("-O2",)), 1, 600, processor.launcher())
    if isa in processor.sets:
        all_chosen(isa, done, 2)
    else:
        assert (done.returncode, done.stdout, done.stderr) == (LACKS, "", "")


def judge(change: str, seed: int) -> tuple[str, str]:
    """What the box of a seed finds wrong in the sound loops, and in broken ones."""
    with tempfile.TemporaryDirectory() as folder:
        both = program(BROKEN[change].isa), BROKEN[change].program(Path(folder))
    sound, broken = (tried(made, seed, 1) for made in both)
    return sound.stdout + sound.stderr if sound.returncode else "", broken.stdout + broken.stderr if broken.returncode else ""


PROGRAMS = BrokenPrograms("tests/cpu_kernels/test_copy_loops.py", BROKEN, judge)


@pytest.mark.slow
@pytest.mark.parametrize("change", BROKEN)
def test_broken_loops_are_noticed(change: str) -> None:
    """By a wrong byte, or by a sanitizer; and the same box passes through the sound loops."""
    processors.need(BROKEN[change].isa)
    said = PROGRAMS.check(change)
    assert "is wrong" in said or any(f"{name}:" in said for name in SOURCES)


@pytest.mark.heavy
@pytest.mark.parametrize(("target", "isa"), TARGETS)
def test_other_platforms_compile(target: str, isa: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *WARNINGS, "-O1", f"-DISA={isa}", *FLAGS[isa]]
    built.run([*command, "-c", str(KERNELS / "copy_loops.c"), "-o", str(tmp_path / "loops.o")])
