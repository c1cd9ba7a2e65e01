"""What this process may use of its machine: CPUs and memory."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple


def cpus() -> int:
    """The number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SettingError(ValueError):
    """An environment variable of dmlgather has a value that means nothing. The message names it, and what it may be."""


def threads() -> int:
    """The most threads that work may use: the CPUs, or fewer if DMLGATHER_NUM_THREADS says so. SettingError where that is no
    positive integer.
    """
    value = os.environ.get("DMLGATHER_NUM_THREADS", "")
    if not value:
        return cpus()
    number = value.lstrip("0")[:18]  # more digits change nothing: no machine has as many CPUs
    if not re.fullmatch("[0-9]+", value) or not number:
        raise SettingError(f"DMLGATHER_NUM_THREADS is {value[:40]!r}, expected a positive number of threads, such as {cpus()}")
    return min(int(number), cpus())


DEBUG = "DMLGATHER_DEBUG"
"""Environment variable that shows tracebacks of unexpected errors."""


def is_debugged() -> bool:
    """Return True if DMLGATHER_DEBUG is set."""
    return bool(os.environ.get(DEBUG))


def is_pure() -> bool:
    """Whether DMLGATHER_PURE says that NumPy is to run every plan. SettingError for an unknown value."""
    value = os.environ.get("DMLGATHER_PURE", "")
    if value not in ("", "0", "1"):
        raise SettingError(f"DMLGATHER_PURE is {value[:40]!r}, expected 1 (NumPy runs every plan) or 0")
    return value == "1"


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes of memory that can still be had without swapping, as far as the system tells; None where it does not.

    root: the folder that holds the system's files.
    """
    free = _free_memory(root)
    return min([*_control_group_rooms(root), *([] if free is None else [free])], default=None)


def _free_memory(root: Path) -> int | None:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf; other systems may lack a name
        return None


class _Groups(NamedTuple):
    """Where a version of control groups keeps those for memory, and the names of their files: the limit, what is used, and in
    memory.stat the files that are cached and were not read lately, which give way.
    """

    folder: str
    limit: str
    used: str
    cached: str


_VERSIONS = {
    "": _Groups("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "memory": _Groups("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""By what /proc/self/cgroup calls the hierarchy: version 2 has one, without a name."""


def _control_group_rooms(root: Path) -> Iterator[int]:
    """Yield the bytes that may still be had in each control group of this process that has a limit, from the inside out."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        for name in {*controllers.split(",")} & _VERSIONS.keys():
            files = _VERSIONS[name]
            inner = PurePosixPath(path.lstrip("/"))
            for group in dict.fromkeys([inner, *inner.parents, PurePosixPath()]):  # in a container only the last is there
                folder = root / files.folder / group
                limit, used = (next(iter(_lines(folder / file)), "") for file in (files.limit, files.used))
                if limit.isdigit() and used.isdigit():
                    stated = dict(line.split() for line in _lines(folder / "memory.stat"))
                    yield max(int(limit) - int(used) + int(stated.get(files.cached, 0)), 0)


def give_memory_back() -> None:
    """Give memory that is free back to the system, where the C library keeps it: glibc keeps what threads have freed."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
