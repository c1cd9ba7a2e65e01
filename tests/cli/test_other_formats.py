"""Models of formats that a command does not read: it says what they are, and its remedy works.

Judged by onnx and onnxruntime, which write the files and read what a remedy wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx.reference
import onnxruntime
import pytest

import dmlgather as dg
from dmlgather.files import FileError
from dmlgather.model_formats import FORMATS, recognised
from tests.cli.command import ROOT, Command
from tests.dxdispatch.models import MODEL, write
from tests.onnx_checking.modelling import parsed

COMMANDS = ("check", "run", "compare", "explain", "translate")
GATHER = dg.GatherOperatorDesc.of(((5, 4), "float32"), ((1, 3), "int32"), axis=0)


TEXT = """<ir_version: 8, opset_import: ["" : 13], producer_name: "a test">
    g (float[4,3] x, int64[2] i) => (float[2,3] y) { y = Gather(x, i) }"""


def _saved(form: str) -> Callable[[Path], None]:
    return lambda path: onnx.save(parsed(TEXT), path, format=form)


def _bytes(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def _ort(path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path.with_suffix(".ort"))
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    onnxruntime.InferenceSession(parsed(TEXT).SerializeToString(), options)
    path.with_suffix(".ort").replace(path)


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes as protobuf writes it."""
    return bytes([number << 3 | 2, len(content)]) + content


# By TensorFlow's graph.proto, node_def.proto, saved_model.proto and meta_graph.proto.
GRAPH_DEF = (
    _field(1, _field(1, b"x") + _field(2, b"Placeholder"))
    + _field(1, _field(1, b"y") + _field(2, b"Identity") + _field(3, b"x"))
    + _field(4, b"\x08\x64")
)
SAVED_MODEL = b"\x08\x01" + _field(2, _field(1, _field(5, b"2.16")) + _field(2, GRAPH_DEF))

FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "model.onnx": (_saved("protobuf"), "is an ONNX model: "),
    "model.pb": (_saved("protobuf"), "is an ONNX model: "),
    "model.ort": (_ort, "is a model in onnxruntime's own format, ORT, which is not read: name the .onnx file"),
    "model.onnxtxt": (_saved("onnxtxt"), r"is an ONNX model in ONNX's text syntax: write it in binary form, onnx\.save\("),
    "model.textproto": (_saved("textproto"), r"is an ONNX model as protobuf's text: write it in binary form, onnx\.save\("),
    "model.json": (_saved("json"), r"is an ONNX model as JSON: write it in binary form, onnx\.save\("),
    "frozen.pb": (_bytes(GRAPH_DEF), r"is a graph of TensorFlow \(GraphDef\), .* tf2onnx\.convert --graphdef"),
    "saved_model.pb": (_bytes(SAVED_MODEL), "is a SavedModel of TensorFlow, .* tf2onnx.convert --saved-model"),
    "input_0.pb": (
        _bytes(onnx.numpy_helper.from_array(np.zeros((2, 3), np.float32), "x").SerializeToString()),
        r"is a tensor of ONNX \(TensorProto\), and no model: name the \.onnx file of the model",
    ),
}
"""By the name: what writes a file, and the words about it."""


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("subcommand", COMMANDS)
def test_a_command_says_what_a_file_is(tmp_path: Path, command: Command, name: str, subcommand: str) -> None:
    make, words = FILES[name]
    file = tmp_path / name
    make(file)
    ended = command(subcommand, file)
    if name == "model.onnx" and subcommand in ("check", "explain"):
        assert ended.code == 0
        return
    assert (ended.code, ended.out) == (2, "")
    assert re.search(f"{re.escape(str(file))}: {words.replace('{0}', str(file))}", ended.err), ended.err
    assert len(ended.err.splitlines()) == (2 if subcommand == "check" else 1)


@pytest.mark.parametrize("name", ["model.onnx", "model.pb"])
@pytest.mark.parametrize("subcommand", COMMANDS)
def test_the_advice_for_an_onnx_model_works(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, name: str, subcommand: str
) -> None:
    """The Python in the advice is run; the commands in it are called."""
    monkeypatch.chdir(tmp_path)
    _saved("protobuf")(Path(name))
    advice = command(subcommand, name).err
    inputs = {"x": np.zeros((4, 3), np.float32), "i": np.zeros(2, np.int64)}
    called = re.findall(r"(?:onnxruntime|onnx\.reference|dmlgather)\.\S+\(.*?INPUTS\)", advice)
    assert len(called) == {"run": 2, "compare": 1}.get(subcommand, 0)
    for code, given in zip(called, (inputs, [*inputs.values()]), strict=False):
        (result,) = eval(code, {"onnx": onnx, "onnxruntime": onnxruntime, "dmlgather": dg, "INPUTS": given})
        assert result.shape == (2, 3)
    if subcommand in ("check", "explain"):
        assert "rename it, so that its name ends in .onnx; then check and explain take it" in advice or name == "model.onnx"
    if subcommand == "compare":
        assert "with its optimisations off: docs/compare.md, section Two ONNX models, has a program" in advice
        assert "\n## Two ONNX models\n" in (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    if subcommand == "translate":
        assert "check and explain take it" in advice


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("model.onnx", "model.pb")])
@pytest.mark.parametrize("subcommand", ["check", "explain", "compare"])
def test_its_name_does_not_matter(tmp_path: Path, command: Command, name: str, subcommand: str) -> None:
    make, words = FILES[name]
    file = tmp_path / "called.onnx"
    make(file)
    arguments: tuple[object, ...] = (write(tmp_path, MODEL), "--against", file) if subcommand == "compare" else (file,)
    said = command.refused(subcommand, *arguments)
    assert re.search(f"{re.escape(str(file))}: {words}", said), said


@pytest.mark.filterwarnings("ignore:The onnxtxt format is experimental:UserWarning")
@pytest.mark.parametrize("name", ["model.ort", "model.onnxtxt", "model.textproto", "model.json"])
def test_the_remedy_works(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    FILES[name][0](Path(name))
    said = recognised(Path(name))
    assert said is not None
    found = re.search(r"options = onnxruntime.*|onnx\.save\(.*'MODEL\.onnx'\)", said)
    assert found is not None
    exec(found[0], {"onnx": onnx, "onnxruntime": onnxruntime})
    assert [node.op_type for node in onnx.load("MODEL.onnx").graph.node] == ["Gather"]
    ended = command("check", "MODEL.onnx")
    assert (ended.code, "1 Gather: 1 decided" in ended.out) == (0, True)


def test_a_folder_counts_models_of_onnxruntime_s_format(tmp_path: Path, command: Command) -> None:
    for name in ("model.onnx", "model.ort"):
        FILES[name][0](tmp_path / name)
    ended = command("check", tmp_path)
    counts = "1 file checked, 1 node (1 decided, 0 conditional, 0 undecided, 0 host, 0 refused)"
    assert ended.code == 0
    assert ended.err.endswith(f"{counts}, 1 file of another sort skipped\n")


@pytest.mark.parametrize("name", ["model.ort", "frozen.pb"])
def test_outputs_from_elsewhere_are_no_models_of_other_formats(tmp_path: Path, command: Command, name: str) -> None:
    make, words = FILES[name]
    make(tmp_path / name)
    said = command.refused("compare", write(tmp_path, MODEL), "--devices", "cpu", "--against", tmp_path / name)
    assert re.search(f"{name} {words}", said), said


def test_in_python_too(tmp_path: Path) -> None:
    for name, (make, words) in FILES.items():
        make(tmp_path / name)
        with pytest.raises(FileError, match=words.replace("{0}", str(tmp_path / name))):
            dg.translate(tmp_path / name, "onnx")
    for path, words in (
        ("", r"inputs has the path '': pass arrays, or only the path of an ONNX model \(\.onnx\)"),
        (tmp_path / "model.ort", r"model\.ort', which is a model in onnxruntime's own format, ORT, .*: pass arrays, or only"),
    ):
        with pytest.raises(TypeError, match=words):
            dg.compare(GATHER, path)
        with pytest.raises(TypeError, match=words):
            dg.compare(GATHER, np.zeros((5, 4), np.float32), path)


def test_a_level_does_not_go_with_a_model() -> None:
    same = dg.translate(GATHER, "onnx").form
    assert dg.compare(GATHER, same, level="6_4")
    words = "a comparison with an ONNX model takes no devices, level, out_of_bounds, buffers or against"
    with pytest.raises(TypeError, match=words):
        dg.compare(GATHER, same, level="3_0")
    with pytest.raises(ValueError, match="unknown feature level '7_0'"):
        dg.compare(GATHER, same, level="7_0")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x08",
        b"\x08\x09",  # the beginning of an ONNX model
        b"\x08\x09\x12\x00",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length beyond the file
        b"\x89PNG\r\n\x1a\n",
        b"PK\x03\x04",
        b'{"resources": {}}',
        b"graph of something",
        b"<html>ir_version</html>",
        b"\xff" * 40,
    ],
)
def test_other_files_are_none_of_these(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file.onnx"
    file.write_bytes(content)
    assert recognised(file) is None
    assert recognised(tmp_path / "nothing") is None
    assert recognised(tmp_path) is None


def test_every_format_is_met() -> None:
    assert len({re.sub(r":.*", "", words) for _, words in FILES.values()}) == len(FORMATS)
