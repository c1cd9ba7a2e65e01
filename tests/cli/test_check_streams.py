"""`dmlgather check` of streams of descriptors and of standard input; `dmlgather header`."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dmlgather.cli.header import FOLDER, NAME
from dmlgather.cli.schema import Schema
from dmlgather.report.formats import FORMATS
from tests.cli.command import Command
from tests.cli.readers import READERS, sarif_log
from tests.dxdispatch.models import GATHER, MODEL, changed, write

WRONG = {"name": "rows.cpp:7", **changed((("desc", "Axis"), 2), start=GATHER)}
STREAM = "".join(json.dumps(value) + "\n" for value in (GATHER, WRONG, WRONG, {"type": "DML_OPERATOR_GEMM"}))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets what comes from standard input."""

    def set_input(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))

    return set_input


def test_a_stream_is_checked_line_by_line(tmp_path: Path, command: Command) -> None:
    for name in ("dump.jsonl", "dump.NDJSON"):
        file = write(tmp_path, STREAM, name)
        block = command("check", file).out
        assert block.startswith("rows.cpp:7: DML206 error: Axis must be a dimension of InputTensor (Axis) (on 2 lines)\n")
        assert block.splitlines()[1].startswith(f"  dumped    at {file}:2:")
        ended = command("check", "--output-format", "concise", file)
        error, note = ended.out.splitlines()
        assert ended.code == 1
        assert error.startswith("rows.cpp:7: DML206 error Axis: ")
        assert f" (on 2 lines) (dumped at {file}:2:" in error
        assert f"{file}:4:10: DML804 note type: " in note
        assert ended.err == "1 file checked, 3 descriptors, 1 error, 1 note\n"


@pytest.mark.parametrize("output_format", FORMATS)
def test_every_format_has_the_findings_of_standard_input(command: Command, given: Any, output_format: str) -> None:
    given(STREAM)
    ended = command("check", "--output-format", output_format, "-")
    assert ended.code == 1
    found = READERS[output_format](ended.out)
    place = ("<stdin>", 2) if output_format == "json" else ("rows.cpp", 7)
    assert ("error", "DML206", *place) in [each[:4] for each in found]


NAMES: dict[str, tuple[str, str | None]] = {
    "as compilers name it": ("src/rows.cpp:12", "src/rows.cpp"),
    "from the current folder on": ("./src/rows.cpp:12", "src/rows.cpp"),
    "in the current folder": ("{folder}/src/rows.cpp:12", "src/rows.cpp"),
    "elsewhere": ("/usr/src/rows.cpp:12", "/usr/src/rows.cpp"),
    "beside the current folder": ("../src/rows.hpp:12", "../src/rows.hpp"),
    "with backslashes": ("src\\gpu\\rows.cu:12", "src/gpu/rows.cu"),
    "of Windows": ("C:\\src\\rows.cpp:12", None),
    "no line": ("rows.cpp", None),
    "line 0": ("rows.cpp:0", None),
    "no file": ("rows of the table:12", None),
    "a label with a dot": ("net.weight:12", None),
    "a label of a result": ("Conv.out:12", None),
    "a label before a file": ("embedding of rows.cpp:12", None),
    "a label before a path": ("embedding of src/rows.cpp:12", None),
    "in a folder with a space": ("/usr/my src/rows.cpp:12", "/usr/my src/rows.cpp"),
    "with a space": ("src/my rows.cpp:12", "src/my rows.cpp"),
    "an address": ("https://example.com/rows.cpp:12", None),
    "in capitals": ("SRC/ROWS.CPP:12", "SRC/ROWS.CPP"),
    "of Objective-C++": ("src/rows.mm:12", "src/rows.mm"),
    "no number": ("rows.cpp:twelve", None),
    "a number of no line": (f"rows.cpp:{'1' * 5000}", None),
}


@pytest.mark.skipif(os.name == "nt", reason="paths of Windows are other files there")
@pytest.mark.parametrize("case", NAMES)
def test_the_line_of_the_program_is_named_first(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder))
    name, source = NAMES[case]
    file = write(folder, json.dumps({**WRONG, "name": name.format(folder=folder)}) + "\n", "a.jsonl").relative_to(folder)
    written = {name: command("check", "--output-format", name, file).out for name in FORMATS}
    (found,) = json.loads(written["json"])["files"][0]["findings"]
    assert found.get("created") == (source and {"file": source, "line": 12})
    if source:
        assert found["subject"] == f"{source}:12"
        assert f"title=DML206 {source}%3A12" in written["github"]
        assert f'"fullyQualifiedName": "{source}:12.Axis"' in written["sarif"]
    column = found["column"]
    expected = ("a.jsonl", 1, column) if source is None else (source, 12, None)
    for output_format in ("text", "concise"):
        assert READERS[output_format](written[output_format])[0][2:] == expected
        assert f"a.jsonl:1:{column}" in written[output_format]
    (result,) = sarif_log(written["sarif"])["results"]
    related = [place["physicalLocation"] for place in result.get("relatedLocations", [])]
    dump = {"artifactLocation": {"uri": "a.jsonl", "uriBaseId": "%SRCROOT%"}, "region": {"startLine": 1, "startColumn": column}}
    assert related == ([] if source is None else [dump])
    uri = f"file://{source}" if source and source.startswith("/") else expected[0]
    if not uri.startswith(".."):
        assert READERS["sarif"](written["sarif"])[0][2:4] == (uri, expected[1])
        if not uri.startswith("file:"):
            assert READERS["github"](written["github"])[0][2:] == expected


@pytest.mark.parametrize(("pattern", "code"), [("src/rows.cpp", 0), ("/src/", 0), ("a.jsonl", 0), ("src/other.cpp", 1)])
def test_a_code_is_ignored_by_the_source_file_of_its_descriptor(folder: Path, command: Command, pattern: str, code: int) -> None:
    line = json.dumps({**WRONG, "name": "src/rows.cpp:12"}) + "\n"
    file = write(folder, line, "a.jsonl").relative_to(folder)
    entry = f'[[ignore]]\ncode = "DML206"\nreason = "r"\npaths = ["{pattern}"]\n'
    (folder / "dmlgather.toml").write_text(entry)
    assert command("check", file).code == code


def test_a_node_of_a_model_is_no_line_of_a_program(tmp_path: Path, command: Command) -> None:
    gather = changed((("desc", "Axis"), 2), start=GATHER)
    file = write(tmp_path, {**MODEL, "dispatchables": {"rows.cpp:7": gather}, "commands": []})
    (found,) = command.report(Schema.REPORT, "check", file, code=1)["files"][0]["findings"]
    assert found["subject"] == "dispatchables.rows.cpp:7"
    assert "created" not in found


def test_a_problem_with_a_dumped_line_names_the_program(folder: Path, command: Command) -> None:
    line = {"name": "src/rows.cpp:12", "type": "DML_OPERATOR_GATHER", "desc": {**GATHER["desc"], "InputTensor": None}}
    file = write(folder, json.dumps(line) + "\n", "a.jsonl").relative_to(folder)
    (shown,) = command("check", "--output-format", "github", file).out.splitlines()
    assert shown.startswith("::error file=src/rows.cpp,line=12,title=not understood::a.jsonl:1:")
    (invocation,) = sarif_log(command("check", "--output-format", "sarif", file).out)["invocations"]
    (told,) = invocation["toolExecutionNotifications"]
    assert told["locations"][0]["physicalLocation"]["region"] == {"startLine": 12}
    for output_format in ("text", "concise"):
        problem = command("check", "--output-format", output_format, file).err.splitlines()[0]
        assert problem.startswith("src/rows.cpp:12: desc.InputTensor: must not be null")
        assert " (dumped at a.jsonl:1:" in problem


def test_the_report_says_how_many_lines_a_finding_has(command: Command, given: Any) -> None:
    given(STREAM)
    (file,) = command.report(Schema.REPORT, "check", "-", code=1)["files"]
    assert (file["file"], file["kind"], file["descriptors"]) == ("<stdin>", "descriptors", 3)
    found = [(finding["code"], finding["lines"], finding["subject"]) for finding in file["findings"]]
    assert found == [("DML206", 2, "rows.cpp:7"), ("DML804", 1, "")]
    given(STREAM)
    run = sarif_log(command("check", "--output-format", "sarif", "-").out)
    assert [result.get("occurrenceCount") for result in run["results"]] == [2, None]


def test_standard_input_may_be_a_model_and_stand_beside_files(tmp_path: Path, command: Command, given: Any) -> None:
    given(json.dumps(MODEL, indent=2))
    ended = command("check", "-", write(tmp_path, GATHER), "-")
    assert (ended.code, ended.out, ended.err) == (0, "", "2 files checked, no findings\n")
    given("")
    said = "<stdin>:1:1: the file is empty: it holds no JSON value; expected a DxDispatch model or a descriptor, as JSON "
    assert command.refused("check", "-").startswith(said)


@pytest.mark.parametrize("text", [STREAM, json.dumps(WRONG, indent=2), json.dumps(WRONG), "\ufeff" + STREAM])
def test_findings_of_standard_input_show_their_line(folder: Path, command: Command, given: Any, text: str) -> None:
    name = write(folder, text, "a.jsonl" if text.endswith("\n") else "a.json").relative_to(folder)
    of_file = command("check", name).out
    assert " | " in of_file
    assert "^" in of_file
    given(text)
    assert command("check", "-").out == of_file.replace(str(name), "<stdin>")


def test_the_level_holds_for_standard_input(command: Command, given: Any) -> None:
    given(json.dumps(GATHER))
    assert command("check", "--level", "2_1", "-").code == 1


def test_streams_in_folders(tmp_path: Path, command: Command) -> None:
    write(tmp_path, STREAM, "dump.jsonl")
    write(tmp_path, '{"text": "training data"}\n' * 100_000, "corpus.jsonl")
    ended = command("check", "--output-format", "concise", tmp_path)
    assert (ended.code, len(ended.out.splitlines())) == (1, 2)
    assert ended.err == "1 file checked, 3 descriptors, 1 error, 1 note, 1 file of another sort skipped\n"
    named = command("check", tmp_path / "corpus.jsonl")
    assert named.code == 2
    assert 'expected a descriptor {"type": "DML_OPERATOR_…", "desc": {…}} on each line' in named.err


@pytest.mark.parametrize("content", ["", "\n", '{"name": "cut off'])
def test_a_stream_in_a_folder_that_holds_nothing_is_a_problem(tmp_path: Path, command: Command, content: str) -> None:
    """A program that wrote nothing, or ended while it wrote, must not make a check pass."""
    write(tmp_path, content, "dump.jsonl")
    assert command("check", tmp_path).code == 2


def test_a_baseline_knows_a_descriptor_whose_line_moved(tmp_path: Path, command: Command) -> None:
    baseline = tmp_path / "base.json"
    for name, option, code in (
        ("/home/ann/src/rows.cpp:12", "--write-baseline", 0),
        ("C:\\src\\rows.cpp:40", "--baseline", 0),
        ("C:\\src\\columns.cpp:40", "--baseline", 1),
    ):
        file = write(tmp_path, json.dumps({**WRONG, "name": name}), "dump.jsonl")
        assert command("check", option, baseline, file).code == code


@pytest.mark.parametrize("subcommand", ["run", "compare", "explain"])
def test_other_commands_say_that_a_stream_is_for_check(tmp_path: Path, command: Command, subcommand: str) -> None:
    said = command.refused(subcommand, write(tmp_path, STREAM, "dump.jsonl"))
    assert "only check, translate and compare --against MODEL.onnx take a stream of descriptors" in said


def test_the_header_is_printed_and_found(command: Command) -> None:
    printed = command("header")
    assert (printed.code, printed.out) == (0, (FOLDER / NAME).read_text(encoding="utf-8"))
    folder = command("header", "--path").out
    assert (Path(folder.rstrip("\n")) / "dmlgather_dump.h").is_file()
