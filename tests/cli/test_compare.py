"""`dmlgather compare`: what it prints, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.backends import reference
from dmlgather.cli.schema import Schema
from tests.cli.command import EXAMPLES, ROOT, Command
from tests.comparing.wrong import spoil
from tests.dxdispatch.models import GATHER, MODEL, changed, write


def test_json_alone_on_standard_output(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, {5: 0x40800000 ^ 0x7FC00001, 6: 1})
    report = command.report(Schema.COMPARISON, "compare", "--devices", "cpu,reference", write(tmp_path, MODEL), code=1)
    assert (report["tool"], report["versions"]["dmlgather"], report["exit_code"]) == ("dmlgather", dg.__version__, 1)
    assert [device["name"] for device in report["devices"]] == ["cpu", "reference"]
    (dispatch,) = report["dispatches"]
    (difference,) = dispatch.pop("differences")
    assert dispatch == {
        "command": 0,
        "dispatchable": "gather",
        "operator": "DML_OPERATOR_GATHER",
        "data_type": "FLOAT32",
        "sizes": [4, 2],
        "equal": False,
        "errors": {},
        "outputs": {},
        "against": [],
    }
    assert (difference["devices"], difference["differing"], difference["elements"]) == (["cpu", "reference"], 2, 8)
    four = {"value": 4, "bits": "40800000"}
    assert difference["first"] == {
        "devices": ["cpu", "reference"],
        "output": [2, 1],
        "found": [four, {"value": "nan", "bits": "7fc00001"}],
        "source": [1, 1],
        "expected": four,
        "indices": [{"position": [0, 2], "value": 1, "axis": 0, "taken_as": 1}],
        "difference": None,
        "differing_bits": (0x40800000 ^ 0x7FC00001).bit_count(),
        "found_sources": [None, None],
    }
    assert difference["worst"] == difference["first"]


def test_json_of_equal_devices(tmp_path: Path, command: Command) -> None:
    file, case = write(tmp_path, GATHER), tmp_path / "case"
    report = command.report(Schema.COMPARISON, "compare", "--devices", "cpu,reference", "--seed", 7, file, "--save", case)
    assert (report["exit_code"], report["seed"], report["file"]) == (0, 7, str(file))
    assert json.loads((case / "case.report.json").read_text()) == report
    outputs = {device: f"case.out0_gather.{device}.npy" for device in ("cpu", "reference")}
    assert report["dispatches"][0]["outputs"] == outputs


def test_a_saved_case_is_checked_with_its_report_left_alone(tmp_path: Path, command: Command) -> None:
    file = write(tmp_path, GATHER)
    assert command("compare", "--devices", "cpu,reference", file, "--save", tmp_path / "case").code == 0
    ended = command("check", tmp_path / "case")
    assert (ended.code, "1 file of another sort skipped" in ended.err) == (0, True)


def test_a_model_with_errors_is_not_compared(tmp_path: Path, command: Command) -> None:
    file = write(tmp_path, changed((("desc", "Axis"), 2), start=GATHER))
    ended = command("compare", "--json", file, "--save", tmp_path / "case")
    assert (ended.code, ended.out) == (1, "")
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_the_page_shows_a_mismatch_as_it_is(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = reference.run

    def zeros(plan: Any, data: Any, indices: Any, out: NDArray[Any]) -> int | None:
        bad = honest(plan, data, indices, out)
        out[5:7] = 0
        return bad

    monkeypatch.setattr(reference, "run", zeros)
    ended = command("compare", "--devices", "cpu,reference", EXAMPLES / "gather_2.json")
    assert ended.code == 1
    assert f"```text\n{ended.out}```" in (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
