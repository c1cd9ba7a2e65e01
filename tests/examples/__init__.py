"""Tests of the examples."""

import os
import subprocess
import sys
from pathlib import Path

from tests import processes

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"


def run(script: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run an example with warnings as errors."""
    return processes.run(
        [sys.executable, "-W", "error", str(script), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        timeout=120,
    )
