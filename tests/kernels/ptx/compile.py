"""The PTX that NVRTC makes of a CUDA source, compiled once per content for all test processes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dmlgather.backends.cuda.driver import OPTIONS
from tests import built
from tests.kernels import nvrtc

ARCHITECTURES = ("compute_75", "compute_90", "compute_120")
"""Interpreted virtual architectures: the oldest, the newest, and the one whose machine code is also read."""


def ptx_of(source: str, architecture: str = "compute_90") -> str:
    """Return the PTX of `source` with its line numbers. Raises `nvrtc.CompilationError`."""
    recipe = (nvrtc.version(), architecture, OPTIONS, hashlib.sha256(source.encode()).hexdigest())

    def build(folder: Path) -> None:
        (folder / "kernels.ptx").write_text(nvrtc.ptx(source, architecture))

    return built.once("ptx", recipe, (), "kernels.ptx", build).read_text()
