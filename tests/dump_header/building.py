"""The header's test program, built once per content, and descriptors in its input format."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from dmlgather.cli.header import FOLDER
from dmlgather.directml import BufferTensorDesc, OperatorDesc
from tests import built, processes

HERE = Path(__file__).parent
LAYOUT = HERE / "layout"
FLAGS = ("-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")


def gcc() -> list[str]:
    return _found(["g++"], "install g++ 11 or newer")


def clang() -> list[str]:
    """Return the command of clang++, or of clang in the package ziglang, which the extra `test` installs."""
    if shutil.which("clang++"):
        return ["clang++"]
    return _found([sys.executable, "-m", "ziglang", "c++"], "install clang++ or the package ziglang")


@cache
def _answers(command: tuple[str, ...]) -> bool:
    try:
        return subprocess.run([*command, "--version"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _found(command: list[str], remedy: str) -> list[str]:
    if not _answers(tuple(command)):
        raise RuntimeError(f"the tests of dmlgather_dump.h need a C++17 compiler: {' '.join(command)} does not run; {remedy}")
    return command


def compiled(command: Sequence[str], *arguments: object) -> None:
    """Compile, with warnings as errors, and show any message."""
    done = processes.run([*command, *FLAGS, f"-I{LAYOUT}", f"-I{FOLDER}", *map(str, arguments)])
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


@cache
def program() -> Path:
    """Return the test program, built by g++ with sanitizers."""
    files = (HERE / "program.cpp", LAYOUT / "DirectML.h", FOLDER / "dmlgather_dump.h", Path(__file__))
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g1", "-pthread")

    def build(folder: Path) -> None:
        compiled(gcc(), *flags, files[0], "-o", folder / "program")

    return built.once("dump-header", str(files[0]), files, "program", build)  # the program prints its path


def output_of(words: str, *arguments: object, **environment: str) -> bytes:
    done = subprocess.run(
        [program(), *map(str, arguments or ("stream",))],
        input=words.encode(),
        capture_output=True,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()
    return done.stdout


def words(desc: OperatorDesc, name: str | bytes = "") -> str:
    """Return a descriptor in the words that the program reads."""
    raw = name.encode() if isinstance(name, str) else name
    parts = [str(desc.operator.value), raw.hex() or "-", "desc"]
    for field in type(desc).model_fields:
        value = getattr(desc, field)
        parts.append(_tensor(value) if isinstance(value, BufferTensorDesc) else _value(value))
    return " ".join(parts) + "\n"


def _tensor(tensor: BufferTensorDesc) -> str:
    return " ".join(["1", *(_value(getattr(tensor, field)) for field in type(tensor).model_fields)])


def _value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, tuple):
        return " ".join(map(str, (len(value), *value)))
    assert isinstance(value, int)
    return str(int(value))
