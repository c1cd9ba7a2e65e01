"""What Pydantic refuses is said in plain words, wherever it is said."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import dmlgather as dg
from dmlgather.directml.dxdispatch import wire
from dmlgather.record import in_words
from tests.cli.command import Command
from tests.dxdispatch.models import GATHER, MODEL, changed, write

JUNK: list[Any] = [
    None, True, -1, 1.5, 2**70, "x", "", b"x", [], [True], ["x"], [-1], [2**70], {}, {"x": 1}, {"Type": "x"},
    {"Type": "BUFFER", "Desc": 1}, {"value": 1}, {"sourcePath": 1}, [{}], object(),
]  # fmt: skip


def models() -> Iterator[type[BaseModel]]:
    """Every Pydantic model of the parts of the package that need no extra."""
    for room in ("directml", "report", "comparing"):
        package = importlib.import_module(f"dmlgather.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        for found in waiting.pop().__subclasses__():
            waiting.append(found)
            if found.__module__.startswith("dmlgather."):
                yield found


def refusals() -> Iterator[ValidationError]:
    """What every model says about junk in each of its fields."""
    kinds: list[tuple[TypeAdapter[Any], list[str]]] = [(TypeAdapter(found), [*wire.names(found)]) for found in models()]
    kinds.append((wire.COMMAND, ["type"]))
    for kind, fields in kinds:
        for given in [*JUNK, *({field: junk} for field in fields for junk in JUNK)]:
            try:
                kind.validate_python(given)
            except ValidationError as error:
                yield error


def test_no_message_says_value_error() -> None:
    seen = set()
    for error in refusals():
        assert "Value error" not in str(error)
        for item in error.errors(include_url=False):
            said = in_words(item)
            assert said
            assert not said.startswith("Input ")
            assert "should be" not in said, item
            assert "valid " not in said, item
            seen.add(item["type"])
    assert {"value_error", "missing", "union_tag_not_found", "less_than_equal", "model_type"} <= seen


def test_a_descriptor_in_python() -> None:
    with pytest.raises(ValueError, match=r"^(?!.*Value error)(?s:.*)'FLOAT' is no DataType; did you mean FLOAT32, FLOAT16"):
        dg.BufferTensorDesc(data_type="FLOAT", sizes=[1])
    with pytest.raises(ValueError, match=r"^(?!.*Value error)(?s:.*)tensor Type is 'TEXTURE'; expected BUFFER"):
        dg.parse_descriptor(changed((("desc", "InputTensor", "Type"), "TEXTURE"), start=GATHER))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((("dispatchables", "gather", "desc", "Axis"), True), "expected an integer, got true"),
        ((("dispatchables", "gather", "desc", "Axis"), -1), "expected at least 0, got -1"),
        ((("dispatchables", "gather", "executionFlags"), "FAST"), "expected one of NONE, "),
        ((("resources", "rows", "initialValuesDataType"), "INT"), "'INT' is no DataType; did you mean INT32, "),
        ((("commands", 0, "bindings"), 3), "expected an object, got 3"),
    ],
)
def test_a_model(tmp_path: Path, command: Command, change: Any, says: str) -> None:
    ended = command("check", write(tmp_path, changed(change, start=MODEL)))
    assert ended.code == 2
    assert says in ended.err
    assert "Value error" not in ended.err + ended.out


def test_a_baseline(tmp_path: Path, command: Command) -> None:
    (tmp_path / "base.json").write_text('{"findings": [3]}')
    said = command.refused("check", "--baseline", tmp_path / "base.json", write(tmp_path, MODEL))
    assert "is not a baseline: " in said
    assert "got 3" in said


CLICKS = {
    "--rounds': expected an integer, got 'x'": "--rounds': 'x' is not a valid integer range",
    "--rounds': expected at least 1, got '0'": "--rounds': 0 is not in the range x>=1",
    "--time-limit': expected a number, got 'x'": "--time-limit': 'x' is not a valid float",
    "NAME': expected one of 'descriptor', 'model', ": "'[NAME]': 'modl' is not one of 'descriptor', 'model', ",
}
"""What is said, and how Typer says it before it asks Pydantic: in Click's words."""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("benchmarks --rounds x", "--rounds': expected an integer, got 'x'"),
        ("benchmarks --rounds 0", "--rounds': expected at least 1, got '0'"),
        ("check a.json --time-limit x", "--time-limit': expected a number, got 'x'"),
        ("schema modl", "NAME': expected one of 'descriptor', 'model', "),
        ("translate a.json --to onnx --opset 99", "--opset': expected 1 … "),
        ("translate a.json --to jax", "--to': expected onnx, got 'jax'"),
        (
            "run a.json --device gpu",
            "--device': expected 'cpu', 'cuda', 'cuda:N' (GPU number N, from 0) or 'reference', or 'auto', got 'gpu'",
        ),
        ("compare a.json --devices gpu,cpu", "or 'reference', got 'gpu'"),
        ("benchmarks --from r.json", "r.json is no report of `python -m benchmarks --output`: suite: expected text, got 3"),
    ],
)
def test_options_and_other_files(folder: Path, command: Command, arguments: str, says: str) -> None:
    """No sentence of Pydantic's, and no argument's name in Python behind the option's."""
    write(folder, MODEL, "a.json")
    write(folder, {"suite": 3}, "r.json")
    ended = command(*arguments.split())
    said = " ".join(ended.err.split())
    assert (ended.code, ended.out, says in said or CLICKS.get(says, says) in said) == (2, "", True), said
    for word in ("should be", "unable to parse", "Value error", "device is", "opset is", "Input "):
        assert word not in said
