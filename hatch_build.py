"""Build hook of hatchling that compiles the CPU engine, `cpu_kernels/`, for a wheel or an editable installation.

The compiler is CC, or else a working cc, clang or gcc on PATH, or else the clang in the package ziglang, which the build
requires only in this case. Environment variables:

- CC, CFLAGS, LDFLAGS: the system's compiler, and additional options.
- DMLGATHER_PURE: 1 for a wheel without an engine, for any platform; 0 for the engine. If it is not set, the engine is left out
  only in pre-commit's environment, because `dmlgather check` does not use it.
- VIRTUAL_ENV: the environment of the installation.
- DMLGATHER_TARGET: a platform tag of `ZIG_TARGETS`, to build a wheel for another platform with ziglang.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

ZIG = "ziglang==0.17.*"
ZIG_SYSTEMS = ("linux", "darwin", "win32")
"""Values of `sys.platform` for which ziglang has wheels."""
ZIG_TARGETS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "macosx_10_15_x86_64": "x86_64-macos.10.15",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
}
"""Platform tags of the wheels of a release, each with zig's target."""

FLAGS = ["-std=gnu11", "-O3", "-DNDEBUG", "-fvisibility=hidden", "-fPIC", "-pthread", "-Wall", "-Wextra"]
AVX2 = ["-mavx2", "-mbmi", "-mbmi2"]
AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vbmi", "-mavx2", "-mbmi", "-mbmi2"]
LOOPS: dict[str, dict[str, list[str]]] = {
    "x86_64": {"baseline": [], "avx2": AVX2, "avx512": AVX512},
    "amd64": {"baseline": [], "avx2": AVX2, "avx512": AVX512},
    "aarch64": {"neon": []},
    "arm64": {"neon": []},
}
"""Instruction sets and flags, by processor. Each `*_loops.c` is compiled once per instruction set, with `ISA` as suffix."""

OPTIONS = ("CFLAGS", "LDFLAGS")
"""Variables with additional options for compiling and for linking."""

PRE_COMMIT = "py_env-"
"""Prefix of the names of pre-commit's environments."""

FOLDER = "dmlgather/backends/cpu"
LIBRARIES = ("libdmlgather.so", "libdmlgather.dylib", "dmlgather.dll")
NOTICES = "LICENCES.txt"
"""File beside the engine with the licences of code that ziglang links into it."""
WITHOUT = "or set DMLGATHER_PURE=1 to install dmlgather without the engine: NumPy then does its work, more slowly"
PROBE = '#include <stdlib.h>\n_Static_assert(sizeof(void *) == 8, "64 bits");\nvoid *probe(void) { return malloc(1); }\n'


class CannotBuildError(Exception):
    """The engine cannot be built. The message has the reason and a remedy."""


class Compiler(NamedTuple):
    """A C compiler.

    `command`: its command line. `platform`: platform tag of its output. `licences`: licences of other code that it links into
    its output, as text files, or as C files whose first comment is the licence.
    """

    command: list[str]
    platform: str
    licences: tuple[Path, ...] = ()

    @property
    def library(self) -> str:
        """Return the file name of the engine on this platform."""
        return LIBRARIES[1 if self.platform.startswith("macosx") else 2 if self.platform.startswith("win") else 0]

    @property
    def loops(self) -> dict[str, list[str]]:
        """Return the instruction sets of the platform's processor, with their compiler flags."""
        return next((sets for name, sets in LOOPS.items() if self.platform.endswith(name)), {"baseline": []})

    def notices(self) -> str:
        """Return the texts of the licences."""
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in self.licences)
        return "\n\n".join(text.removeprefix("/*").partition("*/")[0].strip() for text in texts) + "\n"

    def run(self, *options: str, makes: str, folder: Path) -> None:
        """Run the compiler. Raise CannotBuildError with its messages if it fails, or does not create the file `makes`."""
        command = [*self.command, *options, "-o", makes]
        try:
            done = subprocess.run(command, cwd=folder, text=True, capture_output=True, errors="replace", check=False)
        except OSError as error:
            raise CannotBuildError(f"{shlex.join(command)}\n{error}") from error
        if done.returncode:
            message = done.stderr.strip() or done.stdout.strip() or f"it ended with exit status {done.returncode}"
            raise CannotBuildError(f"{shlex.join(command)}\n{message}")
        if not Path(folder, makes).is_file():
            raise CannotBuildError(
                f"{shlex.join(command)}\nit ended with exit status 0, but made no {Path(makes).name}: no compiler does"
            )

    def link(self, objects: Sequence[str], library: Path, folder: Path, more: Sequence[str]) -> None:
        """Link a shared library without undefined symbols. `more`: further options."""
        options = ["-shared", "-pthread"]
        if "linux" in self.platform:
            options.append("-Wl,-z,defs")
        if self.platform.startswith("macosx"):
            options.append(f"-Wl,-install_name,@rpath/{library.name}")
        self.run(*options, *objects, *more, makes=str(library), folder=folder)

    def build(self, sources: Path, library: Path) -> None:
        """Compile all sources of a folder, in as many processes as there are processors, and link them."""
        options = _options()
        define = f'-DDMLGATHER_SOURCES="{digest(sources)}"'
        jobs: dict[str, list[str]] = {}  # by object file
        for source in sorted(sources.glob("*.c")):
            kinds = self.loops if source.stem.endswith("_loops") else {"": []}
            for isa, flags in kinds.items():
                jobs[f"{source.stem}{isa and '-' + isa}.o"] = [*flags, *([f"-DISA={isa}"] if isa else []), str(source)]
        with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(os.cpu_count()) as pool:
            folder = Path(name)

            def compile_object(name: str) -> None:
                self.run(*FLAGS, define, *options["CFLAGS"], *jobs[name], "-c", makes=name, folder=folder)

            list(pool.map(compile_object, jobs))
            self.link(list(jobs), library, folder, options["LDFLAGS"])


def digest(sources: Path) -> str:
    """Return the SHA-256 of the names and bytes of the engine's sources.

    The engine's `dmlgather_sources()` returns the same, so that tests notice a stale build.
    """
    total = hashlib.sha256()
    for path in sorted(sources.glob("*.[ch]")):
        total.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return total.hexdigest()


def system_compiler() -> Compiler | None:
    """Return the compiler CC, or a working one on PATH; None if there is none.

    Raise CannotBuildError if CC does not work, or if a compiler works only without the options of the environment.
    """
    options = _options()
    local = next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
    if named := _words("CC"):
        compiler = Compiler(named, local)
        if _problem(compiler, options) is None:
            return compiler
        if problem := _problem(compiler, {}):
            raise CannotBuildError(f"the compiler of CC cannot build the CPU engine:\n{problem}\nMend or unset CC, {WITHOUT}")
        raise _bad_options(compiler, options)
    # On Windows, compilers on PATH are often MSYS2's or Cygwin's, whose output needs libraries that Python does not find.
    names = () if sys.platform == "win32" else ("cc", "clang", "gcc")
    compilers = [Compiler([path], local) for path in map(shutil.which, names) if path]
    for compiler in compilers:
        if _problem(compiler, options) is None:
            return compiler
    for compiler in compilers if any(options.values()) else ():
        if _problem(compiler, {}) is None:
            raise _bad_options(compiler, options)
    return None


def _bad_options(compiler: Compiler, options: Mapping[str, Sequence[str]]) -> CannotBuildError:
    names = [name for name in OPTIONS if _problem(compiler, {name: options[name]})] or OPTIONS
    values = " and ".join(f"{name} is {os.environ.get(name)!r}" for name in names)
    return CannotBuildError(
        f"{values}, with which {shlex.join(compiler.command)} cannot build the CPU engine:\n{_problem(compiler, options)}\n"
        f"Mend or unset {' and '.join(names)}, {WITHOUT}"
    )


def zig_compiler() -> Compiler:
    """Return the clang of the package ziglang, for DMLGATHER_TARGET, or else for this machine.

    Raise CannotBuildError if ziglang is not installed.
    """
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        raise CannotBuildError(f"no C compiler works here; install one (cc, clang or gcc) or the package {ZIG}")
    # -s: no debug information. With a target, zig compiles for the oldest processors of the target.
    zig = Path(package.origin).with_name("zig")
    command = [str(zig), "cc", "-s"]
    tag = target() or next((tag for tag in platform_tags() if tag in ZIG_TARGETS), None)
    platform = tag or next(platform_tags())
    # Zig links its own runtime; for Windows, also MinGW-w64's runtime and threads.
    windows = ["lib/libc/mingw/COPYING", "lib/libc/mingw/winpthreads/thread.c"] if platform.startswith("win") else []
    options = ["-target", ZIG_TARGETS[tag]] if tag else ["-mcpu=baseline"]
    return Compiler([*command, *options], platform, tuple(zig.parent / name for name in ("LICENSE", *windows)))


def target() -> str | None:
    """Return the value of DMLGATHER_TARGET, or None. Raise CannotBuildError if it is not a known platform."""
    tag = os.environ.get("DMLGATHER_TARGET") or None
    if tag and tag not in ZIG_TARGETS:
        raise CannotBuildError(f"DMLGATHER_TARGET is {tag!r}, expected one of {', '.join(ZIG_TARGETS)}")
    return tag


def is_pure() -> bool:
    """Return True if the engine is left out. Raise CannotBuildError if DMLGATHER_PURE is neither 1 nor 0."""
    value = os.environ.get("DMLGATHER_PURE", "")
    if value not in ("", "0", "1"):
        raise CannotBuildError(f"DMLGATHER_PURE is {value!r}, expected 1 (no engine) or 0")
    return value == "1" if value else is_for_pre_commit(Path(__file__).parent)


def is_for_pre_commit(sources: Path) -> bool:
    """Return True if pre-commit installs the package. Its environments are folders of its clone of the sources."""
    environment = Path(os.environ.get("VIRTUAL_ENV") or ".")
    return environment.name.startswith(PRE_COMMIT) and environment.parent.resolve() == sources.resolve()


def requirements() -> list[str]:
    """Return the packages that the build requires in addition to hatchling: ziglang, if no other compiler works.

    Raise CannotBuildError if there is no ziglang for this machine.
    """
    if is_pure() or (target() is None and system_compiler()):
        return []
    if sys.maxsize < 2**32:
        raise CannotBuildError(f"the CPU engine needs a 64-bit Python: install one, {WITHOUT}")
    if sys.platform not in ZIG_SYSTEMS:
        raise CannotBuildError(f"no C compiler works here: install cc, clang or gcc, {WITHOUT}")
    return [ZIG]


class EngineBuildHook(BuildHookInterface[BuilderConfig]):
    """The build hook. It puts the engine into the wheel, or, for an editable installation, into the checkout."""

    def dependencies(self) -> list[str]:
        try:
            return requirements()
        except CannotBuildError as error:
            self.app.abort(f"dmlgather: {error}")
            raise

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            compiler = None if is_pure() else (None if target() else system_compiler()) or zig_compiler()
            if version == "editable":
                self._into_checkout(compiler)
            elif compiler:
                self._into_wheel(compiler, build_data)
        except CannotBuildError as error:
            options = "".join(f"\n{name} is {os.environ[name]!r}" for name in OPTIONS if os.environ.get(name))
            self.app.abort(f"dmlgather: the CPU engine cannot be built: {error}{options}\nMend that, {WITHOUT}")
        if compiler:
            build_data.update(pure_python=False, tag=f"py3-none-{compiler.platform}")
            self.app.display_info(f"dmlgather: the CPU engine was built with {shlex.join(compiler.command)}")

    def _into_wheel(self, compiler: Compiler, build_data: dict[str, Any]) -> None:
        self._folder = tempfile.TemporaryDirectory()  # exists until the wheel is written
        library = Path(self._folder.name, compiler.library)
        compiler.build(Path(self.root, "cpu_kernels"), library)
        build_data["force_include"][str(library)] = f"{FOLDER}/{library.name}"
        if compiler.licences:
            (notices := library.with_name(NOTICES)).write_text(compiler.notices(), encoding="utf-8")
            build_data["force_include"][str(notices)] = f"{FOLDER}/{NOTICES}"

    def _into_checkout(self, compiler: Compiler | None) -> None:
        folder = Path(self.root, FOLDER)
        if compiler is None:
            for name in LIBRARIES:
                (folder / name).unlink(missing_ok=True)
            return
        # Replacing is atomic: processes that use the old file keep it.
        with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as build:
            library = Path(build, compiler.library)
            compiler.build(Path(self.root, "cpu_kernels"), library)
            library.replace(folder / library.name)


def _options() -> dict[str, list[str]]:
    return {name: _words(name) for name in OPTIONS}


def _words(variable: str) -> list[str]:
    value = os.environ.get(variable, "")
    try:
        return shlex.split(value)
    except ValueError as error:
        raise CannotBuildError(f"{variable} is {value!r}, which is no command line: {error}") from error


def _problem(compiler: Compiler, options: Mapping[str, Sequence[str]]) -> str | None:
    """Return why a compiler cannot build the engine; None if it takes all flags and links a library that calls malloc.

    `options`: options of the environment, by variable.
    """
    flags = [flag for flags in compiler.loops.values() for flag in flags]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "probe.c").write_text(PROBE)
        try:
            compiler.run(*FLAGS, *flags, *options.get("CFLAGS", ()), "-c", "probe.c", makes="probe.o", folder=folder)
            compiler.link(["probe.o"], folder / compiler.library, folder, options.get("LDFLAGS", ()))
        except CannotBuildError as error:
            return str(error)
    return None
