"""The PTX of a CUDA source, by NVRTC: compiled once per content, for all test processes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dmlgather.backends.cuda.driver import OPTIONS
from tests import built
from tests.kernels import nvrtc

ARCHITECTURES = ("compute_75", "compute_90", "compute_120")
"""Virtual architectures whose PTX is interpreted: the oldest, the one that is read as machine code too, the newest."""


def ptx_of(source: str, architecture: str = "compute_90") -> str:
    """The PTX of `source` with line numbers of it. Raises `nvrtc.CompilationError`."""
    recipe = (nvrtc.version(), architecture, OPTIONS, hashlib.sha256(source.encode()).hexdigest())

    def build(folder: Path) -> None:
        (folder / "kernels.ptx").write_text(nvrtc.ptx(source, architecture))

    return built.once("ptx", recipe, (), "kernels.ptx", build).read_text()
