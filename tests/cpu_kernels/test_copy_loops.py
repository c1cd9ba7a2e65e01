"""The copy loops of every instruction set of this machine: random boxes in exact buffers, against a loop of bytes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "cpu_kernels"
PROGRAM = Path(__file__).parent / "copy_loops_test.c"
WARNINGS = ("-std=gnu11", "-g1", "-Wall", "-Wextra", "-Werror")
SANITIZED = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
AVX2 = ("-mavx2", "-mbmi", "-mbmi2")
AVX512 = (*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vbmi")
FLAGS = {"baseline": (), "avx2": AVX2, "avx512": AVX512}
ISAS = {"neon": ()} if platform.machine() in ("aarch64", "arm64") else FLAGS
UNITS = {"run", "streamed run", "short run", "strided", "transposed", "tiled"}
PIECES = {"pieces", "streamed pieces"}
TARGETS = (("aarch64-linux-gnu", "neon"), ("aarch64-macos", "neon"), ("x86_64-windows-gnu", "avx512"))
LACKS = 3

SOURCES = ("copy_loops.c", "copy_loops.h", "pieces.c", "pieces.h", "picked.h", "turned.h", "vectors.h")

# What is replaced in the sources, each of which makes them wrong.
BROKEN = {
    "a load after the last byte": ("const int64_t at = least(next, last)", "const int64_t at = least(next, last + width)"),
    "the first line's head forgotten": ("if (head) pick_part(", "if (0) pick_part("),
    "a second part too late": ("from + b.unit - part, part)", "from + part, part)"),
    "a tile too wide": ("const int64_t width = least(b.n0 - i, tile)", "const int64_t width = tile"),
    "rows not reversed": ("out += (b.n0 - 1) * b.out0, b.out0 = -b.out0", "b.in0 = -b.in0"),
}


def compiler() -> list[str]:
    """The system's C compiler, or the one of the package ziglang, which has no AddressSanitizer."""
    names = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang", "cc"]
    found = [name for name in names if shutil.which(name)]
    return found[:1] or [sys.executable, "-m", "ziglang", "cc"]


def built(isa: str, kernels: Path = KERNELS) -> Path:
    """The test program of one instruction set, built by the first process that asks for this content."""
    with_system = "ziglang" not in compiler()
    names = ("turned.h", "picked.h", "vectors.h", "pieces.h", "pieces.c")
    sources = [PROGRAM, *sorted(kernels.glob("copy_loops.*")), *(kernels / name for name in names)]
    flags = (*WARNINGS, *(SANITIZED if with_system else ("-O1",)), f"-DISA={isa}")
    key = hashlib.sha256(repr((compiler(), flags, ISAS[isa])).encode() + b"\0".join(s.read_bytes() for s in sources)).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dmlgather" / "cpu-kernels"
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / f"copy-loops-{key[:20]}"
    with (cache / f"{target.name}.lock").open("w") as lock, tempfile.TemporaryDirectory(dir=cache) as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            command = [*compiler(), *flags, f"-I{kernels}"]
            loops, program = Path(folder, "loops.o"), Path(folder, "program")
            run([*command, *ISAS[isa], "-c", str(kernels / "copy_loops.c"), "-o", str(loops)])
            run([*command, *ISAS[isa], str(PROGRAM), str(kernels / "pieces.c"), str(loops), "-o", str(program)])
            program.replace(target)
    return target


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


def tried(program: Path, seed: int, boxes: int) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([program, str(seed), str(boxes)], capture_output=True, text=True, check=False)
    if done.returncode == LACKS:
        pytest.skip("this processor lacks the instructions")
    return done


@pytest.mark.parametrize("isa", ISAS)
def test_every_loop_copies_its_box_and_nothing_else(isa: str) -> None:
    """Outputs have no wrong byte, inside or outside the box; no byte outside the buffers is read or written."""
    done = tried(built(isa), 1, 6000)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    chosen = {name: int(times) for name, times in (line.rsplit(" ", 1) for line in done.stdout.splitlines())}
    assert set(chosen) == (UNITS if isa == "baseline" else UNITS | PIECES)
    assert min(chosen.values()) >= 20


@pytest.mark.parametrize("change", BROKEN)
def test_broken_loops_are_noticed(change: str, tmp_path: Path) -> None:
    """By a wrong byte, or by a sanitizer."""
    before, after = BROKEN[change]
    isa = next(reversed([name for name in ISAS if name != "avx512"]))
    texts = {name: (KERNELS / name).read_text() for name in SOURCES}
    assert sum(text.count(before) for text in texts.values()) == 1
    for name, text in texts.items():
        (tmp_path / name).write_text(text.replace(before, after))
    done = tried(built(isa, tmp_path), 1, 6000)
    assert done.returncode
    assert "is wrong" in done.stdout or any(f"{name}:" in done.stderr for name in SOURCES)


@pytest.mark.heavy
@pytest.mark.parametrize(("target", "isa"), TARGETS)
def test_other_platforms_compile(target: str, isa: str, tmp_path: Path) -> None:
    flags = (*WARNINGS, "-O1", f"-DISA={isa}", *FLAGS.get(isa, ()))
    run([sys.executable, "-m", "ziglang", "cc", "-target", target, *flags, "-c", str(KERNELS / "copy_loops.c"),
         "-o", str(tmp_path / "loops.o")])  # fmt: skip
