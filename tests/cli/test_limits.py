"""Every command that reads files keeps limits of time and memory: exit code 2 and the limit, and an option that raises it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conformance import case_reading
from dmlgather import differential, limits, translation
from dmlgather.directml.dxdispatch import model_file
from tests.cli.command import EXAMPLES, Command, process

SLICE = EXAMPLES / "slice.json"


@dataclass(frozen=True)
class Limited:
    """A command, and the function with which its work begins."""

    arguments: tuple[object, ...]
    files: tuple[object, ...]
    works: tuple[Any, str]
    memory: str = "350 MB"

    def __str__(self) -> str:
        return " ".join(str(each) for each in self.arguments if each not in (SLICE, EXAMPLES))

    def told(self, limit: str, option: str) -> str:
        """What is said when a limit is passed."""
        named = " with ".join(map(str, self.files))
        return f"dmlgather: {named}: takes more than its limit of {limit}: raise it by {option}, or split the file\n"


COMMANDS = [
    Limited(("translate", SLICE, "--to", "onnx", "-o", "out.onnx"), (SLICE,), (translation, "translate"), "2100 MB"),
    Limited(("explain", SLICE), (SLICE,), (model_file, "check_file")),
    Limited(("run", SLICE), (SLICE,), (model_file, "check_file")),
    Limited(("compare", SLICE), (SLICE,), (model_file, "check_file")),
    Limited(("compare", SLICE, "--against", "m.onnx"), (SLICE, "m.onnx"), (differential, "check_agreement"), "2100 MB"),
    Limited(("conformance", "read", EXAMPLES), (EXAMPLES,), (case_reading, "read_results")),
]


def endless(*_: object, **__: object) -> Any:
    while True:
        with contextlib.suppress(Exception):
            sum(range(1000))


def growing(*_: object, **__: object) -> Any:
    kept = [np.empty(2**24, np.uint8) for _ in range(400)]
    raise AssertionError(f"{len(kept)} arrays are more than the limit")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no timer for a process's own time")
@pytest.mark.parametrize("limited", COMMANDS, ids=str)
def test_work_that_takes_its_time_is_ended(
    limited: Limited, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*limited.works, endless)
    ended = command(*limited.arguments, "--time-limit", "0.2")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == limited.told("0.2 s of CPU time", "--time-limit")
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.parametrize("limited", COMMANDS, ids=str)
def test_work_that_takes_much_memory_is_ended(
    limited: Limited, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*limited.works, growing)
    ended = command(*limited.arguments)
    assert (ended.code, ended.out, ended.err) == (2, "", limited.told(f"{limited.memory} of memory", "--memory-limit"))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("limited", COMMANDS, ids=str)
def test_ctrl_c_is_no_limit(limited: Limited, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(*limited.works, interrupted)
    ended = command(*limited.arguments)
    assert (ended.code, ended.out, ended.err) == (130, "", "dmlgather: interrupted\n")


RAISED = [("check", SLICE), *(limited.arguments for limited in COMMANDS if str(SLICE) in map(str, limited.files[-1:]))]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", RAISED, ids=lambda arguments: arguments[0])
def test_a_limit_is_raised_by_its_option(
    arguments: Sequence[object], folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file would be refused for is done where the option says so."""
    monkeypatch.setattr(limits, "SECONDS", 1e-6)
    slow = spinning(model_file.check_file)
    monkeypatch.setattr(model_file, "check_file", slow)
    assert command(*arguments).code == 2
    assert command(*arguments, "--time-limit", "100").code == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.parametrize("arguments", RAISED, ids=lambda arguments: arguments[0])
def test_a_limit_of_memory_is_raised_by_its_option(
    arguments: Sequence[object], folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_file = model_file.check_file

    def large(*args: Any, **kwargs: Any) -> Any:
        kept = np.empty(2500 * limits.MEGABYTE, np.uint8)
        return check_file(*args, **kwargs) if kept.size else None

    monkeypatch.setattr(model_file, "check_file", large)
    assert command(*arguments).code == 2
    assert command(*arguments, "--memory-limit", "4GB").code == 0


def spinning(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, behind work that a limit ends even if Python drops the first exception."""

    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        while time.process_time() < start + 1.2 * limits.REPEAT_SECONDS:
            pass
        return function(*args, **kwargs)

    return call


def test_a_larger_file_has_larger_limits(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    larger = folder / "larger.json"
    larger.write_text(SLICE.read_text() + " " * 2_500_000)
    monkeypatch.setattr(limits, "SECONDS", 0.1)
    monkeypatch.setattr(model_file, "check_file", endless)
    assert "its limit of 0.25 s of CPU time" in command("explain", larger).err


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e300", "x"])
def test_an_impossible_limit(value: str, command: Command) -> None:
    ended = command("explain", SLICE, "--time-limit", value)
    assert (ended.code, ended.out) == (2, "")
    assert "--time-limit" in ended.err
    assert value in ended.err or "1e+300" in ended.err


@pytest.mark.parametrize("value", ["0.5x", "-1", "many"])
def test_an_impossible_size(value: str, command: Command) -> None:
    ended = command("explain", SLICE, "--memory-limit", value)
    assert (ended.code, ended.out) == (2, "")
    assert "expected a number of bytes" in ended.err


def _model(folder: Path, kinds: Sequence[str]) -> Path:
    """A model that does what SLICE does, and more to its output, a node after the other, that leaves it as it is."""
    names = ["sliced", *(f"t{number}" for number in range(len(kinds) - 1)), "output"]
    inputs = {
        "Concat": lambda name: [name, name],
        "Slice": lambda name: [name, "zero", "three"],
        "Expand": lambda name: [name, "huge"],
    }
    nodes = [helper.make_node("Slice", ["matrix", "starts", "ends", "axes", "steps"], ["sliced"])]
    for kind, read, written in zip(kinds, names, names[1:], strict=False):
        nodes.append(helper.make_node(kind, inputs.get(kind, lambda name: [name])(read), [written], **ATTRIBUTES.get(kind, {})))
    made = {"starts": [1, 1], "ends": [4, 5], "axes": [0, 1], "steps": [1, 2], "zero": [0], "three": [3], "huge": [2**40, 3, 2]}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("matrix", TensorProto.FLOAT, [5, 5])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [3, 2])],
        [numpy_helper.from_array(np.array(value), name) for name, value in made.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    return folder / "m.onnx"


ATTRIBUTES: dict[str, dict[str, Any]] = {"Concat": {"axis": 0}, "ReduceMax": {"axes": [0], "keepdims": 0}}

LARGE: dict[str, list[str]] = {
    "equal: three doublings": [*["Concat"] * 3, "Slice"],
    "thirty doublings": [*["Concat"] * 30, "Slice"],
    "sixty doublings": [*["Concat"] * 60, "Slice"],
    "a huge tensor": ["Expand", "ReduceMax"],
    "equal: thousands of nodes": ["Identity"] * 8000,
}
"""Small models whose tensors or nodes are many."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.parametrize("large", LARGE)
def test_small_models_with_much_in_them_keep_the_limits(folder: Path, large: str) -> None:
    """They are compared, or refused by a limit: nothing else ends them, and nothing is called different."""
    model = _model(folder, LARGE[large])
    ended = process("compare", SLICE, "--against", model)
    if large.startswith("equal"):
        assert (ended.code, ended.err, ended.out.startswith("checked in ")) == (0, "", True)
    else:
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(f"dmlgather: {SLICE} with {model}: takes more than its limit of ")
        assert ended.err.count("\n") == 1
