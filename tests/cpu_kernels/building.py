"""Programs made of the CPU engine's sources and a driver in C."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tests import built

KERNELS = Path(__file__).parents[2] / "cpu_kernels"
HERE = Path(__file__).parent
WARNINGS = ("-std=gnu11", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror")
ADDRESS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
THREAD = ("-fsanitize=thread",)
LIBRARY = ("-shared", "-fPIC")


def program(driver: str, flags: tuple[str, ...], kernels: Path = KERNELS) -> Path:
    """Return the program or library of a driver that includes sources from `kernels`, built once per content."""
    command = [compiler(), "-std=gnu11", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", *flags, "-pthread"]

    def build(folder: Path) -> None:
        built.run([*command, f"-I{kernels}", str(HERE / driver), "-o", str(folder / "program")])

    return built.once("cpu-kernels", command, [HERE / driver, *sorted(kernels.glob("*.[ch]"))], "program", build)


def compiled(command: Sequence[str], source: Path, headers: Path) -> Path:
    """Return the object of a source, compiled once per command and content. headers: the folder of its headers."""
    name = f"{source.stem}.o"

    def build(folder: Path) -> None:
        built.run([*command, f"-I{headers}", "-c", str(source), "-o", str(folder / name)])

    return built.once("cpu-objects", (*command, source.name), [source, *_included(source, headers)], name, build)


def _included(source: Path, headers: Path) -> list[Path]:
    """Return the headers of the folder that a source includes, directly or through others."""
    found, waiting = set[Path](), [source]
    while waiting:
        names = re.findall(r'^#include "(\w+\.h)"', waiting.pop().read_text(), re.MULTILINE)
        new = {headers / name for name in names} - found
        found |= new
        waiting += new
    return sorted(found)


def zig(target: str) -> list[str]:
    """Return the command that compiles C for another platform: clang of the package ziglang, which the extra `test` installs."""
    return [sys.executable, "-m", "ziglang", "cc", "-target", target, *WARNINGS]


def compiler() -> str:
    """Return the C compiler of CC, or one on PATH. RuntimeError if there is none."""
    names = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang", "cc"]
    for name in names:
        if shutil.which(name):
            return name
    raise RuntimeError(
        f"the tests of cpu_kernels need a C compiler with sanitizers: {', '.join(names)} not on PATH; install gcc 11"
    )
