"""The simulated GPU as a library, built once, and the environment in which a process finds it."""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import built

HERE = Path(__file__).parent
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")


@functools.cache
def library() -> Path:
    """The folder's `libcuda.so.1`, built by the first to ask."""
    return build(HERE)


def build(source: Path) -> Path:
    """The library of another folder's sources."""
    sources, compiler = sorted([*source.glob("*.cpp"), *source.glob("*.h")]), os.environ.get("CXX", "g++")

    def build(folder: Path) -> None:
        units = {path: folder / f"{path.stem}.o" for path in sources if path.suffix == ".cpp"}
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda path: built.run([compiler, *FLAGS, "-c", str(path), "-o", str(units[path])]), units))
        built.run([compiler, "-shared", *map(str, units.values()), "-o", str(folder / "libcuda.so.1"), "-ldl"])

    return built.once("simcuda", (compiler, FLAGS), sources, "libcuda.so.1", build)


def environment(*, late: int = 0, devices: int = 2, **settings: object) -> dict[str, str]:
    """The variables with which a process has simulated GPUs.

    late: 0 runs work at once, 1 as late as CUDA allows, more in a random order with this seed. settings: others of `driver.cpp`,
    in small letters: `sms`, `cc`, `version`, `memory_gb`, `sticky`, `null`, `trace`, ….
    """
    path = library()
    return {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (str(path.parent), os.environ.get("LD_LIBRARY_PATH")))),
        "LD_PRELOAD": os.pathsep.join(filter(None, (str(path), os.environ.get("LD_PRELOAD")))),
        "CUPY_COMPILE_WITH_PTX": "1",  # with machine code, the device can do nothing
        "CUPY_ACCELERATORS": "",  # CUB is machine code
        "SIMCUDA_LATE": str(late),
        "SIMCUDA_DEVICES": str(devices),
        **{f"SIMCUDA_{name.upper()}": str(value) for name, value in settings.items()},
    }
