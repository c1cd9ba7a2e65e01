"""How the command ends when the world fails: one line at most, and an exit code."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import IO, Any

import pytest

from dmlgather import DeviceError
from dmlgather.cli import levels
from tests.cli.command import EXAMPLES, ROOT, Command, process
from tests.dxdispatch.models import changed, write

FAILURES: list[tuple[BaseException, int, str]] = [
    (DeviceError("no driver; install one"), 2, "dmlgather: no driver; install one\n"),
    (KeyboardInterrupt(), 130, "dmlgather: interrupted\n"),
    (MemoryError(), 2, "dmlgather: out of memory\n"),
    (MemoryError("5 bytes wanted"), 2, "dmlgather: out of memory: 5 bytes wanted\n"),
    (RecursionError(), 2, "dmlgather: the input is nested too deeply\n"),
    (OSError(28, "No space left on device", "x.npy"), 2, "dmlgather: x.npy: No space left on device\n"),
    (BrokenPipeError(), 141, ""),
    (SystemExit(1), 141, ""),
    (
        AssertionError("two\nlines"),
        2,
        "dmlgather: internal error: AssertionError: two lines; set DMLGATHER_DEBUG=1 for a traceback and please report it\n",
    ),
]


@pytest.mark.parametrize(("error", "code", "says"), FAILURES, ids=lambda value: type(value).__name__)
def test_every_failure_is_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, says: str
) -> None:
    def fails(_: object) -> None:
        raise error

    monkeypatch.setattr(levels, "table", fails)
    ended = command("levels")
    assert (ended.code, ended.out, ended.err) == (code, "", says)


def test_debugging_shows_the_traceback(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise ZeroDivisionError("nought")

    monkeypatch.setattr(levels, "table", fails)
    monkeypatch.setenv("DMLGATHER_DEBUG", "1")
    ended = command("levels")
    assert ended.code == 2
    assert "Traceback (most recent call last)" in ended.err
    assert ended.err.endswith("dmlgather: internal error: ZeroDivisionError: nought\n")


HEEDING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
"""Interrupts are heeded although shells let commands in the background ignore them."""
COMMAND = "from dmlgather.cli import main; main()"


def _start(*arguments: object, before: str = "", **more: Any) -> subprocess.Popen[bytes]:
    """The command. before: Python that runs before it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "\n".join((HEEDING, before, COMMAND)), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, **more)


def _large(folder: Path) -> Path:
    values = {"initialValuesDataType": "UINT32", "initialValues": {"valueCount": 2_000_000, "valueStart": 0, "valueDelta": 1}}
    return write(folder, changed((("resources", "x"), values), (("commands",), [{"type": "print", "resource": "x"}])))


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    with _start("run", "--device", "cpu", _large(tmp_path), stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.read(100)
        running.stdout.close()
        assert running.stderr is not None
        said = running.stderr.read().decode().splitlines()
        assert running.wait(60) == 141  # as shells have it for a command that SIGPIPE ended
    assert len(said) == 1
    assert said[0].startswith("Running on ")


def test_help_whose_reader_has_gone_away() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with _start("check", "--help", stdout=writer) as running:
        os.close(writer)
        assert running.stderr is not None
        assert running.stderr.read() == b""
        assert running.wait(60) == 141


@pytest.mark.parametrize(
    "arguments", [("levels",), ("run", EXAMPLES / "slice.json"), ("check", "--output-format", "json", EXAMPLES)]
)
def test_a_full_disk(arguments: tuple[object, ...]) -> None:
    with Path("/dev/full").open("wb") as full, _start(*arguments, stdout=full) as running:
        assert running.stderr is not None
        said = running.stderr.read().decode().splitlines()
        assert running.wait(60) == 2
    assert said[-1] == "dmlgather: standard output: No space left on device"
    assert not any("Traceback" in line or "Exception ignored" in line for line in said)


def test_a_closed_output() -> None:
    script = f"exec {sys.executable} -m dmlgather.cli levels >&-"
    ended = subprocess.run(
        ["/bin/sh", "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr.decode()) == (2, "dmlgather: standard output is closed\n")


def _unread(pipe: IO[bytes]) -> int:
    """Bytes that a pipe holds."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return int(count)


def test_an_interrupt(tmp_path: Path) -> None:
    with _start("run", "--device", "cpu", _large(tmp_path), stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        full = fcntl.fcntl(running.stdout, fcntl.F_GETPIPE_SZ) - select.PIPE_BUF
        while _unread(running.stdout) < full:  # then it waits for a reader
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        said = running.stderr.read().decode().splitlines()  # it ends although nobody reads what it printed
        assert running.wait(60) == 130
    assert said[-1] == "dmlgather: interrupted"


WORKING = """
import sys, time
from dmlgather.backends import reference

blocks = reference._blocks

def told(plan, shape):
    for number, block in enumerate(blocks(plan, shape)):
        if number == 3:
            print("it works", file=sys.stderr, flush=True)
            time.sleep(600)
        yield block

reference._blocks = told
"""
"""The reference stops between two blocks of elements."""


def test_an_interrupt_while_the_reference_works(tmp_path: Path) -> None:
    tensor = {"DataType": "UINT8", "Sizes": [2**20]}
    window = {"InputWindowOffsets": [0], "InputWindowSizes": [2**20], "InputWindowStrides": [-1]}
    desc = {"InputTensor": tensor, "OutputTensor": tensor, **window}
    with _start(
        "compare", "--devices", "cpu,reference", write(tmp_path, {"type": "DML_OPERATOR_SLICE1", "desc": desc}), before=WORKING
    ) as running:
        assert running.stderr is not None
        assert b"it works\n" in running.stderr
        running.send_signal(signal.SIGINT)
        said = running.stderr.read().decode().splitlines()
        assert running.wait(60) == 130
    assert said[-1] == "dmlgather: interrupted"


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    file = write(tmp_path, changed((("dispatchables", "gather", "desc", "Axis"), 2)))
    ended = process("check", file, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ended.code == 1
    assert "DML206" in ended.out
    ended = process("levels", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ended.code == 0


def test_importing_the_command_loads_nothing_heavy() -> None:
    script = (
        "import sys, dmlgather, dmlgather.cli; "
        "print([name for name in ('numpy', 'pydantic', 'cupy', 'onnx', 'typer', 'rich', 'jax') if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60, check=True
    )
    assert ended.stdout.decode().strip() == "[]"


@pytest.mark.parametrize("words", [["--help"], ["--version"], []])
def test_help_loads_no_descriptor(words: list[str]) -> None:
    """The list of subcommands needs none of them: their lines are known."""
    script = (
        f"import sys; from dmlgather.cli.app import run; run({words}); "
        "print([name for name in ('numpy', 'pydantic', 'rich', 'dmlgather.directml', 'dmlgather.report') if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=60, check=True
    )
    assert ended.stdout.decode().splitlines()[-1] == "[]"
