"""What this process may use of its machine: CPUs and memory."""

from __future__ import annotations

import os
from pathlib import Path


def cpus() -> int:
    """The number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads() -> int:
    """The most threads that work may use: the CPUs, or fewer if DMLGATHER_NUM_THREADS says so. ValueError when it is no positive
    integer.
    """
    value = os.environ.get("DMLGATHER_NUM_THREADS", "")
    if not value:
        return cpus()
    if not value.isascii() or not value.isdigit() or int(value) == 0:
        raise ValueError(f"DMLGATHER_NUM_THREADS is {value!r}, expected a positive number of threads")
    return min(int(value), cpus())


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
