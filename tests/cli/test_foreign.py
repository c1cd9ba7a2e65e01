"""Models with operators that dmlgather does not have: each command says what it does with them."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from dmlgather.cli.schema import Schema, schema_of
from tests.cli.command import Command
from tests.dxdispatch.models import GATHER, MODEL, changed, line_of, write

RELU = {"type": "DML_OPERATOR_ACTIVATION_RELU", "desc": {"InputTensor": {"DataType": "FLOAT32", "Sizes": [4, 2]}}}
BESIDE = changed(
    (("dispatchables", "relu"), RELU),
    (("commands", 2), {"type": "dispatch", "dispatchable": "relu", "bindings": {"InputTensor": "output"}}),
)


def test_check_notes_it_and_passes(tmp_path: Path, command: Command) -> None:
    ended = command("check", write(tmp_path, BESIDE))
    assert (ended.code, ended.err) == (0, "1 file checked, 1 note\n")
    assert "DML804 note" in ended.out
    assert "DML_OPERATOR_ACTIVATION_RELU" in ended.out


def test_check_still_finds_what_is_wrong_around_it(tmp_path: Path, command: Command) -> None:
    assert command("check", write(tmp_path, changed((("dispatchables", "gather", "desc", "Axis"), 2), start=BESIDE))).code == 1
    astray = command("check", write(tmp_path, changed((("commands", 2, "bindings", "InputTensor"), "outptu"), start=BESIDE)))
    assert astray.code == 1
    assert "write 'output'" in astray.out


def test_a_misspelt_operator_is_no_foreign_one(tmp_path: Path, command: Command) -> None:
    ended = command("check", write(tmp_path, changed((("dispatchables", "gather", "type"), "DML_OPERATOR_GATHR"))))
    assert ended.code == 2
    assert "unknown name 'DML_OPERATOR_GATHR'; did you mean 'DML_OPERATOR_GATHER'?" in ended.err


@pytest.mark.parametrize("arguments", [("run", "--device", "cpu"), ("compare", "--devices", "cpu,reference")])
def test_nothing_is_executed_of_a_model_that_dispatches_it(tmp_path: Path, command: Command, arguments: tuple[str, ...]) -> None:
    file = write(tmp_path, BESIDE)
    said = command.refused(*arguments, file)
    line = line_of(file, '"dispatchable": "relu"')
    assert f"{file}:{line - 2}:" in said
    assert "commands[2]: cannot be executed: 'relu' is DML_OPERATOR_ACTIVATION_RELU, and dmlgather executes only GATHER" in said


def test_a_foreign_operator_that_nothing_dispatches_is_ignored(tmp_path: Path, command: Command) -> None:
    file = write(tmp_path, changed((("dispatchables", "relu"), RELU)))
    assert command("run", "--device", "cpu", file).code == 0
    assert command("compare", "--devices", "cpu,reference", file).code == 0


def test_explain_shows_the_others(tmp_path: Path, command: Command) -> None:
    ended = command("explain", write(tmp_path, BESIDE))
    assert ended.code == 0
    assert "dispatchable 'gather'" in ended.out
    assert "the descriptor is DML_OPERATOR_ACTIVATION_RELU" in command.refused("explain", write(tmp_path, RELU))


def test_the_schemas_take_it() -> None:
    single = jsonschema.Draft202012Validator(schema_of(Schema.DESCRIPTOR))
    assert not list(single.iter_errors(RELU))
    assert not list(single.iter_errors({"name": "rows.cpp:7", **GATHER}))
    validator = jsonschema.Draft202012Validator(schema_of(Schema.MODEL))
    assert not list(validator.iter_errors(BESIDE))
    assert not list(validator.iter_errors(MODEL))
    assert list(validator.iter_errors(changed((("dispatchables", "relu", "type"), "DML_OPERATOR_RELUU"), start=BESIDE)))
    assert list(validator.iter_errors(changed((("dispatchables", "wrong"), {**GATHER, "desc": {}}))))
