"""`dmlgather explain --picture`: files, index values of models, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.command import EXAMPLES, Command, process
from tests.diagram.parsed import SVG, Picture
from tests.dxdispatch.models import GATHER, MODEL, changed, write


def test_a_descriptors_picture(tmp_path: Path, command: Command) -> None:
    target = tmp_path / "new folder" / "out.svg"
    ended = command("explain", write(tmp_path, GATHER), "--picture", target)
    assert (ended.code, ended.err) == (0, f"Picture written to '{target}'\n")
    assert ended.out == command("explain", write(tmp_path, GATHER)).out
    picture = Picture(target.read_text(encoding="utf-8"))
    assert "invented for this picture, one of them out of range" in picture.words
    assert len(picture.boxes["OutputTensor"]) == 8


def _drawn(command: Command, folder: Path, model: Any, *options: str) -> Picture:
    """The picture of a model."""
    target = folder / "out.svg"
    ended = command("explain", write(folder, model), "--picture", target, *options)
    assert ended.code == 0, ended.err
    return Picture(target.read_text(encoding="utf-8"))


def test_a_models_picture_shows_its_own_indices(tmp_path: Path, command: Command) -> None:
    """GATHER's second documented example: rows 0, 1, 1 and 2."""
    target = tmp_path / "out.svg"
    ended = command("explain", EXAMPLES / "gather_2.json", "--json", "--picture", target)
    assert ended.code == 0
    assert [item["name"] for item in json.loads(ended.out)] == ["gather"]
    picture = Picture(target.read_text(encoding="utf-8"))
    assert [picture.texts["IndicesTensor"][0, at] for at in range(4)] == ["0", "1", "1", "2"]
    assert [picture.texts["InputTensor"][at, 0] for at in range(3)] == ["1", "3", "5"]
    assert [picture.texts["OutputTensor"][at, 0] for at in range(4)] == ["1", "3", "3", "5"]
    assert [picture.below["OutputTensor"][at, 0] for at in range(4)] == ["@0", "@2", "@2", "@4"]
    assert "the initial values of resource 'indices'" in picture.words


OTHER = {"type": "dispatch", "dispatchable": "writer", "bindings": {"InputTensor": "rows", "OutputTensor": "rows 2"}}


@pytest.mark.parametrize(
    "change", [(("commands",), []), (("commands", 0), OTHER)], ids=["nothing is dispatched", "another is dispatched"]
)
def test_indices_that_no_dispatch_reads_are_invented(tmp_path: Path, command: Command, change: Any) -> None:
    tensor = {"DataType": "UINT32", "Sizes": [1, 4]}
    desc = {"InputTensor": tensor, "OutputTensor": tensor, "Offsets": [0, 0], "Sizes": [1, 4], "Strides": [1, 1]}
    writer = {"type": "DML_OPERATOR_SLICE", "desc": desc}
    rows = {"initialValuesDataType": "UINT32", "initialValues": {"valueCount": 4, "value": 0}}
    model = changed((("dispatchables", "writer"), writer), (("resources", "rows 2"), rows), change)
    assert "invented for this picture" in _drawn(command, tmp_path, model, "--only", "gather").words


def test_indices_that_another_dispatch_writes_first_are_invented(tmp_path: Path, command: Command) -> None:
    """The rows are gathered by a first dispatch, and looked up by a second."""
    first = changed(
        (("desc", "InputTensor"), {"DataType": "UINT32", "Sizes": [4, 1]}),
        (("desc", "OutputTensor"), {"DataType": "UINT32", "Sizes": [4, 1]}),
        start=GATHER,
    )
    model = changed(
        (("dispatchables", "first"), first),
        (("resources", "found"), {"initialValuesDataType": "UINT32", "initialValues": [0, 1, 1, 2]}),
        (("commands", 0, "bindings", "IndicesTensor"), "found"),
    )
    bindings = {"InputTensor": "rows", "IndicesTensor": "rows", "OutputTensor": "found"}
    writing = {"type": "dispatch", "dispatchable": "first", "bindings": bindings}
    for commands, origin in (
        (model["commands"], "the initial values of resource 'found'"),
        ([writing, *model["commands"]], "invented for this picture"),
    ):
        assert origin in _drawn(command, tmp_path, {**model, "commands": commands}, "--only", "gather").words


def test_several_dispatchables_share_a_picture(tmp_path: Path, command: Command) -> None:
    model = changed((("dispatchables", "<b>&"), GATHER), (("commands",), []))
    _drawn(command, tmp_path, model)
    root = ElementTree.fromstring((tmp_path / "out.svg").read_text(encoding="utf-8"))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "gather: GATHER, lowest feature level 3_0" in texts
    assert "<b>&: GATHER, lowest feature level 3_0" in texts
    _drawn(command, tmp_path, model, "--only", "gather")
    one = ElementTree.fromstring((tmp_path / "out.svg").read_text(encoding="utf-8"))
    assert float(one.attrib["height"]) < float(root.attrib["height"])


def test_a_picture_has_a_bounded_number_of_operators(tmp_path: Path, command: Command) -> None:
    model = {**MODEL, "dispatchables": {f"gather {number}": GATHER for number in range(25)}, "commands": []}
    target = tmp_path / "out.svg"
    ended = command("explain", write(tmp_path, model), "--picture", target)
    assert ended.code == 0
    assert "The picture shows the first 20 of 25 dispatchables; --only NAME draws another" in ended.err
    assert target.read_text(encoding="utf-8").count("Canonical plan</text>") == 20


def test_a_model_without_operators_is_said_to_have_none(tmp_path: Path, command: Command) -> None:
    target = tmp_path / "out.svg"
    file = write(tmp_path, {**MODEL, "dispatchables": {}, "commands": []})
    ended = command("explain", file, "--picture", target)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == f"{file}: no dispatchables, so there is nothing to draw\n"
    assert not target.exists()


@pytest.mark.parametrize("name", ["out.png", "out", "out.svg.gz"])
def test_other_formats_are_refused(tmp_path: Path, command: Command, name: str) -> None:
    said = command.refused("explain", write(tmp_path, GATHER), "--picture", tmp_path / name)
    assert "'--picture'" in said
    assert "ends in .svg" in said
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(("name", "reason"), [("folder.svg", "is a folder"), ("file/out.svg", "cannot be used")])
def test_places_that_cannot_be_written_are_named(tmp_path: Path, command: Command, name: str, reason: str) -> None:
    (tmp_path / "folder.svg").mkdir()
    (tmp_path / "file").touch()
    said = command.refused("explain", write(tmp_path, GATHER), "--picture", tmp_path / name)
    assert said.startswith(f"dmlgather: {tmp_path / name} {reason}")


def test_an_unknown_dispatchable_is_a_usage_error(tmp_path: Path, command: Command) -> None:
    for content, known in ((MODEL, "'gather'"), (GATHER, "single descriptor")):
        assert known in command.refused("explain", write(tmp_path, content), "--only", "slice")


@pytest.mark.slow
def test_the_same_file_gives_the_same_picture_in_any_process(tmp_path: Path) -> None:
    pictures = set()
    for seed in ("1", "2"):
        target = tmp_path / f"{seed}.svg"
        ended = process("explain", EXAMPLES / "gather_nd1_2.json", "--picture", target, PYTHONHASHSEED=seed)
        assert ended.code == 0, ended.err
        pictures.add(target.read_bytes())
    assert len(pictures) == 1
