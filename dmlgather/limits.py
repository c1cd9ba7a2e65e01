"""The time of a processor, and the memory, that work on files may take: no file holds up a command or the report of others."""

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
"""Of a processor, that files may take for each megabyte, and that smaller files may take."""

MEMORY = 350 * MEGABYTE
"""Bytes beyond what the process has when work begins, likewise."""

PER_CPU = 32 * MEGABYTE
"""Bytes that libraries reserve for each CPU, as stacks of threads above all, and use few of: they count for no file."""

NUMPY = 48 * MEGABYTE
"""Bytes that NumPy reserves for each CPU when it is imported, likewise. Most files are checked without it."""

AGAIN = 0.5
"""Seconds after which work is ended again, if the first time came where Python drops exceptions."""


class LimitError(BaseException):
    """Work took more than it may; the message names the limit. It is no Exception, so that nobody takes it for his own error."""


class Limits(NamedTuple):
    """What work may take; what is None follows from the size of its files. seconds: of a processor. memory: bytes, beyond what
    the process has when work begins. least: megabytes that are counted for smaller files.
    """

    seconds: float | None = None
    memory: int | None = None
    least: float = 1.0

    @contextmanager
    def over(self, *paths: Path) -> Iterator[None]:
        """A context in which LimitError is raised when the work on these files takes more time or memory than it may. Of a
        folder, the files in it and in its folders count.

        Windows keeps neither limit, other systems than Linux keep that of time alone, and outside the main thread none is kept.
        The time of other processes, such as that of ONNX's shape inference, is not counted: they have limits of their own.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        megabytes = max(sum(map(_size, paths)) / MEGABYTE, self.least)
        seconds = SECONDS * megabytes if self.seconds is None else self.seconds
        memory = int(MEMORY * megabytes) if self.memory is None else self.memory
        room = available_memory() if memory > MEMORY else None  # looking it up takes longer than checking a small file
        with _within_memory(memory if room is None else min(memory, room)), _within_time(seconds):
            yield


DEFAULT = Limits()
"""The limits that follow from the size of the files."""


@contextmanager
def _within_time(seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer"):
        yield
        return

    def end(*_: Any) -> None:
        remedy = "raise it by --time-limit, or split the file"
        raise LimitError(f"takes more than its limit of {seconds:.3g} second{'s' * (seconds != 1)} of a processor: {remedy}")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _within_memory(memory: int) -> Iterator[None]:
    try:
        with _data_limited(memory):
            yield
    except MemoryError as error:
        if type(error).__module__.startswith("dmlgather."):  # it says more
            raise
        if sys.platform != "linux":
            raise LimitError("takes more memory than is free: split the file") from None
        megabytes = memory // MEGABYTE
        raise LimitError(
            f"takes more than its limit of {megabytes} MB of memory: raise it by --memory-limit, or split the file"
        ) from None


@contextmanager
def _data_limited(memory: int) -> Iterator[None]:
    """On Linux, a context in which this process can have so many bytes of data more than now."""
    if sys.platform != "linux":
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    reserved = PER_CPU if "numpy" in sys.modules else PER_CPU + NUMPY
    wanted = _data_bytes() + memory + reserved * (os.cpu_count() or 1)
    others = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([wanted, *others]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """The memory that this process has for data, about as RLIMIT_DATA counts it."""
    with open("/proc/self/statm", encoding="ascii") as status:  # noqa: PTH123 # a small file needs to be checked fast
        return int(status.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")


def _size(path: Path, deep: int = 2) -> int:
    """The bytes of a file, or of the files in a folder and in its folders; 0 for what cannot be looked at."""
    try:
        info = path.stat()
        if not stat.S_ISDIR(info.st_mode):
            return info.st_size
        return sum(_size(inside, deep - 1) for inside in path.iterdir() if not inside.is_symlink()) if deep else 0
    except (OSError, ValueError):
        return 0
