"""What `dg.lax.gather` and its twin refuse, in JAX's kinds of exception, by messages that state the facts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlgather as dg
from tests.dialects.refusals import Refusals, check_refused, each_of
from tests.lax.judge import lax

Numbers = dg.lax.GatherDimensionNumbers

CUBE = np.zeros((3, 4, 5), np.float32)
PAIRS = np.zeros((3, 6, 2), np.int32)
ROWS = {"offset_dims": (2,), "collapsed_slice_dims": (1,), "start_index_map": (1, 2)}
ROWS |= {"operand_batching_dims": (0,), "start_indices_batching_dims": (0,)}
SIZES = (1, 1, 5)
ALL_INTEGERS = "int8, int16, int32, int64, uint8, uint16, uint32, uint64"


def changed(**changes: Any) -> Any:
    """What calls a function as a good call does, but for these arguments and dimension numbers."""
    numbers = {**ROWS, **{name: changes.pop(name) for name in ROWS if name in changes}}
    given = {"operand": CUBE, "start_indices": PAIRS, "slice_sizes": SIZES} | changes
    return lambda function: function(**{"dimension_numbers": Numbers(**numbers), **given})


REFUSED: Refusals = {
    TypeError: {
        "start_indices has rank 0; expected rank 1 or more, index vectors along its last dimension": changed(
            start_indices=PAIRS[0, 0, 0].reshape(())
        ),
        "offset_dims is (2, 0); expected ascending order": changed(offset_dims=(2, 0)),
        "offset_dims is (1, 1); expected each dimension once": changed(offset_dims=(1, 1)),
        "offset_dims is (3,); expected dimensions of the result, which has rank 3 (0 … 2), and 3 is not one": changed(
            offset_dims=(3,)
        ),
        "start_index_map is (1,); expected 2 entries, one per component of start_indices, shape (3, 6, 2)": changed(
            start_index_map=(1,)
        ),
        "start_index_map is (1, -1); expected dimensions of operand, which has rank 3 (0 … 2), and -1 is not one": changed(
            start_index_map=(1, -1)
        ),
        "start_index_map is (2, 2); expected each dimension once": changed(start_index_map=(2, 2)),
        "collapsed_slice_dims is (2, 1); expected ascending order": changed(collapsed_slice_dims=(2, 1)),
        "collapsed_slice_dims is (3,); expected dimensions of operand, which has rank 3 (0 … 2), and 3 is not one": changed(
            collapsed_slice_dims=(3,)
        ),
        "collapsed_slice_dims is (1, 1); expected each dimension once": changed(collapsed_slice_dims=(1, 1)),
        "operand_batching_dims is (0, 0); expected each dimension once": changed(operand_batching_dims=(0, 0)),
        "operand_batching_dims is (1, 0); expected ascending order": changed(operand_batching_dims=(1, 0)),
        "operand_batching_dims is (-1,); ... rank 3 (0 … 2), and -1 is not one": changed(operand_batching_dims=(-1,)),
        "collapsed_slice_dims is (0, 1) and operand_batching_dims is (0,); expected no dimension in both": changed(
            collapsed_slice_dims=(0, 1)
        ),
        "start_index_map is (1, 0) and operand_batching_dims is (0,); expected no dimension in both": changed(
            start_index_map=(1, 0)
        ),
        "start_indices_batching_dims is (1, 1); expected each dimension once": changed(start_indices_batching_dims=(1, 1)),
        "start_indices_batching_dims is (5,); ... of start_indices, which has rank 3 (0 … 2), and 5 is not one": changed(
            start_indices_batching_dims=(5,)
        ),
        "start_indices_batching_dims is (2,); expected other dimensions than 2, which holds the index vectors": changed(
            start_indices_batching_dims=(2,)
        ),
        "operand_batching_dims is (0,) and start_indices_batching_dims is (); expected equal lengths": changed(
            start_indices_batching_dims=()
        ),
        "batching dimension 0 of operand has size 3, and dimension 1 of start_indices has size 6; expected equal": changed(
            start_indices_batching_dims=(1,)
        ),
        "slice_sizes is (1, 1); expected 3 entries, one per dimension of operand": changed(slice_sizes=(1, 1)),
        "slice_sizes is (1, 1, 5), offset_dims (2,), collapsed_slice_dims ()...expected each of operand's 3 dimensions": changed(
            collapsed_slice_dims=()
        ),
        "slice_sizes[2] is 6; expected 0 … 5, because operand has size 5 there": changed(slice_sizes=(1, 1, 6)),
        "slice_sizes[1] is -1; expected 0 … 4, because operand has size 4": changed(slice_sizes=(1, -1, 5)),
        "slice_sizes[1] is 2; expected 1, because collapsed_slice_dims contains 1": changed(slice_sizes=(1, 2, 5)),
        "slice_sizes[0] is 3; expected 1, because operand_batching_dims contains 0": changed(slice_sizes=(3, 1, 5)),
        "slice_sizes[0] is 0; expected 1, because operand_batching": changed(slice_sizes=(0, 1, 5)),
        "slice_sizes[2] is 5.0 of type float, expected an integer": changed(slice_sizes=(1, 1, 5.0)),
        "slice_sizes is None of type NoneType, expected a sequence of integers": changed(slice_sizes=None),
        "offset_dims[0] is 2.0 of type float, expected an integer": changed(offset_dims=(2.0,)),
        "offset_dims is 2, expected a tuple of integers": changed(offset_dims=2),
        "offset_dims is '2', expected a tuple of integers": changed(offset_dims="2"),
        "dimension_numbers is of type tuple, expected GatherDimensionNumbers, JAX's or dmlgather's": changed(
            dimension_numbers=((2,), (1,), (1, 2))
        ),
        "offset_dims is [2] of type list, but JAX's GatherDimensionNumbers takes only a tuple": changed(
            dimension_numbers=lax.GatherDimensionNumbers([2], (1,), (1, 2), (0,), (0,))
        ),
        "start_indices has type object, but lax.gather takes int8": changed(start_indices=PAIRS.astype("U1")),
        "start_indices has type '>i4' with the other byte order; convert with .astype('int32')": changed(
            start_indices=PAIRS.astype(">i4")
        ),
        "operand has type '>f4' with the other byte order; convert with .astype('float32')": changed(operand=CUBE.astype(">f4")),
        "operand has type object, but lax.gather takes bool, int8, ": changed(operand=CUBE.astype("U3")),
        "operand has type datetime64[s], but": changed(operand=CUBE.astype("M8[s]"), mode="fill"),
        "fill_value is [1] of type list, expected one number (array.item() gives it)": changed(mode="fill", fill_value=[1]),
        "fill_value is array(1) of type ndarray, expected": changed(mode="fill", fill_value=np.array(1)),
        "fill_value is '1' of type str, expected one number": changed(mode="drop", fill_value="1"),
        "fill_value is ... of type datetime64": changed(mode="drop", fill_value=np.datetime64(1, "s")),
        "fill_value is 1j, a complex number, but the operand has type float32": changed(mode="fill", fill_value=1j),
    },
    ValueError: {
        f"start_indices has type float32, but lax.gather takes {ALL_INTEGERS}": changed(start_indices=PAIRS.astype("f4")),
        "start_indices has type bool, but lax.gather takes int8, ": changed(start_indices=PAIRS.astype(bool)),
        "start_indices has type int4, but lax.gather": changed(start_indices=PAIRS.astype(ml_dtypes.int4)),
        "mode is 'wrap', expected 'clip', 'fill', 'drop' or 'promise_in_bounds', a GatherScatterMode, or None": changed(
            mode="wrap"
        ),
        "mode is 'one_hot', expected 'clip'": changed(mode="one_hot"),
        "mode is <GatherScatterMode.ONE_HOT: 4>, expected 'clip'": changed(mode=lax.GatherScatterMode.ONE_HOT),
        "mode is 1, expected 'clip'": changed(mode=1),
        "mode is ['clip'], expected 'clip'": changed(mode=["clip"]),
        "out_of_bounds is 'zero', expected one of": changed(out_of_bounds="zero"),
        "Fill value 9 cannot be stored as int4: it would become -7": changed(
            out_of_bounds=dg.Fill(9), operand=CUBE.astype(ml_dtypes.int4)
        ),
    },
    OverflowError: {
        "fill_value is an integer of 71 bits, which cannot be cast to int16": changed(
            mode="fill", fill_value=-(2**70), operand=CUBE.astype("i2")
        ),
        "fill_value is an integer of 1101 bits, which cannot be cast to float32": changed(mode="fill", fill_value=2**1100),
    },
}


FUNCTIONS = (dg.lax.gather, dg.lax.gather.plan)


def test_the_call_that_is_changed_is_good() -> None:
    assert [changed()(function).shape for function in FUNCTIONS] == [(3, 6, 5)] * 2


@each_of(REFUSED)
def test_a_broken_call_is_refused_with_the_facts(call: Any, error: type[Exception], message: str) -> None:
    for function in FUNCTIONS:
        check_refused(call, error, message, function)


@pytest.mark.parametrize(
    ("name", "dims", "expected"),
    [
        ("offset_dims", (2, 0, 2), "ascending order"),
        ("offset_dims", (9, 0), "ascending order"),
        ("start_index_map", (3, 3), "dimensions of operand"),
        ("collapsed_slice_dims", (2, 1, 2), "ascending order"),
        ("collapsed_slice_dims", (3, 3), "dimensions of operand"),
        ("operand_batching_dims", (1, 0, 1), "each dimension once"),
        ("operand_batching_dims", (9, 0), "ascending order"),
        ("start_indices_batching_dims", (5, 5), "each dimension once"),
    ],
)
def test_the_order_of_the_checks_of_one_field_is_jaxs(name: str, dims: tuple[int, ...], expected: str) -> None:
    numbers = {**ROWS, name: dims}
    with pytest.raises(TypeError) as theirs:
        lax.gather(CUBE, PAIRS, lax.GatherDimensionNumbers(**numbers), SIZES)
    words = {"ascending order": "must be sorted", "each dimension once": "must not repeat", "dimensions of operand": "Invalid"}
    assert words[expected] in str(theirs.value)
    with pytest.raises(TypeError, match=rf"^{name} is .*; expected {expected}"):
        changed(**{name: dims})(dg.lax.gather)
