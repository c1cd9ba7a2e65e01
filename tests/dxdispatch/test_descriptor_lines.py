"""Streams of descriptors: what is found on which line, and how often."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dmlgather import files
from dmlgather.directml import FeatureLevel
from dmlgather.directml.dxdispatch import descriptor_lines
from dmlgather.directml.dxdispatch.descriptor_lines import check_lines, check_lines_file, check_stdin
from dmlgather.directml.dxdispatch.model_file import CheckedFile, check_file
from tests.dxdispatch.models import GATHER, MODEL, changed, write

WRONG = changed((("desc", "Axis"), 2), start=GATHER)
LEVEL = FeatureLevel.LEVEL_6_4


def lines(*values: Any) -> list[bytes]:
    return [(value if isinstance(value, str) else json.dumps(value)).encode() + b"\n" for value in values]


def check(*values: Any) -> CheckedFile:
    return check_lines("dump.jsonl", lines(*values), LEVEL)


def test_each_line_is_checked_as_a_file_of_its_own_is(tmp_path: Path) -> None:
    found = check(GATHER, "", {"name": "rows", **WRONG}, GATHER)
    (error,) = found.findings
    (alone,) = check_file(write(tmp_path, json.dumps({"name": "rows", **WRONG}))).findings
    assert error == alone.model_copy(update={"file": "dump.jsonl", "line": 3})
    assert (found.kind, found.descriptors, found.problems, error.subject) == ("descriptors", 3, (), "rows")


def test_a_thousand_equal_lines_are_one_finding() -> None:
    found = check(*[WRONG] * 1000, {"name": "other", **WRONG}, *[GATHER] * 5)
    assert [(error.line, error.lines, error.subject) for error in found.findings] == [(1, 1000, ""), (1001, 1, "other")]
    assert str(found.findings[0]).endswith(" (on 1000 lines)")
    assert "lines)" not in str(found.findings[1])
    assert found.descriptors == 1006


def test_operators_of_other_sorts_are_noted_once_each() -> None:
    relu = {"type": "DML_OPERATOR_ACTIVATION_RELU"}
    found = check({"name": "a", **relu}, GATHER, {"name": "b", **relu}, relu, {"type": 999}, {"type": "GEMM", "desc": {}})
    assert [(note.code, note.got, note.line, note.lines) for note in found.findings] == [
        ("DML804", "DML_OPERATOR_ACTIVATION_RELU", 1, 3),
        ("DML804", "number 999 of DML_OPERATOR_TYPE", 5, 1),
        ("DML804", "DML_OPERATOR_GEMM", 6, 1),
    ]
    assert (found.ok, found.descriptors) == (True, 1)


def test_an_operator_that_is_a_number_has_the_name_of_its_line() -> None:
    (note,) = check({"name": "new", "type": 9999}).findings
    assert (note.subject, note.got) == ("new", "number 9999 of DML_OPERATOR_TYPE")


BROKEN = {
    "torn": ('{"type": "DML_OPERATOR_GATH', 10, "the line ends inside the string that begins here"),
    "two in one": (json.dumps(GATHER) + json.dumps(GATHER), len(json.dumps(GATHER)) + 1, "a line holds one value"),
    "no object": ("[1]", 1, "expected a descriptor"),
    "a model": (json.dumps(MODEL), 1, "expected a descriptor"),
    "other JSON": ('{"level": "info"}', 1, "expected a descriptor"),
    "a message": ("created 3 operators", 1, "expected a value, got 'created'"),
    "a wrong name": ('{"type": "DML_OPERATOR_GATHR", "desc": {}}', 10, "did you mean 'DML_OPERATOR_GATHER'"),
    "a known number": ('{"type": 67, "desc": {}}', 10, "in double quotes: DML_OPERATOR_GATHER, got 67"),
    "no type": ('{"type": null}', 1, "expected a descriptor"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_line_is_one_problem_and_the_rest_is_checked(case: str) -> None:
    line, column, says = BROKEN[case]
    found = check(GATHER, line, WRONG)
    (problem,) = found.problems
    assert (problem.line, problem.column) == (2, column)
    assert says in problem.message
    assert [error.line for error in found.findings] == [3]


@pytest.mark.parametrize("kind", [{}, [], None, True, 1.5, 0])
def test_a_type_that_names_no_operator(kind: Any) -> None:
    """Found by ci/heavy fuzz: an object in the place of the type."""
    found = check({"type": kind}, WRONG)
    assert ([problem.line for problem in found.problems], len(found.errors)) == ([1], 1)


def test_bytes_that_are_no_text_break_their_line_alone() -> None:
    found = check_lines("dump.jsonl", [*lines(GATHER), b'{"name": "\xff"}\n', *lines(WRONG)], LEVEL)
    (problem,) = found.problems
    assert (problem.line, problem.column) == (2, 11)
    assert problem.message.startswith("the line is not UTF-8 text")
    assert len(found.findings) == 1


def test_of_many_broken_lines_the_first_are_shown() -> None:
    found = check(*(f"broken {number}" for number in range(5000)), WRONG)
    assert len(found.problems) == descriptor_lines.SHOWN + 1
    assert found.problems[-1].message == f"{5000 - descriptor_lines.SHOWN} more lines cannot be understood"
    assert len(found.findings) == 1
    assert [problem.line for problem in check(*["equal"] * 5000).problems] == [1]


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptor_lines, "LONGEST", 1000)
    file = tmp_path / "dump.jsonl"
    file.write_bytes(lines(GATHER)[0] + b'{"name": "' + b"x" * 5000 + b'"}\n' + lines(WRONG)[0])
    found = check_lines_file(file, LEVEL)
    (problem,) = found.problems
    assert (problem.line, problem.message) == (2, "the line is longer than 1000 bytes, the limit for a descriptor")
    assert [error.line for error in found.findings] == [3]


def test_a_stream_that_does_not_fit_into_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    different = b"".join(lines(*({"name": str(number), **GATHER} for number in range(100))))
    file = tmp_path / "dump.jsonl"
    for module in (descriptor_lines, files):
        monkeypatch.setattr(module, "available_memory", lambda: 100_000)
    file.write_bytes(b"".join(lines(*[GATHER] * 1000)))
    assert check_lines_file(file, LEVEL).descriptors == 1000
    file.write_bytes(different)
    for found in (check_lines_file(file, LEVEL), check_stdin(io.BytesIO(different), LEVEL)):
        assert "bytes of different lines, too many with 100000 bytes of memory free" in found.problems[0].message
    for endless in (b"[" * 3 * 10**6, b"\0" * 3 * 10**6):
        assert "too many to read with 100000 bytes" in check_stdin(io.BytesIO(endless), LEVEL).problems[0].message


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
def test_windows_lines_and_marks(tmp_path: Path, ending: bytes) -> None:
    file = tmp_path / "dump.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + (ending or b"\n").join(json.dumps(value).encode() for value in (WRONG, GATHER)) + ending)
    found = check_lines_file(file, LEVEL)
    assert (len(found.findings), found.descriptors, found.problems) == (1, 2, ())


@pytest.mark.parametrize(
    ("content", "kind", "says"),
    [
        (b"", "unreadable", "the file is empty"),
        (b"\n\n", "unreadable", "the file is empty"),
        (b'{"name": "cut', "descriptors", "inside the string"),
        (b'{"text": "training data"}\n', "foreign", "expected a descriptor"),
        ("".join(line.decode() for line in lines(GATHER, WRONG)).encode("utf-16"), "unreadable", "UTF-16 text; save it as UTF-8"),
    ],
)
def test_files_of_another_sort(tmp_path: Path, content: bytes, kind: str, says: str) -> None:
    file = tmp_path / "dump.jsonl"
    file.write_bytes(content)
    found = check_lines_file(file, LEVEL)
    assert found.kind == kind
    (problem,) = found.problems
    assert says in problem.message


def test_an_error_far_behind_lines_of_other_operators_is_found(tmp_path: Path) -> None:
    file = tmp_path / "dump.jsonl"
    file.write_bytes(b"".join(lines(*({"name": f"q{number}", "type": 9999} for number in range(3000)), WRONG)))
    assert [error.code for error in check_lines_file(file, LEVEL).errors] == ["DML206"]


STANDARD_INPUT = {
    "lines": ([GATHER, WRONG], "descriptors", 2),
    "lines after an empty one": (["", GATHER, WRONG], "descriptors", 3),
    "one line": ([WRONG], "descriptors", 1),
    "a first line of another operator": ([{"type": "DML_OPERATOR_GEMM", "desc": {}}, WRONG], "descriptors", 2),
    "a first line that is no descriptor": (["log: start", WRONG], "descriptors", 2),
    "a first line that was cut off": (['{"name": "cut', WRONG], "descriptors", 2),
    "a first line of an operator without a name": ([{"name": "new", "type": 9999}, WRONG], "descriptors", 2),
    "a descriptor over several lines": ([json.dumps(WRONG, indent=1)], "descriptor", 25),
    "a model in one line": ([changed((("dispatchables", "gather"), WRONG))], "model", 1),
}


@pytest.mark.parametrize("case", STANDARD_INPUT)
def test_the_first_line_tells_what_standard_input_is(case: str) -> None:
    values, kind, line = STANDARD_INPUT[case]
    found = check_stdin(io.BytesIO(b"".join(lines(*values))), LEVEL)
    (error,) = found.errors
    assert (found.kind, found.file, error.code, error.file) == (kind, "<stdin>", "DML206", "<stdin>")
    assert error.line == line


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"\xff\xfe{\0", b"nothing", b"{}", b'{"type": "DML_OPERATOR_GATHR", "desc": {}}']
)
def test_standard_input_that_cannot_be_understood(content: bytes) -> None:
    found = check_stdin(io.BytesIO(content), LEVEL)
    assert len(found.problems) == 1
    assert found.problems[0].file == "<stdin>"


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=30) | st.sampled_from([line.rstrip() for line in lines(GATHER, WRONG, MODEL)]), max_size=6))
def test_any_lines_are_answered(tmp_path: Path, content: list[bytes]) -> None:
    file = tmp_path / "any.jsonl"
    file.write_bytes(b"\n".join(content))
    found = check_lines_file(file, LEVEL)
    assert found.problems or found.descriptors
    assert all(str(item) for item in (*found.problems, *found.findings))
