"""Builds the kernels with the host C++ compiler: once per content, for all test processes."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests import built
from tests.kernels.units import KERNELS, UNITS

HERE = Path(__file__).parent / "host_build"
COMMON = ("-std=c++20", "-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-pthread", f"-I{HERE}")
ADDRESS = ("-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
THREAD = ("-g1", "-fsanitize=thread")


@dataclass(frozen=True, slots=True)
class Build:
    """One binary. program: source files beside the kernels; flags: of the compiler and the linker; link: of the linker."""

    name: str
    program: tuple[str, ...]
    flags: tuple[str, ...]
    link: tuple[str, ...]
    kernels: Path = KERNELS
    units: tuple[str, ...] = UNITS

    def path(self) -> Path:
        """The binary, built by the first process that asks for this content."""
        files = sorted((*self.kernels.glob("*.cu*"), *HERE.iterdir()))
        recipe = (_compiler(), COMMON, self.program, self.flags, self.link, self.units)
        return built.once("host-kernels", recipe, files, self.name, self._compile)

    def _compile(self, folder: Path) -> None:
        sources = [*(self.kernels / unit for unit in self.units), *(HERE / name for name in self.program)]
        command = [_compiler(), *COMMON, *self.flags, f"-I{self.kernels}", "-include", str(HERE / "shim.h")]

        def compile_one(source: Path) -> str:
            target = str(folder / f"{source.stem}.o")
            built.run([*command, "-x", "c++", "-c", str(source), "-o", target])
            return target

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compile_one, sources))
        built.run([_compiler(), *self.flags, "-pthread", *objects, *self.link, "-o", str(folder / self.name)])


def library() -> Path:
    """The shared library that `tests.kernels.host` loads."""
    return Build("kernels.so", ("launcher.cpp",), (), ("-shared",)).path()


def batch(flags: tuple[str, ...], kernels: Path = KERNELS, units: tuple[str, ...] = UNITS) -> Path:
    """The program that runs a file of cases, with sanitizer `flags`, from `units` of the sources in `kernels`."""
    return Build("batch", ("launcher.cpp", "batch.cpp"), flags, ("-rdynamic", "-ldl"), kernels, units).path()


def _compiler() -> str:
    name = os.environ.get("CXX", "g++")
    if shutil.which(name) is None:
        raise RuntimeError(f"the kernel tests need a C++20 compiler: {name} is not on PATH; install g++ 11 or newer, or set CXX")
    return name
