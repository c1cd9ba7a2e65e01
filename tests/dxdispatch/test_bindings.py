"""DML7xx: each rule of bindings broken alone, found under its code at its place, and mended as the remedy says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dmlgather.directml import CODES, Severity
from tests.dxdispatch.models import GATHER, MODEL, REMOVED, changed, check

BINDINGS = ("commands", 0, "bindings")
OFFSET = {"name": "table", "elementOffset": 4}
BIG = ("resources", "table", "sizeInBytes"), 96
ALIGNED = ("dispatchables", "gather", "desc", "InputTensor", "GuaranteedBaseOffsetAlignment"), 32
OWNED = ("dispatchables", "gather", "desc", "InputTensor", "Flags"), "OWNED_BY_DML"


def bound(name: str, value: Any, *more: tuple[tuple[str | int, ...], Any]) -> Any:
    """The model with another binding of its dispatch, and more changes."""
    return changed(((*BINDINGS, name), value), *more)


BROKEN: list[tuple[str, str, Any, list[str], Any]] = [
    ("DML701", "bindings", bound("IndicesTensor", REMOVED), ["a resource for IndicesTensor", "none"], MODEL),
    (
        "DML702",
        "bindings.IndexTensor",
        bound("IndexTensor", "rows"),
        ["InputTensor, IndicesTensor, OutputTensor", "'IndexTensor'"],
        MODEL,
    ),
    (
        "DML703",
        "bindings.InputTensor",
        bound("InputTensor", ["table", "rows"]),
        ["1 resource for InputTensor", "2 ('table', 'rows')"],
        bound("InputTensor", ["table"]),
    ),
    ("DML703", "bindings.InputTensor", bound("InputTensor", []), ["1 resource for InputTensor", "0 (none)"], MODEL),
    (
        "DML704",
        "bindings.InputTensor",
        bound("InputTensor", "tabel"),
        ["'table', 'rows', 'output'", "'tabel'", "write 'table'"],
        MODEL,
    ),
    (
        "DML705",
        "bindings.InputTensor",
        changed((("resources", "table", "initialValues"), [1, 2, 3, 4, 5])),
        ["at least 24 bytes for InputTensor", "20 bytes (20 of 'table', less the offset 0)"],
        changed((("resources", "table", "initialValues"), [1, 2, 3, 4, 5]), (("resources", "table", "sizeInBytes"), 24)),
    ),
    (
        "DML705",
        "bindings.InputTensor",
        bound("InputTensor", OFFSET),
        ["at least 24 bytes", "8 bytes (24 of 'table', less the offset 16)", "to 40 or more"],
        bound("InputTensor", OFFSET, (("resources", "table", "sizeInBytes"), 40)),
    ),
    (
        "DML705",
        "bindings.InputTensor",
        bound("InputTensor", {"name": "table", "elementOffset": 2**40}),
        ["0 bytes (24 of 'table', less the offset 4398046511104)"],
        MODEL,
    ),
    (
        "DML706",
        "bindings.InputTensor",
        bound("InputTensor", {"name": "table", "elementOffset": 3}, BIG),
        ["a multiple of 16 bytes", "12 bytes", "byte 16 (elementOffset 4 of FLOAT32)"],
        bound("InputTensor", OFFSET, BIG),
    ),
    (
        "DML706",
        "bindings.InputTensor",
        bound("InputTensor", OFFSET, BIG, ALIGNED),
        ["a multiple of 32 bytes", "16 bytes", "byte 32 (elementOffset 8 of FLOAT32)"],
        bound("InputTensor", {"name": "table", "elementOffset": 8}, BIG, ALIGNED),
    ),
    (
        "DML707",
        "bindings.OutputTensor",
        bound("OutputTensor", {"name": "table", "elementOffset": 4}, BIG),
        ["outside InputTensor's 0 … 23", "bytes 16 … 47"],
        bound("OutputTensor", {"name": "table", "elementOffset": 8}, BIG),
    ),
    (
        "DML708",
        "bindings.InputTensor",
        changed(OWNED),
        ["at initialisation: its Flags are OWNED_BY_DML", "at execution", "dispatchables.gather.bindings"],
        changed(
            OWNED, (("dispatchables", "gather", "bindings"), {"InputTensor": "table"}), ((*BINDINGS, "InputTensor"), REMOVED)
        ),
    ),
    (
        "DML708",
        "dispatchables.gather.bindings.InputTensor",
        changed((("dispatchables", "gather", "bindings"), {"InputTensor": "table"})),
        ["at execution: its Flags are NONE", "at initialisation"],
        MODEL,
    ),
    (
        "DML709",
        "dispatchable",
        changed((("commands", 0, "dispatchable"), "gathr")),
        ["'gather'", "'gathr'", "write 'gather'"],
        MODEL,
    ),
    ("DML704", "commands[1].resource", changed((("commands", 1, "resource"), "x")), ["'table', 'rows', 'output'", "'x'"], MODEL),
    (
        "DML710",
        "dimensions",
        changed((("commands", 2), {"type": "writeFile", "resource": "output", "targetPath": "x.npy", "dimensions": [2, 3]})),
        ["8 elements, the number in 'output'", "6 ((2, 3))"],
        changed((("commands", 2), {"type": "writeFile", "resource": "output", "targetPath": "x.npy", "dimensions": [2, 4]})),
    ),
]


@pytest.mark.parametrize("case", BROKEN, ids=[f"{code}-{path}" for code, path, *_ in BROKEN])
def test_rule(tmp_path: Path, case: tuple[str, str, Any, list[str], Any]) -> None:
    code, path, broken, says, mended = case
    found = check(tmp_path, broken)
    assert not found.problems
    assert [finding.code for finding in found.errors] == [code]
    (finding,) = found.errors
    assert finding.path.endswith(path)
    for words in says:
        assert words in f"{finding.expected} | {finding.got} | {finding.remedy}"
    assert check(tmp_path, mended).ok


def test_every_code_of_bindings_is_broken_above() -> None:
    assert {code for code, *_ in BROKEN} == {code for code in CODES if code.startswith("DML7")}
    assert all(CODES[code].severity is Severity.ERROR for code, *_ in BROKEN)


def test_a_finding_names_the_line_of_the_binding(tmp_path: Path) -> None:
    text = '{"resources": {}, "dispatchables": {},\n "commands": [\n  {"type": "print",\n   "resource": "gone"}]}'
    (finding,) = check(tmp_path, text).findings
    assert (finding.line, finding.column) == (4, 16)
    assert str(finding).startswith(f"{tmp_path}/model.json:4:16: ")
    assert "none: the model has no resources" in finding.expected


def test_element_size_of_the_binding_counts(tmp_path: Path) -> None:
    binding = {"name": "table", "elementOffset": 2, "elementSizeInBytes": 16, "elementCount": 1, "elementStride": 4}
    found = check(tmp_path, bound("InputTensor", binding))
    (finding,) = found.errors
    assert (finding.code, "less the offset 32" in finding.got) == ("DML705", True)


def test_a_tensor_that_is_wrong_itself_is_not_measured(tmp_path: Path) -> None:
    broken = changed(
        (("dispatchables", "gather", "desc", "InputTensor", "DataType"), "UNKNOWN"), (("resources", "rows", "initialValues"), [1])
    )
    found = check(tmp_path, broken)
    assert {finding.code for finding in found.errors if finding.code.startswith("DML7")} == {"DML705"}
    assert all("IndicesTensor" in finding.expected for finding in found.errors if finding.code == "DML705")


def test_a_level_that_refuses_a_tensor_does_not_hide_its_binding(tmp_path: Path) -> None:
    found = check(tmp_path, changed((("resources", "table", "initialValues"), [1])), level="2_1")
    assert {finding.code for finding in found.errors} == {"DML202", "DML705"}


def test_a_binding_reinterprets_bytes(tmp_path: Path) -> None:
    as_bytes = {"initialValuesDataType": "UINT8", "initialValues": {"valueCount": 24, "value": 0}}
    assert check(tmp_path, changed((("resources", "table"), as_bytes))).ok


def test_ranges_of_one_resource_may_serve_several_inputs(tmp_path: Path) -> None:
    shared = {"initialValuesDataType": "UINT32", "initialValues": {"valueCount": 64, "value": 0}}
    model = changed(
        (("resources", "rows"), shared),
        ((*BINDINGS, "InputTensor"), {"name": "rows", "elementOffset": 0}),
        ((*BINDINGS, "OutputTensor"), {"name": "rows", "elementOffset": 8}),
    )
    assert check(tmp_path, model).ok


def test_broken_resources_are_not_reported_as_missing(tmp_path: Path) -> None:
    found = check(tmp_path, changed((("resources", "table", "initialValues"), [])))
    assert (len(found.problems), found.findings) == (1, ())


def test_descriptors_of_both_parts_are_checked(tmp_path: Path) -> None:
    wrong = changed((("desc", "Axis"), 7), start=GATHER)
    found = check(tmp_path, changed((("dispatchables", "second"), wrong)))
    (finding,) = found.errors
    assert (finding.code, finding.path, finding.subject) == ("DML206", "Axis", "dispatchables.second")
    line = (tmp_path / "model.json").read_text().splitlines()[(finding.line or 0) - 1]
    assert line.strip() == '"Axis": 7,'
