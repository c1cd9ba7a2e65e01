"""Compiles the CPU engine, `cpu_kernels/`, while hatchling builds a wheel or installs a checkout for editing.

The compiler is that of CC, else a working cc, clang or gcc on PATH, else the clang in the package ziglang, which the build
requires only then. Read from the environment:

- CC, CFLAGS, LDFLAGS: the compiler of the system, and options to add.
- DMLGATHER_PURE=1: no engine; the wheel is for any platform. 0: the engine. Where it is not set, pre-commit's environment gets
  none, because `dmlgather check` does not use it.
- VIRTUAL_ENV: the environment that is installed into.
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
"""Where ziglang has wheels, by `sys.platform`."""
ZIG_TARGETS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
    "macosx_10_15_x86_64": "x86_64-macos.10.15",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
}
"""The wheels of a release: platform tag and zig's target."""

FLAGS = ["-std=gnu11", "-O3", "-DNDEBUG", "-fvisibility=hidden", "-fPIC", "-pthread", "-Wall", "-Wextra"]
AVX2 = ["-mavx2", "-mbmi", "-mbmi2"]
AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vbmi", "-mavx2", "-mbmi", "-mbmi2"]
LOOPS: dict[str, dict[str, list[str]]] = {
    "x86_64": {"baseline": [], "avx2": AVX2, "avx512": AVX512},
    "amd64": {"baseline": [], "avx2": AVX2, "avx512": AVX512},
    "aarch64": {"neon": []},
    "arm64": {"neon": []},
}
"""Each `*_loops.c` is compiled once for each instruction set of its processor; `ISA` gives its functions their suffix."""

OPTIONS = ("CFLAGS", "LDFLAGS")
"""The variables whose options are added: while sources are compiled, and while the engine is linked."""

PRE_COMMIT = "py_env-"
"""What the names of pre-commit's environments begin with."""

FOLDER = "dmlgather/backends/cpu"
LIBRARIES = ("libdmlgather.so", "libdmlgather.dylib", "dmlgather.dll")
NOTICES = "LICENCES.txt"
"""Beside the engine, where ziglang linked code of its own into it: the licences of that."""
WITHOUT = "or set DMLGATHER_PURE=1 to install dmlgather without the engine: NumPy then does its work, more slowly"
PROBE = '#include <stdlib.h>\n_Static_assert(sizeof(void *) == 8, "64 bits");\nvoid *probe(void) { return malloc(1); }\n'


class CannotBuildError(Exception):
    """The engine cannot be built; the message says why and what to do."""


class Compiler(NamedTuple):
    """A command that compiles C, the platform tag of what it makes, and the licences of what it links into that beside our code:
    files of text, or of C whose first comment is the licence.
    """

    command: list[str]
    platform: str
    licences: tuple[Path, ...] = ()

    @property
    def library(self) -> str:
        """The file name of the engine on this platform."""
        return LIBRARIES[1 if self.platform.startswith("macosx") else 2 if self.platform.startswith("win") else 0]

    @property
    def loops(self) -> dict[str, list[str]]:
        """The instruction sets of the platform's processor and the flags that select them."""
        return next((sets for name, sets in LOOPS.items() if self.platform.endswith(name)), {"baseline": []})

    def notices(self) -> str:
        """The texts of the licences."""
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in self.licences)
        return "\n\n".join(text.removeprefix("/*").partition("*/")[0].strip() for text in texts) + "\n"

    def run(self, *options: str, makes: str, folder: Path) -> None:
        """Calls the compiler. CannotBuildError with its messages if it fails, or does not make the file `makes`."""
        command = [*self.command, *options, "-o", makes]
        try:
            done = subprocess.run(command, cwd=folder, text=True, capture_output=True, errors="replace", check=False)
        except OSError as error:
            raise CannotBuildError(f"{shlex.join(command)}\n{error}") from error
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip() or f"it ended with exit status {done.returncode}"
            raise CannotBuildError(f"{shlex.join(command)}\n{said}")
        if not Path(folder, makes).is_file():
            raise CannotBuildError(
                f"{shlex.join(command)}\nit ended with exit status 0, but made no {Path(makes).name}: no compiler does"
            )

    def link(self, objects: Sequence[str], library: Path, folder: Path, more: Sequence[str]) -> None:
        """Links a shared library that names nothing it cannot find. more: further options."""
        options = ["-shared", "-pthread"]
        if "linux" in self.platform:
            options.append("-Wl,-z,defs")
        if self.platform.startswith("macosx"):
            options.append(f"-Wl,-install_name,@rpath/{library.name}")
        self.run(*options, *objects, *more, makes=str(library), folder=folder)

    def build(self, sources: Path, library: Path) -> None:
        """Compiles all sources of a folder, as many at once as there are processors, and links them."""
        given = _options()
        define = f'-DDMLGATHER_SOURCES="{digest(sources)}"'
        jobs: dict[str, list[str]] = {}  # by object file
        for source in sorted(sources.glob("*.c")):
            kinds = self.loops if source.stem.endswith("_loops") else {"": []}
            for isa, flags in kinds.items():
                jobs[f"{source.stem}{isa and '-' + isa}.o"] = [*flags, *([f"-DISA={isa}"] if isa else []), str(source)]
        with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(os.cpu_count()) as pool:
            folder = Path(name)

            def compile_object(made: str) -> None:
                self.run(*FLAGS, define, *given["CFLAGS"], *jobs[made], "-c", makes=made, folder=folder)

            list(pool.map(compile_object, jobs))
            self.link(list(jobs), library, folder, given["LDFLAGS"])


def digest(sources: Path) -> str:
    """SHA-256 of names and bytes of the engine's sources; `dmlgather_sources()` returns it, so that a stale build is noticed."""
    total = hashlib.sha256()
    for path in sorted(sources.glob("*.[ch]")):
        total.update(f"{path.name}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return total.hexdigest()


def system_compiler() -> Compiler | None:
    """The compiler of CC or a working one on PATH.

    CannotBuildError if that of CC does not work, or only options of the environment keep one from working.
    """
    given = _options()
    local = next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
    if named := _words("CC"):
        compiler = Compiler(named, local)
        if _problem(compiler, given) is None:
            return compiler
        if problem := _problem(compiler, {}):
            raise CannotBuildError(f"the compiler of CC cannot build the CPU engine:\n{problem}\nMend or unset CC, {WITHOUT}")
        raise _bad_options(compiler, given)
    # On Windows, compilers on PATH are often MSYS2's or Cygwin's: Python does not find the libraries that their output needs.
    names = () if sys.platform == "win32" else ("cc", "clang", "gcc")
    found = [Compiler([path], local) for path in map(shutil.which, names) if path]
    for compiler in found:
        if _problem(compiler, given) is None:
            return compiler
    for compiler in found if any(given.values()) else ():
        if _problem(compiler, {}) is None:
            raise _bad_options(compiler, given)
    return None


def _bad_options(compiler: Compiler, given: Mapping[str, Sequence[str]]) -> CannotBuildError:
    """The error that options of the environment keep a compiler from working, which names their variable."""
    names = [name for name in OPTIONS if _problem(compiler, {name: given[name]})] or OPTIONS
    named = " and ".join(f"{name} is {os.environ.get(name)!r}" for name in names)
    return CannotBuildError(
        f"{named}, with which {shlex.join(compiler.command)} cannot build the CPU engine:\n{_problem(compiler, given)}\n"
        f"Mend or unset {' and '.join(names)}, {WITHOUT}"
    )


def zig_compiler() -> Compiler:
    """The clang of the package ziglang, for DMLGATHER_TARGET, else for this machine. CannotBuildError if it is not installed."""
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        raise CannotBuildError(f"no C compiler works here; install one (cc, clang or gcc) or the package {ZIG}")
    # Without debug information; with a target, zig compiles for its oldest processors.
    zig = Path(package.origin).with_name("zig")
    command = [str(zig), "cc", "-s"]
    wanted = target() or next((tag for tag in platform_tags() if tag in ZIG_TARGETS), None)
    platform = wanted or next(platform_tags())
    # Zig's runtime; for Windows also MinGW-w64's, and its threads.
    windows = ["lib/libc/mingw/COPYING", "lib/libc/mingw/winpthreads/thread.c"] if platform.startswith("win") else []
    options = ["-target", ZIG_TARGETS[wanted]] if wanted else ["-mcpu=baseline"]
    return Compiler([*command, *options], platform, tuple(zig.parent / name for name in ("LICENSE", *windows)))


def target() -> str | None:
    """What DMLGATHER_TARGET names, if it is set. CannotBuildError if it is not a known platform."""
    wanted = os.environ.get("DMLGATHER_TARGET") or None
    if wanted and wanted not in ZIG_TARGETS:
        raise CannotBuildError(f"DMLGATHER_TARGET is {wanted!r}, expected one of {', '.join(ZIG_TARGETS)}")
    return wanted


def is_pure() -> bool:
    """Whether the wheel has no engine. CannotBuildError for a value of DMLGATHER_PURE that is neither 1 nor 0."""
    value = os.environ.get("DMLGATHER_PURE", "")
    if value not in ("", "0", "1"):
        raise CannotBuildError(f"DMLGATHER_PURE is {value!r}, expected 1 (no engine) or 0")
    return value == "1" if value else is_for_pre_commit(Path(__file__).parent)


def is_for_pre_commit(sources: Path) -> bool:
    """Whether pre-commit installs the package: it makes its environments in its clone of the sources."""
    environment = Path(os.environ.get("VIRTUAL_ENV") or ".")
    return environment.name.startswith(PRE_COMMIT) and environment.parent.resolve() == sources.resolve()


def requirements() -> list[str]:
    """What the build needs beyond hatchling: ziglang, where no compiler works. CannotBuildError where there is none either."""
    if is_pure() or (target() is None and system_compiler()):
        return []
    if sys.maxsize < 2**32:
        raise CannotBuildError(f"the CPU engine needs a 64-bit Python: install one, {WITHOUT}")
    if sys.platform not in ZIG_SYSTEMS:
        raise CannotBuildError(f"no C compiler works here: install cc, clang or gcc, {WITHOUT}")
    return [ZIG]


class EngineBuildHook(BuildHookInterface[BuilderConfig]):
    """Puts the engine into the wheel, or into the checkout where that is installed for editing."""

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
            given = "".join(f"\n{name} is {os.environ[name]!r}" for name in OPTIONS if os.environ.get(name))
            self.app.abort(f"dmlgather: the CPU engine cannot be built: {error}{given}\nMend that, {WITHOUT}")
        if compiler:
            build_data.update(pure_python=False, tag=f"py3-none-{compiler.platform}")
            self.app.display_info(f"dmlgather: the CPU engine was built with {shlex.join(compiler.command)}")

    def _into_wheel(self, compiler: Compiler, build_data: dict[str, Any]) -> None:
        self._kept = tempfile.TemporaryDirectory()  # until the wheel is written
        library = Path(self._kept.name, compiler.library)
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
        # Processes may use the old file: they keep it, and the new one appears at once.
        with tempfile.TemporaryDirectory(prefix=".build-", dir=folder) as beside:
            library = Path(beside, compiler.library)
            compiler.build(Path(self.root, "cpu_kernels"), library)
            library.replace(folder / library.name)


def _options() -> dict[str, list[str]]:
    """The options of the environment, by variable."""
    return {name: _words(name) for name in OPTIONS}


def _words(variable: str) -> list[str]:
    value = os.environ.get(variable, "")
    try:
        return shlex.split(value)
    except ValueError as error:
        raise CannotBuildError(f"{variable} is {value!r}, which is no command line: {error}") from error


def _problem(compiler: Compiler, given: Mapping[str, Sequence[str]]) -> str | None:
    """What is wrong with a compiler: it must take every flag and link a program of the standard library. None if it works.

    given: options of the environment, by variable.
    """
    flags = [flag for flags in compiler.loops.values() for flag in flags]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "probe.c").write_text(PROBE)
        try:
            compiler.run(*FLAGS, *flags, *given.get("CFLAGS", ()), "-c", "probe.c", makes="probe.o", folder=folder)
            compiler.link(["probe.o"], folder / compiler.library, folder, given.get("LDFLAGS", ()))
        except CannotBuildError as error:
            return str(error)
    return None
