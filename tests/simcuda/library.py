"""The library of the simulated GPU, built once, and the environment of a process that uses it."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests import built

HERE = Path(__file__).parent
FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
QUICK = (*FLAGS, "-O0", "-w")


@functools.cache
def library() -> Path:
    """Return the folder of `libcuda.so.1`, which the first caller builds."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return _linked(list(pool.map(lambda unit: _compiled(unit, HERE, FLAGS), _units(HERE))))


def broken(file: str, before: str, after: str) -> Path:
    """Return the library with `after` instead of `before` in one of its files. AssertionError unless that occurs once."""
    text = (HERE / file).read_text()
    assert text.count(before) == 1, f"{text.count(before)} times in {file}: {before}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in _sources(HERE):
            (folder / path.name).write_text(text.replace(before, after) if path.name == file else path.read_text())
        changed = [folder / file] if file.endswith(".cpp") else _units(folder)
        same = [unit for unit in _units(HERE) if unit.name not in {path.name for path in changed}]
        return _linked([*(_compiled(unit, HERE, FLAGS) for unit in same), *(_compiled(unit, folder, QUICK) for unit in changed)])


def _sources(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.cpp"), *folder.glob("*.h")])


def _units(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.cpp"))


def _compiled(unit: Path, folder: Path, flags: Sequence[str]) -> Path:
    compiler = os.environ.get("CXX", "g++")

    def build(into: Path) -> None:
        built.run([compiler, *flags, "-c", str(unit), "-o", str(into / "unit.o")])

    return built.once("simcuda", (compiler, flags), [unit, *sorted(folder.glob("*.h"))], "unit.o", build)


def _linked(objects: Sequence[Path]) -> Path:
    compiler = os.environ.get("CXX", "g++")

    def build(into: Path) -> None:
        built.run([compiler, "-shared", *map(str, objects), "-o", str(into / "libcuda.so.1"), "-ldl"])

    return built.once("simcuda", (compiler, "linked"), objects, "libcuda.so.1", build)


SETTINGS = (
    *("late", "devices", "sms", "cc", "version", "ptx", "memory_gb", "peers"),
    *("polls", "null", "sticky", "trace", "stats", "quiet"),
)
"""Settings that `driver.cpp` reads from the environment as SIMCUDA_NAME. The values are numbers."""


def environment(*, late: int = 0, devices: int = 2, path: Path | None = None, **settings: object) -> dict[str, str]:
    """Return the variables of a process with simulated GPUs.

    late: 0 runs work at once, 1 as late as CUDA allows, and other numbers are seeds of a random order. path: another library.
    settings: others of `SETTINGS`.
    """
    path = path or library()
    return {
        **os.environ,
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (str(path.parent), os.environ.get("LD_LIBRARY_PATH")))),
        "LD_PRELOAD": os.pathsep.join(filter(None, (str(path), os.environ.get("LD_PRELOAD")))),
        "CUPY_COMPILE_WITH_PTX": "1",  # with machine code, the device can run nothing
        "CUPY_ACCELERATORS": "",  # CUB is machine code
        "SIMCUDA_LATE": str(late),
        "SIMCUDA_DEVICES": str(devices),
        **{f"SIMCUDA_{name.upper()}": str(value) for name, value in settings.items()},
    }
