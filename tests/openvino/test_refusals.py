"""What `dg.openvino.gather` and its twin refuse: every constraint of the page, by a message that states the facts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlgather as dg
from tests.gpus import placed
from tests.openvino.specification import NAMES

DATA = np.zeros((3, 4, 5), np.float32)
PAIRS = np.zeros((3, 4), np.int64)
ALL_TYPES = "boolean, bf16, f16, f32, f64, f8e4m3, f8e5m2, f8e8m0, i8, i16, i32, i64, u8, u16, u32, u64, string"
INTEGERS = "i8, i16, i32, i64, u8, u16, u32, u64"
ONE = "expected a scalar or one dimension of one element"

CASES: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = {
    "axis above": ((DATA, PAIRS, 3), {}, ValueError, "axis is 3, but data has rank 3: expected -3 … 2"),
    "axis below": ((DATA, PAIRS, -4), {}, ValueError, "axis is -4, but data has rank 3: expected -3 … 2"),
    "axis that 64 signed bits do not hold": (
        (DATA, PAIRS, np.uint64(2**63 + 2)),
        {},
        ValueError,
        f"axis is {2**63 + 2}, but data has rank 3: expected -3 … 2",
    ),
    "float axis": ((DATA, PAIRS, 1.0), {}, TypeError, "axis is 1.0 of type float, expected an integer"),
    "float axis array": ((DATA, PAIRS, np.array([1.0])), {}, TypeError, f"axis has type f64, but Gather takes {INTEGERS}"),
    "bool axis": ((DATA, PAIRS, np.bool_(True)), {}, TypeError, f"axis has type boolean, but Gather takes {INTEGERS}"),
    "axis list": ((DATA, PAIRS, [1]), {}, TypeError, r"axis is \[1\] of type list, expected an integer"),
    "axis of two elements": ((DATA, PAIRS, np.array([0, 1])), {}, ValueError, rf"axis has shape \(2,\), {ONE}"),
    "axis of two dimensions": ((DATA, PAIRS, np.array([[1]])), {}, ValueError, rf"axis has shape \(1, 1\), {ONE}"),
    "axis of no element": ((DATA, PAIRS, PAIRS[0, :0]), {}, ValueError, rf"axis has shape \(0,\), {ONE}"),
    "batch_dims below": ((DATA, PAIRS, 2, -3), {}, ValueError, "batch_dims is -3, but indices has rank 2: expected -2 … 2"),
    "batch_dims above": ((DATA, PAIRS, 2, 3), {}, ValueError, "batch_dims is 3, but indices has rank 2: expected -2 … 2"),
    "batch_dims of a scalar index": ((DATA, PAIRS[0, 0], 2, -1), {}, ValueError, "batch_dims is -1, but indices has rank 0"),
    "batch_dims beyond axis": (
        (DATA, PAIRS, 1, 2),
        {},
        ValueError,
        "batch_dims is 2, but axis counted from the front is 1: expected batch_dims <= axis",
    ),
    "negative batch_dims beyond axis": (
        (DATA, PAIRS, 0, -1),
        {},
        ValueError,
        r"batch_dims is -1 \(counted from the rank of indices, 2: 1\), but axis counted from the front is 0: expected",
    ),
    "float batch_dims": ((DATA, PAIRS, 2, 1.0), {}, TypeError, "batch_dims is 1.0 of type float, expected an integer"),
    "unequal batches": (
        (DATA, np.zeros((3, 1, 2), np.int64), 2, 2),
        {},
        ValueError,
        "batch dimension 1 has size 4 in data and 1 in indices, but batch_dims is 2: expected equal sizes",
    ),
    "unequal batches counted from the end": (
        (DATA, PAIRS[:2], 2, -1),
        {},
        ValueError,
        r"batch dimension 0 has size 3 in data and 2 in indices, but batch_dims is -1 \(counted .* 2: 1\): expected equal sizes",
    ),
    "batch_dims in version 1": (
        (DATA, PAIRS, 2, -1),
        {"version": 1},
        ValueError,
        "batch_dims is -1, but Gather-1 has no batch_dims: leave it out, or use Gather-7 or newer",
    ),
    "unknown version": ((DATA, PAIRS, 1), {"version": 9}, ValueError, "version is 9, expected 1, 7 or 8"),
    "opset in the place of a version": (
        (DATA, PAIRS, 1),
        {"version": "opset8"},
        ValueError,
        "version is 'opset8', expected 1, 7 or 8",
    ),
    "scalar data": ((DATA[0, 0, 0], PAIRS, 0), {}, ValueError, "data is a scalar, but Gather-8 takes data of rank >= 1"),
    "float indices": ((DATA, PAIRS.astype("f4"), 1), {}, TypeError, f"indices has type f32, but Gather-8 takes {INTEGERS}"),
    "bool indices": (
        (DATA, PAIRS.astype(bool), 1),
        {"version": 1},
        TypeError,
        f"indices has type boolean, but Gather-1 takes {INTEGERS}",
    ),
    "indices of the other byte order": (
        (DATA, PAIRS.astype(">i8"), 1),
        {},
        TypeError,
        r"indices has type '>i8' with the other byte order; convert with \.astype\('int64'\)",
    ),
    "complex data": ((DATA.astype("c8"), PAIRS, 1), {}, TypeError, f"data has type complex64, but Gather-8 takes {ALL_TYPES}"),
    "half bytes": (
        (DATA.astype(ml_dtypes.int4), PAIRS, 1),
        {"version": 7},
        TypeError,
        f"data has type int4, but Gather-7 takes {ALL_TYPES}",
    ),
    "another float8": (
        (DATA.astype(ml_dtypes.float8_e4m3fnuz), PAIRS, 1),
        {},
        TypeError,
        f"data has type float8_e4m3fnuz, but Gather-8 takes {ALL_TYPES}",
    ),
    "unknown policy": ((DATA, PAIRS, 1), {"out_of_bounds": "zero"}, ValueError, "out_of_bounds is 'zero', expected one of"),
    "fill that the type cannot hold": (
        (DATA.astype("u1"), PAIRS, 1),
        {"out_of_bounds": dg.Fill(-1)},
        ValueError,
        "Fill value -1 cannot be stored as uint8",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refused_with_the_facts(case: str) -> None:
    arguments, named, error, message = CASES[case]
    for function in (dg.openvino.gather, dg.openvino.gather.plan):
        with pytest.raises(error, match=f"^{message}") as found:
            function(*arguments, **named)
        assert type(found.value) is error


def test_the_message_lists_every_type() -> None:
    assert sorted(ALL_TYPES.split(", ")) == sorted([*NAMES.values(), "string"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], PAIRS, 0), r"data: expected an array .* got list: wrap Python values with numpy\.asarray"),
        ((DATA, 3, 0), r"indices: expected an array .* got int"),
    ],
)
def test_python_values_are_no_arrays(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        dg.openvino.gather(*arguments)


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(ValueError, match="device is 'gpu', expected 'cpu', 'cuda', 'cuda:N'"):
        dg.openvino.gather(DATA, PAIRS, 0, device="gpu")


@pytest.mark.gpu(devices=2)
def test_an_axis_on_a_gpu_is_not_fetched() -> None:
    for function in (dg.openvino.gather, dg.openvino.gather.plan):
        with pytest.raises(TypeError, match="axis lies on cuda:1, but its values decide the result's shape: copy it to the"):
            function(*(placed(array, 1) for array in (DATA, PAIRS, np.array([1]))))
