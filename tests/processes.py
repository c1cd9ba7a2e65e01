"""Commands that tests run in processes of their own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from os import PathLike
from typing import Any


def run(command: Sequence[str | PathLike[str]], *, check: bool = False, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command and capture its output as text. `options`: those of subprocess.run."""
    return subprocess.run(command, check=check, text=True, capture_output=True, **options)
