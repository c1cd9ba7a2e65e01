"""The time of a processor that one file may take while it is checked, so that no file holds up the report of the others."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MEGABYTE = 1_000_000

SECONDS = 5.0
"""Of a processor, that a file may take for each megabyte, and that a smaller file may take."""

AGAIN = 0.5
"""Seconds after which a file is ended again, if the first time came where Python drops exceptions."""


class TooSlowError(BaseException):
    """A file took its time. It is no Exception, so that nobody takes it for an error of his own. The message says the limit."""


@contextmanager
def limited(path: Path) -> Iterator[None]:
    """A context in which TooSlowError is raised when the file's time is over: on Windows and outside the main thread, never.

    The time of other processes, such as that of ONNX's shape inference, is not counted: they have limits of their own.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    seconds = SECONDS * max(_size(path) / MEGABYTE, 1.0)

    def end(*_: Any) -> None:
        raise TooSlowError(f"takes more than its limit of {seconds:.3g} seconds of a processor, and is not checked: split it")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (OSError, ValueError):
        return 0
