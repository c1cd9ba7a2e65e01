"""`dmlgather check`: formats, folders, exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dmlgather.cli.check import FORMATS as NAMES
from dmlgather.cli.schema import Schema, schema_of
from dmlgather.report.formats import FORMATS
from tests.cli.command import EXAMPLES, Command, process
from tests.dxdispatch.models import GATHER, MODEL, changed, line_of, write

WRONG = changed((("dispatchables", "gather", "desc", "Axis"), 2))
AXIS = '"Axis": 2'
WARNED = changed((("remark",), "x"))
BROKEN = '{"dispatchables": '

CASES: dict[str, tuple[dict[str, Any], int]] = {
    "clean": ({"a.json": MODEL, "b.json": GATHER}, 0),
    "warning": ({"a.json": WARNED}, 0),
    "error": ({"a.json": MODEL, "b.json": WRONG}, 1),
    "problem": ({"a.json": MODEL, "b.json": BROKEN}, 2),
    "error and problem": ({"a.json": WRONG, "b.json": BROKEN, "c.json": WARNED}, 2),
}


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_exit_codes_do_not_depend_on_the_format(tmp_path: Path, command: Command, case: str, output_format: str) -> None:
    files, code = CASES[case]
    paths = [write(tmp_path, value, name) for name, value in files.items()]
    assert command("check", "--output-format", output_format, *paths).code == code


def test_every_format_can_be_chosen() -> None:
    assert ", ".join(FORMATS) == NAMES


def test_concise_text_is_a_line_per_finding(tmp_path: Path, command: Command) -> None:
    file = write(tmp_path, WRONG)
    ended = command("check", "--output-format", "concise", file)
    (line,) = ended.out.splitlines()
    assert line.startswith(f"{file}:{line_of(file, AXIS)}:13: dispatchables.gather DML206 error Axis: ")
    assert ended.err == "1 file checked, 1 error\n"


def test_json_stands_alone_on_standard_output(tmp_path: Path) -> None:
    for name, value in {"a.json": WRONG, "b.json": BROKEN, "c.json": WARNED, "d.json": GATHER}.items():
        write(tmp_path, value, name)
    write(tmp_path, {"name": "package"}, "package.json")
    ended = process("check", "--output-format", "json", ".", cwd=tmp_path)
    report = json.loads(ended.out)
    jsonschema.validate(report, schema_of(Schema.REPORT))
    assert ended.code == report["exit_code"] == 2
    assert (report["level"], report["skipped"]) == ("6_4", ["package.json"])
    assert [file["kind"] for file in report["files"]] == ["model", "model", "model", "descriptor"]
    counts = {"files": 4, "skipped": 1, "problems": 1, "errors": 1, "warnings": 1}
    assert report["summary"] == {**counts, "notes": 0, "ignored": 0, "known": 0, "vanished": 0}
    (finding,) = report["files"][0]["findings"]
    assert (finding["code"], finding["severity"], finding["path"]) == ("DML206", "error", "Axis")
    assert (finding["file"], finding["subject"], finding["level"]) == ("a.json", "dispatchables.gather", None)
    (problem,) = report["files"][1]["problems"]
    assert (problem["line"], problem["column"]) == (1, 19)


def test_a_clean_report_is_json_as_well(tmp_path: Path, command: Command) -> None:
    report = command.report(Schema.REPORT, "check", write(tmp_path, MODEL))
    assert (report["exit_code"], report["files"][0]["findings"]) == (0, [])


def test_folders_are_walked(tmp_path: Path, command: Command) -> None:
    for folder in ("b", "a/deep"):
        (tmp_path / folder).mkdir(parents=True)
    write(tmp_path / "b", WRONG, "wrong.JSON")
    write(tmp_path / "a" / "deep", MODEL, "right.json")
    write(tmp_path, {"compilerOptions": {}}, "tsconfig.json")
    write(tmp_path, "[not json", "notes.json")
    write(tmp_path, "", "empty.json")
    write(tmp_path, MODEL, "model.txt")
    ended = command("check", "--output-format", "concise", tmp_path)
    assert ended.code == 1
    assert [line.split(":")[0] for line in ended.out.splitlines()] == [f"{tmp_path}/b/wrong.JSON"]
    assert ended.err == "2 files checked, 1 error, 3 files of another sort skipped\n"
    assert command("check", tmp_path, tmp_path / "tsconfig.json").code == 2  # named outright


def test_a_broken_model_in_a_folder_is_not_skipped(tmp_path: Path, command: Command) -> None:
    write(tmp_path, MODEL, "good.json")
    text = write(tmp_path, MODEL, "cut.json").read_text()
    write(tmp_path, text[:-3], "cut.json")
    ended = command("check", tmp_path)
    assert ended.code == 2
    assert "cut.json" in ended.err


def test_an_unreadable_file_in_a_folder_is_not_skipped(tmp_path: Path, command: Command) -> None:
    write(tmp_path, MODEL, "good.json")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "again").symlink_to(tmp_path)  # a link to a folder is not followed
    ended = command("check", tmp_path)
    assert ended.code == 2
    assert "pipe.json: is a pipe" in ended.err
    assert "loop.json: cannot be used" in ended.err
    assert ended.err.endswith("\n1 file checked, 2 problems\n")


def test_level(tmp_path: Path, command: Command) -> None:
    file = write(tmp_path, MODEL)
    assert command("check", "--level", "3_0", file).code == 0
    for level in ("2_1", "2.1", "DML_FEATURE_LEVEL_2_1", "0x2100", "DirectML 1.1"):
        ended = command("check", "--level", level, file)
        assert ended.code == 1
        assert "DML202" in ended.out
    assert "DirectML 1.8 has level 5_0" in command.refused("check", "--level", "1.8", file)


@pytest.mark.slow
def test_names_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"bad\xff.json")
    write(tmp_path, WRONG, name)
    ended = process("check", "--output-format", "json", tmp_path / name)
    assert ended.code == 1
    assert json.loads(ended.out)["files"][0]["file"] == f"{tmp_path}/bad\udcff.json"
    assert process("check", tmp_path / name).code == 1


def test_examples(command: Command) -> None:
    ended = command("check", "--output-format", "concise", EXAMPLES)
    assert ended.code == 1
    (line,) = ended.out.splitlines()
    assert "gather_3_as_printed.json:" in line
    assert "IndexDimensions = 1 gives the stated output {3,2}" in line
