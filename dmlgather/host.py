"""What this process may use of its machine: CPUs and memory."""

from __future__ import annotations

import os
import re
from pathlib import Path


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


def is_pure() -> bool:
    """Whether DMLGATHER_PURE says that NumPy is to run every plan. SettingError for an unknown value."""
    value = os.environ.get("DMLGATHER_PURE", "")
    if value not in ("", "0", "1"):
        raise SettingError(f"DMLGATHER_PURE is {value[:40]!r}, expected 1 (NumPy runs every plan) or 0")
    return value == "1"


def available_memory() -> int | None:
    """Bytes of memory that can still be had without swapping, as far as the system tells; None where it does not."""
    found = [value for value in (_free_memory(), _control_group_room()) if value is not None]
    return min(found, default=None)


def _free_memory() -> int | None:
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf; other systems may lack a name
        return None


def _control_group_room() -> int | None:
    folder = Path("/sys/fs/cgroup")
    limit, used = (next(iter(_lines(folder / name)), "") for name in ("memory.max", "memory.current"))
    return max(int(limit) - int(used), 0) if limit.isdigit() and used.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
