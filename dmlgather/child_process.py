"""Python child processes that talk to this process over pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

WAIT = 4
"""The time after which a child process is ended, as a multiple of its CPU-time limit. It is longer, because the child also
waits while other programs run.
"""

TIMER_SIGNAL = getattr(signal, "SIGPROF", 0)
"""The signal that ends a process when it exceeds its CPU-time limit. It is 0 if the system has no such signal."""


def start_python(*arguments: str, errors: int | None = None) -> subprocess.Popen[bytes]:
    """Start another process with this Python interpreter and this process's sys.path. Its standard input and output are pipes.

    `errors`: where its standard error goes, as for `subprocess.Popen`. Raise OSError if the process cannot be started.
    """
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
    """End the process and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # the pipe still has unsent data
            pipe.close()
