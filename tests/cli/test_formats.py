"""What `check` writes in each format, read back by other means, and where it writes it."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dmlgather.dialects import export_codes as dialects
from dmlgather.directml import CODES
from dmlgather.report.formats import FORMATS
from tests.cli.command import Command, on_terminal, process, python
from tests.cli.readers import READERS, sarif_log
from tests.dxdispatch.models import GATHER, MODEL, changed, line_of, write

WRONG = changed((("dispatchables", "gather", "desc", "Axis"), 2))
WARNED = changed((("remark",), "x"))
BROKEN = '{"dispatchables": '
SEVERAL = changed(
    (("desc", "InputTensor", "DimensionCount"), 3), (("desc", "OutputTensor", "Flags"), "OWNED_BY_DML"), start=GATHER
)


def test_every_format_has_a_reader() -> None:
    assert list(READERS) == list(FORMATS)


@pytest.mark.parametrize("output_format", FORMATS)
def test_every_format_has_every_finding_with_its_place(folder: Path, command: Command, output_format: str) -> None:
    axis, remark = (
        line_of(write(folder, WRONG, "a b,c%:d.json"), '"Axis": 2'),
        line_of(write(folder, WARNED, "é.json"), '"remark"'),
    )
    write(folder, SEVERAL, "c.json")
    write(folder, MODEL, "d.json")
    ended = command("check", "--output-format", output_format, ".")
    found = sorted(READERS[output_format](ended.out))
    assert ("error", "DML206", "a b,c%:d.json", axis, 13) in found
    assert ("warning", "DML801", "é.json", remark, 2) in found
    assert {(code, file) for _, code, file, _, _ in found if file == "c.json"} == {("DML101", "c.json"), ("DML112", "c.json")}
    assert len(found) == 4
    assert ended.code == 1


@pytest.mark.slow
@pytest.mark.parametrize("output_format", FORMATS)
def test_names_that_would_break_a_format(folder: Path, output_format: str) -> None:
    """A line break, a workflow command, an escape sequence and bytes that are no text, all in the name of a file."""
    name = os.fsdecode(b"x\n::error::\x1b[31m<&>\xff.json")
    write(folder, WRONG, name)
    write(folder, BROKEN, "::error::y.json")
    ended = process("check", "--output-format", output_format, ".", cwd=folder, GITHUB_ACTIONS="", GITHUB_WORKSPACE="")
    assert ended.code == 2, ended.err
    assert "\x1b" not in ended.out + ended.err
    if output_format == "json":
        assert json.loads(ended.out)["files"][1]["file"] == f"{name}"
    elif output_format == "sarif":
        (result,) = sarif_log(ended.out)["results"]
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert uri == "x%0A%3A%3Aerror%3A%3A%1B%5B31m%3C%26%3E%FF.json"
    elif output_format == "junit":
        assert len(ET.fromstring(ended.out).findall(".//testcase")) == 2
    elif output_format == "github":
        assert [line[:14] for line in ended.out.splitlines()] == ["::error file=%", "::error file=x"]


def test_sarif_is_valid_and_complete(folder: Path, command: Command) -> None:
    write(folder, WRONG, "a.json")
    write(folder, BROKEN, "b.json")
    run = sarif_log(command("check", "--output-format", "sarif", "a.json", "b.json").out)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [*CODES, *dialects.CODES]
    for rule in rules:
        row = {**CODES, **dialects.CODES}[rule["id"]]
        assert (rule["shortDescription"]["text"], rule["defaultConfiguration"]["level"]) == (row.title, row.severity)
        assert row.source in rule["help"]["text"]
        assert rule["id"] in rule["help"]["text"]
    assert sum("helpUri" in rule for rule in rules) > len(rules) * 3 / 4
    assert run["columnKind"] == "unicodeCodePoints"
    (result,) = run["results"]
    assert "expected" in result["message"]["text"]
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "dispatchables.gather.Axis"
    (invocation,) = run["invocations"]
    assert (invocation["exitCode"], invocation["executionSuccessful"]) == (2, False)
    (problem,) = invocation["toolExecutionNotifications"]
    assert problem["level"] == "error"
    assert problem["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "b.json"
    assert run["originalUriBaseIds"]["%SRCROOT%"]["uri"] == f"file://{folder}/"


def test_columns_count_characters(folder: Path, command: Command) -> None:
    text = json.dumps(changed((("desc", "Axis"), 2), start=GATHER), ensure_ascii=False).replace("{", '{"_😀": "é😀", ', 1)
    write(folder, text, "a.json")
    expected = [("error", "DML206", "a.json", 1, text.index("2", text.index('"Axis"')) + 1)]
    for output_format, read in READERS.items():
        assert read(command("check", "--output-format", output_format, "a.json").out) == expected


def test_names_are_relative_to_the_checkout_on_github(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "deep").mkdir()
    write(folder / "deep", WRONG, "a.json")
    monkeypatch.chdir(folder / "deep")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder))
    for output_format in ("sarif", "github"):
        (place,) = READERS[output_format](command("check", "--output-format", output_format, "a.json").out)
        assert place[2] == "deep/a.json"
    outside = sarif_log(command("check", "--output-format", "sarif", "/proc/none.json").out)
    location = outside["invocations"][0]["toolExecutionNotifications"][0]["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "file:///proc/none.json"}


def test_junit_counts_files(folder: Path, command: Command) -> None:
    for name, value in {"a.json": SEVERAL, "b.json": BROKEN, "c.json": WARNED, "d.json": MODEL}.items():
        write(folder, value, name)
    root = ET.fromstring(command("check", "--output-format", "junit", ".").out)
    (suite,) = root.findall("testsuite")
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "0"]
    cases = {case.get("name"): case for case in suite.findall("testcase")}
    tags = {name: [child.tag for child in case] for name, case in cases.items()}
    assert tags == {"a.json": ["failure"], "b.json": ["error"], "c.json": ["system-out"], "d.json": []}
    assert cases["a.json"].find("failure").get("message") == "2 errors: DML101, DML112"  # type: ignore[union-attr] # is there


def test_several_formats_at_once(folder: Path, command: Command) -> None:
    write(folder, WRONG, "a.json")
    asked = [item for name in FORMATS for item in ("--output-format", f"{name}:out/report.{name}")]
    ended = command("check", *asked, "--output-format", "github", "a.json")
    assert ended.out.startswith("::error file=a.json,line=")
    expected = READERS["github"](ended.out)
    for name, read in READERS.items():
        assert read((folder / "out" / f"report.{name}").read_text(encoding="utf-8")) == expected
    note = "dmlgather: note: --output-format json:FILE is now spelled --output FILE, as in all commands; both work"
    assert ended.err == f"{note}\n1 file checked, 1 error\n"
    assert ended.code == 1


def test_github_is_chosen_in_its_workflows(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, WRONG, "a.json")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert command("check", "a.json").out.startswith("::error ")
    assert command("check", "--output-format", "sarif:x.sarif", "a.json").out.startswith("::error ")
    assert command("check", "--output-format", "text", "a.json").out.startswith("a.json:")
    monkeypatch.setenv("GITHUB_ACTIONS", "false")
    assert command("check", "a.json").out.startswith("a.json:")


MISUSES = {
    "an unknown format": (["xml"], "expected text, concise, json, sarif, junit or github, or one of these and a file"),
    "no file behind the colon": (["sarif:"], "got 'sarif:'"),
    "two on standard output": (["text", "json"], "text and json cannot both be written to standard output"),
    "two in a file": (["sarif:x", "json:x"], "sarif and json cannot both be written to x"),
}


@pytest.mark.parametrize(("formats", "says"), MISUSES.values(), ids=MISUSES)
def test_formats_that_make_no_sense(folder: Path, command: Command, formats: list[str], says: str) -> None:
    write(folder, MODEL, "a.json")
    assert says in command.refused("check", *(item for name in formats for item in ("--output-format", name)), "a.json")


def test_a_report_that_cannot_be_written(folder: Path, command: Command) -> None:
    write(folder, MODEL, "a.json")
    ended = command("check", "--output-format", "sarif:a.json/x.sarif", "a.json")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith("dmlgather: a.json/x.sarif ")


@pytest.mark.slow
def test_a_terminal_shows_the_same_text_in_colours(folder: Path) -> None:
    write(folder, WRONG, "a.json")
    plain = process("check", "a.json", cwd=folder, GITHUB_ACTIONS="").out
    assert "\x1b" not in plain
    shown = on_terminal("check", "a.json", cwd=folder, code=1, TERM="xterm-256color", COLUMNS="120")
    assert "\x1b[1;31mDML206 error" in shown
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown) == plain


def test_the_libraries_of_formats_are_imported_on_use(folder: Path) -> None:
    write(folder, WRONG, "a.json")
    heavy = "{'numpy', 'pydantic_sarif', 'junitparser', 'rich.console', 'pathspec'}"
    script = f"import sys; from dmlgather.cli.app import run; run(['check', 'a.json']); print({heavy} & set(sys.modules))"
    assert python(script, check=True).stdout.splitlines()[-1] == "set()"
