"""How a caller states an ONNX node to `to_directml`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import dmlgather as dg
from tests.dialects.refusals import Refusals, check_refused, each_of
from tests.onnx.described import described, sliced

SLICE = helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])
BOUNDS = {"s": [1], "e": np.array([3]), "a": [0], "t": (1,)}
EXPECTED = described(sliced(np.zeros((5, 2), np.float32), starts=[1], ends=[3], axes=[0], steps=[1]), "6_4")


@pytest.mark.parametrize(
    ("shapes", "dtypes", "constants"),
    [
        ({"x": (5, 2)}, {"x": "float32"}, BOUNDS),
        ({"x": [np.int64(5), 2]}, {"x": np.float32}, BOUNDS),
        ([(5, 2)], [np.dtype("float32")], BOUNDS),
        ([(5, 2), (1,), (1,), (1,), (1,)], [TensorProto.FLOAT, *[TensorProto.INT32] * 4], {**BOUNDS, "e": [3]}),
        ([(5, 2), None, None, None, None], [1, None, None, None, None], BOUNDS),
        ({"x": (5, 2), "s": (1,)}, {"x": "float32", "s": "int64"}, BOUNDS),
        ([(5, 2)], ["float32"], {**BOUNDS, "e": np.array([3], np.int32)}),
        ({}, {}, {**BOUNDS, "x": np.zeros((5, 2), np.float32)}),
    ],
)
def test_inputs_are_stated_by_name_or_position(shapes: Any, dtypes: Any, constants: Any) -> None:
    assert dg.onnx.to_directml(SLICE, shapes, dtypes, constants=constants) == EXPECTED


def stated(**changes: Any) -> Any:
    """Describes a good node, but for these arguments."""
    return lambda: dg.onnx.to_directml(SLICE, **{"shapes": [(5, 2)], "dtypes": ["float32"], "constants": BOUNDS, **changes})


CONTRADICTIONS: Refusals = {
    ValueError: {
        "unknown feature level '7_0'": stated(level="7_0"),
        "shapes has 6 entries, but the node has 5 inputs (x, s, e, a, t)": stated(shapes=[(5, 2)] * 6),
        "dtypes has 6 entries, but the node has 5 inputs": stated(dtypes=["float32"] * 6),
        "'e' has shape (2,) in shapes, but the constant has (1,)": stated(shapes={"x": (5, 2), "e": (2,)}),
        "'e' has type int32 in dtypes, but the constant has int64": stated(dtypes={"x": "float32", "e": "int32"}),
        "'e' has type float64 in dtypes, but the constant has int64": stated(dtypes={"x": "float32", "e": "float64"}),
    },
    TypeError: {
        "opset is '13' of type str, expected an integer": stated(opset="13"),
        "...flaot32": stated(dtypes=["flaot32"]),
        "'x' has type 99 in dtypes, which is no data type of ONNX": stated(dtypes=[99]),
        "'x' has type 'float' in dtypes: float is float32 in ONNX ... 'float32' or 'float64'": stated(dtypes=["float"]),
    },
}


@each_of(CONTRADICTIONS)
def test_a_caller_that_contradicts_itself_gets_an_exception(call: Any, error: type[Exception], message: str) -> None:
    check_refused(call, error, message)
