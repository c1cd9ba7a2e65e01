"""The descriptors of ONNX nodes field for field, each of which has also run."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.dialects import binding
from tests.onnx.described import array, blocks, check, elementwise, gather, nd, positions, sliced, tuples
from tests.onnx.specification import Call


def becomes(call: Call, level: str, *forms: str) -> None:
    """The descriptors of a call give its bytes, and begin with these words."""
    binding.becomes(check(call, level), *forms)


@pytest.mark.parametrize("level", ["3_0", "4_1", "6_4"])
def test_gather_has_the_most_dimensions_of_its_tensors(level: str) -> None:
    call = gather(array("float32", 5, 3), positions(5, 1, 4, kind="int32"), 0)
    becomes(call, level, "GATHER Axis 1, IndexDimensions 2: FLOAT32 [1, 5, 3], INT32 [1, 1, 4] -> FLOAT32 [1, 4, 3]")


def test_gather_of_more_dimensions_than_a_level_takes_is_merged() -> None:
    call = gather(array("float32", 2, 2, 1, 3, 2, 2, 3), positions(3, 2, 3, 2), 3)
    becomes(call, "1_0", "GATHER Axis 2, ...1: FLOAT32 [1, 4, 3, 12], UINT32 [1, 1, 1, 12] -> FLOAT32 [1, 4, 12, 12]")
    becomes(call, "6_4", "GATHER Axis 1, ...1: FLOAT32 [4, 3, 12], INT64 [1, 1, 12] -> FLOAT32 [4, 12, 12]")


def test_gather_elements_with_smaller_indices_is_a_strided_view() -> None:
    call = elementwise(array("uint16", 4, 5, 6), positions(5, 2, 7, 3), 1)
    view = "GATHER_ELEMENTS Axis 1: UINT16 [2, 5, 3] strides [30, 6, 1], INT64 [2, 7, 3] -> UINT16 [2, 7, 3]"
    becomes(call, "3_0", view)
    becomes(call, "2_1", "GATHER_ELEMENTS Axis 2: UINT16 [1, 2, 5, 3] strides [0, 30, 6, 1], UINT32 [1, 2, 7, 3] -> ")


def test_gather_elements_without_a_merged_view_is_cut_out_first() -> None:
    call = elementwise(array("float32", 3, 3, 4, 3, 3, 3), positions(4, 2, 2, 5, 2, 2, 2), 2)
    of_the_part = "GATHER_ELEMENTS Axis 2: FLOAT32 [1, 4, 4, 8], UINT32 [1, 4, 5, 8] -> FLOAT32 [1, 4, 5, 8]"
    becomes(call, "2_1", "SLICE1 ", "SLICE1 ", of_the_part)
    becomes(call, "3_0", "GATHER_ELEMENTS Axis 2: FLOAT32 [2, 2, 4, 2, 2, 2] strides [324, 108, 27, 9, 3, 1], ")


def test_gather_nd_has_its_batch_in_gather_nd1() -> None:
    call = nd(array("int32", 2, 3, 4, 5), tuples((2, 6), 3, 4), 1)
    counts = "GATHER_ND1 InputDimensionCount 4, IndicesDimensionCount 3, BatchDimensionCount 1"
    becomes(call, "3_0", f"{counts}: INT32 [2, 3, 4, 5], INT64 [1, 2, 6, 2] -> INT32 [1, 2, 6, 5]")


def test_before_gather_nd1_a_batch_of_one_is_padding() -> None:
    counts = "GATHER_ND InputDimensionCount 2, IndicesDimensionCount 2"
    call = nd(array("int32", 1, 3, 4), tuples((1, 2), 3, 4), 1)
    becomes(call, "2_1", f"{counts}: INT32 [1, 1, 3, 4], UINT32 [1, 1, 2, 2] -> INT32 [1, 1, 1, 2]")


def test_empty_tuples_repeat_data() -> None:
    call = nd(array("float32", 2, 3), np.empty((2, 4, 0), np.int64), 1)
    for level, name in (("1_0", "SLICE"), ("2_1", "SLICE1")):
        becomes(call, level, f"{name} ...: FLOAT32 [1, 2, 4, 3] strides [0, 3, 0, 1] -> FLOAT32 [1, 2, 4, 3]")
    becomes(call, "6_4", "SLICE1 ...: FLOAT32 [2, 4, 3] strides [3, 0, 1] -> FLOAT32 [2, 4, 3]")


def test_slice_is_a_window_of_slice1() -> None:
    call = sliced(array("float32", 8, 10), starts=[-2, 1], ends=[-(2**63), 9], axes=[0, -1], steps=[-3, 4])
    window = "InputWindowOffsets [0, 1], InputWindowSizes [7, 5], InputWindowStrides [-3, 4]"
    becomes(call, "3_0", f"SLICE1 DimensionCount 2, {window}: FLOAT32 [8, 10] -> FLOAT32 [3, 2]")


@pytest.mark.parametrize("step", [-(2**63), -9, 9, 2**63 - 1])
def test_one_element_needs_no_step(step: int) -> None:
    call = sliced(array("float32", 5), starts=[3], ends=[-(2**63) if step < 0 else 5], axes=[0], steps=[step])
    becomes(call, "1_0", "SLICE ...Offsets [0, 0, 0, 3], Sizes [1, 1, 1, 1], Strides [1, 1, 1, 1]")


@pytest.mark.parametrize("level", ["2_1", "6_4"])
def test_a_slice_of_many_dimensions_merges_what_it_leaves_whole(level: str) -> None:
    call = sliced(array("float32", 2, 2, 3, 2, 2, 3, 2, 1, 2), starts=[1, 2], ends=[9, 0], axes=[2, 5], steps=[1, -1])
    window = "Offsets [0, 1, 0, 1, 0], InputWindowSizes [4, 2, 4, 2, 4], InputWindowStrides [1, 1, 1, -1, 1]"
    becomes(call, level, f"SLICE1 DimensionCount 5, ...{window}: FLOAT32 [4, 3, 4, 3, 4] -> FLOAT32 [4, 2, 4, 2, 4]")


def test_a_slice_that_does_not_merge_takes_several_descriptors() -> None:
    call = sliced(array("float32", *[3] * 6), starts=[1] * 6, ends=[3] * 6)
    first = "SLICE1 ...: FLOAT32 [3, 3, 3, 3, 9] -> FLOAT32 [2, 2, 2, 2, 9]"
    becomes(call, "2_1", first, "SLICE1 ...: FLOAT32 [1, 16, 3, 3] -> FLOAT32 [1, 16, 2, 2]")
    becomes(call, "3_0", "SLICE1 ")
    becomes(sliced(array("float32", *[3] * 9), starts=[1] * 9, ends=[3] * 9), "6_4", "SLICE1 ", "SLICE1 ")


@pytest.mark.parametrize("level", ["2_1", "6_4"])
def test_blocks_have_operators_of_their_own(level: str) -> None:
    call = blocks("DepthToSpace", array("int8", 2, 8, 3, 5), "CRD")
    becomes(call, level, "DEPTH_TO_SPACE1 BlockSize 2, Order COLUMN_ROW_DEPTH: INT8 [2, 8, 3, 5] -> INT8 [2, 2, 6, 10]")
    call = blocks("SpaceToDepth", array("bool", 2, 2, 6, 10))
    becomes(call, level, "SPACE_TO_DEPTH1 BlockSize 2, Order DEPTH_COLUMN_ROW: UINT8 [2, 2, 6, 10] -> UINT8 [2, 8, 3, 5]")


def test_blocks_of_types_that_they_do_not_take_are_sliced_whole() -> None:
    call = blocks("SpaceToDepth", array("float64", 2, 2, 4, 6))
    becomes(call, "4_1", "SLICE1 ...: FLOAT64 [2, 2, 2, 2, 3, 2] -> FLOAT64 [2, 2, 2, 2, 3, 2] strides [48, 6, 3, 24, 1, 12]")
    becomes(call, "5_0", "SPACE_TO_DEPTH1 ")
    becomes(blocks("DepthToSpace", array("complex128", 1, 4, 2, 3)), "6_4", "SLICE1 ... -> UINT64 [1, 1, 2, 2, 3, 2, 2]")


@pytest.mark.parametrize(
    ("kind", "stated", "level"),
    [("bool", "UINT8 [4, 3]", "3_0"), (ml_dtypes.bfloat16, "UINT16 [4, 3]", "3_0"), ("complex64", "UINT64 [4, 3]", "4_1")],
    ids=str,
)
def test_types_that_directml_does_not_have_travel_as_their_bits(kind: Any, stated: str, level: str) -> None:
    data = array(kind, 4, 3)
    backwards = sliced(data, starts=[-1], ends=[-5], axes=[0], steps=[-1])
    for call in (gather(data, positions(4, 4), 0), elementwise(data, positions(4, 4, 3)), nd(data, tuples((4,), 4)), backwards):
        becomes(call, level, f"...: {stated}... -> {stated}")
