"""`dmlgather check` on OpenVINO IR files: what is printed, JSON, folders, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dmlgather.cli.schema import Schema, schema_of
from dmlgather.report.formats import FORMATS
from tests.cli.command import Command, process
from tests.dxdispatch.models import MODEL
from tests.dxdispatch.models import write as write_json
from tests.openvino.ir import (
    CONST,
    DATA,
    GATHER,
    GOOD,
    PAGE,
    edge,
    layer,
    net,
    one_gather,
    parameter_layer,
    three_gathers,
    write,
)

BATCHES = one_gather("FP32 2,3,5", "I64 2,4", "FP32 2,3,4", 'batch_dims="1"')
AXIS_2 = (2).to_bytes(8, "little")

CASES: dict[str, tuple[list[tuple[str, bytes | None]], int]] = {
    "taken": ([(GOOD, bytes(8))], 0),
    "unknown": ([(GOOD, bytes(8)), (PAGE, None)], 0),
    "refused": ([(GOOD, bytes(8)), (BATCHES, AXIS_2)], 1),
    "broken": ([(BATCHES, AXIS_2), (GOOD, b"")], 2),
}


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_exit_codes(tmp_path: Path, command: Command, case: str, output_format: str) -> None:
    files, code = CASES[case]
    paths = [write(tmp_path, text, content, f"model_{number}") for number, (text, content) in enumerate(files)]
    assert command("check", "--level", "1_0", "--output-format", output_format, *paths).code == code


def test_text_of_a_taken_layer(tmp_path: Path, command: Command) -> None:
    path = write(tmp_path, GOOD)
    ended = command("check", "--output-format", "concise", path)
    heading, difference, node = ended.out.splitlines()
    assert heading == f"{path}: OpenVINO IR 11; 1 Gather: 1 decided at 6_4; 3 other layers"
    assert node == (
        "    Gather_3: Gather-8(data f32[5,2], indices i64[3], axis {0}, batch_dims 0) -> f32[3,2]: "
        "taken: GATHER; from 1_0 as GATHER with indices as UINT32"
    )
    assert difference.startswith(
        f"  {path}:7: Gather_3 EXP201 warning indices: indices should be in range: others give another result in DirectML: "
    )
    assert "expected indices from -5 to 4, got zeros in Gather-8, the nearest element in DirectML" in difference
    assert ended.err == "1 file checked, 1 node (1 decided, 0 conditional, 0 undecided, 0 host, 0 refused), 1 warning\n"


def test_text_of_a_refused_layer(tmp_path: Path, command: Command) -> None:
    ended = command("check", "--output-format", "concise", "--level", "2_0", write(tmp_path, BATCHES, AXIS_2))
    _, finding, node = ended.out.splitlines()
    assert node.endswith("-> f32[2,3,4]: refused at 2_0: GATHER_ELEMENTS with indices as UINT32 from 2_1")
    assert "Gather_3 EXP106 error" in finding
    assert ended.err == "1 file checked, 1 node (0 decided, 0 conditional, 0 undecided, 0 host, 1 refused), 1 error\n"


def test_text_of_the_page_s_layer(tmp_path: Path, command: Command) -> None:
    path = write(tmp_path, PAGE, None)
    heading, *lines = command("check", "--output-format", "concise", path).out.splitlines()
    assert heading == f"{path}: OpenVINO layer; 1 Gather: 1 undecided at 6_4; 0 other layers"
    assert lines[-1].endswith("unknown: data, indices, axis")
    assert lines[-2].startswith(f"  {path}:1: Gather_0 EXP302 warning axis: ")


TAKEN = "2 decided, 1 conditional, 0 undecided, 0 host, 0 refused"
ONE_TAKEN = "1 file checked, 1 node (1 decided, 0 conditional, 0 undecided, 0 host, 0 refused), 1 warning"


@pytest.mark.slow
def test_what_openvino_writes(tmp_path: Path) -> None:
    three_gathers(tmp_path)
    for level, code, verdicts in (
        ("1_0", 1, "2 decided, 0 conditional, 0 undecided, 0 host, 1 refused"),
        ("2_1", 0, TAKEN),
        ("6_4", 0, TAKEN),
    ):
        ended = process("check", "--level", level, "model.xml", cwd=tmp_path)
        assert ended.code == code
        assert ended.err.startswith(f"1 file checked, 3 nodes ({verdicts}), ")


def test_json_has_everything(tmp_path: Path) -> None:
    write(tmp_path, GOOD, bytes(8), "a")
    write(tmp_path, PAGE, None, "b")
    write(tmp_path, GOOD, b"", "c")
    write(tmp_path, "<svg/>", None, "d")
    write_json(tmp_path, MODEL, "e.json")
    ended = process("check", "--output-format", "json", ".", cwd=tmp_path)
    report: dict[str, Any] = json.loads(ended.out)
    jsonschema.validate(report, schema_of(Schema.REPORT))
    assert ended.code == report["exit_code"] == 2
    assert [(file["file"], file["kind"], file["format"]) for file in report["files"]] == [
        ("a.xml", "openvino", 11),
        ("b.xml", "openvino", None),
        ("c.xml", "unknown", None),
        ("e.json", "model", None),
    ]
    assert report["skipped"] == ["d.xml"]
    assert report["verdicts"] == {
        "decided": 1,
        "conditional": 0,
        "undecided": 1,
        "host": 0,
        "refused": 0,
        "unreached": 0,
        "taken": 1,
        "unknown": 1,
    }
    (node,) = report["files"][0]["nodes"]
    assert node == {
        "place": "Gather_3",
        "graph": "",
        "name": "Gather_3",
        "index": 3,
        "operator": "Gather",
        "opset": 8,
        "version": 8,
        "inputs": [
            {"role": "data", "name": "Parameter_0", "type": "f32", "shape": [5, 2], "values": None},
            {"role": "indices", "name": "Parameter_1", "type": "i64", "shape": [3], "values": None},
            {"role": "axis", "name": "Const_2", "type": "i64", "shape": [], "values": [0]},
        ],
        "attributes": {"batch_dims": 0},
        "outputs": [{"role": "output", "name": "Gather_3", "type": "f32", "shape": [3, 2], "values": None}],
        "verdict": "taken",
        "taken": {"level": "6_4", "operators": ["GATHER"], "types": {}},
        "lowest": {"level": "1_0", "operators": ["GATHER"], "types": {"indices": "UINT32"}},
        "missing": [],
        "provided": [],
        "conditions": [],
        "reason": None,
    }
    (finding,) = (finding for finding in report["files"][0]["findings"] if finding["subject"] == "Gather_3")
    assert (finding["code"], finding["file"], finding["line"], finding["column"]) == ("EXP201", "a.xml", 7, None)


FOREIGN = {
    "another root": "<project><net/></project>",
    "a page": "<!DOCTYPE html>\n<html></html>",
    "no XML": "plain text",
    "broken": "<project>",
    "a net of another sort": "<net><node/></net>",
    "empty": "",
}


@pytest.mark.parametrize("case", FOREIGN)
def test_xml_of_another_sort_is_skipped_in_folders_and_a_problem_when_named(tmp_path: Path, command: Command, case: str) -> None:
    path = write(tmp_path, FOREIGN[case], None, "other")
    write(tmp_path, GOOD)
    ended = command("check", tmp_path)
    assert (ended.code, ended.err) == (0, f"{ONE_TAKEN}, 1 file of another sort skipped\n")
    named = command("check", path)
    assert named.code == 2
    assert named.err.startswith(f"{path}:")
    assert "is no OpenVINO IR: expected <net>" in named.err


def test_a_folder_of_other_files_holds_nothing(tmp_path: Path) -> None:
    write(tmp_path, "<svg/>", None)
    (tmp_path / "other.json").write_text("{}")
    ended = process("check", ".", cwd=tmp_path)
    assert ended.err.splitlines()[0] == ".: holds no model or descriptor (1 .json file and 1 .xml file of another sort)"
    assert ended.code == 2


def test_a_folder_named_like_a_file_is_a_folder(tmp_path: Path, command: Command) -> None:
    (tmp_path / "x.xml").mkdir()
    assert command("check", tmp_path / "x.xml").err.startswith(f"{tmp_path}/x.xml: holds no model or descriptor\n")
    write(tmp_path / "x.xml", GOOD)
    ended = command("check", tmp_path)
    assert (ended.code, ended.out.splitlines()[0].split(": ")[0]) == (0, f"{tmp_path}/x.xml/model.xml")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    ended = process("check", "model.xml", cwd=tmp_path)
    assert (ended.code, ended.err.splitlines()[0]) == (2, "model.xml: does not exist")


def test_layers_outside_of_the_family_are_counted(folder: Path, command: Command) -> None:
    path = write(folder, net(DATA + layer(1, "Result", {0: "FP32 5,2"})), None).relative_to(folder)
    ended = command("check", path)
    assert (ended.code, ended.out) == (0, f"{path}: OpenVINO IR 11; nothing to judge; 2 other layers\n")


def test_a_layer_alone_needs_no_bin(tmp_path: Path, command: Command) -> None:
    ended = command("check", write(tmp_path, GATHER, None))
    assert (ended.code, ended.err) == (
        0,
        "1 file checked, 1 node (0 decided, 0 conditional, 1 undecided, 0 host, 0 refused), 1 warning\n",
    )


def foreign_doctype(inside: str) -> str:
    subset = "[<!-- it's > ] --><!ENTITY a '<net>]'><?x ]?>]"
    return f'<?xml version="1.0"?>\n<!DOCTYPE config SYSTEM "a>b" {subset}>\n<!-- <net> --><config>{inside}</config>'


OTHER_BYTES = {
    "network": b"<!DOCTYPE domain>\n<domain><network/><netmask/><layers/></domain>",
    "a net inside": foreign_doctype("<net><layers/></net>").encode(),
    "a document type without end": b"<!DOCTYPE net [ <net> <!-- ",
    "UTF-16": "<svg><net/></svg>".encode("utf-16"),
    "UTF-16 without a mark": "<svg><net/></svg>".encode("utf-16-be"),
    "ISO-8859-1": '<?xml version="1.0" encoding="ISO-8859-1"?><größe/>'.encode("latin-1"),
    "binary": bytes(range(255, 0, -1)),
}


@pytest.mark.parametrize("case", OTHER_BYTES)
def test_bytes_of_another_sort_are_skipped_in_folders_and_a_problem_when_named(
    tmp_path: Path, command: Command, case: str
) -> None:
    path = tmp_path / "other.xml"
    path.write_bytes(OTHER_BYTES[case])
    write(tmp_path, GOOD)
    ended = command("check", tmp_path)
    assert (ended.code, ended.err) == (0, f"{ONE_TAKEN}, 1 file of another sort skipped\n")
    named = command("check", path)
    assert named.code == 2
    assert named.err.startswith(f"{path}: is no OpenVINO IR")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
def test_an_ir_in_another_encoding_is_a_problem_in_folders_too(tmp_path: Path, command: Command, encoding: str) -> None:
    (tmp_path / "model.xml").write_bytes(GOOD.replace("Gather_3", "größe").encode(encoding))
    ended = command("check", tmp_path)
    assert ended.code == 2
    assert "text" in ended.err.splitlines()[0]


STEERING = "\n::error::forged\x9b31m\u202e\u2066\u2028"
FORGED = {
    "a precision": GOOD.replace("FP32", STEERING),
    "a data type": GOOD.replace(' precision="FP32"', "").replace('"f32"', f'"{STEERING}"'),
    "an axis's type": GOOD.replace('"i64" shape="" offset', f'"{STEERING}" shape="" offset'),
    "a conversion": net(
        DATA
        + parameter_layer(1, "I64 3")
        + CONST
        + layer(4, "Convert", {0: "I64 "}, {1: "I64 "}, f'destination_type="{STEERING}"')
        + GATHER,
        edge(0, 0, 3, 0) + edge(1, 0, 3, 1) + edge(2, 0, 4, 0) + edge(4, 1, 3, 2),
    ),
    "a name": GOOD.replace('name="Gather_3"', f'name="{STEERING}"'),
    "a type of a layer": GOOD.replace('type="Parameter"', f'type="{STEERING}"'),
    "an opset": GOOD.replace('"Gather" version="opset8"', f'"Gather" version="opset{STEERING}"'),
    "an attribute": GOOD.replace('batch_dims="0"', f'batch_dims="{STEERING}"'),
    "a root": f"<net{STEERING[9:]}/>",
}


@pytest.mark.slow
@pytest.mark.parametrize("where", [*FORGED, "a file"])
def test_files_forge_no_lines_and_steer_no_terminal(tmp_path: Path, where: str) -> None:
    text = FORGED.get(where, GOOD).replace("\n::", "&#10;::")
    assert "forged" in text or where in ("a file", "a root")
    write(tmp_path, text, name=f"model{STEERING if where == 'a file' else ''}")
    ended = process("check", ".", *tmp_path.glob("*.xml"), cwd=tmp_path)
    for line in (ended.out + ended.err).removesuffix("\n").split("\n"):
        assert line.isprintable()
        assert not line.startswith("::")


def test_names_in_json_models_forge_no_lines(tmp_path: Path) -> None:
    (tmp_path / f"model{STEERING}.json").write_text('{"type": "DML_OPERATOR_GATHER", "desc": {}}')
    ended = process("check", ".", cwd=tmp_path)
    assert ended.code == 2 or ended.out
    assert all(line.isprintable() for line in (ended.out + ended.err).removesuffix("\n").split("\n"))
