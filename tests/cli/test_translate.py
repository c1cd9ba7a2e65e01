"""`dmlgather translate`: what is printed and written, and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from tests.cli.command import EXAMPLES, Command
from tests.dxdispatch.models import GATHER, MODEL, changed, write

PROVEN = "proven: equal for all inputs of these shapes"


def saved(path: Path, nodes: str) -> Path:
    """An ONNX model of these nodes, from x and i to y."""
    text = f'<ir_version: 8, opset_import: ["" : 13]> g (float[3,4] x, int64[2] i) => (float[2,4] y) {{ {nodes} }}'
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def test_a_model_is_translated_and_proven(tmp_path: Path, command: Command) -> None:
    target = tmp_path / "model.onnx"
    ended = command("translate", EXAMPLES / "gather_2.json", "--to", "onnx", "--opset", 17, "-o", target)
    lines = ended.out.splitlines()
    assert (ended.code, ended.err) == (0, f"Written to '{target}'\n")
    assert lines[0].startswith("dispatch '")
    assert lines[1].endswith("clamp to at most 2, convert to int32, Gather-13 (axis 0)")
    assert lines[2:] == [f"  {PROVEN}", f"{EXAMPLES / 'gather_2.json'} to onnx, opset 17", f"  {PROVEN}"]
    assert [node.op_type for node in onnx.load(target).graph.node if node.op_type in ("Clip", "Gather")] == ["Clip", "Gather"]


@pytest.mark.parametrize(("to", "name"), [("openvino", "m.xml"), ("directml", "m.json")])
def test_other_libraries(to: str, name: str, tmp_path: Path, command: Command) -> None:
    ended = command("translate", EXAMPLES / "slice1_1.json", "--to", to, "-o", tmp_path / name)
    assert (ended.code, ended.out.count(PROVEN)) == (0, 2)
    assert (tmp_path / name).stat().st_size > 0


def test_what_directml_writes_is_a_model(tmp_path: Path, command: Command) -> None:
    """An ONNX model as a DxDispatch model, which runs: its inputs hold zeros."""
    model = saved(tmp_path / "m.onnx", "y = Gather(x, i)")
    ended = command("translate", model, "--to", "directml", "-o", tmp_path / "m.json")
    assert (ended.code, ended.out.count("for which no index of the first program is out of range")) == (0, 2)
    assert command("run", "--device", "cpu", tmp_path / "m.json").out == "Resource 'y': 0, 0, 0, 0, 0, 0, 0, 0\n"


def test_the_first_other_operator_is_named(tmp_path: Path, command: Command) -> None:
    model = saved(tmp_path / "m.onnx", "r = Relu(x) y = Gather(r, i)")
    ended = command("translate", model, "--to", "onnx", "-o", tmp_path / "out.onnx")
    assert (ended.code, ended.err) == (1, f"'{tmp_path / 'out.onnx'}' is not written: the translation is refused\n")
    refused = "Relu node that gives 'r': it is onnx.relu, which neither gathers, slices nor views"
    assert ended.out.splitlines()[-1] == f"  refused: {refused}"
    assert not (tmp_path / "out.onnx").exists()


def test_open_sizes_are_stated(tmp_path: Path, command: Command) -> None:
    """And an IR goes the way back."""
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[N,4] x, int64[2] i) => (float[2,4] y) { y = Gather(x, i) }'
    model = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), model)
    refused = command("translate", model, "--to", "openvino")
    assert (refused.code, refused.out) == (2, "")
    assert "--inputs N=1" in refused.err
    ended = command("translate", model, "--to", "openvino", "--inputs", "N=3", "-o", tmp_path / "m.xml")
    assert (ended.code, ended.out.count("proven:")) == (0, 2)
    back = command("translate", tmp_path / "m.xml", "--to", "onnx")
    assert (back.code, back.out.count("proven:")) == (0, 2)
    none = command("translate", EXAMPLES / "slice1_1.json", "--to", "onnx", "--inputs", "N=3")
    assert (none.code, none.out) == (2, "")
    assert "leaves no size open" in " ".join(none.err.split())


def test_a_stream(tmp_path: Path, command: Command) -> None:
    stream = tmp_path / "dump.jsonl"
    stream.write_text(f"{json.dumps(GATHER)}\n")
    ended = command("translate", stream, "--to", "onnx")
    assert (ended.code, ended.out.splitlines()[0]) == (0, "line 1: GATHER")
    stream.write_text("{\n")
    ended = command("translate", stream, "--to", "onnx")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"{stream}:1:2: ")


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
    assert ended.out.splitlines()[-2] == f"{stream} to onnx, opset 13, without {without} left out"
    assert [output.name for output in onnx.load(target).graph.output] == ["OutputTensor 1", f"OutputTensor {last}"]
    assert all(each in ended.err for each in said)
    compared = command("equivalent", stream, target)
    assert (compared.code, compared.out) == (code, f"{PROVEN}, without {without} left out of {stream}\n")
    assert compared.err == ended.err.replace(f"Written to '{target}'\n", "")
    for arguments in (("translate", stream, "--to", "onnx"), ("equivalent", stream, target)):
        assert json.loads(command(*arguments, "--json").out)["left_out"] == len(others)
    again = command("equivalent", target, stream)
    assert (again.code, again.out) == (compared.code, compared.out)
    checked = command("check", "--output-format", "concise", stream)
    assert {*ended.err.splitlines()} - {f"Written to '{target}'"} <= {*checked.out.splitlines(), *checked.err.splitlines()}


def test_a_stream_of_which_nothing_is_left(tmp_path: Path, command: Command) -> None:
    stream = tmp_path / "dump.jsonl"
    stream.write_text(json.dumps(GEMM))
    ended = command("translate", stream, "--to", "onnx", "-o", tmp_path / "dump.onnx")
    assert (ended.code, ended.out, (tmp_path / "dump.onnx").exists()) == (1, "", False)
    assert "DML_OPERATOR_GEMM" in ended.err
    last = f"{stream}: nothing is left to translate, and '{tmp_path / 'dump.onnx'}' is not written"
    assert ended.err.splitlines()[-1] == last
    assert command("translate", stream, "--to", "onnx").err.splitlines()[-1] == f"{stream}: nothing is left to translate"
    compared = command("equivalent", stream, EXAMPLES / "slice1_1.json")
    assert (compared.code, compared.out, compared.err.splitlines()[-1]) == (1, "", f"{stream}: nothing is left to compare")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--to", "coreml"), "expected onnx, openvino, jax or directml, got 'coreml'"),
        (("--to", "onnx", "-o", "m.json"), "expected a file that ends in .onnx, got 'm.json'"),
        (("--to", "jax", "--opset", 13), "--opset belongs to --to onnx; --to jax has no versions"),
        (("--to", "onnx", "--opset", 99), "expected 1 … 28, got 99"),
        (("--to", "directml", "--level", "7"), "7"),
        ((), "--to"),
    ],
)
def test_a_wrong_command_line(options: tuple[object, ...], words: str, command: Command) -> None:
    ended = command("translate", EXAMPLES / "slice.json", *options)
    assert (ended.code, ended.out) == (2, "")
    assert words in " ".join(ended.err.replace("│", " ").split())


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ("{}", 2, "expected a model"),
        (json.dumps(changed((("commands",), []), start=MODEL)), 2, "no dispatch writes a resource"),
        (json.dumps(changed((("dispatchables", "gather", "desc", "Axis"), 7), start=MODEL)), 1, "DML206"),
        (json.dumps(changed((("dispatchables", "gather", "type"), "DML_OPERATOR_GEMM"), start=MODEL)), 2, "DML_OPERATOR_GEMM"),
    ],
)
def test_a_file_that_cannot_be_used(content: str, code: int, words: str, tmp_path: Path, command: Command) -> None:
    path = tmp_path / "model.json"
    path.write_text(content)
    ended = command("translate", path, "--to", "onnx")
    assert (ended.code, ended.out) == (code, "")
    assert words in ended.err


def test_a_file_that_is_none(tmp_path: Path, command: Command) -> None:
    for name in ("missing.json", "missing.onnx", "model.txt"):
        ended = command("translate", tmp_path / name, "--to", "onnx")
        assert (ended.code, ended.out) == (2, "")
        assert name in ended.err


def test_a_folder_that_cannot_be_written(tmp_path: Path, command: Command) -> None:
    (tmp_path / "file").write_text("")
    for to, name in (("onnx", "m.onnx"), ("openvino", "m.xml"), ("directml", "m.json")):
        ended = command("translate", write(tmp_path, MODEL), "--to", to, "-o", tmp_path / "file" / name)
        assert ended.code == 2, to
        assert "dmlgather: " in ended.err
        assert "internal error" not in ended.err
