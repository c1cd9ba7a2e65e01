"""The machine and the versions of a run."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from dmlgather import __version__
from dmlgather.backends.devices import processor
from dmlgather.host import cpus
from dmlgather.record import Record

LARGEST = 64 * 2**20
"""The most bytes that a cache is taken to have, and the default: some virtual machines report the whole cache of their host."""

L2_FETCH = 5
"""cudaLimitMaxL2FetchGranularity, which CuPy has no name for."""


class Gpu(Record, extra="ignore"):
    """The GPU of a run. l2_fetch_bytes: the most that it fetched into its L2 cache at once, in this run. Clocks in MHz. None
    for what the driver does not report, or an older report lacks.
    """

    name: str
    compute_capability: str
    driver: str
    runtime: str
    memory_bytes: int
    l2_bytes: int
    multiprocessors: int
    l2_fetch_bytes: int | None = None
    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None


class Machine(Record, extra="ignore"):
    """The machine of a run. cpus: that this process could use. caches: of one CPU, in bytes, by level and kind."""

    platform: str
    processor: str
    cpus: int
    memory_bytes: int
    caches: dict[str, int]
    gpu: Gpu | None = None


def machine(cupy: Any = None, device: int = 0) -> Machine:
    """This machine; with `cupy`, the GPU of that number as well."""
    return Machine(
        platform=platform.platform(),
        processor=processor(),
        cpus=cpus(),
        memory_bytes=_memory(),
        caches=caches(),
        gpu=None if cupy is None else gpu(cupy, device),
    )


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of Python, of dmlgather, and of the packages that are installed."""
    found = {"python": platform.python_version(), "dmlgather": __version__}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def caches(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, int]:
    """Bytes of each cache of one CPU: {"L1 Data": 32768, …}; empty where the system does not report them."""
    found = {}
    for cache in sorted(folder.glob("index*")):
        try:
            level, kind, size = ((cache / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        scale = {"K": 2**10, "M": 2**20}.get(size[-1:], 1)
        found[f"L{level} {kind}"] = int(size.rstrip("KM")) * scale
    return found


def last_level(found: dict[str, int]) -> int:
    """Bytes of the largest cache, at most LARGEST."""
    return min(max(found.values(), default=LARGEST), LARGEST)


def gpu(cupy: Any, device: int = 0) -> Gpu:
    """A GPU, as the driver reports it."""
    runtime = cupy.cuda.runtime
    properties = runtime.getDeviceProperties(device)
    return Gpu(
        name=properties["name"].decode(),
        compute_capability=f"{properties['major']}.{properties['minor']}",
        driver=_version(runtime.driverGetVersion()),
        runtime=_version(runtime.runtimeGetVersion()),
        memory_bytes=properties["totalGlobalMem"],
        l2_bytes=properties["l2CacheSize"],
        multiprocessors=properties["multiProcessorCount"],
        l2_fetch_bytes=limit(runtime, L2_FETCH),
        clock_mhz=_megahertz(properties.get("clockRate")),
        memory_clock_mhz=_megahertz(properties.get("memoryClockRate")),
    )


def limit(runtime: Any, number: int) -> int | None:
    """A limit of the current GPU; None where it has none."""
    try:
        return int(runtime.deviceGetLimit(number))
    except RuntimeError:  # CUDARuntimeError
        return None


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _megahertz(kilohertz: int | None) -> float | None:
    return kilohertz / 1e3 if kilohertz else None


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
