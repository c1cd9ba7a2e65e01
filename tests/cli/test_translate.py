"""`dmlgather translate`: what is printed and written, and the exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest

from dmlgather.cli.schema import Schema
from dmlgather.differential import Agreement
from tests.cli.command import EXAMPLES, Command, without_known_bugs
from tests.dxdispatch.models import GATHER, MODEL, changed, write

CHECKED = re.compile(
    r"  checked in onnxruntime [\d.]+( and the reference evaluator of onnx [\d.]+)?: \d+ (index value|output element)s, equal"
)


def test_a_model_is_translated_and_checked(tmp_path: Path, command: Command) -> None:
    target = tmp_path / "model.onnx"
    ended = command("translate", EXAMPLES / "gather_2.json", "--opset", 17, "-o", target)
    lines = without_known_bugs(ended.out).splitlines()
    assert (ended.code, ended.err) == (0, f"Written to '{target}'\n")
    assert lines[0].startswith("dispatch '")
    assert lines[1].endswith("clamp to at most 2, convert to int32, Gather-13 (axis 0)")
    assert lines[3] == f"{EXAMPLES / 'gather_2.json'} to onnx, opset 17"
    assert [bool(CHECKED.fullmatch(line)) for line in lines] == [False, False, True, False, True]
    assert [node.op_type for node in onnx.load(target).graph.node if node.op_type in ("Clip", "Gather")] == ["Clip", "Gather"]


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (Agreement(("a 1",), 3, 3, (), "why"), "differs: why"),
        (Agreement((), remarks=("nothing runs it",)), "not checked\n    nothing runs it"),
    ],
)
def test_a_translation_that_differs_is_not_written(
    planted: Agreement, said: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmlgather.translation.translating.check_agreement", lambda *_, **__: planted)
    target = tmp_path / "m.onnx"
    ended = command("translate", EXAMPLES / "slice1_1.json", "-o", target)
    assert (ended.code, ended.err) == (1, f"'{target}' is not written: the translation is {planted.verdict}\n")
    assert ended.out.endswith(f"to onnx, opset 13\n  {said}\n")
    assert not target.exists()
    report = command.report(Schema.TRANSLATION, "translate", EXAMPLES / "slice1_1.json", code=1)
    assert (report["whole"]["check"]["verdict"], report["whole"]["ok"], report["written"]) == (planted.verdict, False, None)


def test_an_opset_without_the_types_is_refused(tmp_path: Path, command: Command) -> None:
    source = write(tmp_path, changed((("desc", "IndicesTensor", "DataType"), "INT64"), start=GATHER))
    ended = command("translate", source, "--opset", 11, "-o", tmp_path / "out.onnx")
    assert (ended.code, ended.err) == (1, f"'{tmp_path / 'out.onnx'}' is not written: the translation is refused\n")
    assert ended.out.splitlines()[-1].startswith("  refused: ")
    assert "Clip-11, which opset 11 has, takes no int64" in ended.out
    assert not (tmp_path / "out.onnx").exists()


def test_a_descriptor_is_translated(tmp_path: Path, command: Command) -> None:
    report = command.report(Schema.TRANSLATION, "translate", write(tmp_path, GATHER), "--to", "onnx")
    assert (report["to"], report["whole"]["ok"], len(report["parts"])) == ("onnx, opset 13", True, 1)
    assert CHECKED.fullmatch(without_known_bugs(f"  {report['whole']['check']['text']}"))


def test_a_stream_is_translated(tmp_path: Path, command: Command) -> None:
    ended = command("translate", write(tmp_path, f"{json.dumps(GATHER)}\n", "dump.jsonl"), "--to", "onnx")
    assert (ended.code, ended.out.splitlines()[0]) == (0, "line 1: GATHER")
    stream = write(tmp_path, "{\n", "dump.jsonl")
    assert command.refused("translate", stream, "--to", "onnx").startswith(f"{stream}:1:2: ")


WRONG = changed((("desc", "Axis"), 7), start=GATHER)
GEMM = {"type": "DML_OPERATOR_GEMM", "desc": {}}


@pytest.mark.parametrize(
    ("others", "code", "said"),
    [
        ([GEMM, {"type": 4711}, GEMM], 1, [":2:10: DML804 ", ":3:10: DML804 "]),
        ([WRONG], 1, [":2:", "DML206"]),
        ([WRONG, {"type": "DML_OPERATOR_GATHR"}], 2, [":2:", "DML206", ":3:10: type: unknown name"]),
    ],
)
def test_lines_that_are_left_out_are_said(
    others: list[object], code: int, said: list[str], tmp_path: Path, command: Command
) -> None:
    """And the rest is translated. What is said of them is what `check` says."""
    stream, target = tmp_path / "dump.jsonl", tmp_path / "dump.onnx"
    stream.write_text("".join(f"{json.dumps(each)}\n" for each in (GATHER, *others, {**GATHER, "name": "last"})))
    ended = command("translate", stream, "--to", "onnx", "-o", target)
    last = len(others) + 2
    assert ended.code == code
    assert [line for line in ended.out.splitlines() if line.startswith("line ")] == ["line 1: GATHER", f"line {last}: GATHER"]
    without = "1 line that was" if len(others) == 1 else f"{len(others)} lines that were"
    assert without_known_bugs(ended.out).splitlines()[-2] == f"{stream} to onnx, opset 13, without {without} left out"
    assert [output.name for output in onnx.load(target).graph.output] == ["OutputTensor 1", f"OutputTensor {last}"]
    assert all(each in ended.err for each in said)
    compared = command("compare", stream, "--against", target)
    assert compared.code == code
    assert without_known_bugs(compared.out).endswith(f", equal, without {without} left out of {stream}\n")
    assert compared.err == ended.err.replace(f"Written to '{target}'\n", "")
    for arguments in (("translate", stream), ("compare", stream, "--against", target)):
        assert json.loads(command(*arguments, "--json").out)["left_out"] == len(others)
    checked = command("check", "--output-format", "concise", stream)
    assert {*ended.err.splitlines()} - {f"Written to '{target}'"} <= {*checked.out.splitlines(), *checked.err.splitlines()}


def test_a_stream_of_which_nothing_is_left(tmp_path: Path, command: Command) -> None:
    stream, target = write(tmp_path, json.dumps(GEMM), "dump.jsonl"), tmp_path / "dump.onnx"
    left = f"{stream}: nothing is left to"
    for arguments, last in (
        (("translate", stream, "--to", "onnx", "-o", target), f"{left} translate, and '{target}' is not written"),
        (("translate", stream, "--to", "onnx"), f"{left} translate"),
        (("compare", stream, "--against", tmp_path / "any.onnx"), f"{left} compare"),
    ):
        ended = command(*arguments)
        assert (ended.code, ended.out, ended.err.splitlines()[-1], target.exists()) == (1, "", last, False)
        assert "DML_OPERATOR_GEMM" in ended.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--to", "openvino"), "expected onnx, got 'openvino'"),
        (("-o", "m.json"), "expected a file that ends in .onnx, got 'm.json'"),
        (("--opset", 99), "expected 1 … 28, got 99"),
        (("--opset", 0), "--opset"),
    ],
)
def test_a_wrong_command_line(options: tuple[object, ...], words: str, command: Command) -> None:
    assert words in command.refused("translate", EXAMPLES / "slice.json", *options)


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ({}, 2, "expected a model"),
        (changed((("commands",), [])), 2, "no dispatch writes a resource"),
        (changed((("dispatchables", "gather", "desc", "Axis"), 7)), 1, "DML206"),
        (changed((("dispatchables", "gather", "type"), "DML_OPERATOR_GEMM")), 2, "DML_OPERATOR_GEMM"),
    ],
)
def test_a_file_that_cannot_be_used(content: object, code: int, words: str, tmp_path: Path, command: Command) -> None:
    ended = command("translate", write(tmp_path, content), "--to", "onnx")
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err


@pytest.mark.parametrize("name", ["missing.json", "missing.jsonl", "model.onnx", "model.txt"])
def test_a_file_that_is_none(tmp_path: Path, command: Command, name: str) -> None:
    assert name in command.refused("translate", tmp_path / name, "--to", "onnx")


def test_a_folder_that_cannot_be_written(tmp_path: Path, command: Command) -> None:
    (tmp_path / "file").write_text("")
    ended = command("translate", write(tmp_path, MODEL), "-o", tmp_path / "file" / "m.onnx")
    assert ended.code == 2
    assert "dmlgather: " in ended.err
    assert "internal error" not in ended.err


def test_a_new_folder_is_named_and_a_folder_is_refused_at_once(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, target = write(tmp_path, MODEL), tmp_path / "new" / "more" / "model.onnx"
    for said in (f", in the new folder '{target.parent}'", ""):
        ended = command("translate", model, "-o", target)
        assert (ended.code, ended.err) == (0, f"Written to '{target}'{said}\n")
        assert onnx.load(target).graph.node
    folder = tmp_path / "folder.onnx"
    folder.mkdir()
    monkeypatch.setattr("dmlgather.translation.translate", lambda *_, **__: pytest.fail("work is done"))
    assert f"Invalid value for '--output': must be a file; {folder} is a folder" in command.refused(
        "translate", model, "-o", folder
    )


def test_a_dump_has_its_own_limits(tmp_path: Path, command: Command) -> None:
    """Running takes longer than reading, and what is too much is said."""
    sizes = (
        ((("desc", "IndicesTensor", "Sizes"), [1, size]), (("desc", "OutputTensor", "Sizes"), [size, 2])) for size in range(1, 60)
    )
    lines = (f"{json.dumps(changed(*each, start=GATHER))}\n" for each in sizes)
    stream = write(tmp_path, "".join(lines), "dump.jsonl")
    assert command("translate", stream).code == 0
    ended = command("translate", stream, "--time-limit", 0.01)
    assert (ended.code, ended.out.count(" to onnx")) == (2, 0)
    assert "takes more than its limit of 0.01 s of CPU time" in ended.err
