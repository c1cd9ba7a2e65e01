"""The memory that a process may still use. Judges: the kernel's documentation of /proc/meminfo and of control groups of both
versions, as files below a root; and Linux itself.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import numpy as np
import pytest

from dmlgather.host import available_memory, give_memory_back
from tests import processes

GIB = 2**30
V1, V2 = "sys/fs/cgroup/memory", "sys/fs/cgroup"


def system(root: Path, files: dict[str, object]) -> Path:
    """Return a root with these files and 8 GiB of unused memory."""
    for name, content in {"proc/meminfo": "MemTotal:  16777216 kB\nMemAvailable:  8388608 kB\n", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{content}\n")
    return root


def v1(group: str, limit: int, used: int, cached: int = 0) -> dict[str, object]:
    """Return the files of a control group of version 1."""
    stated = {"limit_in_bytes": limit, "usage_in_bytes": used, "stat": f"inactive_file 5\ntotal_inactive_file {cached}"}
    return {f"{V1}{group}/memory.{name}": content for name, content in stated.items()}


def v2(group: str, limit: object, used: int, cached: int = 0) -> dict[str, object]:
    """Return the files of a control group of version 2."""
    stated = {"max": limit, "current": used, "stat": f"anon 7\ninactive_file {cached}"}
    return {f"{V2}{group}/memory.{name}": content for name, content in stated.items()}


NO_LIMIT = 2**63 - 4096
OF_V1 = "9:name=systemd:/\n4:cpu,cpuacct:/\n3:memory:{}\n0::/"

MACHINES: dict[str, tuple[dict[str, object], int]] = {
    "no control groups": ({}, 8 * GIB),
    "version 1, in a container": (
        {"proc/self/cgroup": OF_V1.format("/docker/0123"), **v1("", 2 * GIB, GIB)},  # a container sees its own group as the root
        GIB,
    ),
    "version 1, in a group of a group": (
        {
            "proc/self/cgroup": OF_V1.format("/a/b"),
            **v1("/a/b", NO_LIMIT, 1),
            **v1("/a", 3 * GIB, GIB),
            **v1("", NO_LIMIT, 1),
        },
        2 * GIB,
    ),
    "version 1, beside another group": ({"proc/self/cgroup": OF_V1.format("/a"), **v1("/b", GIB, 1)}, 8 * GIB),
    "version 1, files give way": ({"proc/self/cgroup": OF_V1.format("/"), **v1("", 2 * GIB, 2 * GIB - 10, GIB)}, GIB + 10),
    "version 2, in a container": ({"proc/self/cgroup": "0::/", **v2("", 2 * GIB, GIB)}, GIB),
    "version 2, in a slice": (
        {"proc/self/cgroup": "0::/user.slice/run-1.scope", **v2("/user.slice/run-1.scope", 5 * GIB, 2 * GIB)},
        3 * GIB,
    ),
    "version 2, the outer limit is less": (
        {"proc/self/cgroup": "0::/a/b", **v2("/a/b", 5 * GIB, GIB), **v2("/a", 4 * GIB, 3 * GIB)},
        GIB,
    ),
    "version 2, no limit": ({"proc/self/cgroup": "0::/a", **v2("/a", "max", GIB)}, 8 * GIB),
    "version 2, over the limit": ({"proc/self/cgroup": "0::/", **v2("", GIB, GIB + 5)}, 0),
    "version 2, files give way": ({"proc/self/cgroup": "0::/", **v2("", 2 * GIB, 2 * GIB, GIB)}, GIB),
    "the machine has less": ({"proc/self/cgroup": "0::/", **v2("", 100 * GIB, GIB)}, 8 * GIB),
}
"""The files of a machine, and the number of bytes that a process may still use."""


@pytest.mark.parametrize("machine", MACHINES)
def test_available_memory_is_the_smallest_limit(tmp_path: Path, machine: str) -> None:
    files, room = MACHINES[machine]
    assert available_memory(system(tmp_path, files)) == room


def test_available_memory_is_at_most_the_machines_memory() -> None:
    found = available_memory()
    assert found is not None
    assert 0 < found <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


FREED = """
from pathlib import Path
from dmlgather.host import give_memory_back
def resident(): return int(Path("/proc/self/statm").read_text().split()[1])
blocks = [b"x" * 60_000 for _ in range(4000)]  # too small for pages of their own
last = b"y" * 60_000
del blocks
kept = resident()
give_memory_back()
print(kept - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep less, and have no malloc_trim")
def test_freed_memory_goes_back_to_the_system() -> None:
    done = processes.run([sys.executable, "-c", FREED], check=True)
    assert int(done.stdout) * os.sysconf("SC_PAGE_SIZE") > 200_000_000
    kept = np.arange(10)
    give_memory_back()
    assert (kept == np.arange(10)).all()
