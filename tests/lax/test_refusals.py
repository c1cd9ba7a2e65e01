"""What `dg.lax.gather` and its twin refuse, in JAX's kinds of exception, by messages that state the facts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlgather as dg
from tests.lax.judge import lax

Numbers = dg.lax.GatherDimensionNumbers

CUBE = np.zeros((3, 4, 5), np.float32)
PAIRS = np.zeros((3, 6, 2), np.int32)
ROWS = {"offset_dims": (2,), "collapsed_slice_dims": (1,), "start_index_map": (1, 2)}
ROWS |= {"operand_batching_dims": (0,), "start_indices_batching_dims": (0,)}
SIZES = (1, 1, 5)
ALL_INTEGERS = "int8, int16, int32, int64, uint8, uint16, uint32, uint64"

SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "1 rank of start_indices": (
        {"start_indices": PAIRS[0, 0, 0].reshape(())},
        "start_indices has rank 0; expected rank 1 or more, index vectors along its last dimension",
    ),
    "2 offset_dims sorted": ({"offset_dims": (2, 0)}, r"offset_dims is \(2, 0\); expected ascending order"),
    "2 offset_dims unique": ({"offset_dims": (1, 1)}, r"offset_dims is \(1, 1\); expected each dimension once"),
    "2 offset_dims range": (
        {"offset_dims": (3,)},
        r"offset_dims is \(3,\); expected dimensions of the result, which has rank 3 \(0 … 2\), and 3 is not one",
    ),
    "3 components": (
        {"start_index_map": (1,)},
        r"start_index_map is \(1,\); expected 2 entries, one per component of start_indices, shape \(3, 6, 2\)",
    ),
    "3 start_index_map range": (
        {"start_index_map": (1, -1)},
        r"start_index_map is \(1, -1\); expected dimensions of operand, which has rank 3 \(0 … 2\), and -1 is not one",
    ),
    "3 start_index_map unique": ({"start_index_map": (2, 2)}, r"start_index_map is \(2, 2\); expected each dimension once"),
    "4 collapsed sorted": ({"collapsed_slice_dims": (2, 1)}, r"collapsed_slice_dims is \(2, 1\); expected ascending order"),
    "4 collapsed range": (
        {"collapsed_slice_dims": (3,)},
        r"collapsed_slice_dims is \(3,\); expected dimensions of operand, which has rank 3 \(0 … 2\), and 3 is not one",
    ),
    "4 collapsed unique": ({"collapsed_slice_dims": (1, 1)}, r"collapsed_slice_dims is \(1, 1\); expected each dimension once"),
    "5 batching unique": ({"operand_batching_dims": (0, 0)}, r"operand_batching_dims is \(0, 0\); expected each dimension once"),
    "5 batching sorted": ({"operand_batching_dims": (1, 0)}, r"operand_batching_dims is \(1, 0\); expected ascending order"),
    "5 batching range": (
        {"operand_batching_dims": (-1,)},
        r"operand_batching_dims is \(-1,\); .* rank 3 \(0 … 2\), and -1 is not one",
    ),
    "6 collapsed and batching": (
        {"collapsed_slice_dims": (0, 1)},
        r"collapsed_slice_dims is \(0, 1\) and operand_batching_dims is \(0,\); expected no dimension in both",
    ),
    "6 looked up and batching": (
        {"start_index_map": (1, 0)},
        r"start_index_map is \(1, 0\) and operand_batching_dims is \(0,\); expected no dimension in both",
    ),
    "7 indices' batching unique": (
        {"start_indices_batching_dims": (1, 1)},
        r"start_indices_batching_dims is \(1, 1\); expected each dimension once",
    ),
    "7 indices' batching range": (
        {"start_indices_batching_dims": (5,)},
        r"start_indices_batching_dims is \(5,\); .* of start_indices, which has rank 3 \(0 … 2\), and 5 is not one",
    ),
    "7 index vectors": (
        {"start_indices_batching_dims": (2,)},
        r"start_indices_batching_dims is \(2,\); expected other dimensions than 2, which holds the index vectors",
    ),
    "8 counts": (
        {"start_indices_batching_dims": ()},
        r"operand_batching_dims is \(0,\) and start_indices_batching_dims is \(\); expected equal lengths",
    ),
    "8 sizes": (
        {"start_indices_batching_dims": (1,)},
        "batching dimension 0 of operand has size 3, and dimension 1 of start_indices has size 6; expected equal",
    ),
    "9 count of slice_sizes": (
        {"slice_sizes": (1, 1)},
        r"slice_sizes is \(1, 1\); expected 3 entries, one per dimension of operand",
    ),
    "10 dimension of no kind": (
        {"collapsed_slice_dims": ()},
        r"slice_sizes is \(1, 1, 5\), offset_dims \(2,\), collapsed_slice_dims \(\), operand_batching_dims \(0,\); "
        "expected each of operand's 3 dimensions to be kept, collapsed or batching",
    ),
    "11 window above": ({"slice_sizes": (1, 1, 6)}, r"slice_sizes\[2\] is 6; expected 0 … 5, because operand has size 5 there"),
    "11 window below 0": ({"slice_sizes": (1, -1, 5)}, r"slice_sizes\[1\] is -1; expected 0 … 4, because operand has size 4"),
    "12 collapsed window": (
        {"slice_sizes": (1, 2, 5)},
        r"slice_sizes\[1\] is 2; expected 1, because collapsed_slice_dims contains 1",
    ),
    "13 batching window": (
        {"slice_sizes": (3, 1, 5)},
        r"slice_sizes\[0\] is 3; expected 1, because operand_batching_dims contains 0",
    ),
}

OTHERS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "empty batching window": (
        {"slice_sizes": (0, 1, 5)},
        TypeError,
        r"slice_sizes\[0\] is 0; expected 1, because operand_batching",
    ),
    "float slice size": ({"slice_sizes": (1, 1, 5.0)}, TypeError, r"slice_sizes\[2\] is 5.0 of type float, expected an integer"),
    "no slice sizes": ({"slice_sizes": None}, TypeError, "slice_sizes is None of type NoneType, expected a sequence of integers"),
    "float dimension": ({"offset_dims": (2.0,)}, TypeError, r"offset_dims\[0\] is 2.0 of type float, expected an integer"),
    "dimension outside of a tuple": ({"offset_dims": 2}, TypeError, "offset_dims is 2, expected a tuple of integers"),
    "dimensions as text": ({"offset_dims": "2"}, TypeError, "offset_dims is '2', expected a tuple of integers"),
    "no dimension numbers": (
        {"dimension_numbers": ((2,), (1,), (1, 2))},
        TypeError,
        "dimension_numbers is of type tuple, expected GatherDimensionNumbers, JAX's or dmlgather's",
    ),
    "lists in JAX's object": (
        {"dimension_numbers": lax.GatherDimensionNumbers([2], (1,), (1, 2), (0,), (0,))},
        TypeError,
        r"offset_dims is \[2\] of type list, but JAX's GatherDimensionNumbers takes only a tuple",
    ),
    "float indices": (
        {"start_indices": PAIRS.astype("f4")},
        ValueError,
        f"start_indices has type float32, but lax.gather takes {ALL_INTEGERS}",
    ),
    "bool indices": (
        {"start_indices": PAIRS.astype(bool)},
        ValueError,
        "start_indices has type bool, but lax.gather takes int8, ",
    ),
    "half-byte indices": (
        {"start_indices": PAIRS.astype(ml_dtypes.int4)},
        ValueError,
        "start_indices has type int4, but lax.gather",
    ),
    "indices as text": (
        {"start_indices": PAIRS.astype("U1")},
        TypeError,
        "start_indices has type object, but lax.gather takes int8",
    ),
    "indices of the other byte order": (
        {"start_indices": PAIRS.astype(">i4")},
        TypeError,
        r"start_indices has type '>i4' with the other byte order; convert with \.astype\('int32'\)",
    ),
    "operand of the other byte order": (
        {"operand": CUBE.astype(">f4")},
        TypeError,
        r"operand has type '>f4' with the other byte order; convert with \.astype\('float32'\)",
    ),
    "operand of text": ({"operand": CUBE.astype("U3")}, TypeError, "operand has type object, but lax.gather takes bool, int8, "),
    "operand of dates": ({"operand": CUBE.astype("M8[s]"), "mode": "fill"}, TypeError, r"operand has type datetime64\[s\], but"),
    "unknown mode": (
        {"mode": "wrap"},
        ValueError,
        "mode is 'wrap', expected 'clip', 'fill', 'drop' or 'promise_in_bounds', such a GatherScatterMode, or None",
    ),
    "one_hot": ({"mode": "one_hot"}, ValueError, "mode is 'one_hot', expected 'clip'"),
    "ONE_HOT": ({"mode": lax.GatherScatterMode.ONE_HOT}, ValueError, "mode is <GatherScatterMode.ONE_HOT: 4>, expected 'clip'"),
    "mode number": ({"mode": 1}, ValueError, "mode is 1, expected 'clip'"),
    "mode list": ({"mode": ["clip"]}, ValueError, r"mode is \['clip'\], expected 'clip'"),
    "fill_value list": (
        {"mode": "fill", "fill_value": [1]},
        TypeError,
        r"fill_value is \[1\] of type list, expected one number \(array.item\(\) gives it\)",
    ),
    "fill_value array": (
        {"mode": "fill", "fill_value": np.array(1)},
        TypeError,
        r"fill_value is array\(1\) of type ndarray, expected",
    ),
    "fill_value text": ({"mode": "drop", "fill_value": "1"}, TypeError, "fill_value is '1' of type str, expected one number"),
    "fill_value date": ({"mode": "drop", "fill_value": np.datetime64(1, "s")}, TypeError, "fill_value is .* of type datetime64"),
    "complex fill_value": (
        {"mode": "fill", "fill_value": 1j},
        TypeError,
        "fill_value is 1j, a complex number, but the operand has type float32",
    ),
    "fill_value without bounds": (
        {"mode": "fill", "fill_value": -(2**70), "operand": CUBE.astype("i2")},
        OverflowError,
        "fill_value is an integer of 71 bits, which cannot be cast to int16",
    ),
    "fill_value beyond floats": (
        {"mode": "fill", "fill_value": 2**1100},
        OverflowError,
        "fill_value is an integer of 1101 bits, which cannot be cast to float32",
    ),
    "unknown policy": ({"out_of_bounds": "zero"}, ValueError, "out_of_bounds is 'zero', expected one of"),
    "policy that the type cannot hold": (
        {"out_of_bounds": dg.Fill(9), "operand": CUBE.astype(ml_dtypes.int4)},
        ValueError,
        "Fill value 9 cannot be stored as int4: it would become -7",
    ),
}

CASES = {name: (changed, TypeError, message) for name, (changed, message) in SHAPES.items()} | OTHERS


def call(function: Any, changed: dict[str, Any]) -> Any:
    """The good call with that changed."""
    numbers = Numbers(**{**ROWS, **{name: changed[name] for name in ROWS if name in changed}})
    given: dict[str, Any] = {"operand": CUBE, "start_indices": PAIRS, "dimension_numbers": numbers, "slice_sizes": SIZES}
    return function(**{**given, **{name: value for name, value in changed.items() if name not in ROWS}})


def test_what_is_broken_below_is_good() -> None:
    assert call(dg.lax.gather, {}).shape == (3, 6, 5)
    assert call(dg.lax.gather.plan, {}).shape == (3, 6, 5)


@pytest.mark.parametrize("case", CASES)
def test_refused_with_the_facts(case: str) -> None:
    changed, error, message = CASES[case]
    for function in (dg.lax.gather, dg.lax.gather.plan):
        with pytest.raises(error, match=f"^{message}") as found:
            call(function, changed)
        assert type(found.value) is error


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
        call(dg.lax.gather, {name: dims})


def test_there_is_a_case_for_each_of_the_thirteen_checks() -> None:
    assert {int(name.split()[0]) for name in SHAPES} == set(range(1, 14))
