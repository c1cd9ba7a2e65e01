"""`dmlgather check` on ONNX models: what is printed, JSON, folders, exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest
from onnx.parser import parse_model

from dmlgather.cli.schema import Schema, schema_of
from dmlgather.report.formats import FORMATS
from tests.cli.command import Command, process, python
from tests.dxdispatch.models import MODEL, changed, line_of, write
from tests.onnx_checking.modelling import saved

TAKEN = "agraph (float[N,4] X, int64[3] i) => (float[M,3] Z) { Z = Gather<axis = 1>(X, i) }"
REFUSED = "agraph (int64[4] X) => (int64[n] Z) <int64[1] s = {1}, int64[1] e = {3}> { [cut] Z = Slice(X, s, e) }"
UNKNOWN = "agraph (float[4] X, int64[1] s, int64[1] e) => (float[n] Z) { [cut] Y = Slice(X, s, e) Z = Relu(Y) }"
HOST = """agraph (float[N] X) => (float[M] Z) <int64[1] first = {0}>
    { s = Shape(X) [size] a = Gather(s, first) Y = Reshape(X, a) [rows] Z = Gather(Y, first) }"""
ILL_FORMED = "agraph (float[4] X, int64[3] i) => (float[3] Z) { [g] Z = Gather<axis = 7>(X, i) }"


CASES = {
    "taken": ([TAKEN], 0),
    "unknown": ([TAKEN, UNKNOWN], 0),
    "refused": ([TAKEN, UNKNOWN, REFUSED], 1),
    "ill-formed": ([ILL_FORMED], 1),
    "host": ([HOST], 0),
    "broken": ([TAKEN, REFUSED, ""], 2),
}


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_exit_codes(tmp_path: Path, command: Command, case: str, output_format: str) -> None:
    texts, code = CASES[case]
    paths = [saved(tmp_path, text, f"{number}.onnx") for number, text in enumerate(texts) if text]
    if "" in texts:
        paths.append(tmp_path / "broken.onnx")
        paths[-1].write_bytes(b"broken")
    assert command("check", "--level", "2_1", "--output-format", output_format, *paths).code == code


def test_text_of_a_taken_node(folder: Path, command: Command) -> None:
    path = saved(folder, TAKEN).relative_to(folder)
    ended = command("check", "--verbose", "--level", "2_1", path)
    assert ended.out.splitlines() == [
        f"{path}: ONNX model, opset 17; 1 Gather: 1 conditional at 2_1; 0 other nodes",
        "  indices as UINT32: the caller first adds the size of the axis to negative indices",
        "  Gather_0: Gather-13(data float[N,4], indices int64[3], axis 1) -> float[N,3]: taken: GATHER with indices as UINT32",
        "    from 1_0, provided that N >= 1",
    ]
    assert ended.err == "1 file checked, 1 node (0 decided, 1 conditional, 0 undecided, 0 host, 0 refused), no findings\n"
    (newest,) = command("check", "--verbose", "--output-format", "concise", path).out.splitlines()[1:]
    assert newest.endswith("taken: GATHER; from 1_0 as GATHER with indices as UINT32, provided that N >= 1")


NONZERO = """g (float[P] m) => (float[A] w) {
    nz = NonZero(m) t = Transpose<perm = [1, 0]>(nz) [pick] w = GatherND(m, t) [rest] v = Gather(m, nz) }"""


@pytest.mark.parametrize("level", ["1_0", "2_1", "6_4"])
@pytest.mark.parametrize("options", [["-v"], ["-v", "--output-format", "concise"], ["--output-format", "concise"], []])
def test_each_size_in_a_condition_is_explained(tmp_path: Path, command: Command, level: str, options: list[str]) -> None:
    """Also in the condition of a node that is refused at this level. Judge: the model, in which NonZero makes the size."""
    lines = command("check", "--level", level, *options, saved(tmp_path, NONZERO)).out.splitlines()
    in_conditions = {size for line in lines if "provided that" in line for size in re.findall(r"unk__\d+", line)}
    assert len(in_conditions) == 1
    for size in in_conditions:
        assert f"  {size} = the number of elements that NonZero 'NonZero_0' finds" in lines


def test_conditions_of_several_nodes_are_said_once(tmp_path: Path, command: Command) -> None:
    nodes = "[one] p = Gather(A, i) [two] q = Gather(B, i) [three] r = Gather(B, k) j = Concat<axis = 0>(A, B) Z = Slice(j, s, e)"
    constants = "int64[1] k = {1}, int64[1] s = {1}, int64[1] e = {9223372036854775807}"
    path = saved(tmp_path, f"agraph (float[b] A, float[s] B, int64[3] i) => (float[M] Z) <{constants}> {{ {nodes} }}")
    assert "  taken, provided that b >= 1 and s >= 2" in command("check", path).out.splitlines()
    every = command("check", "--verbose", path).out
    assert "one: Gather" in every
    assert "b + s >= 2" in every


def test_nodes_that_are_fine_are_counted(folder: Path, command: Command) -> None:
    paths = [saved(folder, text, name).relative_to(folder) for name, text in (("a.onnx", TAKEN), ("b.onnx", REFUSED))]
    heading, condition, other, *_, node, _ = command("check", "--level", "2_1", *paths).out.splitlines()
    assert heading == f"{paths[0]}: ONNX model, opset 17; 1 Gather: 1 conditional at 2_1; 0 other nodes"
    assert condition == "  taken, provided that N >= 1"
    assert other.startswith(f"{paths[1]}: ONNX model")
    assert node.startswith("    node      cut: Slice-13(")
    quiet = command("check", "--quiet", "--level", "2_1", *paths)
    assert (quiet.code, quiet.err) == (1, "")
    assert [line for line in quiet.out.splitlines() if ": " in line] == [
        f"{paths[1]}: DML201 error: the tensor's data type must be one that the feature level takes (cut.InputTensor.DataType)"
    ]
    assert "give one of --quiet and --verbose" in command.refused("check", "--quiet", "--verbose", paths[0])


def test_text_of_a_refused_node(tmp_path: Path, command: Command) -> None:
    path = saved(tmp_path, REFUSED)
    ended = command("check", "--output-format", "concise", "--level", "3_0", path)
    _, finding, node = ended.out.splitlines()
    assert node == "    cut: Slice-13(data int64[4], starts {1}, ends {3}) -> int64[2]: refused at 3_0: SLICE1 from 4_1"
    assert finding.startswith(f"  {path}: cut DML201 error InputTensor.DataType: ")
    assert ended.err == "1 file checked, 1 node (0 decided, 0 conditional, 0 undecided, 0 host, 1 refused), 1 error\n"
    _, finding, node = command("check", "--output-format", "concise", saved(tmp_path, ILL_FORMED)).out.splitlines()
    assert node.endswith("refused at 6_4: no level takes it")
    assert "g EXP101 error: " in finding
    assert "axis is 7, but data has rank 1: expected -1 … 0" in finding


def test_text_of_the_hosts_arithmetic(folder: Path, command: Command) -> None:
    """It is counted, and listed with the other nodes that are fine."""
    path = saved(folder, HOST).relative_to(folder)
    ended = command("check", "--level", "2_1", path)
    heading = f"{path}: ONNX model, opset 17; 2 Gather: 1 conditional, 1 host at 2_1; 2 other nodes not judged"
    assert (ended.out.splitlines()[0], len(ended.out.splitlines())) == (heading, 2)
    counts = "1 file checked, 2 nodes (0 decided, 1 conditional, 0 undecided, 1 host, 0 refused)"
    assert ended.err == f"{counts}, no findings; only gathers and slices are judged\n"
    node = command("check", "--verbose", "--level", "2_1", path).out.splitlines()[2]
    assert node == "  size: Gather-13(data int64[1], indices int64[1]) -> int64[1]: host: shape arithmetic"


def test_the_hosts_arithmetic_is_judged_on_demand(folder: Path, command: Command) -> None:
    check = ("check", "--level", "2_1", saved(folder, HOST))
    judged = command(*check, "--include-host")
    assert (judged.code, "size: Gather-13" in judged.out) == (1, True)
    assert judged.err == "1 file checked, 2 nodes (0 decided, 1 conditional, 0 undecided, 0 host, 1 refused), 1 error\n"
    assert command.report(Schema.REPORT, *check, "--include-host", code=1)["include_host"] is True
    (folder / "dmlgather.toml").write_text("include_host = true")
    assert command(*check).err == judged.err
    report = command.report(Schema.REPORT, *check, "--no-include-host")
    assert (report["include_host"], report["exit_code"], report["verdicts"]["host"]) == (False, 0, 1)
    assert [node["verdict"] for node in report["files"][0]["nodes"]] == ["host", "taken"]


def test_text_of_an_unknown_node(tmp_path: Path, command: Command) -> None:
    path = saved(tmp_path, UNKNOWN)
    ended = command("check", "--output-format", "concise", path)
    heading, starts, node, ends, again = ended.out.splitlines()
    assert heading.endswith("1 Slice: 1 undecided at 6_4; 1 other node not judged")
    assert node == again
    assert node.endswith("unknown: starts, ends")
    for name, line in (("starts", starts), ("ends", ends)):
        assert line.startswith(f"  {path}: cut EXP302 warning {name}: ")
        assert "an input of the graph" in line
    assert ended.err == "1 file checked, 1 node (0 decided, 0 conditional, 1 undecided, 0 host, 0 refused), 2 warnings\n"


def test_findings_about_a_whole_graph_stand_before_the_nodes(tmp_path: Path, command: Command) -> None:
    path = saved(tmp_path, "agraph (float[4] X, int64[2] i) => (float[2] Z) { Y = com.example.Foo(X) Z = Gather(X, i) }")
    heading, remark, node = command("check", "--verbose", "--output-format", "concise", path).out.splitlines()
    assert heading.startswith(f"{path}: ONNX model")
    assert remark.startswith(f"  {path}: EXP303 warning: ")
    assert node.startswith("  Gather_1: ")


def test_a_model_with_nothing_to_judge(folder: Path, command: Command) -> None:
    path = saved(folder, "agraph (float[4] X) => (float[4] Z) { Z = Relu(X) }").relative_to(folder)
    ended = command("check", path)
    assert ended.out == f"{path}: ONNX model, opset 17; nothing to judge; 1 other node not judged\n"
    assert (ended.code, ended.err) == (0, "1 file checked, no findings; only gathers and slices are judged\n")


def test_the_heading_names_the_operator_sets_of_the_nodes(folder: Path, command: Command) -> None:
    """And not all that an exporter imports, as PyTorch's and TensorFlow's do."""
    unused = ", ".join(f'"org.pytorch.unused{number}" : 1' for number in range(12))
    imports = f'<ir_version: 8, opset_import: ["" : 17, "com.example" : 3, "com" : 1, {unused}]>'
    model = parse_model(f"{imports} agraph (float[4] X) => (float[4] Z) {{ Z = com.example.Foo(X) }}")
    onnx.save(model, folder / "m.onnx")
    heading = "m.onnx: ONNX model, opset 17, com.example 3; nothing to judge; 1 other node not judged\n"
    assert command("check", "m.onnx").out == heading
    model.graph.node[0].domain = "com.example.of a long name"
    model.opset_import.add(domain=model.graph.node[0].domain, version=1)
    model.graph.node.extend(onnx.helper.make_node("Foo", ["X"], [], domain=f"org.pytorch.unused{number}") for number in range(12))
    onnx.save(model, folder / "m.onnx")
    assert max(map(len, command("check", "m.onnx").out.splitlines())) <= 120


@pytest.mark.slow
def test_json_has_everything(tmp_path: Path) -> None:
    for name, text in {"a.onnx": TAKEN, "b.onnx": REFUSED, "c.onnx": UNKNOWN}.items():
        saved(tmp_path, text, name)
    (tmp_path / "d.onnx").write_bytes(b"")
    write(tmp_path, MODEL, "e.json")
    ended = process("check", "--level", "3_0", "--output-format", "json", ".", cwd=tmp_path)
    report = json.loads(ended.out)
    jsonschema.validate(report, schema_of(Schema.REPORT))
    assert ended.code == report["exit_code"] == 2
    nodes = {"conditional": 1, "undecided": 1, "refused": 1, "taken": 1, "unknown": 1}
    assert report["verdicts"] == {**nodes, "decided": 0, "host": 0, "unreached": 0, "from_data": 0}
    found = {"files": 4, "problems": 1, "errors": 1, "warnings": 2}
    assert report["summary"] == {**found, "skipped": 0, "notes": 0, "ignored": 0, "known": 0, "vanished": 0}
    assert [file["kind"] for file in report["files"]] == ["onnx", "onnx", "onnx", "unknown", "model"]
    taken, refused, unknown = (file["nodes"][0] for file in report["files"][:3])
    condition = {"text": "N >= 1", "size": "N", "at_least": 1, "at_most": None, "symbols": ["N"], "terms": {"N": 1}, "makers": {}}
    assert taken == {
        "place": "Gather_0",
        "graph": "",
        "name": "",
        "index": 0,
        "operator": "Gather",
        "opset": 17,
        "version": 13,
        "inputs": [
            {"role": "data", "name": "X", "type": "float", "shape": ["N", 4], "values": None},
            {"role": "indices", "name": "i", "type": "int64", "shape": [3], "values": None},
        ],
        "attributes": {"axis": 1},
        "outputs": [{"role": "output", "name": "Z", "type": "float", "shape": ["N", 3], "values": None}],
        "verdict": "taken",
        "taken": {"level": "3_0", "operators": ["GATHER"], "types": {}},
        "lowest": {"level": "1_0", "operators": ["GATHER"], "types": {"indices": "UINT32"}},
        "missing": [],
        "provided": ["N >= 1"],
        "conditions": [condition],
        "reason": None,
    }
    assert (refused["verdict"], refused["taken"], refused["lowest"]["level"]) == ("refused", None, "4_1")
    assert (unknown["verdict"], unknown["missing"]) == ("unknown", ["starts", "ends"])
    assert report["files"][2]["others"] == {"Relu": 1}
    assert report["files"][0]["opsets"] == {"": 17}
    subjects = [finding["subject"] for file in report["files"] for finding in file["findings"]]
    assert subjects == ["cut", "cut", "cut"]


def test_folders_are_searched_for_models(tmp_path: Path, command: Command) -> None:
    (tmp_path / "sub").mkdir()
    saved(tmp_path / "sub", REFUSED, "a.ONNX")
    (tmp_path / "sub" / "b.onnx").mkdir()  # a folder like any other
    saved(tmp_path / "sub" / "b.onnx", TAKEN)
    line = line_of(write(tmp_path, changed((("dispatchables", "gather", "desc", "Axis"), 2)), "c.json"), '"Axis": 2')
    ended = command("check", "--output-format", "concise", "--level", "3_0", tmp_path)
    assert ended.code == 1
    assert [line.split(": ")[0] for line in ended.out.splitlines() if line[0] != " "] == [
        f"{tmp_path}/c.json:{line}:13",
        f"{tmp_path}/sub/a.ONNX",
        f"{tmp_path}/sub/b.onnx/model.onnx",
    ]
    assert ended.err == "3 files checked, 2 nodes (0 decided, 1 conditional, 0 undecided, 0 host, 1 refused), 2 errors\n"


PROBLEMS: dict[str, Any] = {
    "a folder": (Path.mkdir, "model.onnx: holds no model or descriptor"),
    "text": (lambda path: path.write_text("text"), "model.onnx: is no ONNX model, or a damaged one"),
    "nothing": (lambda path: None, "model.onnx: does not exist"),
}


@pytest.mark.parametrize(("make", "says"), PROBLEMS.values(), ids=PROBLEMS)
def test_problems_are_one_line_on_standard_error(tmp_path: Path, make: Any, says: str) -> None:
    make(tmp_path / "model.onnx")
    ended = process("check", "model.onnx", cwd=tmp_path)
    problem, summary = ended.err.splitlines()
    assert (ended.code, ended.out, summary) == (2, "", "0 files checked, 1 problem")
    assert problem.startswith(says)


def test_models_that_are_named_otherwise_are_json(tmp_path: Path, command: Command) -> None:
    """Only the suffix says what a file is; the message is JSON's."""
    assert command("check", saved(tmp_path, TAKEN, "model.bin")).code == 2


def test_onnx_is_imported_for_onnx_models_alone(tmp_path: Path) -> None:
    file = write(tmp_path, MODEL)
    script = f"import sys; from dmlgather.cli.app import run; run(['check', {str(file)!r}]); print('onnx' in sys.modules)"
    assert python(script, check=True).stdout == "False\n"
