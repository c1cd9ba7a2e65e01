"""`dg.lax.gather` on the page's example, in every index type and mode, under every policy, in every backend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlgather as dg
from tests import seeds
from tests.dialects.outcomes import content
from tests.gpus import NUMBERS, SECOND, placed
from tests.lax.calling import run
from tests.lax.judge import ONE_NAN, jax, judge, lax
from tests.lax.specification import INTEGERS, TYPES, Call, expected
from tests.test_devices_agree import EDGES, EXECUTIONS, executed

GATHER = dg.lax.gather
DEVICES = ("cpu", "reference", SECOND)
ROW = ((), (0,), (0,), (), ())
"""The numbers of x[i], for x of rank 1 and index vectors of one component."""

BATCHED_WINDOWS = Call(
    np.arange(3.0 * 6 * 4 * 7).reshape(3, 6, 4, 7),
    np.array([[[[4, -1], [0, 5], [2, 3]]], [[[0, 4], [3, 4], [9, 0]]]]),
    ((0, 3), (2,), (3, 1), (0,), (2,)),
    (1, 3, 1, 3),
)
"""Batching along the third dimension of the indices, windows of [3, 3], components in the other order; two starts outside."""


def written(execution: str, call: Call, **named: Any) -> bytes:
    """The bytes that one backend writes over poison for the plan of a call."""
    plan = GATHER.plan(call.operand, call.start_indices, call.dimension_numbers, call.slice_sizes, **named)
    return executed(execution, plan, call.operand, call.start_indices if plan.lookups else None)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("numbers", [dg.lax.GatherDimensionNumbers, lax.GatherDimensionNumbers])
def test_the_example_of_the_page_in_its_three_spellings(numbers: Any, device: str) -> None:
    x, indices = jax.numpy.array([10, 11, 12]), jax.numpy.array([0, 1, 1, 2, 2, 2])
    member = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    spellings = (
        x[indices],
        x.at[indices].get(indices_are_sorted=True, mode="promise_in_bounds"),
        lax.gather(x, indices[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,), indices_are_sorted=True, mode=member),
    )
    found = GATHER(
        np.asarray(x),
        np.asarray(indices)[:, None],
        slice_sizes=(1,),
        dimension_numbers=numbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,)),
        indices_are_sorted=True,
        mode=member,
        device=device,
    )
    assert found.tolist() == [10, 11, 11, 12, 12, 12]
    for spelling in spellings:
        assert content(found) == content(np.asarray(spelling))


MODES: dict[str, tuple[Any, ...]] = {
    "clip": ("clip", np.str_("clip"), lax.GatherScatterMode.CLIP),
    "fill": ("fill", "drop", lax.GatherScatterMode.FILL_OR_DROP),
    "promise_in_bounds": (None, "promise_in_bounds", lax.GatherScatterMode.PROMISE_IN_BOUNDS),
}


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("mode", MODES)
def test_batched_windows_run_in_every_spelling_of_the_mode(mode: str, execution: str) -> None:
    call = replace(BATCHED_WINDOWS, mode=mode)
    right = expected(call)
    assert right.shape == (3, 2, 1, 3, 3)
    if mode != "promise_in_bounds":
        assert content(judge([call])[0]) == content(right)
    for spelling in MODES[mode]:
        assert written(execution, call, mode=spelling) == right.tobytes()


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("mode", ["clip", "fill", None])
@pytest.mark.parametrize("size", [1, 5, 128, 300])
def test_indices_are_compared_in_their_full_width(size: int, mode: Any, execution: str) -> None:
    operand = seeds.numpy_rng().random(size)
    window = min(size, 3)
    for kind in INTEGERS:
        info = np.iinfo(kind)
        values = sorted(value for value in {*EDGES, -1, 0, 1, size - window, size - window + 1} if info.min <= value <= info.max)
        call = Call(operand, np.array(values, kind)[:, None], ((1,), (), (0,), (), ()), (window,), mode, -7.0)
        assert written(execution, call, mode=mode, fill_value=-7.0) == expected(call).tobytes(), kind


@pytest.mark.parametrize(
    ("dtype", "device"),
    [
        *((dtype, device) for dtype in TYPES for device in ("cpu", "reference")),
        *(pytest.param(dtype, "cuda", marks=pytest.mark.gpu) for dtype in TYPES if dtype in NUMBERS),
    ],
)
def test_fill_writes_the_element_that_jax_writes(dtype: Any, device: str) -> None:
    operand, outside = np.ones(2, dtype), np.array([[-1]])
    values = [None, 9.5, -1, 300, 7, True, 1e10, -0.0, float("inf"), np.float32(0.1), np.uint8(200), 2**63, 0.1]
    calls = [Call(operand, outside, ROW, (1,), "fill", value) for value in values]
    for call, verdict in zip(calls, judge(calls), strict=True):
        found = run(call, device=device)
        if dtype in ONE_NAN and np.isnan(verdict):
            assert np.isnan(found)
        else:
            assert content(found) == content(verdict), call
        assert content(found) == content(expected(call)), call


@pytest.mark.parametrize("device", DEVICES)
def test_a_policy_takes_the_place_of_the_mode(device: str) -> None:
    row, starts = np.arange(5.0), np.array([[1], [3], [-1]])
    call = Call(row, starts, ((1,), (), (0,), (), ()), (3,))
    assert run(call, device=device).tolist() == [[1, 2, 3], [2, 3, 4], [0, 1, 2]]
    assert run(call, mode="fill", out_of_bounds="clamp", device=device).tolist() == [[1, 2, 3], [2, 3, 4], [0, 1, 2]]
    assert run(call, out_of_bounds=dg.Fill(7), device=device).tolist() == [[1, 2, 3], [7, 7, 7], [7, 7, 7]]
    with pytest.raises(
        IndexError, match=r"^start_indices\[1, 0\] = 3 is out of range for a window of 3 along axis 0 of size 5: "
    ):
        run(call, mode="clip", out_of_bounds="raise", device=device)


def test_sequences_of_integers_stand_for_tuples() -> None:
    operand, starts = np.arange(12).reshape(3, 4), np.array([[2], [0]])
    right = operand[[2, 0]]
    spellings: tuple[Any, ...] = ([1, 4], (np.uint8(1), 4), np.array([1, 4]), range(1, 5, 3))
    for numbers in (
        dg.lax.GatherDimensionNumbers([1], [0], [0]),  # type: ignore[arg-type] # lists are taken all the same
        dg.lax.GatherDimensionNumbers(range(1, 2), (np.int8(0),), (0,)),  # type: ignore[arg-type] # and ranges
        lax.GatherDimensionNumbers((np.int64(1),), (0,), range(1)),
    ):
        for sizes in spellings:
            assert GATHER(operand, starts, numbers, sizes).tolist() == right.tolist()
    assert dg.lax.GatherDimensionNumbers([1], [0], [0]) == dg.lax.GatherDimensionNumbers((1,), (0,), (0,))  # type: ignore[arg-type]
    assert GATHER(operand[0], starts, dg.lax.GatherDimensionNumbers((1,), (), (0,)), 2).tolist() == [[2, 3], [0, 1]]


def test_promises_change_nothing() -> None:
    call = Call(np.arange(5.0), np.array([[3], [3], [0]]), ROW, (1,))
    for unique, ordered in ((True, False), (False, True), (True, True)):
        assert run(call, unique_indices=unique, indices_are_sorted=ordered).tolist() == [3, 3, 0]


@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_windows_of_no_elements_and_operands_of_no_dimensions(mode: str) -> None:
    whole = Call(np.float32(2.5), np.zeros((2, 3, 0), np.int8), ((), (), (), (), ()), (), mode)
    assert run(whole, mode=mode).tolist() == [[2.5] * 3] * 2
    for window, shape in (((0, 4), (2, 0, 4)), ((1, 0), (2, 1, 0))):
        call = Call(np.zeros((3, 4)), np.array([[0], [99]]), ((1, 2), (), (0,), (), ()), window, mode)
        assert run(call, mode=mode).shape == judge([call])[0].shape == shape
    none = Call(np.zeros((0, 4)), np.zeros((0, 1), np.uint8), ((1,), (0,), (0,), (), ()), (1, 4), mode)
    assert run(none, mode=mode).shape == judge([none])[0].shape == (0, 4)


def test_the_twin_plans_from_arrays_types_and_pairs() -> None:
    numbers = dg.lax.GatherDimensionNumbers((1,), (0,), (0,))
    operand, starts = np.zeros((5, 4), ml_dtypes.bfloat16), np.zeros((3, 1), np.uint8)
    plan = GATHER.plan(operand, starts, numbers, (1, 2), mode="fill")
    assert (plan.shape, plan.element_bytes, plan.fill) == ((3, 2), 2, b"\xc0\x7f")
    shapes = (jax.ShapeDtypeStruct((5, 4), "bfloat16"), jax.ShapeDtypeStruct((3, 1), np.uint8))
    assert GATHER.plan(*shapes, lax.GatherDimensionNumbers((1,), (0,), (0,)), [1, 2], mode="drop") == plan
    assert GATHER.plan(((5, 4), "bfloat16"), ((3, 1), "uint8"), numbers, (1, 2), mode="fill", device="cuda:7") == plan
    assert GATHER.plan(((5, 4), "int4"), ((3, 1), "uint8"), numbers, (1, 2), mode="fill").fill == b"\x08"
    assert GATHER.plan(operand, starts, numbers, (1, 2)).out_of_bounds.value == "promise"


def test_a_promise_has_the_canonical_plan_of_clip() -> None:
    call = (([4, 6], "float32"), ([3, 1], "int64"), dg.lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 6))
    promised, clipped, filled = (dg.canonicalise(GATHER.plan(*call, mode=mode)) for mode in (None, "clip", "fill"))
    assert promised.lookups == clipped.lookups
    assert clipped != filled


@pytest.mark.gpu(devices=2)
def test_arrays_stay_on_their_gpu_unless_told_otherwise(cupy: Any) -> None:
    call = Call(np.arange(5.0), np.array([[3], [-3], [9]]), ROW, (1,), "fill")
    device = Call(placed(call.operand, 1), placed(call.start_indices, 1), ROW, (1,))
    found = run(device, mode="fill")
    assert isinstance(found, cupy.ndarray)
    assert (found.device.id, found.get().tobytes()) == (1, expected(call).tobytes())
    with pytest.raises(
        IndexError, match=r"start_indices\[1, 0\] = -3 is out of range for axis 0 of size 5: valid indices are 0 … 4"
    ):
        run(device, out_of_bounds="raise")
    with pytest.raises(TypeError, match=r"different devices \(operand on cpu, start_indices on cuda:1\)"):
        GATHER(call.operand, device.start_indices, dg.lax.GatherDimensionNumbers(*ROW), (1,))
    room = np.zeros(33, np.uint8)
    odd = room[1:25] if room.ctypes.data % 8 == 0 else room[:24]
    with pytest.raises(
        ValueError, match=r"^start_indices: the elements lie \d bytes? past a multiple of 8, but a GPU reads int64 at multiples"
    ):
        run(Call(device.operand, placed(odd.view(np.int64)[:, None], 1), ROW, (1,)))


@pytest.mark.parametrize("dtype", ONE_NAN, ids=lambda dtype: dtype.name)
def test_every_nan_is_moved_under_fill(dtype: Any) -> None:
    """Where JAX makes them one: `tests.peers.jax`."""
    codes = np.arange(2 ** (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}")
    call = Call(codes.view(dtype), np.arange(len(codes))[:, None], ROW, (1,), "fill")
    assert run(call, mode="fill").tobytes() == codes.tobytes()


def test_jax_takes_half_byte_indices_and_this_does_not() -> None:
    starts = np.array([[1], [0]]).astype(ml_dtypes.int4)
    call = Call(np.arange(5.0), starts, ROW, (1,), "clip")
    assert judge([call])[0].tolist() == [1, 0]
    with pytest.raises(ValueError, match="start_indices has type int4"):
        run(call)


@pytest.mark.parametrize("fill", [None, np.nan, -np.nan])
def test_the_nan_of_float8_e5m2_is_jax_s(fill: Any) -> None:
    call = Call(np.zeros(3, ml_dtypes.float8_e5m2), np.array([[5]], np.int32), ROW, (1,), "fill", fill)
    theirs = lax.gather(call.operand, call.start_indices, call.dimension_numbers, (1,), mode="fill", fill_value=fill)
    assert run(call).tobytes() == np.asarray(theirs).tobytes()
