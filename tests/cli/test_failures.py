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
from typing import IO

import pytest

from dmlgather import DeviceError
from dmlgather.cli import levels
from tests import processes
from tests.cli.command import EXAMPLES, ROOT, Command, process, python
from tests.cli.interrupting import start
from tests.dxdispatch.models import changed, write

REPORT = "set DMLGATHER_DEBUG=1 for a traceback and please report it"
FAILURES: list[tuple[BaseException, int, str]] = [
    (DeviceError("no driver; install one"), 2, "dmlgather: no driver; install one\n"),
    (KeyboardInterrupt(), 130, "dmlgather: interrupted\n"),
    (MemoryError(), 2, "dmlgather: out of memory\n"),
    (MemoryError("5 bytes wanted"), 2, "dmlgather: out of memory: 5 bytes wanted\n"),
    (RecursionError(), 2, "dmlgather: the input is nested too deeply\n"),
    (OSError(28, "No space left on device", "x.npy"), 2, "dmlgather: x.npy: No space left on device\n"),
    (BrokenPipeError(), 141, ""),
    (SystemExit(1), 141, ""),
    (AssertionError("two\nlines"), 2, f"dmlgather: internal error: AssertionError: two lines; {REPORT}\n"),
]


def _failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fails(_: object) -> None:
        raise error

    monkeypatch.setattr(levels, "table", fails)


@pytest.mark.parametrize(("error", "code", "says"), FAILURES, ids=lambda value: type(value).__name__)
def test_every_failure_is_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, says: str
) -> None:
    _failing(monkeypatch, error)
    ended = command("levels")
    assert (ended.code, ended.out, ended.err) == (code, "", says)


def test_debugging_shows_the_traceback(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(monkeypatch, ZeroDivisionError("nought"))
    monkeypatch.setenv("DMLGATHER_DEBUG", "1")
    ended = command("levels")
    assert ended.code == 2
    assert "Traceback (most recent call last)" in ended.err
    assert ended.err.endswith("dmlgather: internal error: ZeroDivisionError: nought\n")


def _said(running: subprocess.Popen[bytes], code: int) -> list[str]:
    """The lines that a command says until it ends with this exit code."""
    assert running.stderr is not None
    said = running.stderr.read().decode().splitlines()
    assert running.wait(60) == code
    return said


def _large(folder: Path) -> Path:
    values = {"initialValuesDataType": "UINT32", "initialValues": {"valueCount": 2_000_000, "valueStart": 0, "valueDelta": 1}}
    return write(folder, changed((("resources", "x"), values), (("commands",), [{"type": "print", "resource": "x"}])))


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    with start("run", "--device", "cpu", _large(tmp_path), stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.read(100)
        running.stdout.close()
        (said,) = _said(running, 141)  # as shells have it for a command that SIGPIPE ended
    assert said.startswith("Running on ")


def test_help_whose_reader_has_gone_away() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with start("check", "--help", stdout=writer) as running:
        os.close(writer)
        assert _said(running, 141) == []


@pytest.mark.parametrize(
    "arguments", [("levels",), ("run", EXAMPLES / "slice.json"), ("check", "--output-format", "json", EXAMPLES)]
)
def test_a_full_disk(arguments: tuple[object, ...]) -> None:
    with Path("/dev/full").open("wb") as full, start(*arguments, stdout=full) as running:
        said = _said(running, 2)
    assert said[-1] == "dmlgather: standard output: No space left on device"
    assert not any("Traceback" in line or "Exception ignored" in line for line in said)


def test_a_closed_output() -> None:
    script = f"exec {sys.executable} -m dmlgather.cli levels >&-"
    ended = processes.run(["/bin/sh", "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60)
    assert (ended.returncode, ended.stderr) == (2, "dmlgather: standard output is closed\n")


def _unread(pipe: IO[bytes]) -> int:
    """Bytes that a pipe holds."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return int(count)


def test_an_interrupt(tmp_path: Path) -> None:
    with start("run", "--device", "cpu", _large(tmp_path), stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        full = fcntl.fcntl(running.stdout, fcntl.F_GETPIPE_SZ) - select.PIPE_BUF
        while _unread(running.stdout) < full:  # then it waits for a reader
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        assert _said(running, 130)[-1] == "dmlgather: interrupted"  # it ends although nobody reads what it printed


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
    file = write(tmp_path, {"type": "DML_OPERATOR_SLICE1", "desc": desc})
    with start("compare", "--devices", "cpu,reference", file, before=WORKING) as running:
        assert running.stderr is not None
        assert b"it works\n" in running.stderr
        running.send_signal(signal.SIGINT)
        assert _said(running, 130)[-1] == "dmlgather: interrupted"


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    file = write(tmp_path, changed((("dispatchables", "gather", "desc", "Axis"), 2)))
    ended = process("check", file, PYTHONIOENCODING="ascii", LC_ALL="C")
    assert ended.code == 1
    assert "DML206" in ended.out
    assert process("levels", PYTHONIOENCODING="ascii", LC_ALL="C").code == 0


DESCRIPTORS = "{'numpy', 'pydantic', 'rich', 'dmlgather.directml', 'dmlgather.report'}"

LIGHT = {
    "import dmlgather, dmlgather.cli": "{'numpy', 'pydantic', 'cupy', 'onnx', 'typer', 'rich', 'jax'}",
    **{f"from dmlgather.cli.app import run; run({words})": DESCRIPTORS for words in (["--help"], ["--version"], [])},
}
"""What loads nothing heavy, and what it does not load: the list of subcommands needs no descriptor, as their lines are known."""


@pytest.mark.parametrize("script", LIGHT)
def test_help_loads_nothing_heavy(script: str) -> None:
    ended = python(f"import sys; {script}; print({LIGHT[script]} & set(sys.modules))", check=True)
    assert ended.stdout.splitlines()[-1] == "set()"
