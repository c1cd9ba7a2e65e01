"""Tests of the examples."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples"


def run(script: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """An example's run, in which warnings are errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", str(script), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
