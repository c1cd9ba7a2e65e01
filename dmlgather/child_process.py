"""Python processes that work for this one and talk to it over pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress

WAIT = 4
"""Seconds that pass, at most, per second of a processor that such a process may take; other programs run as well."""

TIMER_SIGNAL = getattr(signal, "SIGPROF", 0)
"""What ends a process after its time of a processor; 0 where the system has no such signal."""


def start_python(*arguments: str, errors: int | None = None) -> subprocess.Popen[bytes]:
    """This interpreter with these arguments and this process's sys.path, its standard input and output piped. errors: where its
    standard error goes, as Popen takes it. OSError when it cannot be started.
    """
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109 # joined as text
    return subprocess.Popen(
        [sys.executable, "-P", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,  # Ctrl-C reaches only the parent, which then ends this process
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End the process and close its pipes."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # there was still something to send
            pipe.close()
