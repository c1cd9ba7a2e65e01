"""CuPy's wheels: which one is installed, which ones fit the driver and its GPUs, and what to install otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import NamedTuple, TypeAlias

from dmlgather.backends.cuda.nvidia_driver import Driver, NvidiaGpu, remedy
from dmlgather.package import installing

Version: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Wheel:
    """A CuPy package on PyPI.

    `extra`: dmlgather's extra that installs it. `cuda`: the major version of CUDA that it is built for.
    `least`: the lowest compute capability that it supports. `nvrtc`: the package that contains NVRTC for it.
    """

    extra: str
    package: str
    cuda: int
    least: Version
    nvrtc: str


WHEELS = (
    Wheel("cuda12", "cupy-cuda12x", 12, (5, 0), "nvidia-cuda-nvrtc-cu12"),
    Wheel("cuda13", "cupy-cuda13x", 13, (7, 5), "nvidia-cuda-nvrtc"),
)
SOURCES = "cupy"
"""The package if CuPy was built from source. It fits any CUDA."""


class Misfit(NamedTuple):
    """The first reason why the installed CuPy cannot work on this machine (`what`), and its remedy."""

    what: str
    remedy: str


def version_of(package: str) -> str | None:
    """Return the version of an installed package, or None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def has_files() -> bool:
    """Return True if Python finds the module cupy. The empty folder that an uninstalled CuPy may leave does not count."""
    try:
        spec = find_spec("cupy")
    except ValueError:  # in sys.modules, with a __spec__ of None
        return True
    return spec is not None and spec.origin is not None


def installed() -> list[Wheel]:
    """Return the installed wheels of CuPy."""
    return [wheel for wheel in WHEELS if version_of(wheel.package)]


def advice(driver: Driver, number: int | None = None) -> str:
    """Return the shell commands that install the right CuPy.

    `number`: the GPU that CuPy must support; None for all GPUs.
    """
    wheel = _advised(driver, number)
    return _replacing([name for name in _cupys() if name != wheel.package], wheel)


def advised(driver: Driver, number: int | None = None) -> str:
    """Return dmlgather's extra that installs the right CuPy.

    If the installed CuPy supports the GPUs, return its extra. Otherwise, return the extra of the newest CuPy that does.
    `number`: the only GPU to support; None for all GPUs.
    """
    return _advised(driver, number).extra


def _advised(driver: Driver, number: int | None) -> Wheel:
    gpus = _gpus(driver, number)
    fitting = [wheel for wheel in WHEELS if wheel.cuda <= _major(driver) and not _too_old(wheel, gpus)] or [*WHEELS[-1:]]
    return ([wheel for wheel in installed() if wheel in fitting] or fitting)[-1]


def misfit(driver: Driver, nvrtc: Version | None = None, number: int | None = None) -> Misfit | None:
    """Return the first fault that keeps CuPy from running, or None.

    `nvrtc`: the NVRTC version that CuPy has loaded. `number`: the only GPU to check; None for all GPUs.
    """
    if driver.error is not None:
        return Misfit(driver.error, remedy(driver))
    wheels, names, gpus, best = installed(), _cupys(), _gpus(driver, number), _advised(driver, number)
    mend = _replacing(names, best)
    if not names:
        return Misfit("CuPy", mend)
    if len(names) > 1:
        return Misfit(f"one CuPy: {' and '.join(map(_named, names))} are installed over each other", mend)
    oldest = _too_old(WHEELS[0], gpus)
    if oldest is not None:
        return Misfit(f"a newer GPU: {oldest}, and CuPy needs {_dotted(WHEELS[0].least)}", "run on the CPU, or on another GPU")
    for wheel in wheels:
        if wheel.cuda > _major(driver):
            what = (
                f"a CuPy for the driver: {_named(wheel.package)} is for CUDA {wheel.cuda}, and the driver has CUDA {driver.cuda}"
            )
            newer = "" if _too_old(wheel, gpus) is not None else "; or install driver 580 or newer"
            return Misfit(what, mend + newer)
        if (old := _too_old(wheel, gpus)) is not None:
            what = f"a CuPy for the GPU: {old}, and {_named(wheel.package)} needs {_dotted(wheel.least)}"
            return Misfit(what, mend)
    if nvrtc is None:
        if has_files():
            return None
        gone = f"CuPy's files: pip lists {_named(names[0])}, but they are gone, as after another CuPy over it was uninstalled"
        return Misfit(gone, f"pip install --force-reinstall --no-deps {names[0]}=={version_of(names[0])}")
    loaded = next((wheel for wheel in WHEELS if wheel.cuda == nvrtc[0]), WHEELS[-1])
    remove = _replacing([loaded.nvrtc, *(name for name in names if name != best.package)], best)
    if nvrtc[0] > _major(driver):
        return Misfit(
            f"an NVRTC for the driver: CuPy has loaded NVRTC {_dotted(nvrtc)}, and the driver has CUDA {driver.cuda}", remove
        )
    if (old := _too_old(loaded, gpus)) is not None:
        what = f"an NVRTC for the GPU: {old}, and CuPy has loaded NVRTC {_dotted(nvrtc)}, which needs {_dotted(loaded.least)}"
        return Misfit(what, remove)
    return None


def _major(driver: Driver) -> int:
    return WHEELS[-1].cuda if driver.cuda is None else int(driver.cuda.partition(".")[0])


def _gpus(driver: Driver, number: int | None) -> list[tuple[int, NvidiaGpu]]:
    return [(index, gpu) for index, gpu in enumerate(driver.gpus) if number is None or index == number]


def _too_old(wheel: Wheel, gpus: list[tuple[int, NvidiaGpu]]) -> str | None:
    for number, gpu in gpus:
        major, minor = map(int, gpu.compute_capability.split("."))
        if (major, minor) < wheel.least:
            return f"cuda:{number} ({gpu.name}) has compute capability {gpu.compute_capability}"
    return None


def _cupys() -> list[str]:
    """Return the names of all installed CuPy packages. There must be only one, because they share files."""
    return [name for name in (*(wheel.package for wheel in WHEELS), SOURCES) if version_of(name)]


def _replacing(names: list[str], wheel: Wheel) -> str:
    """Return the commands that uninstall these packages and install `wheel`."""
    if not names:
        return installing(wheel.extra)
    # pip would leave an NVRTC of a newer CUDA, and CuPy would load it.
    newer = [other.nvrtc for other in WHEELS if other.cuda > wheel.cuda and version_of(other.nvrtc)]
    return f"pip uninstall {' '.join(dict.fromkeys([*names, *newer]))}, and {installing(wheel.extra)}"


def _named(package: str) -> str:
    return f"{package} {version_of(package)}"


def _dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
