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
"""cudaLimitMaxL2FetchGranularity, which CuPy does not define."""


class Gpu(Record, extra="ignore"):
    """A GPU, as a report describes it.

    A field is None if the driver does not report it, or if an older version of dmlgather wrote the report without it.
    `l2_fetch_bytes`: the maximum L2 fetch granularity during the run.
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
    """A machine, as a report describes it.

    `cpus`: the number of CPUs that the process may use.
    `caches`: the size in bytes of each cache of one CPU: {"L1 Data": 32768, …}.
    """

    platform: str
    processor: str
    cpus: int
    memory_bytes: int
    caches: dict[str, int]
    gpu: Gpu | None = None


def machine(cupy: Any = None, device: int = 0) -> Machine:
    """Return a description of this machine. If the module `cupy` is given, it includes GPU number `device`."""
    return Machine(
        platform=platform.platform(),
        processor=processor(),
        cpus=cpus(),
        memory_bytes=_memory(),
        caches=caches(),
        gpu=None if cupy is None else gpu(cupy, device),
    )


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python, of dmlgather, and of each of these packages that is installed."""
    by_name = {"python": platform.python_version(), "dmlgather": __version__}
    for package in packages:
        try:
            by_name[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return by_name


def caches(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, int]:
    """Return the size in bytes of each cache of one CPU: {"L1 Data": 32768, …}. The result is empty if they are unknown."""
    sizes = {}
    for cache in sorted(folder.glob("index*")):
        try:
            level, kind, size = ((cache / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        scale = {"K": 2**10, "M": 2**20}.get(size[-1:], 1)
        sizes[f"L{level} {kind}"] = int(size.rstrip("KM")) * scale
    return sizes


def gpu(cupy: Any, device: int = 0) -> Gpu:
    """Return a description of GPU number `device`."""
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
    """Return a limit of the current GPU, such as its L2 fetch granularity. `number`: its number in CUDA's enum cudaLimit."""
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


_SHOWN_PARTS = 3


class FailedTrial(Record):
    """A trial that gave a wrong result, and how to repeat it."""

    trial: int
    """The trial's number. Seed and number repeat the trial."""

    fault: str
    """The fault, as a sentence."""

    parts: tuple[str, ...]
    """The kernels, or the CPU loop, that ran; empty if preparing the plan failed."""

    how: str
    """How the plan was run, as `explain` describes it; empty if preparing the plan failed."""

    plan: str
    """The plan as text."""

    alignment: int
    """The largest power of two, at most 16, that divides the addresses of input and output."""

    command: str
    """The command that repeats the trial."""


class SelfTestReport(Record):
    """The result of a self-test on one device."""

    device: str
    """The device: "cpu", "cuda:0", …"""

    kind: str
    """The name for a part of the device: "kernel" on a GPU, "loop" on the CPU (a loop of the engine or a NumPy recipe)."""

    engine: str
    """The compiled CPU engine, or the reason why there is none."""

    seed: int
    """The seed of all trials."""

    trials: int
    """The number of trials that ran. Each has its own plan."""

    failed: int
    """The number of trials with a wrong result."""

    failed_trials: tuple[int, ...]
    """The numbers of the first 100 failed trials."""

    first_failed: FailedTrial | None
    """The first failed trial."""

    wrong_parts: Mapping[str, int]
    """For each kernel or loop, the number of failed trials in which it ran."""

    parts: Mapping[str, int]
    """For each kernel or loop, the number of trials in which it ran."""

    missed: tuple[str, ...]
    """Kernels or loops that ran in no trial."""

    ended_early: str | None
    """The reason why not all trials ran, such as an error after which the GPU cannot run anything; null if all ran."""

    seconds: float
    """The duration of the test."""

    machine: Machine
    """The machine, with its GPU if a GPU was tested."""

    versions: Mapping[str, str]
    """Versions of Python, dmlgather and the libraries that ran; "nvrtc" is the library that compiled the kernels."""

    @computed_field  # type: ignore[prop-decorator] # as pydantic writes it
    @property
    def equal(self) -> bool:
        """Return True if no trial has failed: every result had the same bits as in the reference backend."""
        return not self.failed

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0 if no trial has failed, else 1."""
        return 0 if self.equal else 1

    def lines(self) -> Iterator[str]:
        """Yield the lines of the report as text: the first failed trial, if there is one, and then `line`."""
        if self.first_failed is not None:
            yield from _failure_lines(self.first_failed, self.kind)
        if self.ended_early is not None:
            yield f"{self.device} ran nothing more: {self.ended_early}"
        yield self.line

    @computed_field  # type: ignore[prop-decorator]
    @property
    def line(self) -> str:
        """Return the verdict, the device, the versions and the platform in one line."""
        return f"dmlgather selftest: {self._result}; {self._device}; {', '.join(self._software())}; {self.machine.platform}"

    @property
    def _result(self) -> str:
        reached, total = len(self.parts), len(self.parts) + len(self.missed)
        # On a GPU, the number of all kernels is known. On the CPU, `parts` has only the engine's loops that ran.
        has_total = self.missed and self.machine.gpu is not None
        ran = f"{reached} of {counted(total, self.kind)}" if has_total else counted(reached, self.kind)
        shown, more = sorted(self.wrong_parts)[:_SHOWN_PARTS], len(self.wrong_parts) - _SHOWN_PARTS
        wrong = (", ".join(shown) or "not prepared") + (f" and {more} more" if more > 0 else "")
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


def _failure_lines(failed: FailedTrial, kind: str) -> Iterator[str]:
    yield f"trial {failed.trial} is wrong: {failed.fault}"
    how = failed.how or "preparing it failed"
    for title, text in (("plan", failed.plan), (kind, how), ("alignment", str(failed.alignment)), ("repeat", failed.command)):
        first, *rest = text.splitlines()
        yield f"  {title:14} {first}"
        yield from (f"  {'':14} {line}" for line in rest)
