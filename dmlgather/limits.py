"""Limits of CPU time and memory for work on one file, so that it cannot block the report on other files."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dmlgather.host import available_memory

MEGABYTE = 1_000_000

SECONDS = 5.0
"""CPU time for each megabyte of a file."""

MEMORY = 350 * MEGABYTE
"""Memory in bytes for each megabyte of a file."""

RESERVED_PER_CPU = 32 * MEGABYTE
"""Address space in bytes that libraries reserve for each CPU, mostly for thread stacks. It is added to the limit."""

NUMPY_PER_CPU = 48 * MEGABYTE
"""Address space in bytes that the import of NumPy reserves for each CPU. It is added if NumPy is not yet imported."""

REPEAT_SECONDS = 0.5
"""LimitError is raised again after this time, because Python drops exceptions in `__del__` and elsewhere."""


class LimitError(BaseException):
    """Error: work took more CPU time or memory than a limit allows. `except Exception` does not catch this error."""


class Limits(NamedTuple):
    """Limits of CPU time (seconds) and additional memory (bytes). For None, the limit is proportional to the files' size.

    `least`: a size in megabytes. The limit for smaller files is the limit for this size.
    """

    seconds: float | None = None
    memory: int | None = None
    least: float = 1.0

    @contextmanager
    def over(self, *paths: Path) -> Iterator[None]:
        """Raise LimitError inside the block when the work on these files exceeds a limit.

        Only work in the main thread is limited. macOS limits only time. Windows limits nothing.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        megabytes = max(sum(map(_size, paths)) / MEGABYTE, self.least)
        seconds = SECONDS * megabytes if self.seconds is None else self.seconds
        memory = int(MEMORY * megabytes) if self.memory is None else self.memory
        free = available_memory() if memory > MEMORY else None  # checking a small file is faster than asking
        with _within_memory(memory if free is None else min(memory, free)), _within_time(seconds):
            yield


DEFAULT = Limits()


@contextmanager
def _within_time(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: Any) -> None:
        remedy = "raise it by --time-limit, or split the file"
        raise LimitError(f"takes more than its limit of {seconds:.3g} s of CPU time: {remedy}")

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


@contextmanager
def _within_memory(memory: int) -> Iterator[None]:
    try:
        with _data_limited(memory):
            yield
    except MemoryError as error:
        if type(error).__module__.startswith("dmlgather."):  # its message is more precise
            raise
        if sys.platform != "linux":
            raise LimitError("takes more memory than is free: split the file") from None
        megabytes = memory // MEGABYTE
        raise LimitError(
            f"takes more than its limit of {megabytes} MB of memory: raise it by --memory-limit, or split the file"
        ) from None


@contextmanager
def _data_limited(memory: int) -> Iterator[None]:
    """On Linux, limit the memory that this process allocates from now on."""
    if sys.platform != "linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    reserved = RESERVED_PER_CPU if "numpy" in sys.modules else RESERVED_PER_CPU + NUMPY_PER_CPU
    limit = _data_bytes() + memory + reserved * (os.cpu_count() or 1)
    existing = [value for value in (soft, hard) if value != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([limit, *existing]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """Return the bytes that this process has allocated, about as RLIMIT_DATA counts them."""
    with open("/proc/self/statm", encoding="ascii") as status:  # noqa: PTH123 # faster than Path.open
        return int(status.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")


def _size(path: Path, depth: int = 2) -> int:
    """Return the bytes of a file, or of all files in `depth` levels of folders. 0 if it cannot be read."""
    try:
        info = path.stat()
        if not stat.S_ISDIR(info.st_mode):
            return info.st_size
        return sum(_size(entry, depth - 1) for entry in path.iterdir() if not entry.is_symlink()) if depth else 0
    except (OSError, ValueError):
        return 0
