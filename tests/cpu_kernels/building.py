"""Programs from the sources of the CPU engine and a driver in C."""

from __future__ import annotations

import os
import shutil
import sys
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
