"""The CPUs and the memory that this process may use, and environment variables."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple


def cpus() -> int:
    """Return the number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SettingError(ValueError):
    """An environment variable of dmlgather has an invalid value."""


def threads() -> int:
    """Return the maximum number of threads. Raise SettingError if DMLGATHER_NUM_THREADS is no positive integer."""
    value = os.environ.get("DMLGATHER_NUM_THREADS", "")
    if not value:
        return cpus()
    number = value.lstrip("0")[:18]  # int() refuses more than 4300 digits
    if not re.fullmatch("[0-9]+", value) or not number:
        raise SettingError(f"DMLGATHER_NUM_THREADS is {value[:40]!r}, expected a positive number of threads, such as {cpus()}")
    return min(int(number), cpus())


DEBUG = "DMLGATHER_DEBUG"
"""If this variable is set, unexpected errors show their tracebacks."""


def is_debugged() -> bool:
    """Return True if DMLGATHER_DEBUG is set."""
    return bool(os.environ.get(DEBUG))


def is_pure() -> bool:
    """Return True if NumPy runs every plan. Raise SettingError if DMLGATHER_PURE is invalid."""
    value = os.environ.get("DMLGATHER_PURE", "")
    if value not in ("", "0", "1"):
        raise SettingError(f"DMLGATHER_PURE is {value[:40]!r}, expected 1 (NumPy runs every plan) or 0")
    return value == "1"


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the memory in bytes that this process can allocate without swapping. None if it is unknown."""
    free = _free_memory(root)
    return min([*_cgroup_free_bytes(root), *([] if free is None else [free])], default=None)


def _free_memory(root: Path) -> int | None:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf; other systems may lack a name
        return None


class _CgroupFiles(NamedTuple):
    """The files in which one version of Linux control groups reports memory.

    `inactive`: the entry of memory.stat for cached files, which the kernel can drop.
    """

    folder: str
    limit: str
    used: str
    inactive: str


_CGROUP_FILES = {
    "": _CgroupFiles("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "memory": _CgroupFiles("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Keys are controllers in /proc/self/cgroup: "" in version 2, "memory" in version 1."""


def _cgroup_free_bytes(root: Path) -> Iterator[int]:
    """Yield the free bytes of each control group that limits this process's memory."""
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        for name in {*controllers.split(",")} & _CGROUP_FILES.keys():
            files = _CGROUP_FILES[name]
            innermost = PurePosixPath(path.lstrip("/"))
            # In a container, the files of its own control group are those of the root, whatever `path` is.
            for group in dict.fromkeys([innermost, *innermost.parents, PurePosixPath()]):
                folder = root / files.folder / group
                limit, used = (next(iter(_lines(folder / file)), "") for file in (files.limit, files.used))
                if limit.isdigit() and used.isdigit():
                    statistics = dict(line.split() for line in _lines(folder / "memory.stat"))
                    yield max(int(limit) - int(used) + int(statistics.get(files.inactive, 0)), 0)


def give_memory_back() -> None:
    """Return freed memory to the operating system. glibc keeps what threads have freed."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
