"""Reading models and descriptors: what is accepted, and what is refused with its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dmlgather.directml import CODES, Severity
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.model_runner import Runner
from tests.dxdispatch.models import GATHER, MODEL, REMOVED, changed, check, write

INPUT = ("dispatchables", "gather", "desc", "InputTensor")
LONG = {"Type": "BUFFER", "Desc": {"DataType": "DML_TENSOR_DATA_TYPE_FLOAT32", "Flags": "DML_TENSOR_FLAG_NONE", "Sizes": [3, 2]}}
DEEP, WIDE = ({"DataType": "FLOAT32", "Sizes": sizes} for sizes in ([1, 4, 1, 1], [1, 1, 2, 2]))
BLOCKS = {"type": "DEPTH_TO_SPACE1", "desc": {"InputTensor": DEEP, "OutputTensor": WIDE, "BlockSize": 2, "Order": 1}}


@pytest.mark.parametrize(
    "model",
    [
        MODEL,
        changed((("$schema",), "./_schema.json"), (("_note",), "x")),
        changed((INPUT, LONG)),
        changed((INPUT, {"Type": "DML_TENSOR_TYPE_BUFFER", "DataType": "FLOAT32", "Sizes": [3, 2], "Strides": None})),
        changed((("dispatchables", "gather", "type"), "GATHER")),
        changed((("dispatchables", "gather", "Type"), "GATHER"), (("dispatchables", "gather", "type"), REMOVED)),
        changed((("dispatchables", "gather", "Desc"), GATHER["desc"]), (("dispatchables", "gather", "desc"), REMOVED)),
        changed((("dispatchables", "gather"), {"type": "GATHER", **GATHER["desc"]})),
        changed((("dispatchables", "gather", "executionFlags"), ["NONE", "DML_EXECUTION_FLAG_DISABLE_META_COMMANDS"])),
        changed((("dispatchables", "gather", "executionFlags"), "DESCRIPTORS_VOLATILE")),
        changed((("dispatchables", "gather", "dmlCompileType"), "DmlCompileGraph")),
        changed((("resources", "table", "type"), "buffer")),
        changed((("resources", "table", "initialValuesDataType"), "DML_TENSOR_DATA_TYPE_FLOAT32")),
        changed((("commands", 0, "threadGroupCount"), [1, 1, 1])),
        changed((("commands", 1, "verbose"), True)),
        changed((("commands",), [])),
    ],
)
def test_accepted(tmp_path: Path, model: Any) -> None:
    found = check(tmp_path, model)
    assert (found.kind, found.ok, found.problems, found.findings) == ("model", True, (), ())
    assert set(found.dispatchables) == {"gather"}


REFUSED: list[tuple[str, Any, str, str]] = [
    ("resources.table.initialValuesDataType", "float32", "", "is no DataType"),
    ("dispatchables.gather.desc.InputTensor.DataType", "float32", "", "'float32' is no DataType"),
    ("resources.table.initialValues", [1, 2, "x"], "[2]", "expected a number"),
    ("resources.rows.initialValues", [0, 1.5], "[1]", "1.5 is no integer"),
    ("resources.rows.initialValues", [2**32], "[0]", "does not fit UINT32"),
    ("resources.rows.initialValues", [], "", "at least one value"),
    ("resources.rows.initialValues", "deferred", "", "{sourcePath}"),
    ("resources.rows.initialValues", {"valueCount": 4}, "", "{sourcePath}"),
    ("resources.rows.initialValues", {"value": 4}, "", "'valueCount' is missing"),
    ("resources.rows.initialValues", {"valueCount": 0, "value": 4}, ".valueCount", "expected more than 0, got 0"),
    ("resources.rows.initialValues", {"valueCount": 4, "value": -1}, ".value", "-1 does not fit UINT32"),
    (
        "resources.rows.initialValues",
        {"valueCount": 4, "valueStart": 2**32 - 2, "valueDelta": 1},
        "",
        "value 2 of the sequence would be 4294967296",
    ),
    ("resources.rows.initialValues", {"valueCount": 4, "valueStart": 0, "valueDelta": 0.5}, ".valueDelta", "0.5 is no integer"),
    ("resources.rows.initialValues", {"valueCuont": 4, "value": 0}, ".valueCuont", "did you mean 'valueCount'?"),
    ("resources.rows.initialValuesDataType", REMOVED, "", "'initialValuesDataType' is missing"),
    ("resources.rows.initialValuesDataType", "UINT33", "", "'UINT33'"),
    # DirectML has numbers for these, which Python's structures take; DxDispatch reads names alone.
    ("resources.rows.initialValuesDataType", 3, "", "name of a data type"),
    ("dispatchables.gather.desc.InputTensor.DataType", 1, "", "FLOAT32"),
    ("dispatchables.gather.desc.InputTensor.Flags", 0, "", "expected one of NONE, OWNED_BY_DML in double"),
    ("dispatchables.gather.desc.InputTensor", {"Type": "BUFFER", "Desc": {**DEEP, "Flags": 0}}, ".Desc.Flags", "got 0"),
    (
        "dispatchables.gather",
        BLOCKS,
        ".desc.Order",
        "expected one of DEPTH_COLUMN_ROW, COLUMN_ROW_DEPTH in double quotes, got 1: DxDispatch reads no numbers here",
    ),
    ("resources.rows.initialValuesDataType", "INT4", "", "whole number of bytes"),
    ("resources.rows", {"initialValuesDataType": "UNKNOWN", "initialValues": [6]}, "", "'initialValuesDataType' is missing"),
    ("resources.rows.initialValues", REMOVED, "", "'initialValues' is missing"),
    ("resources.rows", {"Desc": {"initialValues": None}}, "", "'initialValues' is missing"),
    ("resources.rows", {"Type": "BUFFER", "Desc": {"initialValues": None}}, ".Desc.initialValues", "'initialValues' is missing"),
    ("resources.rows.sizeInBytes", 12, "", "expected at least 16 bytes"),
    ("resources.rows.sizeInBytes", 16.0, "", "got 16.0"),
    ("resources.rows.sizeInBytes", True, "", "got true"),
    ("resources.rows.initialValuesOffsetInBytes", -4, "", "got -4"),
    ("resources.rows.sizeInByte", 64, "", "did you mean 'sizeInBytes'?"),
    ("resources.rows.type", "texture", "", "'buffer'"),
    ("resources.rows", [], "", "expected an object"),
    ("resources", [], "", "expected an object"),
    ("commands", {}, "", "expected an array"),
    ("commands", REMOVED, "", "'commands' is missing"),
    ("Commands", [], "", "did you mean 'commands'?"),
    ("dispatchables.gather.type", REMOVED, "", "'type' is missing"),
    ("dispatchables.gather.type", 67, "", "expected the name"),
    ("dispatchables.gather.type", "DML_OPERATOR_GATHR", "", "did you mean 'DML_OPERATOR_GATHER'"),
    ("dispatchables.gather.type", "GEMMM", "", "did you mean 'DML_OPERATOR_GEMM'"),
    ("dispatchables.gather.type", "onnxx", "", "did you mean 'onnx'"),
    ("dispatchables.gather.type", "DML_OPERATOR_INVALID", "", "Type was probably never set"),
    ("dispatchables.gather.type", "GATHERND", "", "did you mean"),
    ("dispatchables.gather.desc", REMOVED, "", "is missing"),
    ("dispatchables.gather.desc", [1], "", "expected an object with the fields"),
    ("dispatchables.gather", "gather", "", "expected an object"),
    ("dispatchables.gather.desc.Axis", 1.0, "", "expected an integer, got 1.0"),
    ("dispatchables.gather.desc.Axis", True, "", "expected an integer, got true"),
    ("dispatchables.gather.desc.Axis", 2**32, "", "4294967296"),
    ("dispatchables.gather.desc.Axis", REMOVED, "", "'Axis' is missing"),
    ("dispatchables.gather.desc.axis", 0, "", "did you mean 'Axis'?"),
    ("dispatchables.gather.desc.Colour", 0, "", "the fields are InputTensor"),
    ("dispatchables.gather.desc.InputTensor.Sizes[1]", -2, "", "got -2"),
    ("dispatchables.gather.desc.InputTensor.Size", [1], "", "did you mean 'Sizes'?"),
    ("dispatchables.gather.desc.InputTensor.DataType", "FLOAT31", "", "'FLOAT31'"),
    ("dispatchables.gather.desc.InputTensor", {"Type": "TEXTURE", "DataType": "FLOAT32", "Sizes": [3, 2]}, "", "'TEXTURE'"),
    ("dispatchables.gather.desc.InputTensor", 3, "", "got 3"),
    ("dispatchables.gather.executionFlags", ["QUICK"], "", "DISABLE_META"),
    ("dispatchables.gather.dmlCompileType", "Fast", "", "DmlCompileGraph"),
    ("commands[0]", {"type": "dispach"}, "", "unknown type 'dispach'; known: 'dispatch', 'print', 'writeFile'"),
    ("commands[0].type", REMOVED, "", "'type' is missing"),
    ("commands[0]", "print", "", "expected an object"),
    ("commands[0].bindings", REMOVED, "", "'bindings' is missing"),
    ("commands[0].bindings.InputTensor", 3, "", "a resource name"),
    ("commands[0].bindings.InputTensor", {"name": "table", "elementOfset": 4}, ".elementOfset", "did you mean 'elementOffset'?"),
    ("commands[0].bindings.InputTensor", {"name": "table", "elementOffset": -4}, ".elementOffset", "got -4"),
    ("commands[1]", {"type": "writeFile", "resource": "output", "targetPath": "../x.npy"}, ".targetPath", "--output-dir"),
    ("commands[1]", {"type": "writeFile", "resource": "output", "targetPath": "/x.npy"}, ".targetPath", "--output-dir"),
    ("commands[1]", {"type": "writeFile", "resource": "output", "targetPath": "x.PNG"}, ".targetPath", "images"),
]
"""A place in the model, its value, the part of it that is refused ("" is all of it, or where it was removed), and the words."""


def steps(place: str) -> tuple[str | int, ...]:
    """The keys and numbers in the path of a place."""
    return tuple(int(each) if each.isdecimal() else each for each in re.findall(r"[^.\[\]]+", place))


@pytest.mark.parametrize(("place", "value", "part", "says"), REFUSED)
def test_a_value_is_refused_at_its_place(tmp_path: Path, place: str, value: Any, part: str, says: str) -> None:
    (problem,) = check(tmp_path, changed((steps(place), value))).problems
    assert problem.path == (place.rpartition(".")[0] if value is REMOVED else place + part)
    assert says in problem.message, problem.message
    assert problem.line is not None
    assert str(problem).startswith(f"{tmp_path}/model.json:{problem.line}:{problem.column}: ")


def test_the_place_is_the_value_or_the_misspelt_key(tmp_path: Path) -> None:
    text = '{"resources": {"a": {"initialValuesDataType": "UINT8",\n "initialValues": [1,\n  300],\n  "sizeInByte": 4}},'
    found = check(tmp_path, text + ' "dispatchables": {}, "commands": []}')
    assert [(problem.line, problem.column) for problem in found.problems] == [(4, 3), (3, 3)]


FOREIGN = {
    "DML_OPERATOR_CONVOLUTION": "DML_OPERATOR_CONVOLUTION",
    "ACTIVATION_RELU": "DML_OPERATOR_ACTIVATION_RELU",
    "DML_OPERATOR_SCATTER": "DML_OPERATOR_SCATTER",
    "hlsl": "an HLSL shader",
    "ONNX": "an ONNX model",
    "dmlSerializedGraph": "a serialized DirectML graph",
}
"""Types of dispatchables that are left out, and what they are called."""


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_dispatchable_is_noted_and_the_rest_checked(tmp_path: Path, kind: str) -> None:
    model = changed(
        (("dispatchables", "other"), {"type": kind, "sourcePath": "add.hlsl", "desc": {"Anything": 1}}),
        (("commands", 2), {"type": "dispatch", "dispatchable": "other", "bindings": {"a": "table", "b": ["output"]}}),
    )
    found = check(tmp_path, model)
    (note,) = found.findings
    assert (found.ok, set(found.dispatchables)) == (True, {"gather"})
    assert (note.code, note.severity, note.path) == ("DML804", Severity.NOTE, "dispatchables.other.type")
    assert note.got == FOREIGN[kind]
    (refusal,) = found.refusals
    assert refusal.path == "commands[2]"
    assert f"'other' is {FOREIGN[kind]}" in refusal.message
    with pytest.raises(ValueError, match="cannot be executed: 'other' is"):
        Runner(found)
    astray = check(tmp_path, changed((("commands", 2, "bindings", "a"), "nowhere"), start=model))
    assert [(error.code, error.path) for error in astray.errors] == [("DML704", "commands[2].bindings.a")]
    wrong = check(tmp_path, changed((("dispatchables", "gather", "desc", "Axis"), 2), start=model))
    assert [error.code for error in wrong.errors] == ["DML206"]


def test_a_foreign_dispatchable_without_dispatch_is_ignored(tmp_path: Path) -> None:
    found = check(tmp_path, changed((("dispatchables", "other"), {"type": "DML_OPERATOR_GEMM", "desc": {}})))
    assert (found.ok, found.refusals) == (True, ())
    assert [str(event) for event in Runner(found).run()]


def test_constants_of_shaders_are_noted_and_not_read(tmp_path: Path) -> None:
    constants = {"initialValuesDataType": "UNKNOWN", "initialValues": [{"type": "UINT32", "value": 6}], "sizeInBytes": 256}
    shader = {"type": "hlsl", "sourcePath": "add.hlsl", "compilerArgs": []}
    found = check(
        tmp_path,
        changed(
            (("resources", "constants"), constants),
            (("dispatchables", "shader"), shader),
            (("commands", 2), {"type": "dispatch", "dispatchable": "shader", "bindings": {"a": "output", "c": "constants"}}),
            (("commands", 3), {"type": "print", "resource": "constants"}),
            (("commands", 0, "bindings", "IndicesTensor"), "constants"),
        ),
    )
    assert found.ok
    assert [note.path for note in found.findings] == ["resources.constants.initialValues", "dispatchables.shader.type"]
    assert [refusal.path for refusal in found.refusals] == ["commands[0]", "commands[2]", "commands[3]"]


def test_a_foreign_descriptor_is_noted(tmp_path: Path) -> None:
    found = check(tmp_path, {"type": "DML_OPERATOR_GEMM", "desc": {"ATensor": None}})
    assert (found.kind, found.ok, found.dispatchables) == ("descriptor", True, {})
    assert [note.code for note in found.findings] == ["DML804"]
    assert "the descriptor is DML_OPERATOR_GEMM" in found.refusals[0].message


def test_a_descriptor_may_have_a_name(tmp_path: Path) -> None:
    wrong = changed((("desc", "Axis"), 2), (("name",), "rows.cpp:7"), start=GATHER)
    (error,) = check(tmp_path, wrong).findings
    assert (error.code, error.subject) == ("DML206", "rows.cpp:7")
    inline = {"name": "rows.cpp:7", "type": "DML_OPERATOR_GATHER", **wrong["desc"]}
    assert [each.subject for each in check(tmp_path, inline).findings] == ["rows.cpp:7"]
    (problem,) = check(tmp_path, {**GATHER, "name": 7}).problems
    assert (problem.path, problem.message) == ("name", "expected text, got 7")
    (unknown,) = check(tmp_path, changed((("dispatchables", "gather", "name"), "x"))).findings
    assert (unknown.code, unknown.path) == ("DML801", "dispatchables.gather.name")  # there, the key is the name


@pytest.mark.parametrize("field", ["InputTensor", "Axis"])
def test_a_null_is_named(tmp_path: Path, field: str) -> None:
    (problem,) = check(tmp_path, changed((("desc", field), None), start=GATHER)).problems
    assert (problem.path, problem.message) == (f"desc.{field}", "must not be null")


def test_several_broken_parts_do_not_hide_the_rest(tmp_path: Path) -> None:
    wrong = changed((("desc", "Axis"), 2), start=GATHER)
    model = changed(
        (("dispatchables", "typo"), {"type": "DML_OPERATOR_GATHR"}),
        (("dispatchables", "nothing"), {"type": "shader"}),
        (("dispatchables", "wrong"), wrong),
        (("commands", 2), {"type": "dispatch", "dispatchable": "typo", "bindings": {"a": "table"}}),
        (("commands", 3), {"type": "print", "resource": "nowhere"}),
    )
    found = check(tmp_path, model)
    assert [problem.path for problem in found.problems] == ["dispatchables.typo.type", "dispatchables.nothing.type"]
    assert [finding.code for finding in found.findings] == ["DML206", "DML704"]


def test_unknown_keys_that_are_no_misspelling_are_warned_about(tmp_path: Path) -> None:
    found = check(tmp_path, changed((("resources", "rows", "comment"), "tokens"), (("author",), "me")))
    assert found.ok
    assert [(finding.code, finding.severity, finding.path) for finding in found.findings] == [
        ("DML801", Severity.WARNING, "author"),
        ("DML801", Severity.WARNING, "resources.rows.comment"),
    ]


def test_a_size_is_rounded_up_to_four(tmp_path: Path) -> None:
    five = {"initialValuesDataType": "FLOAT16", "initialValues": [1, 2, 3, 4, 5]}
    found = check(tmp_path, changed((("resources", "half"), five), (("resources", "stated"), {**five, "sizeInBytes": 10})))
    assert [found.resources[name].size for name in ("half", "stated")] == [12, 12]
    (finding,) = found.findings
    assert (finding.code, finding.severity, finding.path) == ("DML803", Severity.WARNING, "resources.stated.sizeInBytes")


def test_a_single_descriptor(tmp_path: Path) -> None:
    found = check(tmp_path, GATHER)
    assert (found.kind, found.ok, list(found.dispatchables)) == ("descriptor", True, [""])
    wrong = check(tmp_path, changed((("desc", "OutputTensor", "Sizes"), [4, 3]), start=GATHER))
    (finding,) = wrong.errors
    assert (finding.code, finding.path, finding.subject) == ("DML302", "OutputTensor.Sizes[1]", "")
    line = (tmp_path / "model.json").read_text().splitlines()[(finding.line or 0) - 1]
    assert line.strip() == "3"


def test_levels_count(tmp_path: Path) -> None:
    assert check(tmp_path, GATHER, level="3_0").ok
    assert {finding.code for finding in check(tmp_path, GATHER, level="2_1").errors} == {"DML202"}
    with pytest.raises(ValueError, match="unknown feature level"):
        check(tmp_path, GATHER, level="9_9")


@pytest.mark.parametrize("value", [[], [GATHER], 3, "text", {"a": 1}, {"type": "object"}, {"type": 3}])
def test_json_of_another_sort(tmp_path: Path, value: Any) -> None:
    found = check(tmp_path, value if not isinstance(value, str) else '"text"')
    assert (found.kind, len(found.problems)) == ("foreign", 1)
    assert "expected a model {resources, dispatchables, commands} or a descriptor" in found.problems[0].message


def test_a_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    text = write(tmp_path, MODEL).read_text()
    file = tmp_path / "bom.json"
    file.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert check_file(file).ok


def test_names_with_any_characters(tmp_path: Path) -> None:
    model = changed((("resources", 'a "b".[0]'), {"initialValuesDataType": "UINT8", "initialValues": [256]}))
    (problem,) = check(tmp_path, model).problems
    assert problem.path == 'resources["a \\"b\\".[0]"].initialValues[0]'


def test_warnings_of_files_are_the_codes_of_the_registry() -> None:
    assert [code for code in CODES if code.startswith("DML8")] == ["DML801", "DML802", "DML803", "DML804"]
