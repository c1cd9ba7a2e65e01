"""Files that users pass by mistake: one clear message, exit code 2, and never a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.command import EXAMPLES, Command, process
from tests.dxdispatch.models import MODEL, changed, write


def _model(folder: Path, source: str) -> Path:
    return write(folder, changed((("resources", "table"), {"initialValues": {"sourcePath": source}})))


def _bytes(content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        file = folder / "model.json"
        file.write_bytes(content)
        return file

    return make


def _npy(array: Any, cut: int = 0) -> Callable[[Path], Path]:
    """Makes a model that reads a file of this array, which lacks some bytes at its end."""

    def make(folder: Path) -> Path:
        np.save(folder / "x.npy", np.array(array), allow_pickle=True)
        content = (folder / "x.npy").read_bytes()
        (folder / "x.npy").write_bytes(content[: len(content) - cut])
        return _model(folder, "x.npy")

    return make


def _raw_npy(content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "x.npy").write_bytes(content)
        return _model(folder, "x.npy")

    return make


TEXT = json.dumps(MODEL, indent=1).encode()
HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000), }\n"


def _made(name: str, make: Callable[[Path], object]) -> Callable[[Path], Path]:
    def of(folder: Path) -> Path:
        make(folder / name)
        return folder / name

    return of


def _socket(folder: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as unix, contextlib.chdir(folder):  # the path of a socket has to be short
        unix.bind("socket.json")
    return folder / "socket.json"


MISTAKES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda folder: folder / "gone.json", "gone.json: does not exist"),
    "empty": (_bytes(b""), "model.json:1:1: the file is empty"),
    "blank": (_bytes(b"\n\n  \n"), "the file is empty"),
    "binary": (_bytes(bytes(range(128, 256))), "model.json:1:1: is not UTF-8 text: byte 0x80 at offset 0"),
    "latin 1": (_bytes('{"a":\n "é"}'.encode("latin-1")), "model.json:2:3: is not UTF-8 text: byte 0xe9"),
    "utf-16": (_bytes('{"resources": {}}'.encode("utf-16")), "is UTF-16 text; save it as UTF-8"),
    "utf-16 without mark": (_bytes('{"resources": {}}'.encode("utf-16-le")), "is UTF-16 text; save it as UTF-8"),
    "zeros": (_bytes(bytes(100)), "U+0000"),
    "npy": (_made("model.npy", lambda path: np.save(path, np.zeros(3))), "not UTF-8"),
    "truncated": (_bytes(TEXT[: len(TEXT) // 2]), "cut off"),
    "list": (_bytes(b"[1, 2, 3]"), "model.json:1:1: expected a model {resources, dispatchables, commands} or a descriptor"),
    "number": (_bytes(b"42"), "expected a model"),
    "other json": (_bytes(b'{"name": "x", "version": 3}'), "expected a model"),
    "json lines": (_bytes(b'{"a": 1}\n{"a": 2}\n'), "model.json:2:1: "),
    "missing npy": (lambda folder: _model(folder, "gone.npy"), "gone.npy does not exist (looked in "),
    "short npy": (
        _npy(np.zeros(6, np.float32), cut=4),
        "x.npy has the wrong size: its header announces 24 bytes (float32 of shape (6,)), but 20 follow",
    ),
    "small npy": (
        _npy(np.zeros((2, 2), np.float32)),
        "x.npy has the wrong size: expected at least 24 bytes for InputTensor",
    ),
    "pickled npy": (_npy([{1: 2}] * 6), "x.npy holds pickled Python objects, which are never loaded"),
    "raw pickle": (_raw_npy(pickle.dumps([1, 2, 3])), "x.npy is no .npy file"),
    "huge npy": (
        _raw_npy(b"\x93NUMPY\1\0" + len(HEADER).to_bytes(2, "little") + HEADER),
        "x.npy has the wrong size",
    ),
    "symlink loop": (_made("loop.json", lambda path: path.symlink_to(path.name)), "Too many levels of symbolic links"),
    "pipe": (_made("pipe.json", os.mkfifo), "pipe.json: is a pipe, not a regular file"),
    "socket": (_socket, "socket.json: is a socket, not a regular file"),
    "endless device": (lambda folder: Path("/dev/zero"), "/dev/zero: is a character device, not a regular file"),
    "no device": (lambda folder: Path("/dev/null"), "/dev/null: is a character device, not a regular file"),
    "long name": (lambda folder: folder / ("x" * 5000), "File name too long"),
    "file as folder": (lambda folder: write(folder, MODEL) / "model.json", "Not a directory"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["missing", "binary", "utf-16", "pickled npy", "endless device", "long name"])
def test_as_a_process(tmp_path: Path, mistake: str) -> None:
    make, says = MISTAKES[mistake]
    ended = process("run", make(tmp_path))
    lines = ended.err.splitlines()
    assert (ended.code, ended.out, len(lines)) == (2, "", 1), ended.err
    assert says in lines[0]


@pytest.mark.parametrize("subcommand", ["check", "run", "compare", "explain"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_inside_this_process(tmp_path: Path, command: Command, mistake: str, subcommand: str) -> None:
    make, says = MISTAKES[mistake]
    ended = command(subcommand, make(tmp_path))
    assert (ended.code, ended.out) == (2, "")
    assert says in ended.err
    assert "Traceback" not in ended.err
    told = [line for line in ended.err.splitlines() if not re.match(" *[0-9]* [|] ", line)]  # check shows the file's line
    assert len(told) == (2 if subcommand == "check" else 1)  # check ends with its summary


@pytest.mark.slow
def test_thirty_megabytes_of_brackets(tmp_path: Path) -> None:
    file = tmp_path / "brackets.json"
    file.write_bytes(b"[" * 30_000_000)
    for subcommand in ("check", "run"):
        ended = process(subcommand, file)
        assert ended.code == 2
        assert ended.err.splitlines()[0] == (
            f"{file}:1:101: arrays and objects are nested more than 100 deep, deeper than in any model or descriptor"
        )


@pytest.mark.parametrize("subcommand", ["run", "compare", "explain"])
def test_a_folder_is_no_model(tmp_path: Path, command: Command, subcommand: str) -> None:
    ended = command(subcommand, tmp_path)
    assert (ended.code, ended.err) == (2, f"{tmp_path}: is a folder, not a regular file\n")


def test_a_folder_without_models(folder: Path, command: Command) -> None:
    write(folder, {"name": "package"}, "package.json")
    (folder / "notes.txt").write_text("model")
    said = command.refused("check", folder)
    assert said.startswith(f"{folder}: holds no model or descriptor (1 .json file of another sort) ")


def test_no_permission(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, MODEL)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(file))  # chmod does not keep the superuser out

    monkeypatch.chdir(tmp_path)  # away from the configuration of this project
    for subcommand in ("check", "run"):
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", refused)
            ended = command(subcommand, file)
        assert ended.code == 2
        assert ended.err.startswith(f"{file}: may not be read or written: permission denied\n")


def test_resources_larger_than_memory(tmp_path: Path, command: Command) -> None:
    bomb = {"initialValuesDataType": "FLOAT64", "initialValues": {"valueCount": 2**32 - 1, "value": 0}}
    file = write(tmp_path, changed(*((("resources", f"bomb{number}"), bomb) for number in range(100))))
    assert command("check", file).code == 0  # nothing is allocated for a check
    said = command.refused("run", file)
    assert said.startswith(f"dmlgather: running {file} needs 3.125 TiB of host memory, and ")
    assert said.endswith("('bomb0' alone 32 GiB), 3.125 TiB; fix: use smaller resources")
    one = write(tmp_path, changed((("resources", "table", "sizeInBytes"), 2**63)))
    assert "needs 8 EiB of host memory" in command.refused("run", one)


@pytest.mark.parametrize("target", ["blocked/x.npy", "x.npy"])
def test_files_that_cannot_be_written(tmp_path: Path, command: Command, target: str) -> None:
    (tmp_path / "blocked").write_text("a file where a folder should be")
    (tmp_path / "x.npy").mkdir()
    step = {"type": "writeFile", "resource": "output", "targetPath": target}
    said = command.refused("run", write(tmp_path, changed((("commands", 2), step))), "--output-dir", tmp_path)
    assert f" dmlgather: {tmp_path / target} " in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("check",),
        ("check", "--level", "7_0", EXAMPLES),
        ("check", "--output-format", "yaml", EXAMPLES),
        ("check", "--colour", EXAMPLES),
        ("run",),
        ("run", "--device", "tpu", EXAMPLES / "slice.json"),
        ("run", "--iterations", "0", EXAMPLES / "slice.json"),
        ("run", "--iterations", "many", EXAMPLES / "slice.json"),
        ("levels", "--operator", "CONVOLUTION"),
        ("compare", "--devices", "cpu", EXAMPLES / "slice.json"),
        ("compare", "--devices", "cpu,cpu", EXAMPLES / "slice.json"),
        ("compare", "--devices", "cpu,tpu", EXAMPLES / "slice.json"),
        ("schema", "everything"),
    ],
)
def test_usage_errors(command: Command, arguments: tuple[object, ...]) -> None:
    said = command.refused(*arguments)
    assert "Usage: dmlgather" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("subcommand", ["run", "compare"])
def test_a_model_of_another_kind_is_told_what_is_expected(folder: Path, command: Command, subcommand: str) -> None:
    (folder / "m.onnx").write_bytes(b"\x08\x09\x12\x00")
    said = command.refused(subcommand, "m.onnx")
    assert said.startswith("m.onnx:1:1: ")
    assert said.endswith("; expected a DxDispatch model or a descriptor, as JSON")
