"""What OpenVINO's functions and their twins refuse: every constraint of the pages, by a message that states the facts."""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlgather as dg
from tests.dialects.refusals import Refusals, check_refused, each_of
from tests.gpus import placed
from tests.openvino.specification import NAMES

ov = dg.openvino
GATHER = ov.gather
DATA = np.zeros((3, 4, 5), np.float32)
PAIRS = np.zeros((3, 4), np.int64)
X, IDS = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.int64)
ALL_TYPES = "boolean, bf16, f16, f32, f64, f8e4m3, f8e5m2, f8e8m0, i8, i16, i32, i64, u8, u16, u32, u64, string"
INTEGERS = "i8, i16, i32, i64, u8, u16, u32, u64"
ONE = "expected a scalar or one dimension of one element"


def called(function: Any, *arguments: Any, **named: Any) -> Any:
    """Calls a function, or its twin that plans."""
    return lambda plan: (function.plan if plan else function)(*arguments, **named)


gathered = partial(called, GATHER, DATA, PAIRS)
sliced = partial(called, ov.slice, X)
strided = partial(called, ov.strided_slice, X)
REFUSED: Refusals = {
    ValueError: {
        "axis is 3, but data has rank 3: expected -3 … 2": gathered(3),
        "axis is -4, but data has rank 3: expected -3 … 2": gathered(-4),
        f"axis is {2**63 + 2}, but data has rank 3: expected -3 … 2": gathered(np.uint64(2**63 + 2)),
        f"axis has shape (2,), {ONE}": gathered(np.array([0, 1])),
        f"axis has shape (1, 1), {ONE}": gathered(np.array([[1]])),
        f"axis has shape (0,), {ONE}": gathered(PAIRS[0, :0]),
        "batch_dims is -3, but indices has rank 2: expected -2 … 2": gathered(2, -3),
        "batch_dims is 3, but indices has rank 2: expected -2 … 2": gathered(2, 3),
        "batch_dims is -1, but indices has rank 0": called(GATHER, DATA, PAIRS[0, 0], 2, -1),
        "batch_dims is 2, but axis counted from the front is 1: expected batch_dims <= axis": gathered(1, 2),
        "batch_dims is -1 (counted from the rank of indices, 2: 1), but axis counted from the front is 0: expected": gathered(
            0, -1
        ),
        "batch dimension 1 has size 4 in data and 1 in indices, but batch_dims is 2: expected equal sizes": called(
            GATHER, DATA, np.zeros((3, 1, 2), np.int64), 2, 2
        ),
        "batch dimension 0 has size 3 in data and 2 in indices, but batch_dims is -1 (counted...expected equal sizes": called(
            GATHER, DATA, PAIRS[:2], 2, -1
        ),
        "batch_dims is -1, but Gather-1 has no batch_dims: leave it out, or use Gather-7 or newer": gathered(2, -1, version=1),
        "version is 9, expected 1, 7 or 8": gathered(1, version=9),
        "version is 'opset8', expected 1, 7 or 8": gathered(1, version="opset8"),
        "data is a scalar, but Gather-8 takes data of rank >= 1": called(GATHER, DATA[0, 0, 0], PAIRS, 0),
        "out_of_bounds is 'zero', expected one of": gathered(1, out_of_bounds="zero"),
        "Fill value -1 cannot be stored as uint8": called(GATHER, DATA.astype("u1"), PAIRS, 1, out_of_bounds=dg.Fill(-1)),
        "indices has size 2 and data has size 4 in dimension 1, but GatherElements-6...except along the axis": called(
            ov.gather_elements, X, IDS[:, :2], 0
        ),
        "indices has rank 1 and data rank 2, but GatherElements-6 takes equal ranks": called(ov.gather_elements, X, IDS[0], 0),
        "axis is 2, but data has rank 2: expected -2 … 1": called(ov.gather_elements, X, IDS, 2),
        "version is 7, expected 5 or 8": called(ov.gather_nd, X, IDS, version=7),
        "batch_dims is 2, expected 0 … 1, because it must be less than the ranks of data (2) and indices (2)": called(
            ov.gather_nd, X, IDS, 2
        ),
        "indices has tuples of 4 components (its last dimension), but data has 2 dimensions to index": called(
            ov.gather_nd, X, IDS, version=5
        ),
        "start has 2 entries and stop has 1: expected equal lengths": sliced([0, 1], [1], [1, 1]),
        "start has 1 entry and axes has 2: expected equal": sliced([0], [1], [1], [0, 1]),
        "axes is (1, -1), which names an axis of data (rank 2) more than once": sliced([0, 0], [1, 1], [1, 1], [1, -1]),
        "step is (1, 0), but a step cannot be 0: step[1] must be 1 or more, or negative": sliced([0, 0], [1, 1], [1, 0]),
        "start has 2 entries, but data has rank 1": called(ov.slice, X[0], [0, 0], [1, 1], [1, 1]),
        "data is a scalar, but Slice-8 takes data of rank >= 1": called(ov.slice, X[0, 0], [], [], []),
        "start has shape (1, 1), but Slice-8 takes one dimension: reshape to (-1,)": sliced(np.array([[0]]), [1], [1]),
        "begin[1] is 4, but shrink_axis_mask takes that element of dimension 1 of data, which has size 4: valid": strided(
            [0, 4], [1, 5], shrink_axis_mask=[0, 1]
        ),
        "begin has 3 entries for dimensions of data, but data has rank 2: at most one per dimension, besides": strided(
            [0] * 4, [1] * 4, new_axis_mask=[1]
        ),
        "ellipsis_mask is (1, 1), but StridedSlice-1 takes at most one ellipsis": strided([0, 0], [1, 1], ellipsis_mask=[1, 1]),
        "end_mask is (2,), but a mask has zeros and ones": strided([0], [1], end_mask=[2]),
        "strides is (0, 1), but a stride cannot be 0: strides[0] must be 1 or more, or negative": strided([0, 0], [1, 1], [0, 1]),
        f"begin[0] is {2**64}, which is no 64-bit integer: expected {-(2**63)} … {2**64 - 1}": strided([2**64], [1]),
    },
    TypeError: {
        "axis is 1.0 of type float, expected an integer": gathered(1.0),
        f"axis has type f64, but Gather takes {INTEGERS}": gathered(np.array([1.0])),
        f"axis has type boolean, but Gather takes {INTEGERS}": gathered(np.bool_(True)),
        "axis is [1] of type list, expected an integer": gathered([1]),
        "batch_dims is 1.0 of type float, expected an integer": gathered(2, 1.0),
        f"indices has type f32, but Gather-8 takes {INTEGERS}": called(GATHER, DATA, PAIRS.astype("f4"), 1),
        f"indices has type boolean, but Gather-1 takes {INTEGERS}": called(GATHER, DATA, PAIRS.astype(bool), 1, version=1),
        "indices has type '>i8' with the other byte order; convert with .astype('int64')": called(
            GATHER, DATA, PAIRS.astype(">i8"), 1
        ),
        f"data has type complex64, but Gather-8 takes {ALL_TYPES}": called(GATHER, DATA.astype("c8"), PAIRS, 1),
        f"data has type int4, but Gather-7 takes {ALL_TYPES}": called(GATHER, DATA.astype(ml_dtypes.int4), PAIRS, 1, version=7),
        f"data has type float8_e4m3fnuz, but Gather-8 takes {ALL_TYPES}": called(
            GATHER, DATA.astype(ml_dtypes.float8_e4m3fnuz), PAIRS, 1
        ),
        "indices has type i16, but GatherElements-6 takes i32, i64": called(ov.gather_elements, X, IDS.astype("i2"), 0),
        f"indices has type f32, but GatherND-8 takes {INTEGERS}": called(ov.gather_nd, X, X),
        f"start has type f64, but Slice-8 takes {INTEGERS}": sliced(np.array([0.0]), [1], [1]),
        "start is None, expected a list of integers or an array": sliced(None, [1], [1]),
    },
}


@each_of(REFUSED)
def test_a_broken_call_is_refused_with_the_facts(call: Any, error: type[Exception], message: str) -> None:
    for plan in (False, True):
        check_refused(call, error, message, plan)


def test_the_message_lists_every_type() -> None:
    assert sorted(ALL_TYPES.split(", ")) == sorted([*NAMES.values(), "string"])


@pytest.mark.gpu(devices=2)
def test_an_axis_on_a_gpu_is_not_fetched() -> None:
    for function in (dg.openvino.gather, dg.openvino.gather.plan):
        with pytest.raises(TypeError, match="axis lies on cuda:1, but its values decide the result's shape: copy it to the"):
            function(*(placed(array, 1) for array in (DATA, PAIRS, np.array([1]))))
