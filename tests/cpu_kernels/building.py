"""Programs from the sources of the CPU engine and a driver in C."""

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
    """The program or library of a driver that includes sources from `kernels`, built once per content."""
    command = [compiler(), "-std=gnu11", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", *flags, "-pthread"]

    def build(folder: Path) -> None:
        built.run([*command, f"-I{kernels}", str(HERE / driver), "-o", str(folder / "program")])

    return built.once("cpu-kernels", command, [HERE / driver, *sorted(kernels.glob("*.[ch]"))], "program", build)


def compiled(command: Sequence[str], source: Path, headers: Path) -> Path:
    """The object of one source, compiled once per command and content. headers: the folder of those that it includes."""
    name = f"{source.stem}.o"

    def build(folder: Path) -> None:
        built.run([*command, f"-I{headers}", "-c", str(source), "-o", str(folder / name)])

    return built.once("cpu-objects", (*command, source.name), [source, *_included(source, headers)], name, build)


def _included(source: Path, headers: Path) -> list[Path]:
    """The headers of the folder that a source includes, and those that they include."""
    found, waiting = set[Path](), [source]
    while waiting:
        names = re.findall(r'^#include "(\w+\.h)"', waiting.pop().read_text(), re.MULTILINE)
        new = {headers / name for name in names} - found
        found |= new
        waiting += new
    return sorted(found)


def zig(target: str) -> list[str]:
    """The command that compiles C for another platform: the clang in the package ziglang, which the extra `test` installs."""
    return [sys.executable, "-m", "ziglang", "cc", "-target", target, *WARNINGS]


def compiler() -> str:
    """The C compiler of CC, else one that is on PATH. RuntimeError if there is none."""
    names = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang", "cc"]
    for name in names:
        if shutil.which(name):
            return name
    raise RuntimeError(
        f"the tests of cpu_kernels need a C compiler with sanitizers: {', '.join(names)} not on PATH; install gcc 11"
    )
