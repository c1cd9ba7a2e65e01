"""Builds and runs `copy_loops_test.c` with correct and with broken copy loops."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hatch_build import LOOPS
from tests import built, processes
from tests.cpu_kernels import building
from tests.cpu_kernels.building import KERNELS
from tests.cpu_kernels.processors import SETS

NAME = "copy_loops"
HERE = Path(__file__).parent
FLAGS = {name: flags for sets in LOOPS.values() for name, flags in sets.items()}
WARNINGS = ("-std=gnu11", "-g1", "-Wall", "-Wextra", "-Werror")
SOURCES = ("copy_loops.c", "copy_loops.h", "pieces.c", "pieces.h", "picked.h", "turned.h", "vectors.h")
SANITIZED = ("-O1", *building.ADDRESS)


def program(isa: str, kernels: Path = KERNELS, own: Sequence[str] = SANITIZED) -> Path:
    """Return the test program of an instruction set. Only the loops get the set's flags, so any processor can run the rest."""
    base = (building.compiler(), *WARNINGS, *own)
    everywhere, there = (
        (HERE / "copy_loops_test.c", kernels / "pieces.c"),
        (HERE / "copy_loops_window.c", kernels / "copy_loops.c"),
    )
    units = [*((source, ()) for source in everywhere), *((source, FLAGS[isa]) for source in there)]
    objects = [building.compiled((*base, f"-DISA={isa}", *flags), source, kernels) for source, flags in units]

    def link(folder: Path) -> None:
        built.run([*base, *map(str, objects), "-o", str(folder / NAME)])

    return built.once("cpu-kernels", base, objects, NAME, link)


def run_program(made: Path, seed: int, boxes: int, launcher: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Return the result of the program, started by `launcher`."""
    return processes.run([*launcher, made, str(seed), str(boxes)])


@dataclass(frozen=True, slots=True)
class Broken:
    """Text of the loops' sources, and the text that breaks them. pieces: whether only copies of pieces notice it."""

    before: str
    after: str
    pieces: bool = False

    @property
    def isa(self) -> str:
        """An instruction set that notices it. SSE2 has no pieces."""
        return "neon" if "neon" in SETS else "avx2" if self.pieces else "baseline"

    def program(self, folder: Path) -> Path:
        """Return the test program of the broken sources, which it writes to the folder."""
        names = [
            *KERNELS.glob("copy_loops.*"),
            *(KERNELS / f"{name}" for name in ("pieces.c", "pieces.h", "picked.h", "turned.h")),
        ]
        texts = {path.name: path.read_text() for path in (*names, KERNELS / "vectors.h")}
        assert sum(text.count(self.before) for text in texts.values()) == 1, f"{self.before!r} is not there once"
        for name, text in texts.items():
            (folder / name).write_text(text.replace(self.before, self.after))
        return program(self.isa, folder)


BROKEN = {
    "a load after the last byte": Broken(
        "const int64_t at = least(next, last)", "const int64_t at = least(next, last + width)", pieces=True
    ),
    "the first line's head forgotten": Broken("if (head) pick_part(", "if (0) pick_part(", pieces=True),
    "a second part too late": Broken("from + b.unit - part, part)", "from + part, part)"),
    "a tile too wide": Broken("const int64_t width = least(b.n0 - i, tile)", "const int64_t width = tile"),
    "rows not reversed": Broken("out += (b.n0 - 1) * b.out0, b.out0 = -b.out0", "b.in0 = -b.in0"),
}
