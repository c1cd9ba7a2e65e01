"""Layers of GatherElements, GatherND, Slice and StridedSlice as OpenVINO writes them, run one by one; mistakes are named."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.openvino.layer_reading import PROBLEMS
from dmlgather.openvino.problems.operation_versions import VERSIONS, version_in
from tests import seeds
from tests.dialects.refusals import Refusals, check_refused, each_of
from tests.openvino.ir import layer, parameter, ran, save
from tests.openvino.runtime import openvino

opset8 = openvino.opset8
run = dg.openvino.run_layer


def constant(*values: int, kind: Any = np.int64) -> Any:
    return opset8.constant(np.array(values, kind))


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The text of each layer that OpenVINO writes for one of these operations, by name."""
    cubes, places = parameter("cubes", [2, 3, 4], np.float32), parameter("places", [2, 5, 4], np.int32)
    tuples = parameter("tuples", [2, 3, -1, 1], np.int64)
    nodes = {
        "elements": opset8.gather_elements(cubes, places, axis=-2),
        "tuples 8": opset8.gather_nd(cubes, tuples, batch_dims=2),
        "tuples 5": openvino.opset5.gather_nd(cubes, tuples, batch_dims=2),
        "window": opset8.slice(cubes, constant(3, -1), constant(-9, 9), constant(-2, 1), constant(2, 0, kind=np.int32)),
        "default axes": opset8.slice(cubes, constant(1), constant(2), constant(1)),  # OpenVINO writes the axes
        "masked": opset8.strided_slice(
            cubes, constant(0, 5, -1), constant(0, 5, 0), constant(1, 1, 1), [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]
        ),
        "without strides": opset8.strided_slice(cubes, constant(1, 0), constant(2, 2), constant(1, 1), [0, 0], [0, 0]),
    }
    for name, node in nodes.items():
        node.set_friendly_name(name)
    path = save(tmp_path_factory.mktemp("ir"), list(nodes.values()), [cubes, places, tuples])
    found = {one.attrib["name"]: one for one in ET.parse(path).getroot().iter("layer") if one.get("type") in PROBLEMS}
    assert {(one.get("type"), one.get("version")) for one in found.values()} == {
        ("GatherElements", "opset6"),
        ("GatherND", "opset5"),
        ("GatherND", "opset8"),
        ("Slice", "opset8"),
        ("StridedSlice", "opset1"),
    }
    return {name: ET.tostring(one, "unicode") for name, one in found.items()}


CUBES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize("device", [None, "reference"])
def test_each_layer_is_the_function_with_its_attributes(layers: dict[str, str], device: str | None) -> None:
    rng = seeds.numpy_rng()
    places, tuples = rng.integers(-3, 3, (2, 5, 4), np.int32), rng.integers(-4, 4, (2, 3, 6, 1))
    assert run(layers["elements"], CUBES, places, device=device).tolist() == np.take_along_axis(CUBES, places, 1).tolist()
    picked = np.take_along_axis(CUBES, tuples[..., 0], 2)
    assert run(layers["tuples 8"], CUBES, tuples, device=device).tolist() == picked.tolist()
    assert run(layers["tuples 5"], CUBES, indices=tuples, device=device).tolist() == picked.reshape(6, 6).tolist()
    window = run(layers["window"], CUBES, [3, -1], np.array([-9, 9]), [-2, 1], np.array([2, 0], np.int32), device=device)
    assert window.tolist() == CUBES[1:, :, ::-2].tolist()
    assert run(layers["default axes"], CUBES, [1], [2], [1], [0], device=device).tolist() == CUBES[1:].tolist()
    masked = run(layers["masked"], CUBES, [0, 5, -1], [0, 5, 0], [1, 1, 1], device=device)
    assert masked.tolist() == CUBES[..., None, -1].tolist()
    assert run(layers["without strides"], CUBES, [1, 0], end=[2, 2], strides=[1, 1]).tolist() == CUBES[1:2, :2].tolist()


def test_calls_of_one_text_have_their_own_bounds(layers: dict[str, str]) -> None:
    for first in (0, 1, 0):
        bounds = np.array([first]), np.array([first + 1]), np.array([1])
        assert run(layers["default axes"], CUBES, *bounds, axes=[0]).tolist() == CUBES[first : first + 1].tolist()


def test_strides_and_sizes_may_be_absent() -> None:
    text = layer(
        3, "StridedSlice", {0: "FP32 ", 1: "I64 1", 2: "I64 1"}, {3: "FP32 -1"}, 'begin_mask="0" end_mask=""', version="opset1"
    )
    assert run(text, np.arange(5, dtype=np.float32), [2], [4]).tolist() == [2, 3]


X = np.zeros((5, 2), np.float32)
SLICE = layer(3, "Slice", {0: "FP32 5,2", 1: "I64 1", 2: "I64 1", 3: "I64 1"}, {4: "FP32 2,2"})
ELEMENTS = layer(3, "GatherElements", {0: "FP32 5,2", 1: "I64 3,2"}, {2: "FP32 3,2"}, 'axis="0"', version="opset6")
STRIDED = layer(3, "StridedSlice", {0: " ", 1: " ", 2: " "}, {3: " "}, 'begin_mask="0" end_mask="0"', version="opset1")
MISTAKES: Refusals = {
    ValueError: {
        "...start has 2 elements, but port 1 has [1]": ran(SLICE, X, [0, 0], [2], [1]),
        "...start has shape [2], but port 1 has [1]": ran(SLICE, X, np.array([0, 0]), [2], [1]),
        "...output has shape [3, 2], but port 4 has [2, 2]": ran(SLICE, X, [0], [3], [1]),
        "...has no axis, which GatherElements-6 requires": ran(ELEMENTS.replace('axis="0"', ""), X, np.zeros((3, 2), np.int64)),
        "...axis of layer 3 'GatherElements_3' (GatherElements) is 'x', expected an integer": ran(
            ELEMENTS.replace('axis="0"', 'axis="x"'), X, np.zeros((3, 2), np.int64)
        ),
        "...begin_mask of layer 3 'StridedSlice_3' (StridedSlice) is '', expected an integer": ran(
            STRIDED.replace('begin_mask="0"', 'begin_mask="0,,1"'), X, [0], [1]
        ),
        "...has no end_mask, which StridedSlice-1 requires": ran(STRIDED.replace('end_mask="0"', ""), X, [0], [1]),
        "...has version 'opset5': opset5 has no GatherElements, which came with opset6": ran(
            ELEMENTS.replace("opset6", "opset5"), X, X
        ),
        "...has 3 input and 1 output port, expected 4 or 5 inputs (data, start, stop, step, axes) and 1 output": ran(
            SLICE.replace('<port id="3" precision="I64"><dim>1</dim></port>', ""), X, [0], [2]
        ),
    },
    TypeError: {
        "...start has type i8, but port 1 has i64": ran(SLICE, X, np.zeros(1, np.int8), [2], [1]),
        "...has the inputs data, start, stop, step, but got 3 by position: pass": ran(SLICE, X, [0], [2]),
        "...but got 5 by position": ran(SLICE, X, [0], [2], [1], [0]),
        "...but got 4 by position, step=: pass each once": ran(SLICE, X, [0], [2], [1], step=[1]),
        "...has the inputs data, indices, but got 1 by position, axis=": ran(ELEMENTS, X, axis=0),
    },
}


@each_of(MISTAKES)
def test_mistakes_name_the_port_or_the_attribute(call: Any, error: type[Exception], message: str) -> None:
    check_refused(call, error, message)


def test_the_table_of_versions_is_openvino_s() -> None:
    """Each version is what the operation set of its number brings, and the newest set still has it."""
    functions = {
        "Gather": "gather",
        "GatherElements": "gather_elements",
        "GatherND": "gather_nd",
        "Slice": "slice",
        "StridedSlice": "strided_slice",
    }
    assert tuple(VERSIONS) == tuple(PROBLEMS) == tuple(functions)
    for name, function in functions.items():
        first = min(VERSIONS[name])
        assert [hasattr(getattr(openvino, f"opset{number}"), function) for number in range(1, 17)] == [
            number >= first for number in range(1, 17)
        ]
        assert {version_in(name, number).since for number in range(first, 17)} == {*VERSIONS[name]}
        for row in VERSIONS[name].values():
            fields = PROBLEMS[name].__dataclass_fields__
            assert {*row.inputs, *row.attributes} <= {*fields}
            assert row.arrays == PROBLEMS[name].inputs
