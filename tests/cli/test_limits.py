"""Every command that reads files keeps limits of time and memory: exit code 2 and the limit, and an option that raises it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from conformance import case_reading
from dmlgather import differential, limits, translation
from dmlgather.directml.dxdispatch import model_file
from tests.cli.command import EXAMPLES, Command, process
from tests.onnx_checking.modelling import saved

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
        return f"dmlgather: {named}: takes more than its limit of {limit}: raise it by {option}, or split the file"


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


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.parametrize("limited", COMMANDS, ids=str)
@pytest.mark.parametrize("memory", [False, True], ids=["time", "memory"])
def test_work_is_ended_at_a_limit(
    limited: Limited, memory: bool, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*limited.works, growing if memory else endless)
    said = command.refused(*limited.arguments, *(() if memory else ("--time-limit", "0.2")))
    limit = f"{limited.memory} of memory" if memory else "0.2 s of CPU time"
    assert said == limited.told(limit, "--memory-limit" if memory else "--time-limit")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("limited", COMMANDS, ids=str)
def test_ctrl_c_is_no_limit(limited: Limited, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(*limited.works, interrupted)
    ended = command(*limited.arguments)
    assert (ended.code, ended.out, ended.err) == (130, "", "dmlgather: interrupted\n")


RAISED = [("check", SLICE), *(limited.arguments for limited in COMMANDS if str(SLICE) in map(str, limited.files[-1:]))]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
@pytest.mark.parametrize("arguments", RAISED, ids=lambda arguments: arguments[0])
@pytest.mark.parametrize("option", [pytest.param(("--time-limit", "100"), marks=pytest.mark.slow), ("--memory-limit", "4GB")])
def test_a_limit_is_raised_by_its_option(
    arguments: Sequence[object], option: tuple[str, str], folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file would be refused for is done where the option says so."""
    check_file = model_file.check_file

    def demanding(*args: Any, **kwargs: Any) -> Any:
        kept = np.empty(1 if limits_time else 2500 * limits.MEGABYTE, np.uint8)
        start = time.process_time()
        while limits_time and time.process_time() < start + 1.2 * limits.REPEAT_SECONDS:
            pass  # which a limit ends even if Python drops the first exception
        return check_file(*args, **kwargs) if kept.size else None

    limits_time = option[0] == "--time-limit"
    if limits_time:
        monkeypatch.setattr(limits, "SECONDS", 1e-6)
    monkeypatch.setattr(model_file, "check_file", demanding)
    assert command(*arguments).code == 2
    assert command(*arguments, *option).code == 0


def test_a_larger_file_has_larger_limits(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    larger = folder / "larger.json"
    larger.write_text(SLICE.read_text() + " " * 2_500_000)
    monkeypatch.setattr(limits, "SECONDS", 0.1)
    monkeypatch.setattr(model_file, "check_file", endless)
    assert "its limit of 0.25 s of CPU time" in command("explain", larger).err


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        *(("--time-limit", value, value) for value in ("0", "-1", "nan", "inf", "x")),
        ("--time-limit", "1e300", "1e+300"),
        *(("--memory-limit", value, "expected a number of bytes") for value in ("0.5x", "-1", "many")),
    ],
)
def test_an_impossible_limit_is_refused(option: str, value: str, words: str, command: Command) -> None:
    said = command.refused("explain", SLICE, option, value)
    assert option in said
    assert words in said


def _model(folder: Path, kinds: Sequence[str]) -> Path:
    """A model that does what SLICE does, and more to its output, a node after the other, that leaves it as it is."""
    names = ["sliced", *(f"t{number}" for number in range(len(kinds) - 1)), "output"]
    nodes = " ".join(
        f"{written} = {NODES[kind].format(read)}" for kind, read, written in zip(kinds, names, names[1:], strict=False)
    )
    constants = """int64[2] starts = {1, 1}, int64[2] ends = {4, 5}, int64[2] axes = {0, 1}, int64[2] steps = {1, 2},
        int64[1] zero = {0}, int64[1] three = {3}, int64[3] huge = {1099511627776, 3, 2}"""
    first = "sliced = Slice(matrix, starts, ends, axes, steps)"
    return saved(folder, f"g (float[5,5] matrix) => (float[3,2] output) <{constants}> {{ {first} {nodes} }}")


NODES = {
    "Concat": "Concat<axis = 0>({0}, {0})",
    "Slice": "Slice({0}, zero, three)",
    "Expand": "Expand({0}, huge)",
    "ReduceMax": "ReduceMax<axes = [0], keepdims = 0>({0})",
    "Identity": "Identity({0})",
}


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
    elif onnx.__version__.startswith("1.19.") and "doublings" in large:  # computes the size 3 * 2^30 as 0
        assert (ended.code, ended.out.startswith("not checked")) == (1, True)
    else:
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith(f"dmlgather: {SLICE} with {model}: takes more than its limit of ")
        assert ended.err.count("\n") == 1
