"""Unusable folders of results give exit code 2 and one line with the remedy."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from dmlgather import __version__
from tests.cli.command import Command
from tests.conformance.conftest import SEED


def _edit(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        file = folder / "manifest.json"
        manifest = json.loads(file.read_text())
        change(manifest)
        file.write_text(json.dumps(manifest))

    return spoil


def _append(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes() + b" ")


def _model(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Change a descriptor, and its digest in the manifest."""

    def spoil(folder: Path) -> None:
        file = folder / "models" / f"{name}.json"
        model = json.loads(file.read_text())
        (dispatchable,) = model["dispatchables"].values()
        change(dispatchable["desc"])
        file.write_text(json.dumps(model))
        manifest = json.loads((folder / "manifest.json").read_text())
        (case,) = [case for case in manifest["cases"] if case["name"] == name]
        case["files"][file.name] = sha256(file.read_bytes()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return spoil


AGAIN = (
    f"restore the file, or write the cases again with dmlgather {__version__} (`python -m conformance write NEW --cases 4 "
    f"--level 2_0 --seed {SEED}`) and move the folder results there\n"
)

BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "manifest.json does not exist: name a folder that"),
    "no folder": (shutil.rmtree, "manifest.json does not exist: name a folder that `python -m conformance write` has written"),
    "no JSON": (
        lambda folder: (folder / "manifest.json").write_text("{"),
        "manifest.json is no manifest of cases: the file: ",
    ),
    "another format": (
        _edit(lambda manifest: manifest.update(format=2)),
        "is no manifest of cases: format: expected 1, got 2; read it with the version of dmlgather that wrote it\n",
    ),
    "an unknown level": (_edit(lambda manifest: manifest.update(level="9_9")), "is no manifest of cases: unknown feature level"),
    "a path": (
        _edit(lambda manifest: manifest["cases"][0].update(name="../x")),
        'cases.0.name: expected text of the form ^[a-z0-9-]{1,40}$, got "../x"\n',
    ),
    "another model": (_append("models/r00001.json"), "r00001.json is not the file that was written: restore the file, or write"),
    "another input": (_append("models/r00001.0.bin"), "r00001.0.bin is not the file that was written"),
    "a question whose output is larger than its buffer": (
        _model("q-total-size", lambda desc: desc["OutputTensor"].update(Sizes=[2**20], TotalTensorSizeInBytes=8)),
        "q-total-size.json is not the model of one dispatch that",
    ),
    "a question whose output has 2^46 bytes": (
        _model("q-total-size", lambda desc: desc["OutputTensor"].update(TotalTensorSizeInBytes=2**46)),
        "q-total-size.json computes needs 64 TiB of host memory, and ",
    ),
    "an output of 2^46 bytes": (
        _model("r00001", lambda desc: desc["OutputTensor"].update(TotalTensorSizeInBytes=2**46)),
        "r00001.json computes needs 64 TiB of host memory, and ",
    ),
    "an input of 2^45 bytes": (
        _model("r00002", lambda desc: desc["InputTensor"].update(TotalTensorSizeInBytes=2**45)),
        "r00002.json computes needs 32 TiB of host memory, and ",
    ),
    "a question without strides": (
        _model("q-output-gaps", lambda desc: desc["OutputTensor"].update(Strides=[1])),
        "q-output-gaps.json is not the model of one dispatch that",
    ),
    "a question with another operator": (
        _model("q-total-size", lambda desc: desc.clear()),
        "q-total-size.json is not the model of one dispatch that",
    ),
    "no model": (lambda folder: (folder / "models" / "r00001.json").unlink(), f"r00001.json does not exist: {AGAIN}"),
    "nothing came back": (lambda folder: shutil.rmtree(folder / "results"), "holds no results yet: run its run.cmd on Windows"),
    "other bits of ours": (
        _edit(lambda manifest: manifest["cases"][0].update(expected="0" * 64)),
        "has another digest for the output of r00001 than dmlgather computes now: the file was changed after dmlgather "
        f"{__version__} wrote it, or this version computes otherwise; {AGAIN}",
    ),
    "a case that the manifest does not name": (
        _edit(lambda manifest: manifest["cases"].pop(2)),
        "manifest.json does not name the case of ",
    ),
    "a case that its level does not have": (
        _edit(lambda manifest: manifest.update(level="1_0")),
        "cannot be run at level 1_0: ",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_damaged_folder_is_refused_with_a_remedy(request: pytest.FixtureRequest, command: Command, fault: str) -> None:
    spoil, message = BROKEN[fault]
    folder: Path = request.getfixturevalue("returned" if re.match("a question|a case that its level", fault) else "few")
    spoil(folder)
    ended = command("conformance", "read", folder)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert "internal error" not in ended.err
    assert ended.err.count("\n") == 1
    assert "\\n" not in ended.err


@pytest.mark.parametrize("more", [1, 2, 3])
@pytest.mark.parametrize("field", ["InputTensor", "IndicesTensor"])
def test_an_input_of_part_of_an_element_is_refused(few: Path, command: Command, field: str, more: int) -> None:
    for case in json.loads((few / "manifest.json").read_text())["cases"]:
        (dispatchable,) = json.loads((few / "models" / f"{case['name']}.json").read_text())["dispatchables"].values()
        tensors = [name for name in dispatchable["desc"] if name in {"InputTensor", "IndicesTensor"}]
        if case["operator"] == "GATHER" and field in tensors:
            width = int(re.sub(r"\D", "", dispatchable["desc"][field]["DataType"])) // 8
            file = few / "models" / f"{case['name']}.{tensors.index(field)}.bin"
            break
    file.write_bytes(file.read_bytes() + bytes(more))

    def change(manifest: Any) -> None:
        (named,) = [each for each in manifest["cases"] if each["name"] == case["name"]]
        named["files"][file.name] = sha256(file.read_bytes()).hexdigest()

    _edit(change)(few)
    ended = command("conformance", "read", few)
    if more % width == 0:
        assert ended.code == 0
        return
    assert (ended.code, ended.out) == (2, "")
    assert f"the file of {field} holds {file.stat().st_size} bytes, and an element has {width}: restore the file" in ended.err


SECRET = "the error is a secret"


@pytest.mark.parametrize(
    "name",
    [
        *(f"results/r00001.{kind}" for kind in ("exit", "out", "err", "bin")),
        "models/r00001.json",
        "models/r00001.0.bin",
        "manifest.json",
        "results",
        "models",
    ],
)
def test_a_link_out_of_the_folder_is_not_followed(few: Path, command: Command, tmp_path: Path, name: str) -> None:
    place, elsewhere = few / name, tmp_path / "elsewhere"
    if place.is_dir():
        place.rename(elsewhere)
        (elsewhere / "r00001.err").write_text(SECRET)
    else:
        elsewhere.write_text(SECRET)
        place.unlink()
    place.symlink_to(elsewhere)
    ended = command("conformance", "read", few)
    assert (ended.code, ended.out) == (2, "")
    assert f"is a link that leads outside of {few}" in ended.err
    assert "secret" not in ended.err


def test_a_link_inside_the_folder_is_followed(few: Path, command: Command, tmp_path: Path) -> None:
    (few / "results").rename(few / "came back")
    (few / "results").symlink_to("came back")
    (tmp_path / "by another name").symlink_to(few)
    assert command("conformance", "read", tmp_path / "by another name").code == 0


def test_the_remedy_for_a_lost_file_keeps_the_results(few: Path, command: Command, tmp_path: Path) -> None:
    (few / "models" / "r00001.json").unlink()
    error_text = command("conformance", "read", few).err
    words = re.search(r"`python -m (conformance write) NEW (.*?)`", error_text)
    assert words
    assert command(*words[1].split(), tmp_path / "new", *words[2].split()).code == 0
    (few / "results").rename(tmp_path / "new" / "results")
    assert command("conformance", "read", tmp_path / "new").code == 0
