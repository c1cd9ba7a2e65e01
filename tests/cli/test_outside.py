"""Files outside of the model's folder are read and written only where the user says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.command import Command
from tests.dxdispatch.models import GATHER, MODEL, PRINTED, changed, line_of, write

TABLE = np.arange(1, 7, dtype=np.float32)


@pytest.fixture
def model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `inside` of a model; `secret` lies beside it, and so does `elsewhere`, which is the current folder."""
    for name in ("inside", "secret", "elsewhere"):
        (folder / name).mkdir()
        np.save(folder / name / "x.npy", TABLE)
    monkeypatch.chdir(folder / "elsewhere")
    return folder / "inside"


def _reading(model: Path, source: str) -> Path:
    values = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": source}}
    return write(model, changed((("resources", "table"), values)))


def _link(target: str) -> Any:
    def make(model: Path) -> str:
        (model / "link.npy").symlink_to(model.parent / target)
        return "link.npy"

    return make


def _folder_link(model: Path) -> str:
    (model / "deep").symlink_to(model.parent / "secret")
    return "deep/x.npy"


OUTSIDE = {
    "absolute": lambda model: str(model.parent / "secret" / "x.npy"),
    "upwards": lambda _: "../secret/x.npy",
    "down and up": lambda _: "a/../../secret/x.npy",
    "a link": _link("secret/x.npy"),
    "a link to a folder": _folder_link,
    "a link to a link": lambda model: ((model / "second.npy").symlink_to(_link("secret/x.npy")(model)), "second.npy")[1],
    "a missing file": lambda model: str(model.parent / "gone.npy"),
}

COMMANDS = [("check",), ("run", "--device", "cpu"), ("compare",), ("explain",)]


@pytest.mark.parametrize("command_line", COMMANDS, ids=lambda line: line[0])
@pytest.mark.parametrize("source", OUTSIDE.values(), ids=OUTSIDE)
def test_files_outside_are_refused(model: Path, command: Command, source: Any, command_line: tuple[str, ...]) -> None:
    name = source(model)
    file = _reading(model, name)
    ended = command(*command_line, file)
    assert (ended.code, ended.out) == (2, "")
    (said,) = [line for line in ended.err.splitlines() if line.startswith(f"{file}:")]
    assert said.startswith(f"{file}:{line_of(file, 'sourcePath')}:")
    assert said.partition(" ")[2] == (
        f"resources.table.initialValues.sourcePath: {name} lies outside the model's folder ({model}) and the current folder "
        f"({model.parent / 'elsewhere'}). A model may read only files in these folders: copy it there, or allow it with "
        "--allow-outside"
    )


@pytest.mark.parametrize("command_line", COMMANDS, ids=lambda line: line[0])
def test_files_outside_are_allowed(model: Path, command: Command, command_line: tuple[str, ...]) -> None:
    ended = command(*command_line, "--allow-outside", _reading(model, "../secret/x.npy"))
    assert ended.code == 0
    assert "lies outside" not in ended.err
    if command_line[0] == "run":
        assert ended.out == PRINTED


def test_files_inside_need_nothing(model: Path, command: Command) -> None:
    """Beside the model, below it, on a way that leads back, behind a link that stays inside, and in the current folder."""
    (model / "deep").mkdir()
    np.save(model / "deep" / "y.npy", TABLE)
    np.save("current.npy", TABLE)
    (model / "link.npy").symlink_to("deep/y.npy")
    for source in ("x.npy", "deep/y.npy", "deep/../x.npy", "link.npy", str(model / "x.npy"), "current.npy", "./current.npy"):
        ended = command("run", "--device", "cpu", _reading(model, source))
        assert (ended.code, ended.out) == (0, PRINTED), (source, ended.err)


def test_a_model_folder_that_is_a_link(model: Path, command: Command) -> None:
    _reading(model, "x.npy")
    (model.parent / "again").symlink_to(model)
    assert command("run", "--device", "cpu", model.parent / "again" / "model.json").out == PRINTED


def test_a_device_is_refused_even_where_all_is_allowed(model: Path, command: Command) -> None:
    assert "/dev/zero is a character device" in command.refused("run", "--allow-outside", _reading(model, "/dev/zero"))


@pytest.mark.parametrize(
    ("suffix", "says"),
    [("npz", "is an archive of arrays (.npz)"), ("NPZ", "is an archive of arrays"), ("zip", "is an archive"),
     ("tar.gz", "is an archive"), ("safetensors", "is a container with a format of its own"), ("pkl", "is a container")],
)  # fmt: skip
def test_archives_are_no_raw_bytes(model: Path, command: Command, suffix: str, says: str) -> None:
    np.savez(model / "x.npz", TABLE)
    (model / "x.npz").rename(model / f"values.{suffix}")
    said = command.refused("check", _reading(model, f"values.{suffix}"))
    assert f"values.{suffix} {says}" in said
    assert ".npy" in said


@pytest.mark.slow
def test_worker_processes_know_what_is_allowed(model: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from dmlgather.report import file_check

    monkeypatch.setattr(file_check, "FILES_PER_WORKER", 1)
    monkeypatch.setattr(file_check, "BATCH", 1)
    for number in range(12):
        (model / f"m{number}.json").write_text(_reading(model, "../secret/x.npy").read_text())
    assert command("check", "--jobs", 2, model).code == 2
    assert command("check", "--jobs", 2, "--allow-outside", model).code == 0


WRITES = {"type": "writeFile", "resource": "output", "targetPath": "deep/y.npy"}


def _writing(model: Path, *targets: str) -> tuple[object, ...]:
    """Arguments of a run of a model that writes files, but for the output folder."""
    steps = [(("commands", 1 + number), {**WRITES, "targetPath": target}) for number, target in enumerate(targets)]
    return "run", "--device", "cpu", write(model, changed(*steps)), "--output-dir"


@pytest.mark.parametrize("link", ["deep", "deep/y.npy"])
@pytest.mark.parametrize("dangling", [True, False])
def test_links_in_the_output_folder_are_not_followed(model: Path, command: Command, link: str, dangling: bool) -> None:
    out, target = model.parent / "out", model.parent / "secret"
    (out / link).parent.mkdir(parents=True)
    (out / link).symlink_to(target / "gone" if dangling else target if link == "deep" else target / "x.npy")
    before = (target / "x.npy").read_bytes()
    ended = command(*_writing(model, "deep/y.npy"), out)
    assert ended.code == 2
    said = f"dmlgather: {out / link} is a symbolic link, and files below {out} are not written through links: remove it"
    assert said in ended.err
    assert [path.name for path in target.iterdir()] == ["x.npy"]
    assert (target / "x.npy").read_bytes() == before


def test_the_output_folder_itself_may_be_a_link(model: Path, command: Command) -> None:
    (model.parent / "out").symlink_to(model.parent / "elsewhere")
    assert command(*_writing(model, "deep/y.npy"), model.parent / "out").code == 0
    assert np.load("deep/y.npy").shape == (4, 2)


@pytest.mark.parametrize("place", ["file", "deep", "deep/y.npy"])
def test_unwritable_places_are_found_before_anything_runs(model: Path, command: Command, place: str) -> None:
    out = model.parent / "out"
    (out / place).parent.mkdir(parents=True, exist_ok=True)
    if place == "deep/y.npy":
        (out / place).mkdir()
        says = f"{out / place} is a folder, not a regular file"
    else:
        (out / place).write_text("here")
        says = f"{out / place} is not a folder"
    said = command.refused(*_writing(model, "first.npy", "deep/y.npy"), out / "file" if place == "file" else out)
    assert says in said
    assert "Dispatch 'gather'" not in said
    assert not list(out.rglob("first.npy"))


def test_comparing_writes_no_targets_and_looks_at_none(model: Path, command: Command) -> None:
    Path("deep").write_text("here")
    assert command("compare", "--devices", "cpu,reference", write(model, changed((("commands", 1), WRITES)))).code == 0


def test_a_link_is_refused_before_another_target_is_written(model: Path, command: Command) -> None:
    out = model.parent / "out"
    out.mkdir()
    (out / "deep").symlink_to(model.parent)
    assert f"{out / 'deep'} is a symbolic link" in command.refused(*_writing(model, "first.npy", "deep/y.npy"), out)
    assert [path.name for path in out.iterdir()] == ["deep"]


@pytest.mark.parametrize("target", ["../y.npy", "a/../../y.npy", "/tmp/y.npy", ".", "a\\..\\y.npy", "C:y.npy", "\\y.npy"])
def test_targets_outside_of_the_output_folder(model: Path, command: Command, target: str) -> None:
    said = command.refused(*_writing(model, target), model)
    assert "commands[1].targetPath: expected the path of a file inside the output folder" in said
    assert f", which --output-dir names, got {json.dumps(target)}" in said


@pytest.mark.parametrize("target", ["y.npz", "deep/Y.NPZ"])
def test_archives_are_not_written(model: Path, command: Command, target: str) -> None:
    said = command.refused(*_writing(model, target), model)
    assert "commands[1].targetPath: archives of arrays cannot be written here" in said


def test_saved_cases_are_not_written_through_links(model: Path, command: Command) -> None:
    case = model.parent / "case"
    case.mkdir()
    (case / "case.out0_gather.cpu.npy").symlink_to(model.parent / "secret" / "x.npy")
    before = (model.parent / "secret" / "x.npy").read_bytes()
    assert "is a symbolic link" in command.refused("compare", "--devices", "cpu,reference", "--save", case, write(model, MODEL))
    assert (model.parent / "secret" / "x.npy").read_bytes() == before


def test_a_descriptor_reads_no_file(model: Path, command: Command) -> None:
    assert command("explain", "--allow-outside", write(model, GATHER)).code == 0
