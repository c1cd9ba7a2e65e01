"""lax.gather as DirectML descriptors: windows of known and of large starts, and each form with its fields."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from dmlgather.lax import GatherDimensionNumbers
from dmlgather.plan import overlaps
from tests.dialects import binding
from tests.dialects.binding import LEVELS, becomes, listed
from tests.dialects.drafting import seeds
from tests.lax.judge import judge
from tests.lax.random_windows import described, drawn
from tests.lax.specification import expected
from tests.lax.test_contract import EXPORTED

levels = st.sampled_from(LEVELS)


@settings(max_examples=100, deadline=None)
@given(seeds, levels)
def test_one_window_of_known_start_is_a_slice(seed: int, level: FeatureLevel) -> None:
    call = drawn(seed, level, partial=0.4)
    starts = call.start_indices[(slice(0, 1),) * (call.start_indices.ndim - 1)]
    shape = list(call.operand.shape)
    for dim in call.dimension_numbers.operand_batching_dims:
        shape[dim] = min(shape[dim], 1)
    one = replace(call, operand=call.operand[tuple(map(slice, shape))], start_indices=starts)
    found = described(one, level, constants={"start_indices": starts})
    if isinstance(found, dg.Report):
        assert {finding.code for finding in found.findings} <= {"EXP102", "DML201"}, str(found)
        return
    assert {desc.operator.name for desc in listed(found)} <= {"SLICE", "SLICE1"}
    binding.check(found, level, expected(one), **EXPORTED.bound(one))
    types = ((one.operand.shape, one.operand.dtype), (starts.shape, starts.dtype))
    numbers, constants = one.dimension_numbers, {"start_indices": starts}
    assert dg.lax.differences(*types, numbers, one.slice_sizes, mode=one.mode, constants=constants) == ()


@settings(max_examples=300, deadline=None)
@given(seeds, st.sampled_from((0, 0, 0.6)), st.sampled_from(("uint32", "uint64")))
def test_descriptors_of_unsigned_indices_compose_to_the_plan(seed: int, partial: float, kind: str) -> None:
    call = drawn(seed, LEVELS[-1], partial=partial)
    unsigned = call.start_indices.astype(kind)
    call = replace(call, start_indices=unsigned, mode="clip")
    found = described(call, "6_4")
    if isinstance(found, dg.Report):
        assert {finding.code for finding in found.findings} <= {"EXP102", "EXP104"}
        return
    assert len(listed(found)) <= 2  # repetitions of the operand, and windows out of them
    assert binding.composed(found) == dg.canonicalise(EXPORTED.problem(call).plan())


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seeds, levels)
def test_partial_windows_of_too_large_starts_give_jaxs_elements(seed: int, level: FeatureLevel) -> None:
    call = drawn(seed, level, partial=0.6)
    rng = np.random.default_rng(seed)
    operand = rng.integers(-(2**31), 2**31, call.operand.shape, np.int32)
    call = replace(call, operand=operand, start_indices=rng.integers(0, 8, call.start_indices.shape, np.int32), mode="clip")
    found = described(call, level)
    if isinstance(found, dg.Report):
        assert {finding.code for finding in found.findings} <= {"EXP102", "EXP104", "EXP106", "DML201"}, str(found)
        return
    binding.check(found, level, judge([call])[0], **EXPORTED.bound(call))


ROWS = GatherDimensionNumbers((1,), (0,), (0,))
WINDOWS = GatherDimensionNumbers((1,), (), (0,))
ROWS_OF_SEVEN = GatherDimensionNumbers((1, 2), (), (0,))


def test_a_partial_window_is_read_from_a_repeated_operand() -> None:
    """Start p and offset j lie in repetition j at p + j."""
    found = dg.lax.to_directml(((8,), "float32"), ((5, 1), "int32"), WINDOWS, (3,))
    repeat = "SLICE1 ...: FLOAT32 [3, 8] strides [0, 1] -> FLOAT32 [3, 8]"
    becomes(found, repeat, "GATHER Axis 0, ...: FLOAT32 [6, 3] strides [1, 9], INT32 [1, 5] -> FLOAT32 [5, 3]")


def test_a_window_of_few_starts_has_a_repetition_per_start() -> None:
    """Start p lies in repetition p, at the row p."""
    found = dg.lax.to_directml(((8, 2), "float32"), ((5, 1), "int32"), ROWS_OF_SEVEN, (7, 2))
    becomes(found, "SLICE1 ... -> FLOAT32 [2, 8, 2]", "GATHER ...: FLOAT32 [2, 7, 2] strides [18, 2, 1], ")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6)])
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_no_two_elements_share_an_address_but_by_strides_of_0(shape: tuple[int, ...], size: int, level: FeatureLevel) -> None:
    axis = len(shape) - 1
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape) + 1)), (), (axis,))
    found = listed(dg.lax.to_directml((shape, "float32"), ((4, 1), "int32"), numbers, (*shape[:-1], size), level))
    assert [desc.operator.name for desc in found][1:] == ["GATHER"]
    for tensor in (desc.tensor(name) for desc in found for name in desc.operator.tensors):
        strides = zip(tensor.sizes, tensor.element_strides, strict=True)
        sizes, steps = zip(*((size if step else 1, step) for size, step in strides), strict=True)
        assert overlaps(sizes, steps) is False


def test_rows_are_a_gather() -> None:
    found = dg.lax.to_directml(((30522, 384), "float32"), ((128, 1), "int32"), ROWS, (1, 384), "1_0")
    becomes(found, "GATHER Axis 2, IndexDimensions 1: FLOAT32 [1, 1, 30522, 384], UINT32 [1, 1, 1, 128] -> ")


def test_components_in_another_order_are_a_permuted_view() -> None:
    numbers = GatherDimensionNumbers((), (0, 1), (1, 0))
    found = dg.lax.to_directml(((5, 7), "float32"), ((3, 2), "int64"), numbers, (1, 1), "6_4")
    becomes(found, "GATHER_ND1 ...: FLOAT32 [7, 5] strides [1, 7], ")


def test_a_window_in_front_of_the_positions_is_a_permuted_output() -> None:
    numbers = GatherDimensionNumbers((0,), (0, 1), (0, 1))
    found = dg.lax.to_directml(((5, 7, 4), "float32"), ((3, 2), "int64"), numbers, (1, 1, 4), "6_4")
    becomes(found, "GATHER_ND1 ... -> FLOAT32 [1, 3, 4] strides [0, 1, 3]")


def test_batching_dimensions_move_to_the_front() -> None:
    numbers = GatherDimensionNumbers((2,), (0,), (0,), (1,), (1,))
    found = dg.lax.to_directml(((5, 2, 4), "float32"), ((3, 2, 1), "int64"), numbers, (1, 1, 4), "6_4")
    inputs = "FLOAT32 [2, 5, 4] strides [4, 8, 1], INT64 [2, 3, 1] strides [1, 2, 0]"
    becomes(found, f"GATHER_ND1 ...BatchDimensionCount 1: {inputs} -> FLOAT32 [2, 3, 4] strides [4, 8, 1]")


def test_take_along_an_axis_is_gather_elements() -> None:
    numbers = GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    for positions in ((4, 3, 1), (4, 1, 3, 1)):
        found = dg.lax.to_directml(((4, 6), "float32"), (positions, "int32"), numbers, (1, 1), "6_4")
        becomes(found, "GATHER_ELEMENTS Axis 1: FLOAT32 [4, 6], INT32 [4, 3] -> ")


@pytest.mark.parametrize("mode", ["clip", "promise_in_bounds", None, "fill"])
def test_a_known_start_moves_inside_unless_it_is_filled(mode: str | None) -> None:
    numbers, data = GatherDimensionNumbers((0,), (), (0,)), ((8,), "float32")
    for start, first in ((-2, 0), (3, 3), (7, 5)):
        found = dg.lax.to_directml(data, None, numbers, (3,), mode=mode, constants={"start_indices": np.array([start])})
        if mode == "fill" and start != first:
            becomes(found, "SLICE1 ", "GATHER ")
            continue
        becomes(found, f"SLICE1 ...Offsets [{first}], InputWindowSizes [3]")
