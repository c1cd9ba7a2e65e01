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
from dmlgather import equivalence, limits, translation
from dmlgather.directml.dxdispatch import model_file
from tests.cli.command import EXAMPLES, Command, process

SLICE = EXAMPLES / "slice.json"


@dataclass(frozen=True)
class Limited:
    """A command, and the function with which its work begins."""

    arguments: tuple[object, ...]
    files: tuple[object, ...]
    works: tuple[Any, str]

    def __str__(self) -> str:
        return " ".join(map(str, self.arguments[: 2 if self.arguments[0] == "conformance" else 1]))

    def told(self, limit: str, option: str) -> str:
        """What is said when a limit is passed."""
        named = " with ".join(map(str, self.files))
        return f"dmlgather: {named}: takes more than its limit of {limit}: raise it by {option}, or split the file\n"


COMMANDS = [
    Limited(("equivalent", SLICE, SLICE), (SLICE, SLICE), (equivalence, "equivalent")),
    Limited(("translate", SLICE, "--to", "onnx", "-o", "out.onnx"), (SLICE,), (translation, "translate")),
    Limited(("explain", SLICE), (SLICE,), (model_file, "check_file")),
    Limited(("run", SLICE), (SLICE,), (model_file, "check_file")),
    Limited(("compare", SLICE), (SLICE,), (model_file, "check_file")),
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
    assert ended.err == limited.told("0.2 seconds of a processor", "--time-limit")
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.parametrize("limited", COMMANDS, ids=str)
def test_work_that_takes_much_memory_is_ended(
    limited: Limited, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*limited.works, growing)
    ended = command(*limited.arguments)
    assert (ended.code, ended.out, ended.err) == (2, "", limited.told("350 MB of memory", "--memory-limit"))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("limited", COMMANDS, ids=str)
def test_ctrl_c_is_no_limit(limited: Limited, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(*limited.works, interrupted)
    ended = command(*limited.arguments)
    assert (ended.code, ended.out, ended.err) == (130, "", "dmlgather: interrupted\n")


RAISED = [("check", SLICE), *(limited.arguments for limited in COMMANDS if limited.arguments[0] != "conformance")]


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
        kept = np.empty(500 * limits.MEGABYTE, np.uint8)
        return check_file(*args, **kwargs) if kept.size else None

    monkeypatch.setattr(model_file, "check_file", large)
    assert command(*arguments).code == 2
    assert command(*arguments, "--memory-limit", "2GB").code == 0


def spinning(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, behind work that a limit ends even if Python drops the first exception."""

    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        while time.process_time() < start + 1.2 * limits.AGAIN:
            pass
        return function(*args, **kwargs)

    return call


def test_a_larger_file_has_larger_limits(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    larger = folder / "larger.json"
    larger.write_text(SLICE.read_text() + " " * 2_500_000)
    monkeypatch.setattr(limits, "SECONDS", 0.1)
    monkeypatch.setattr(model_file, "check_file", endless)
    assert "its limit of 0.25 seconds" in command("explain", larger).err


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e300", "x"])
def test_an_impossible_limit(value: str, command: Command) -> None:
    ended = command("explain", SLICE, "--time-limit", value)
    assert (ended.code, ended.out) == (2, "")
    assert "--time-limit" in ended.err
    assert value in ended.err or "1e+300" in ended.err


@pytest.mark.parametrize("value", ["0.5x", "-1", "many"])
def test_an_impossible_size(value: str, command: Command) -> None:
    ended = command("equivalent", SLICE, SLICE, "--memory-limit", value)
    assert (ended.code, ended.out) == (2, "")
    assert "expected a number of bytes" in ended.err


def _model(folder: Path, nodes: list[onnx.NodeProto], **constants: list[int]) -> Path:
    """A model of nodes from float32 x[720720] and int64 i[1000000] to y."""
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [720_720]),
        helper.make_tensor_value_info("i", TensorProto.INT64, [1_000_000]),
    ]
    made = [numpy_helper.from_array(np.array(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_empty_tensor_value_info("y")], made)
    path = folder / f"{len(list(folder.iterdir()))}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def _chain(*nodes: tuple[str, list[str], dict[str, Any]]) -> list[onnx.NodeProto]:
    """Nodes of which each reads what the one before it wrote as "_"; the first reads x, and the last writes y."""
    names = ["x", *(f"t{number}" for number in range(len(nodes) - 1)), "y"]
    return [
        helper.make_node(kind, [names[at] if name == "_" else name for name in inputs], [names[at + 1]], **attributes)
        for at, (kind, inputs, attributes) in enumerate(nodes)
    ]


def _added(folder: Path, numbers: Sequence[int], kind: str = "Add") -> Path:
    """Numbers that are added to the indices, one after the other."""
    values = ["i", *(f"t{at}" for at in range(len(numbers)))]
    nodes = [helper.make_node(kind, [values[at], f"c{number}"], [values[at + 1]]) for at, number in enumerate(numbers)]
    constants = {f"c{number}": [number] for number in sorted(numbers)}
    return _model(folder, [*nodes, helper.make_node("Gather", ["x", values[-1]], ["y"])], **constants)


def _turns(folder: Path, pairs: int, last: str) -> Path:
    """Pairs of Reshape and Transpose whose sizes share no factors, so that strides cannot say what they do together."""
    turn: list[tuple[str, list[str], dict[str, Any]]] = []
    for number in range(pairs):
        turn += [("Reshape", ["_", f"s{number % 3}"], {}), ("Transpose", ["_"], {"perm": [2, 0, 1]})]
    shapes = {"s0": [77, 90, 104], "s1": [65, 88, 126], "s2": [99, 56, 130]}
    return _model(folder, _chain(*turn, (last, ["_"], {})), **shapes)


def _doubled(folder: Path, times: int, last: str) -> Path:
    cut: list[tuple[str, list[str], dict[str, Any]]] = [("Slice", ["_", "zero", "four"], {})]
    return _model(folder, _chain(*cut, *[("Concat", ["_", "_"], {"axis": 0})] * times, (last, ["_"], {})), zero=[0], four=[4])


def _repeated(folder: Path, count: int, kind: str) -> Path:
    return _model(folder, _chain(*[(kind, ["_"], dict[str, Any]())] * count))


LARGE: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "equal: three additions to a million indices": lambda folder: (_added(folder, [1, 2, 3]), _added(folder, [3, 2, 1])),
    "equal: four additions": lambda folder: (_added(folder, [1, 2, 3, 4]), _added(folder, [4, 2, 1, 3])),
    "equal: two products": lambda folder: (_added(folder, [2, 3], "Mul"), _added(folder, [3, 2], "Mul")),
    "ten pairs of views": lambda folder: (_turns(folder, 10, "Identity"), _turns(folder, 10, "Relu")),
    "eleven and ten pairs of views": lambda folder: (_turns(folder, 11, "Identity"), _turns(folder, 10, "Identity")),
    "thirty pairs of views": lambda folder: (_turns(folder, 30, "Identity"), _turns(folder, 30, "Relu")),
    "sixty pairs of views": lambda folder: (_turns(folder, 60, "Identity"), _turns(folder, 60, "Relu")),
    "sixteen doublings": lambda folder: (_doubled(folder, 16, "Identity"), _doubled(folder, 16, "Relu")),
    "eighteen doublings": lambda folder: (_doubled(folder, 18, "Identity"), _doubled(folder, 18, "Relu")),
    "twenty and nineteen doublings": lambda folder: (_doubled(folder, 20, "Identity"), _doubled(folder, 19, "Identity")),
    "thousands of nodes": lambda folder: (_repeated(folder, 8000, "Relu"), _repeated(folder, 7999, "Relu")),
    "thousands of views": lambda folder: (_repeated(folder, 6000, "Identity"), _repeated(folder, 5999, "Relu")),
    "two operators": lambda folder: (_repeated(folder, 3000, "Sigmoid"), _repeated(folder, 3000, "Tanh")),
}
"""Small files whose tensors or nodes are many."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.parametrize("large", LARGE)
def test_small_files_with_much_in_them_keep_the_limits(folder: Path, large: str) -> None:
    """They are decided, or refused by a limit: nothing else ends them."""
    one, other = LARGE[large](folder)
    ended = process("equivalent", one, other)
    if ended.code == 2:
        assert ended.err.startswith(f"dmlgather: {one} with {other}: takes more than its limit of ")
        assert ended.err.count("\n") == 1
    else:
        same = large.startswith("equal")
        assert (ended.code, ended.err, ended.out.startswith("proven")) == (0 if same else 1, "", same)
