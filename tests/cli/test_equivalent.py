"""`dmlgather equivalent`: verdicts as text and JSON, exit codes, and what it says of files and options that it cannot use."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from tests.cli.command import EXAMPLES, Command
from tests.dxdispatch.models import GATHER
from tests.equivalence.sharing import in_onnx, in_openvino
from tests.onnx.modelling import parsed

GRAPH = "agraph (float[N, 6] x, int64[3] i) => (float[3, 6] y)"


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Two models that are equal, and a third one."""
    texts = ("{ y = Gather(x, i) }", "{ j = Identity(i) y = Gather(x, j) }", "{ y = Gather(x, i) z = Relu(y) }")
    paths = tmp_path / "one.onnx", tmp_path / "two.onnx", tmp_path / "three.onnx"
    for path, text in zip(paths, texts, strict=True):
        onnx.save(parsed(GRAPH.replace("y)", "z)") + text if "Relu" in text else GRAPH + text), path)
    return paths


@pytest.mark.parametrize("inputs", ["N=9", "x=9x6", "x=9x6:float32,i=3"])
def test_equal_models(models: tuple[Path, ...], command: Command, inputs: str) -> None:
    ended = command("equivalent", models[0], models[1], "--inputs", inputs)
    assert (ended.code, ended.out, ended.err) == (0, "proven: equal for all inputs of these shapes\n", "")


def test_what_is_not_proven(models: tuple[Path, ...], command: Command) -> None:
    ended = command("equivalent", models[0], models[2], "--inputs", "N=9")
    assert ended.code == 1
    assert ended.out.startswith("not proven: output 'y': the first program does not do Relu node that gives 'z'")


def test_a_counterexample_as_json(command: Command) -> None:
    ended = command("equivalent", EXAMPLES / "slice_1.json", EXAMPLES / "slice_2.json", "--output-format", "json")
    found = json.loads(ended.out)
    assert ended.code == 1
    assert found["verdict"] == "different"


def test_text_names_inputs_and_sources(models: tuple[Path, ...], command: Command) -> None:
    other = models[0].parent / "other.onnx"
    last = "s = Constant<value_ints = [-1]>() e = Constant<value_ints = [-9]>() a = Constant<value_ints = [0]>()"
    onnx.save(parsed(f"{GRAPH} {{ {last} t = Slice(x, s, e, a, s) y = Gather(t, i) }}"), other)
    ended = command("equivalent", models[0], other, "--inputs", "N=4", "--given", "valid")
    assert ended.code == 1
    assert "output 'y'[0, 0]\n  first: 0.0 from x[0, 0]\n  second: 18.0 from x[3, 0]\ninputs\n  x = float32 [4, 6]" in ended.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "one.onnx: sizes of inputs are not known ('x' is float[N,6])"),
        ([], "such as --inputs N=1 or x=1x2"),
        (["--inputs", "N"], "expected NAME=SIZES, such as ids=1x128 or seq=128, got 'N'"),
        (["--inputs", "x=9x6:floats"], "'floats' is no data type of NumPy"),
        (["--inputs", "N=9,K=1"], "--inputs names 'K', which neither program has"),
        (["--inputs", "x=9x7"], "input 'x' has shape [9, 7]"),
        (["--given", "all"], "expected any or valid, got 'all'"),
        (["--output-format", "yaml"], "expected text or json, got 'yaml'"),
    ],
)
def test_usage(models: tuple[Path, ...], command: Command, options: list[str], message: str) -> None:
    ended = command("equivalent", models[0], models[1], *options)
    assert (ended.code, ended.out) == (2, "")
    assert message in " ".join(ended.err.replace("│", " ").split())


def test_strict_assumes_nothing_of_two_libraries(tmp_path: Path, command: Command) -> None:
    path, _ = in_openvino("exp", tmp_path)
    onnx.save(in_onnx("exp"), tmp_path / "m.onnx")
    assumed = command("equivalent", tmp_path / "m.onnx", path)
    assert (assumed.code, assumed.err) == (0, "")
    assert "provided that ONNX's Exp and OpenVINO's Exp give the same bits" in assumed.out
    strict = command("equivalent", tmp_path / "m.onnx", path, "--strict")
    assert (strict.code, strict.err) == (1, "")
    assert strict.out.startswith("not proven: ")
    same = command("equivalent", path, path, "--strict")
    assert (same.code, same.out) == (0, "proven: equal for all inputs of these shapes\n")


@pytest.mark.parametrize("name", ["missing.onnx", "folder", "empty.onnx", "model.bin", "net.xml", "bad.json"])
def test_files_that_cannot_be_used(tmp_path: Path, models: tuple[Path, ...], command: Command, name: str) -> None:
    (tmp_path / "folder").mkdir()
    for made in ("empty.onnx", "model.bin", "net.xml", "bad.json"):
        (tmp_path / made).write_text("" if made == "empty.onnx" else "<a/>" if made == "net.xml" else "{")
    ended = command("equivalent", tmp_path / name, models[1], "--inputs", "N=9")
    assert (ended.code, ended.out) == (2, "")
    assert name in ended.err
    assert "internal error" not in ended.err


WRITTEN = {"onnx": ".onnx", "jax": ".jax", "openvino": ".xml", "directml": ".json"}
"""What `translate` writes, by library."""


@pytest.mark.slow
def test_what_translate_takes_and_writes_is_read(tmp_path: Path, command: Command) -> None:
    """A stream of descriptors and a model go to each library; the other one's translation is not what they do."""
    elements = json.loads(json.dumps(GATHER))
    elements["desc"].update({"Axis": 1, "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3, 4]}})
    (tmp_path / "one.jsonl").write_text(f"{json.dumps(GATHER)}\n\n{json.dumps(elements)}\n{json.dumps(GATHER)}\n")
    (tmp_path / "two.ndjson").write_text(f"{json.dumps(GATHER)}\n\n{json.dumps(GATHER | {'name': 'twice'})}\n")
    (tmp_path / "one.json").write_text((EXAMPLES / "slice1_1.json").read_text())
    (tmp_path / "two.json").write_text((EXAMPLES / "slice1_2.json").read_text())
    for suffix, second in ((".jsonl", ".ndjson"), (".json", ".json")):
        for to, ending in WRITTEN.items():
            source, target = tmp_path / f"one{suffix}", tmp_path / f"made{suffix}{ending}"
            made = command("translate", source, "--to", to, "-o", target)
            assert made.code == 0, made.err
            assert command("equivalent", source, target).out == "proven: equal for all inputs of these shapes\n"
            assert command("equivalent", tmp_path / f"two{second}", target).code == 1
