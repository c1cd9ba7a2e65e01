"""No command replaces what it read, or what belongs to something else: every file has the same digest before and after."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from dmlgather.differential import Agreement
from dmlgather.translation import translating
from tests.cli.command import Command
from tests.dxdispatch.models import GATHER, MODEL, changed, write
from tests.onnx_checking.modelling import parsed, saved


def digests(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def gathering(path: Path, weights: str = "") -> Path:
    """An ONNX model that looks up rows of an input, or of weights in a file beside it."""
    path.parent.mkdir(exist_ok=True)
    text = '<ir_version: 8, opset_import: ["" : 13]> g (float[30,4] x, int64[2] i) => (float[2,4] y) { y = Gather(x, i) }'
    if not weights:
        return saved(path.parent, text, path.name)
    model = parsed(text)
    del model.graph.input[0]
    model.graph.initializer.append(numpy_helper.from_array(np.arange(120, dtype=np.float32).reshape(30, 4), "x"))
    onnx.save(model, path, save_as_external_data=True, location=weights, size_threshold=0)
    return path


def with_values(folder: Path, source: str, target: str = "out.npy") -> Path:
    """A model that reads a table from a file and writes a file."""
    np.arange(6, dtype=np.float32).tofile(folder / source)
    commands = [*MODEL["commands"], {"type": "writeFile", "resource": "output", "targetPath": target}]
    values = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": source}}
    return write(folder, changed((("resources", "table"), values), (("commands",), commands)), "model.json")


def linked(path: Path, name: str) -> Path:
    """The path of a file that has a hard link beside it."""
    path.with_name(name).hardlink_to(path)
    return path


Case = Callable[[Path, Command], tuple[object, ...]]

CHECK = ("check", "--no-config")

READ: dict[str, Case] = {
    "a model of DxDispatch, by a hard link": lambda folder, _: (
        "translate", linked(write(folder, MODEL, "chain.json"), "chain.onnx"), "-o", folder / "chain.onnx",
    ),
    "initial values": lambda folder, _: (
        "translate", with_values(folder, "values.onnx"), "--to", "onnx", "-o", folder / "values.onnx",
    ),
    "initial values, spelled otherwise": lambda folder, _: (
        "translate", with_values(folder, "values.onnx"), "-o", folder / "new" / ".." / "values.onnx",
    ),
    "a model to compare with": lambda folder, _: (
        "compare", write(folder, MODEL), "--against", gathering(folder / "m.onnx"), "--output", folder / "m.onnx",
    ),
    "external data of a model to compare with": lambda folder, _: (
        "compare", write(folder, MODEL), "--against", gathering(folder / "m.onnx", "w.json"), "--output", folder / "w.json",
    ),
    "external data of a deeper folder": lambda folder, _: (
        "compare", write(folder, MODEL), "--against", gathering(folder / "deep" / "m.onnx", "w.json"),
        "--output", folder / "deep" / "w.json",
    ),
    "initial values of a model that is drawn": lambda folder, _: (
        "explain", with_values(folder, "values.svg"), "--picture", folder / "values.svg",
    ),
    "external data of a model that is drawn": lambda folder, _: (
        "explain", gathering(folder / "m.onnx", "w.svg"), "--picture", folder / "w.svg",
    ),
    "a model that is checked": lambda folder, _: (
        *CHECK, gathering(folder / "m.onnx"), "--output-format", f"json:{folder / 'm.onnx'}",
    ),
    "a model in a folder that is checked": lambda folder, _: (
        *CHECK, gathering(folder / "m.onnx").parent, "--output-format", f"sarif:{folder / 'm.onnx'}",
    ),
    "external data of a model that is checked": lambda folder, _: (
        *CHECK, gathering(folder / "m.onnx", "w"), "--output-format", f"junit:{folder / 'w'}",
    ),
    "initial values of a model that is checked": lambda folder, _: (
        *CHECK, with_values(folder, "v.bin"), "--output-format", f"concise:{folder / 'v.bin'}",
    ),
    "a baseline": lambda folder, command: (
        *CHECK, gathering(folder / "m.onnx"), "--baseline", baseline(folder, command),
        "--output-format", f"json:{folder / 'known.json'}",
    ),
    "a configuration": lambda folder, _: (
        "check", "--config", configuration(folder), gathering(folder / "m.onnx"),
        "--output-format", f"text:{folder / 'dmlgather.toml'}",
    ),
    "values of a model that runs": lambda folder, _: (
        "run", "--device", "cpu", with_values(folder, "v.bin", "v.bin"), "--output-dir", folder,
    ),
    "a model that runs": lambda folder, _: (
        "run", "--device", "cpu", with_values(folder, "v.bin", "model.json"), "--output-dir", folder,
    ),
    "outputs from elsewhere": lambda folder, _: (
        "compare", "--devices", "cpu", write(folder, MODEL, "m.json"), "--against", given(folder / "case.2_output.npy"),
        "--save", folder / "case.json",
    ),
    "a report that is drawn": lambda folder, _: ("benchmarks", "--from", write(folder, {}, "r.svg"), "--plot", folder / "r.svg"),
}  # fmt: skip


def given(path: Path) -> Path:
    np.save(path, np.array([[1, 2], [3, 4], [3, 4], [5, 6]], np.float32))
    return path


def baseline(folder: Path, command: Command) -> Path:
    path = folder / "known.json"
    assert command("check", "--no-config", write(folder, GATHER, "g.json"), "--write-baseline", path).code == 0
    return path


def configuration(folder: Path) -> Path:
    path = folder / "dmlgather.toml"
    path.write_text('level = "6_4"\n')
    return path


@pytest.mark.parametrize("name", READ)
def test_a_file_that_was_read_is_not_replaced(name: str, tmp_path: Path, command: Command) -> None:
    arguments = READ[name](tmp_path, command)
    said = _refused(command, tmp_path, *arguments)
    assert "is an input" in said
    assert "and would be overwritten: choose another name" in said


def _refused(command: Command, folder: Path, *arguments: object) -> str:
    """What is said of arguments with which no file is changed."""
    before = digests(folder)
    ended = command(*arguments)
    assert (ended.code, digests(folder)) == (2, before), ended.err
    return ended.err


def test_an_earlier_translation_is_replaced(tmp_path: Path, command: Command) -> None:
    source = write(tmp_path, MODEL)
    for opset in (13, 14):
        ended = command("translate", source, "--opset", opset, "-o", tmp_path / "out.onnx")
        assert ended.code == 0, ended.err
    assert onnx.load(tmp_path / "out.onnx").opset_import[0].version == 14


@pytest.mark.parametrize("form", ["json:report.json", "junit:report.xml"])
def test_an_earlier_report_in_the_folder_is_replaced(folder: Path, command: Command, form: str) -> None:
    gathering(folder / "m.onnx")
    for _ in range(2):
        ended = command(*CHECK, folder, "--output-format", form)
        assert ended.code == 0, ended.err


def test_two_outputs_have_two_files(tmp_path: Path, command: Command) -> None:
    model, target = gathering(tmp_path / "m.onnx"), tmp_path / "r.json"
    said = _refused(command, tmp_path, *CHECK, model, "--write-baseline", target, "--output-format", f"json:{target}")
    assert "are the same file, and each is an output" in said


@pytest.mark.parametrize("case", ["case", "case/other.json"])
@pytest.mark.parametrize("source", [GATHER, MODEL], ids=["descriptor", "model"])
def test_a_report_and_a_saved_case_have_two_files(tmp_path: Path, command: Command, case: str, source: object) -> None:
    target = tmp_path / "case" / (Path(case).name if "." in case else "case.json")
    arguments = ("compare", write(tmp_path, source), "--devices", "cpu", "--save", tmp_path / case, "--output")
    assert f"{target} are the same file, and each is an output" in _refused(command, tmp_path, *arguments, target)
    ended = command(*arguments, target.with_name("comparison.json"))
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(("judges", "verdict"), [(("a judge",), "different"), ((), "not checked")])
def test_a_translation_that_is_not_found_equal_is_not_written(
    judges: tuple[str, ...], verdict: str, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Agreement(judges, difference="an element" if judges else None)
    monkeypatch.setattr(translating, "check_agreement", lambda *_, **__: found)
    source = write(tmp_path, MODEL)
    before = digests(tmp_path)
    ended = command("translate", source, "-o", tmp_path / "out.onnx")
    assert (ended.code, digests(tmp_path)) == (1, before)
    assert ended.err == f"'{tmp_path / 'out.onnx'}' is not written: the translation is {verdict}\n"


@pytest.mark.parametrize(("name", "text"), [("m.onnx", "nonsense"), ("m.xml", "<"), ("m.json", "[[["), ("m.jsonl", "{")])
def test_a_file_that_is_no_model_is_only_read(tmp_path: Path, command: Command, name: str, text: str) -> None:
    _refused(command, tmp_path, "translate", write(tmp_path, text, name), "-o", tmp_path / "out.onnx")
