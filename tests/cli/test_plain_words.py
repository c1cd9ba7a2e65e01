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
            seen.add(item["type"])
    assert {"value_error", "missing", "union_tag_not_found", "less_than_equal", "model_type"} <= seen


def test_a_descriptor_in_python() -> None:
    with pytest.raises(ValueError, match=r"^(?!.*Value error)(?s:.*)'FLOAT' is no DataType; expected one of UNKNOWN"):
        dg.BufferTensorDesc(data_type="FLOAT", sizes=[1])
    with pytest.raises(ValueError, match=r"^(?!.*Value error)(?s:.*)tensor Type is 'TEXTURE'; expected BUFFER"):
        dg.parse_descriptor(changed((("desc", "InputTensor", "Type"), "TEXTURE"), start=GATHER))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((("dispatchables", "gather", "desc", "Axis"), True), "expected an integer, got a bool"),
        ((("dispatchables", "gather", "desc", "Axis"), -1), "should be greater than or equal to 0, got -1"),
        ((("dispatchables", "gather", "executionFlags"), "FAST"), "expected one of NONE, "),
        ((("resources", "rows", "initialValuesDataType"), "INT"), "'INT' is no DataType; expected one of "),
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
    ended = command("check", "--baseline", tmp_path / "base.json", write(tmp_path, MODEL))
    assert (ended.code, "is no baseline: " in ended.err, "got 3" in ended.err) == (2, True, True)
