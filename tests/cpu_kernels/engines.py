"""Variants of the engine in `cpu_kernels/`: with small block sizes, and with deliberate errors."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.cpu_kernels.engine_build import ENGINE

SMALL = {
    "plan.c": {
        "BLOCK_BYTES": 1024,
        "SHARE_BYTES": 64,
        "STRIP_BYTES": 1024,
        "STREAM_BYTES": 256,
        "STREAM_RUN": 64,
        "STREAM_UNITS": 16,
        "CACHE_PARTS": 1 << 30,
        "LONGEST_RUN": 300,
    },
    "gather_loops.c": {"HELD_BYTES": 128},
    "vectors.h": {"STREAMED": 128, "STREAMED_RUN": 128},
    "picked.h": {"SHARED_LOADS": 8},
}
"""Replacements of the measured sizes, so that small plans use the code for large ones."""


def small_engine(folder: Path) -> Path:
    """Return a copy of the engine with these sizes."""
    engine = _copy(folder)
    _shrink(engine)
    return engine


@dataclass(frozen=True, slots=True)
class Mutation:
    """A line of a file of the engine, and the text that breaks it. small: whether only small block sizes notice it."""

    file: str
    before: str
    after: str
    small: bool = False

    def engine(self, folder: Path) -> Path:
        """Return a copy of the engine with this mutation. AssertionError unless the text occurs exactly once."""
        engine = _copy(folder)
        text = (engine / self.file).read_text()
        assert text.count(self.before) == 1, f"{self.file} has {self.before!r} {text.count(self.before)} times, expected once"
        (engine / self.file).write_text(text.replace(self.before, self.after))
        if self.small:
            _shrink(engine)
        return engine


def _copy(folder: Path) -> Path:
    engine = folder / "cpu_kernels"
    shutil.copytree(ENGINE, engine)
    return engine


def _shrink(engine: Path) -> None:
    for file, sizes in SMALL.items():
        text = (engine / file).read_text()
        for name, size in sizes.items():
            text, count = re.subn(rf"\b{name} = [^,}}]+", f"{name} = {size}", text)
            assert count == 1, f"{file} states {name} {count} times, expected once"
        (engine / file).write_text(text)
