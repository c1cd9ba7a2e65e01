"""Python child processes that talk to this process over pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

WAIT = 4
"""A child is ended after this multiple of its CPU-time limit, because other programs also take time."""

TIMER_SIGNAL = getattr(signal, "SIGPROF", 0)
"""0 if the system has none."""


def start_python(*arguments: str, errors: int | None = None) -> subprocess.Popen[bytes]:
    """Start a process with this interpreter and sys.path, connected by pipes. Raise OSError if that fails."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109 # joined as text
    return subprocess.Popen(
        [sys.executable, "-P", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,  # Ctrl-C reaches only the parent, which then ends the child
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # the pipe still has unsent data
            pipe.close()
