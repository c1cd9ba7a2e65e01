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
from dmlgather.dialects.descriptor_graph import stream_graph
from dmlgather.files import FileError
from tests.cli.command import EXAMPLES
from tests.dxdispatch.models import GATHER, changed
from tests.translation.whole_models import NEWEST, judge_model

MODELS = sorted(path for path in EXAMPLES.glob("*.json") if path.stem not in ("gather_3_as_printed", "gather_nd_sizes"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_an_example_gives_what_run_prints(path: Path, tmp_path: Path) -> None:
    assert judge_model(path, tmp_path, opset=13) == "equal"


def test_random_models_give_what_run_prints(tmp_path: Path) -> None:
    found = Counter(judge_model(seed, tmp_path) for seed in range(12))
    assert found["equal"] + found["no BitCast"] > 3  # before opset 26 there is none


def test_a_resource_may_be_read_and_written(tmp_path: Path) -> None:
    """The output has the resource's name, and the input that holds its initial values another one."""
    model = changed(
        (("dispatchables", "gather", "desc", "OutputTensor"), {"DataType": "FLOAT32", "Sizes": [4, 2]}),
        (("resources", "output", "initialValues"), {"valueCount": 12, "value": 9}),
    )
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    made = dg.translate(path)
    assert made.check
    made.write(tmp_path / "model.onnx")
    session = import_module("onnxruntime").InferenceSession(tmp_path / "model.onnx")
    assert [value.name for value in session.get_outputs()] == ["output"]
    assert session.run(None, {})[0].reshape(-1).tolist() == [1, 2, 3, 4, 3, 4, 5, 6, 9, 9, 9, 9]
    rows = np.array([[2, 7, 0, 0]], np.uint32)  # 7 is clamped to the last row
    assert session.run(None, {"rows": rows})[0].reshape(-1)[:4].tolist() == [5, 6, 5, 6]


def lines(*parts: Any) -> str:
    return "".join(json.dumps(part) + "\n" for part in parts)


def test_a_stream_of_descriptors_is_one_model(tmp_path: Path) -> None:
    """Descriptors side by side, equal ones once, numbered by their lines."""
    path = tmp_path / "dump.jsonl"
    other = changed((("desc", "IndicesTensor", "DataType"), "INT32"), start=GATHER)
    path.write_text(lines(GATHER, GATHER, other))
    made = dg.translate(path)
    assert made.check
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
        (lines(GATHER) + "{", ":2:2: the line ends"),
        (lines(changed((("desc", "Axis"), 7), start=GATHER)), ":1:.*DML206"),
        (lines({"type": "DML_OPERATOR_GEMM", "desc": {}}), ":1:10: DML_OPERATOR_GEMM is not an operator that dmlgather executes"),
    ],
)
def test_a_stream_that_cannot_be_used_says_where(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.jsonl"
    path.write_text(text)
    with pytest.raises(FileError, match=words):
        stream_graph(path)


def copied(elements: int, data_type: str, *, read: str = "a", written: str = "b") -> dict[str, Any]:
    """A model that reverses the elements of one resource into another, and copies that back."""
    tensor = {"DataType": data_type, "Sizes": [elements]}
    window = {"InputTensor": tensor, "OutputTensor": tensor, "InputWindowOffsets": [0], "InputWindowSizes": [elements]}
    values = list(range(elements))
    return {
        "resources": {name: {"initialValuesDataType": data_type, "initialValues": values} for name in (read, written)},
        "dispatchables": {
            name: {"type": "DML_OPERATOR_SLICE1", "desc": {**window, "InputWindowStrides": [stride]}}
            for name, stride in (("reverse", -1), ("copy", 1))
        },
        "commands": [
            {"type": "dispatch", "dispatchable": "reverse", "bindings": {"InputTensor": read, "OutputTensor": written}},
            {"type": "print", "resource": written},
            {"type": "dispatch", "dispatchable": "copy", "bindings": {"InputTensor": read, "OutputTensor": written}},
            {"type": "print", "resource": written},
        ],
    }


def in_onnxruntime(model: Any, folder: Path, opset: int = 13, **given: Any) -> dict[str, list[Any]]:
    """What a model's file gives as ONNX, by the outputs' names. given: values of inputs, by name."""
    onnx = import_module("onnx")
    path, target = folder / "model.json", folder / "model.onnx"
    path.write_text(json.dumps(model))
    made = dg.translate(path, opset=opset)
    assert made.check, made
    made.write(target)
    onnx.checker.check_model(str(target), full_check=True)
    session = import_module("onnxruntime").InferenceSession(target)
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, (array.tolist() for array in session.run(None, given)), strict=True))


def test_outputs_have_their_resources_names(tmp_path: Path) -> None:
    """Also one that is a copy of an input, and one that is shown twice."""
    found = in_onnxruntime(copied(3, "FLOAT32"), tmp_path)
    assert found == {"b": [2, 1, 0], "b (2)": [0, 1, 2]}


@pytest.mark.parametrize("names", [("Slice", "int64 [0]"), ("int64 [1]", "Slice"), ("b", "b (2)"), ("b (before)", "b")])
def test_resources_may_have_any_names(names: tuple[str, str], tmp_path: Path) -> None:
    model = copied(3, "INT32", read=names[0], written=names[1])
    assert list(in_onnxruntime(model, tmp_path).values()) == [[2, 1, 0], [0, 1, 2]]


def test_initial_values_are_defaults_at_an_old_opset(tmp_path: Path) -> None:
    """Which a caller may replace; before version 4 of the file format nobody could."""
    model = changed((("resources", "b", "sizeInBytes"), 32), start=copied(3, "FLOAT32"))
    del model["commands"][:2]
    found = in_onnxruntime(model, tmp_path, opset=8, a=np.array([7, 8, 9], np.float32))
    assert found == {"b": [7, 8, 9]}


@pytest.mark.parametrize("data_type", ["FLOAT32", "INT64", "FLOAT16", "UINT8"])
def test_the_bytes_behind_initial_values_are_zeros_of_any_type(data_type: str, tmp_path: Path) -> None:
    model = changed(
        (("resources", "a", "initialValues"), [1]), (("resources", "a", "sizeInBytes"), 24), start=copied(3, data_type)
    )
    del model["commands"][2:]
    assert in_onnxruntime(model, tmp_path) == {"b": [0, 0, 1]}


@pytest.mark.parametrize(("data_type", "opset"), [("FLOAT16", 13), ("INT8", 10), ("FLOAT64", 9)])
def test_blocks_keep_all_bits_at_every_opset(data_type: str, opset: int, tmp_path: Path) -> None:
    """onnxruntime's DepthToSpace makes signalling NaNs of float16 quiet, and takes int8 from opset 11 on."""
    data = dg.BufferTensorDesc(data_type=data_type, sizes=(1, 8, 2, 3))
    blocks = dg.BufferTensorDesc(data_type=data_type, sizes=(1, 2, 4, 6))
    desc = dg.DepthToSpace1OperatorDesc(input_tensor=data, output_tensor=blocks, block_size=2, order="DEPTH_COLUMN_ROW")
    dtype = np.dtype(data_type.lower())
    bits = np.arange(1, 49).astype(f"u{dtype.itemsize}") | {2: 0x7C00, 8: 0x7FF << 52}.get(dtype.itemsize, 0)  # signalling NaNs
    session = import_module("onnxruntime").InferenceSession(dg.translate(desc, "onnx", opset=opset).form.SerializeToString())
    (found,) = session.run(None, {"InputTensor": bits.view(dtype).reshape(1, 8, 2, 3)})
    expected = bits.reshape(2, 2, 2, 2, 3).transpose(2, 3, 0, 4, 1)  # as DirectML's documents define this order
    assert found.view(bits.dtype).ravel().tolist() == expected.ravel().tolist()


READ_AS_INTEGERS = changed(
    (("resources", "b", "initialValuesDataType"), "UINT32"),
    (("dispatchables", "copy", "desc", "InputTensor"), {"DataType": "UINT32", "Sizes": [3]}),
    (("dispatchables", "copy", "desc", "OutputTensor"), {"DataType": "UINT32", "Sizes": [3]}),
    start=copied(3, "FLOAT32"),
)


def test_another_type_of_the_same_size_is_a_bitcast(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(READ_AS_INTEGERS))
    refused = dg.translate(path, opset=17)
    assert refused.reason.startswith("'b' from byte 0 on: as uint32: opset 17 has no BitCast")
    if NEWEST == 26:  # the first with BitCast
        assert refused.reason.endswith(": use opset 26 or newer")
        assert dg.translate(path, opset=26).check


def test_an_operator_that_the_installed_onnx_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(READ_AS_INTEGERS))
    monkeypatch.setattr("onnx.defs.get_all_schemas_with_history", list)
    refused = dg.translate(path, opset=17)
    assert refused.reason.endswith(
        "opset 17 has no BitCast, and the installed onnx knows no opset that has it: install a newer onnx"
    )


@pytest.mark.parametrize("sizes", [(2, 4, 5), (3, 1, 1), (2, 3, 4)])
def test_each_component_of_a_tuple_has_its_own_clamp(sizes: tuple[int, ...]) -> None:
    tensors = (sizes, "FLOAT32"), ((1, 7, 3), "INT64")
    desc = dg.GatherNDOperatorDesc.of(*tensors, input_dimension_count=3, indices_dimension_count=2)
    assert dg.translate(desc).check


@pytest.mark.parametrize("data_type", ["FLOAT16", "FLOAT32", "FLOAT64", "INT8", "UINT64", "INT64"])
def test_initial_values_keep_their_bits(data_type: str, tmp_path: Path) -> None:
    """NaNs with payloads, zeros of both signs, subnormals; the least and the greatest integer."""
    dtype = np.dtype(data_type.lower())
    values = np.array([1, 2, 0, 2 ** (8 * dtype.itemsize) - 1, 2 ** (8 * dtype.itemsize - 1)], f"u{dtype.itemsize}").view(dtype)
    np.save(tmp_path / "values.npy", values)
    model = copied(5, data_type)
    model["resources"]["a"]["initialValues"] = {"sourcePath": "values.npy"}
    del model["commands"][2:]
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    made = dg.translate(path)
    assert made.check
    (found,) = import_module("onnxruntime").InferenceSession(made.form.SerializeToString()).run(None, {})
    assert found.tobytes() == values[::-1].tobytes()
