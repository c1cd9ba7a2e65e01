"""The command in processes that heed Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from tests.cli.command import ROOT

HEEDING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
"""Interrupts are heeded although shells let commands in the background ignore them."""

COMMAND = "import sys; from dmlgather.cli import main; sys.exit(main())"
"""As the script that an installation makes."""


def start(*arguments: object, before: str = "", heeding: bool = True, **options: Any) -> subprocess.Popen[bytes]:
    """Start `dmlgather` with these arguments. before: Python that runs before it. options: of subprocess.Popen."""
    script = "\n".join((HEEDING if heeding else "", before, COMMAND))
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, **options)
