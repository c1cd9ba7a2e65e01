"""`dmlgather check` and `explain` on OpenVINO IRs and other XML: one sentence where a file is named, and a number in folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import ROOT, Command, process
from tests.dxdispatch.models import MODEL
from tests.dxdispatch.models import write as write_json

IR = ROOT / "examples" / "openvino" / "three_gathers.xml"
SENTENCE = (
    "OpenVINO IRs are neither checked nor explained: dg.openvino has OpenVINO's functions, and dg.openvino.run_layer runs a "
    "single layer of an IR\n"
)

CONTENTS = {
    "an IR": IR.read_bytes(),
    "other XML": b"<svg/>",
    "broken": b"<net",
    "no text": bytes(range(255, 0, -1)),
    "empty": b"",
}


@pytest.mark.parametrize("case", CONTENTS)
def test_a_file_that_is_named_is_a_problem_and_is_not_read(tmp_path: Path, command: Command, case: str) -> None:
    path = tmp_path / "model.XML"
    path.write_bytes(CONTENTS[case])
    checked, explained = command("check", path), command("explain", path)
    assert (checked.code, checked.out, checked.err) == (2, "", f"{path}: {SENTENCE}0 files checked, 1 problem\n")
    assert (explained.code, explained.out, explained.err) == (2, "", f"{path}: {SENTENCE}")
    skipped = command("check", "--skip-others", path)
    assert (skipped.code, skipped.err) == (0, "0 files checked, 1 file of another sort skipped\n")


def test_in_folders_files_are_skipped_and_counted(tmp_path: Path, command: Command) -> None:
    write_json(tmp_path, MODEL, "a.json")
    (tmp_path / "b.xml").write_bytes(IR.read_bytes())
    ended = command("check", tmp_path)
    assert ended.code == 0
    assert ended.err.endswith(", 1 file of another sort skipped\n")


def test_a_folder_of_other_files_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "model.xml").write_text("<svg/>")
    (tmp_path / "other.json").write_text("{}")
    ended = process("check", ".", cwd=tmp_path)
    assert ended.err.splitlines()[0] == ".: holds no model or descriptor (1 .json file and 1 .xml file of another sort)"
    assert ended.code == 2


def test_a_folder_named_like_a_file_is_a_folder(tmp_path: Path, command: Command) -> None:
    (tmp_path / "x.xml").mkdir()
    assert command("check", tmp_path / "x.xml").err.startswith(f"{tmp_path}/x.xml: holds no model or descriptor\n")
    write_json(tmp_path / "x.xml", MODEL, "a.json")
    assert command("check", tmp_path).code == 0


@pytest.mark.parametrize("name", ["check", "explain"])
def test_a_file_that_is_not_there(tmp_path: Path, command: Command, name: str) -> None:
    ended = command(name, tmp_path / "model.xml")
    assert (ended.code, ended.err.splitlines()[0]) == (2, f"{tmp_path}/model.xml: does not exist")
