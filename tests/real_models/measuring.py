"""How long `dmlgather check` takes for a file, and how much memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_MEASURE = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
"""
"""A small process of its own starts the command: a process begins with the peak of memory of the one that starts it."""


def measure(path: Path) -> tuple[float, int]:
    """Seconds of a processor and MB of the largest process of `dmlgather check`. RuntimeError where it fails."""
    command = [sys.executable, "-c", "from dmlgather.cli import main; main()", "check", "--no-config", "--quiet", str(path)]
    measured = subprocess.run([sys.executable, "-S", "-c", _MEASURE, *command], check=True, capture_output=True, text=True)
    code, seconds, kilobytes = measured.stdout.split()
    if int(code) not in (0, 1):
        raise RuntimeError(f"dmlgather check {path} exits with {code}: {measured.stderr}")
    return round(float(seconds), 1), round(int(kilobytes) / 1000)
