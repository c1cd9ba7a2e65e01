"""From C++ through JSON to Python: equal fields, and the messages of `check` about pointers and values that are wrong in C++."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dmlgather.directml import (
    OPERATORS,
    BufferTensorDesc,
    DataType,
    DepthSpaceOrder,
    FeatureLevel,
    OperatorDesc,
    TensorFlags,
    parse_descriptor,
)
from dmlgather.directml.dxdispatch.descriptor_lines import check_lines_file
from dmlgather.directml.dxdispatch.model_file import CheckedFile
from dmlgather.directml.fields import wire_name
from tests.directml.making import make
from tests.dump_header.building import output_of, words

L = FeatureLevel
HEADER_TYPES = list(DataType)[:12]
"""Types in every edition of DirectML.h."""

uints = st.integers(0, 2**32 - 1) | st.integers(0, 8)
entries = {"input_window_strides": st.integers(-(2**31), 2**31 - 1)}


@st.composite
def tensors(draw: st.DrawFn) -> BufferTensorDesc:
    """Return any tensor that C++ can describe. Arrays have DimensionCount entries."""
    count = draw(st.integers(0, 9))
    sizes = st.lists(uints, min_size=count, max_size=count)
    return BufferTensorDesc(
        data_type=draw(st.sampled_from(HEADER_TYPES)),
        flags=draw(st.sampled_from([TensorFlags.NONE, TensorFlags.OWNED_BY_DML])),
        sizes=draw(sizes),
        strides=draw(st.none() | sizes),
        total_tensor_size_in_bytes=draw(st.integers(0, 2**64 - 1)),
        guaranteed_base_offset_alignment=draw(uints),
    )


@st.composite
def descriptors(draw: st.DrawFn) -> OperatorDesc:
    """Return any descriptor of any operator that C++ can describe, valid or not."""
    operator = draw(st.sampled_from(list(OPERATORS.values())))
    count = draw(st.integers(0, 32))
    fields: dict[str, Any] = {}
    for name, field in operator.desc.model_fields.items():
        if field.annotation is BufferTensorDesc:
            fields[name] = draw(tensors())
        elif field.annotation is DepthSpaceOrder:
            fields[name] = draw(st.sampled_from(DepthSpaceOrder))
        elif name == "dimension_count":
            fields[name] = count
        elif "tuple" in str(field.annotation):
            fields[name] = draw(st.lists(entries.get(name, uints), min_size=count, max_size=count))
        else:
            fields[name] = draw(uints)
    return operator.desc(**fields)


names = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(['a "b"\\', "src/rows.cpp:12", "\n\t\x00", "é€𝄞"])


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(descriptors(), names), min_size=1, max_size=12))
def test_fields_round_trip_from_cpp_to_python(batch: list[tuple[OperatorDesc, str]]) -> None:
    lines = output_of("".join(words(desc, name) for desc, name in batch)).splitlines()
    assert len(lines) == len(batch)
    for line, (desc, name) in zip(lines, batch, strict=True):
        document = json.loads(line)
        assert document.get("name", "") == name
        assert parse_descriptor(document) == desc
        assert list(document["desc"]) == [wire_name(field) for field in type(desc).model_fields]


def test_legal_descriptors_pass_the_check(tmp_path: Path) -> None:
    import random

    rng = random.Random(7)
    made = [make(rng, level=L.LEVEL_6_4).desc for _ in range(200)]
    complete = [
        desc.model_copy(
            update={
                field: desc.tensor(field).model_copy(update={"total_tensor_size_in_bytes": desc.tensor(field).total_bytes})
                for field in desc.operator.tensors
            }
        )
        for desc in made
    ]
    found = _checked("".join(map(words, complete)), tmp_path)
    assert (found.ok, found.descriptors) == (True, 200)


def _checked(text: str, folder: Path) -> CheckedFile:
    file = folder / "dump.jsonl"
    file.write_bytes(output_of(text))
    return check_lines_file(file, L.LEVEL_6_4)


T, T23 = "1 1 0 2 2 3 4 null 48 0", "1 1 0 2 2 2 4 null 32 0"
I2 = "1 3 0 2 2 1 2 null 8 0"
"""Tensors {3,4} and {2,4} of FLOAT32, and {1,2} of UINT32, in the words of the test program."""

WRONG = {
    "null desc": ("67 72 null", "desc", "got null"),
    "null tensor": (f"67 72 desc {T} null {T23} 0 1", "desc.IndicesTensor", "must not be null"),
    "null tensor desc": (f"67 72 desc {T} 1 null {T23} 0 1", "desc.IndicesTensor", "Desc must not be null"),
    "invalid tensor type": (f"67 72 desc {T} 0 null {T23} 0 1", "desc.IndicesTensor", "tensor Type is 0; expected BUFFER"),
    "null sizes": (f"67 72 desc 1 1 0 2 null null 48 0 {I2} {T23} 0 1", "desc.InputTensor.Sizes", "must not be null"),
    "null window": ("60 72 desc 1 1 0 1 1 4 null 16 0 1 1 0 1 1 2 null 8 0 1 null 1 2 1 1", "desc.Offsets", "must not be null"),
    "unknown data type": (
        f"67 72 desc 1 77 0 2 2 3 4 null 48 0 {I2} {T23} 0 1",
        "desc.InputTensor.DataType",
        "77 is no DataType",
    ),
    "unknown flags": (f"67 72 desc 1 1 4 2 2 3 4 null 48 0 {I2} {T23} 0 1", "desc.InputTensor.Flags", "4 is no TensorFlags"),
    "unknown order": (f"113 72 desc {T} {T} 2 9", "desc.Order", "9 is no DepthSpaceOrder"),
    "invalid operator": ("0 72 null", "type", "DML_OPERATOR_INVALID (0) is no operator"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_pointer_or_value_is_named(tmp_path: Path, case: str) -> None:
    text, path, says = WRONG[case]
    (problem,) = _checked(text, tmp_path).problems
    assert (problem.line, problem.subject, problem.path) == (1, "r", path)
    assert says in problem.message


def test_an_uninitialised_count_reads_no_array(tmp_path: Path) -> None:
    found = _checked(f"67 - desc 1 1 0 3452816845 2 3 4 null 48 0 {I2} {T23} 0 1", tmp_path)
    assert {(error.code, error.path) for error in found.errors} >= {("DML101", "InputTensor.DimensionCount")}
    assert any("3452816845" in error.got for error in found.errors)


def test_unknown_operators_are_counted_in_notes(tmp_path: Path) -> None:
    found = _checked("44 61 null 44 62 null 999 63 null\n", tmp_path)
    assert (found.ok, found.descriptors) == (True, 0)
    assert [(note.code, note.got, note.lines) for note in found.findings] == [
        ("DML804", "DML_OPERATOR_ACTIVATION_RELU", 2),
        ("DML804", "number 999 of DML_OPERATOR_TYPE", 1),
    ]


def test_invalid_utf8_in_a_name_is_replaced() -> None:
    raw = b"a\xff\xc3(\xed\xa0\x80\xe2\x82\xacz"
    (line,) = output_of("44 " + raw.hex() + " null").splitlines()
    assert json.loads(line)["name"] == "a\ufffd\ufffd(\ufffd\ufffd\ufffd€z" == raw.decode("utf-8", "replace")


def test_dumps_are_appended_to_a_file(tmp_path: Path) -> None:
    file = tmp_path / "dump.jsonl"
    output_of("44 61 null 44 62 null", "file", file)
    output_of("44 63 null", "file", file)
    assert [json.loads(line)["name"] for line in file.read_text().splitlines()] == ["a", "b", "c"]


def test_threads_write_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "dump.jsonl"
    gather = f"67 72 desc {T} {I2} {T23} 0 1"
    output_of(" ".join([gather] * 100), "threads", file)
    lines = file.read_bytes().splitlines()
    assert (len(lines), len(set(lines))) == (400, 1)
    assert parse_descriptor(json.loads(lines[0])).operator.name == "GATHER"


def test_the_macro_creates_the_operator_and_names_the_place(tmp_path: Path) -> None:
    file = tmp_path / "dump.jsonl"
    two = f"67 - desc {T} {I2} {T23} 0 1 44 - null"
    assert output_of(two, "create", DMLGATHER_DUMP=str(file)) == b""
    gather, relu = map(json.loads, file.read_text().splitlines())
    assert gather["name"] == relu["name"]
    assert "program.cpp:" in gather["name"]
    assert "DMLGATHER_CREATE_OPERATOR(&device" in _line_at(gather["name"])
    file.unlink()
    assert output_of(two, "create", DMLGATHER_DUMP="") == b""
    assert not file.exists()


def test_dmlgather_place_names_file_and_line() -> None:
    (line,) = output_of("44 - null", "place").splitlines()
    assert "DMLGATHER_PLACE" in _line_at(json.loads(line)["name"])


def test_create_operator_takes_a_null_name(tmp_path: Path) -> None:
    file = tmp_path / "dump.jsonl"
    assert output_of("44 - null", "unnamed", DMLGATHER_DUMP=str(file)) == b""
    assert json.loads(file.read_text()) == {"type": "DML_OPERATOR_ACTIVATION_RELU"}


def _line_at(place: str) -> str:
    name, _, number = place.rpartition(":")
    return Path(name).read_text().splitlines()[int(number) - 1]


def test_a_file_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="cannot be written") as raised:
        output_of("44 61 null 44 62 null", "create", DMLGATHER_DUMP=str(tmp_path / "nowhere" / "dump.jsonl"))
    assert str(raised.value).count("DMLGATHER_DUMP=") == 1
