"""Whole DxDispatch models, and streams of descriptors, in ONNX: onnxruntime gives what `dmlgather run` prints."""

from __future__ import annotations

import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.directml.dxdispatch.model_file import check_file
from dmlgather.directml.types import FeatureLevel
from dmlgather.files import FileError
from dmlgather.translation.directml_sources import of_checked, of_stream
from dmlgather.translation.writing import write
from tests.cli.command import EXAMPLES
from tests.dxdispatch.models import GATHER, changed
from tests.translation.whole_models import judge_model

MODELS = sorted(path for path in EXAMPLES.glob("*.json") if path.stem not in ("gather_3_as_printed", "gather_nd_sizes"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_an_example_gives_what_run_prints(path: Path, tmp_path: Path) -> None:
    assert judge_model(path, tmp_path, opset=13) == "equal"


def test_random_models_give_what_run_prints(tmp_path: Path) -> None:
    found = Counter(judge_model(seed, tmp_path) for seed in range(12))
    assert found["equal"] + found["no BitCast"] > 3  # before opset 26 there is none


def test_a_resource_that_is_read_and_written(tmp_path: Path) -> None:
    """The output has the resource's name, and the input that holds its initial values another one."""
    model = changed(
        (("dispatchables", "gather", "desc", "OutputTensor"), {"DataType": "FLOAT32", "Sizes": [4, 2]}),
        (("resources", "output", "initialValues"), {"valueCount": 12, "value": 9}),
    )
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    file = of_checked(check_file(path))
    made = dg.translate(file.graph, "onnx")
    assert made.proof
    write(made, file.initial, tmp_path / "model.onnx")
    session = import_module("onnxruntime").InferenceSession(tmp_path / "model.onnx")
    assert [value.name for value in session.get_outputs()] == ["output"]
    assert session.run(None, {})[0].reshape(-1).tolist() == [1, 2, 3, 4, 3, 4, 5, 6, 9, 9, 9, 9]
    rows = np.array([[2, 7, 0, 0]], np.uint32)  # 7 is clamped to the last row
    assert session.run(None, {"rows": rows})[0].reshape(-1)[:4].tolist() == [5, 6, 5, 6]


def lines(*parts: Any) -> str:
    return "".join(json.dumps(part) + "\n" for part in parts)


def test_a_stream_of_descriptors(tmp_path: Path) -> None:
    """Descriptors side by side, equal ones once, numbered by their lines."""
    path = tmp_path / "dump.jsonl"
    other = changed((("desc", "IndicesTensor", "DataType"), "INT32"), start=GATHER)
    path.write_text(lines(GATHER, GATHER, other))
    made = dg.translate(of_stream(path, FeatureLevel.LEVEL_6_4).graph, "onnx")
    assert made.proof
    assert [value.name for value in made.form.graph.input] == [
        "InputTensor 1",
        "IndicesTensor 1",
        "InputTensor 3",
        "IndicesTensor 3",
    ]
    assert [value.name for value in made.form.graph.output] == ["OutputTensor 1", "OutputTensor 3"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty: no descriptors"),
        (lines(GATHER) + "{", "line 2:"),
        (lines(changed((("desc", "Axis"), 7), start=GATHER)), "line 1:1:.*DML206"),
        (lines({"type": "DML_OPERATOR_GEMM", "desc": {}}), "line 1:1:.*GEMM"),
    ],
)
def test_a_stream_that_cannot_be_used(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    path.write_text(text)
    with pytest.raises(FileError, match=words):
        of_stream(path, FeatureLevel.LEVEL_6_4)


def test_another_operator_is_named() -> None:
    onnx = import_module("onnx")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> g (float[3,4] x, int64[2] i) => (float[2,4] y) { r = Relu(x) y = Gather(r, i) }'
    )
    made = dg.translate(model, "openvino")
    assert not made.ok
    assert made.reason == "Relu node that gives 'r': it is relu, which neither gathers, slices nor views"


@pytest.mark.parametrize("to", ["openvino", "jax", "directml"])
def test_a_model_is_written_for_other_libraries(to: str, tmp_path: Path) -> None:
    """And read there: it gives what the model's resources hold."""
    file = of_checked(check_file(EXAMPLES / "slice1_1.json"))
    made = dg.translate(file.graph, to)
    assert made.proof
    suffix = {"openvino": ".xml", "jax": ".jax", "directml": ".json"}[to]
    path = tmp_path / f"model{suffix}"
    write(made, file.initial, path)
    inputs = [file.initial[file.graph.label(name)] for name in file.graph.inputs]
    wanted = import_module("onnxruntime")
    write(dg.translate(file.graph, "onnx"), file.initial, tmp_path / "model.onnx")
    (expected,) = wanted.InferenceSession(tmp_path / "model.onnx").run(None, {})
    if to == "openvino":
        openvino: Any = import_module("openvino")
        found = openvino.compile_model(path, "CPU")(inputs)[0]
    elif to == "jax":
        found = import_module("jax.export").deserialize(bytearray(path.read_bytes())).call(*inputs)
    else:
        assert check_file(path).ok
        return
    assert np.asarray(found).tobytes() == expected.tobytes()
