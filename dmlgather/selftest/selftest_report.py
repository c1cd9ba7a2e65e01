"""The result of a self-test as data: what `dmlgather selftest --json` prints."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import computed_field

from dmlgather.backends.devices import processor
from dmlgather.host import cpus
from dmlgather.package import __version__
from dmlgather.record import Record
from dmlgather.wording import counted

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


# The result of a self-test as data: what `dmlgather selftest --json` prints.


NAMED = 3
"""Wrong parts that the line names."""


class FailedTrial(Record):
    """A trial whose outcome is wrong."""

    trial: int
    """Its number; with the seed, it repeats the trial."""

    fault: str
    """What is wrong, in a sentence."""

    parts: tuple[str, ...]
    """The kernels, or the loop, that ran; none where preparing them failed."""

    how: str
    """How the device ran the plan, as `explain` says it; empty where preparing failed."""

    plan: str
    """The plan."""

    alignment: int
    """The greatest power of two, up to 16, that divides the addresses of input and output."""

    command: str
    """The command that repeats the trial."""


class SelfTestReport(Record):
    """A self-test of one device."""

    device: str
    """"cpu", "cuda:0", …"""

    kind: str
    """What a part of the device is: "kernel", or on the CPU "loop" (of the engine, or a recipe of NumPy's)."""

    engine: str
    """The compiled engine of the CPU, or why there is none."""

    seed: int
    """Of all trials."""

    trials: int
    """Trials that ran, each with a plan of its own."""

    failed: int
    """Trials with a wrong outcome."""

    failed_trials: tuple[int, ...]
    """The numbers of the first of them."""

    first_failed: FailedTrial | None
    """The first of them."""

    wrong_parts: Mapping[str, int]
    """In how many failed trials each part ran."""

    parts: Mapping[str, int]
    """In how many trials each part ran."""

    missed: tuple[str, ...]
    """Parts that no trial reached."""

    ended_early: str | None
    """Why not all trials ran, such as the error after which a GPU can run nothing more; null where all did."""

    seconds: float
    """How long it took."""

    machine: Machine
    """The machine, and its GPU where one was tested."""

    versions: Mapping[str, str]
    """Versions of Python, of dmlgather and of what else ran; "nvrtc" is the library that compiled the kernels."""

    @computed_field  # type: ignore[prop-decorator] # as pydantic writes it
    @property
    def equal(self) -> bool:
        """Whether every trial left what the reference leaves, bit for bit."""
        return not self.failed

    @property
    def exit_code(self) -> int:
        """0 equal, 1 not."""
        return 0 if self.equal else 1

    def lines(self) -> Iterator[str]:
        """The first failed trial, if any, then the line for a report."""
        if self.first_failed is not None:
            yield from _shown(self.first_failed, self.kind)
        if self.ended_early is not None:
            yield f"{self.device} ran nothing more: {self.ended_early}"
        yield self.line

    @computed_field  # type: ignore[prop-decorator]
    @property
    def line(self) -> str:
        """One line that says it all."""
        return f"dmlgather selftest: {self._result}; {self._device}; {', '.join(self._software())}; {self.machine.platform}"

    @property
    def _result(self) -> str:
        reached, total = len(self.parts), len(self.parts) + len(self.missed)
        # All kernels are known. Loops of the engine are known once they run, so that there is no number of all.
        known = self.missed and self.machine.gpu is not None
        ran = f"{reached} of {counted(total, self.kind)}" if known else counted(reached, self.kind)
        first, more = sorted(self.wrong_parts)[:NAMED], len(self.wrong_parts) - NAMED
        wrong = (", ".join(first) or "not prepared") + (f" and {more} more" if more > 0 else "")
        verdict = "equal, bit for bit" if self.equal else f"MISMATCH in {counted(self.failed, 'plan')} ({wrong})"
        return f"{verdict}: {counted(self.trials, 'plan')}, {ran}, --seed {self.seed}"

    @property
    def _device(self) -> str:
        gpu = self.machine.gpu
        if gpu is None:
            return f"{self.device}: {self.machine.processor}, {counted(self.machine.cpus, 'CPU')}, {self.engine}"
        return f"{self.device}: {gpu.name}, compute capability {gpu.compute_capability}, driver {gpu.driver}, CUDA {gpu.runtime}"

    def _software(self) -> Iterator[str]:
        names = {"nvrtc": "NVRTC", "cupy": "CuPy", "dmlgather": "dmlgather", "numpy": "NumPy", "python": "Python"}
        return (f"{title} {self.versions[name]}" for name, title in names.items() if name in self.versions)


def _shown(failed: FailedTrial, kind: str) -> Iterator[str]:
    yield f"trial {failed.trial} is wrong: {failed.fault}"
    how = failed.how or "preparing it failed"
    for title, text in (("plan", failed.plan), (kind, how), ("alignment", str(failed.alignment)), ("repeat", failed.command)):
        first, *rest = text.splitlines()
        yield f"  {title:14} {first}"
        yield from (f"  {'':14} {line}" for line in rest)
