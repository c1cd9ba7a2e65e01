"""One layer as written in an IR: the layers that OpenVINO wrote give the bits that OpenVINO gives; ports are checked."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree  # type: ignore[import-untyped] # ships no types

import dmlgather as dg
from tests import seeds
from tests.dialects.refusals import Refusals, check_refused, each_of
from tests.openvino.ir import GATHER, PAGE, ran, three_gathers
from tests.openvino.runtime import openvino

DEVICES = ("reference", "cpu")


def layers_of(path: Path) -> dict[str, str]:
    """The text of every Gather layer of a file, by name."""
    root = ET.parse(path).getroot()
    return {one.attrib["name"]: ET.tostring(one, "unicode") for one in root.iter("layer") if one.get("type") == "Gather"}


def evaluated(path: Path, arrays: list[Any]) -> list[Any]:
    """What `Model.evaluate` gives for the model's results."""
    model = openvino.Core().read_model(str(path))
    inputs = [openvino.Tensor(np.ascontiguousarray(array)) for array in arrays]
    outputs = [openvino.Tensor(port.get_element_type(), openvino.Shape([])) for port in model.outputs]
    assert model.evaluate(outputs, inputs)
    return [np.array(tensor.data) for tensor in outputs]


@pytest.mark.parametrize("device", DEVICES)
def test_each_layer_gives_what_openvino_gives(tmp_path: Path, device: str) -> None:
    path = three_gathers(tmp_path)
    layers = layers_of(path)
    rng = seeds.numpy_rng()
    for count in (1, 6):
        table = rng.standard_normal((2, 3, 5, 4)).astype(np.float32)
        tokens = rng.integers(-8, 8, (2, count))  # some out of range on both sides
        halves = rng.standard_normal((6, 3)).astype(np.float16)
        rows = rng.integers(0, 9, 4).astype(np.int32)  # none negative, which evaluate wraps in versions 1 and 7
        newest = dg.openvino.run_layer(layers["newest"], table, tokens, 2, device=device)
        middle = dg.openvino.run_layer(layers["middle"], halves, rows, np.array([1]), device=device)
        oldest = dg.openvino.run_layer(layers["oldest"], middle, rows, np.array([-2], np.int8), device=device)
        expected = evaluated(path, [table, tokens, halves, rows])
        for ours, theirs in zip((newest, oldest), expected, strict=True):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            assert ours.tobytes() == theirs.tobytes()


def page_arrays() -> tuple[Any, Any]:
    rng = seeds.numpy_rng()
    return rng.standard_normal((2, 64, 128)), rng.integers(-64, 64, (2, 32, 21))


def test_the_page_s_layer_runs() -> None:
    data, indices = page_arrays()
    output = dg.openvino.run_layer(PAGE, data, indices, 1)
    assert output.shape == (2, 32, 21, 128)
    batch = np.arange(2).reshape(2, 1, 1)
    assert output.tobytes() == data[batch, indices].tobytes()


@pytest.mark.parametrize("read", [ET.fromstring, etree.fromstring, str, str.encode], ids=["xml.etree", "lxml", "text", "bytes"])
def test_layers_are_texts_or_elements(read: Any) -> None:
    data, indices = page_arrays()
    text = PAGE.replace("...", 'id="3"')
    assert dg.openvino.run_layer(read(text), data, indices, 1).tobytes() == dg.openvino.gather(data, indices, 1, 1).tobytes()


def test_the_version_decides_what_negative_indices_mean() -> None:
    data, indices = np.arange(1, 11, dtype=np.float32).reshape(5, 2), np.array([-1, 7, 4])
    for version, rows in ((8, [[9, 10], [0, 0], [9, 10]]), (7, [[0, 0], [0, 0], [9, 10]]), (1, [[0, 0], [0, 0], [9, 10]])):
        text = GATHER.replace("opset8", f"opset{version}")
        assert dg.openvino.run_layer(text, data, indices, np.int64(0)).tolist() == rows
    assert dg.openvino.run_layer(GATHER, data, indices, 0, out_of_bounds="clamp").tolist() == [[9, 10]] * 3


def test_plan_is_the_function_s() -> None:
    pair = ((2, 64, 128), "float32"), ((2, 32, 21), "int32")
    assert dg.openvino.run_layer.plan(PAGE, *pair, 1) == dg.openvino.gather.plan(*pair, 1, 1)


X, I = np.zeros((5, 2), np.float32), np.zeros(3, np.int64)  # noqa: E741 - indices
ONE_AXIS = GATHER.replace('precision="I64"></port></input>', 'precision="I64"><dim>1</dim></port></input>')


MISTAKES: Refusals = {
    ValueError: {
        "...data has shape [2], but port 0 has [5, 2]": ran(GATHER, X[0], I, 0),
        "...data has shape [4, 2], but port 0 has [5, 2]": ran(GATHER, X[:4], I, 0),
        "...indices has shape [2], but port 1 has [3]": ran(GATHER, X, I[:2], 0),
        "...axis has shape [], but port 2 has [1]": ran(ONE_AXIS, X, I, np.array(0)),
        "...output has shape [5, 3], but port 3 has [3, 2]": ran(
            GATHER.replace("<dim>3</dim></port><port", "<dim>-1</dim></port><port"), X, I, 1
        ),
        "...batch_dims is 1, but axis counted from the front": ran(GATHER.replace('dims="0"', 'dims="1"'), X, I, 0),
        "...layer 3 'Gather_3' (GatherTree) is no Gather, GatherElements, GatherND, Slice or StridedSlice": ran(
            GATHER.replace('"Gather"', '"GatherTree"'), X, I, 0
        ),
        "...has version ''": ran(GATHER.replace('version="opset8"', ""), X, I, 0),
        "...is not well-formed XML": ran("<layer \ud800", X, I, 0),
        "...xml_layer: is not UTF-8 text: byte 0xff at offset 0": ran(b"\xff\xfe", X, I, 0),
        "...has version 'extension', expected opset1 … opset16": ran(GATHER.replace("opset8", "extension"), X, I, 0),
    },
    TypeError: {
        "...data has type f64, but port 0 has f32": ran(GATHER, X.astype("float64"), I, 0),
        "...indices has type i32, but port 1 has i64": ran(GATHER, X, I.astype("int32"), 0),
        "...axis has type i32, but port 2 has i64": ran(GATHER, X, I, np.array(0, np.int32)),
        "...xml_layer is of type int, expected the text of a <layer>, or an element": ran(7, X, I, 0),
        "...data": ran(GATHER, [1], I, 0),
    },
}


@each_of(MISTAKES)
def test_mistakes_name_the_port(call: Any, error: type[Exception], message: str) -> None:
    check_refused(call, error, message)


@pytest.mark.parametrize("size", [1, 5, 9])
def test_a_size_of_minus_1_is_any(size: int) -> None:
    text = GATHER.replace("<dim>5</dim>", "<dim>-1</dim>").replace("<dim>3</dim>", "<dim>-1</dim>")
    data, indices = seeds.numpy_rng().standard_normal((size, 2), np.float32), np.arange(size)
    assert (dg.openvino.run_layer(text, data, indices, 0) == data).all()


@pytest.mark.parametrize("axis", [0, np.int64(0), np.int8(0), np.array([0])], ids=repr)
def test_a_number_is_an_axis_wherever_the_port_has_one_element(axis: Any) -> None:
    assert ONE_AXIS != GATHER
    assert dg.openvino.run_layer(ONE_AXIS, X, I, axis).shape == (3, 2)


def test_batch_dims_of_gather_1_are_passed_over() -> None:
    text = GATHER.replace("opset8", "opset1").replace('dims="0"', 'dims="1"')
    assert dg.openvino.run_layer(text, X, I, 0).shape == (3, 2)
