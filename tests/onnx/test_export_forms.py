"""The descriptors of ONNX nodes field for field, each of which has also run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dmlgather as dg
from tests.onnx.described import Node, array, check, gather, nd, positions, sliced, tuples

ALL = ("1_0", "2_0", "2_1", "3_0", "4_1", "6_4")
SINCE_3_0, BEFORE_3_0 = ALL[3:], ALL[:3]


def fields(desc: dg.OperatorDesc) -> dict[str, Any]:
    """What a descriptor states, by DirectML's names, as short as can be: "FLOAT32 {1,2} strides {2,1}" for a tensor."""
    shown: dict[str, Any] = {"type": desc.operator.name}
    for name, value in desc.document()["desc"].items():
        shown[name] = _tensor(value) if name.endswith("Tensor") else value
    return shown


def _tensor(stated: Mapping[str, Any]) -> str:
    assert stated["Flags"] == "NONE"
    assert "TotalTensorSizeInBytes" not in stated
    strides = f" strides {stated['Strides']}" if "Strides" in stated else ""
    return f"{stated['DataType']} {stated['Sizes']}{strides}"


@pytest.mark.parametrize("level", SINCE_3_0)
def test_gather_has_the_most_dimensions_of_its_tensors(level: str) -> None:
    (desc,) = check(gather(array("float32", 5, 3), positions(5, 1, 4, kind="int32"), 0), level)
    assert fields(desc) == {
        "type": "GATHER",
        "InputTensor": "FLOAT32 [1, 5, 3]",
        "IndicesTensor": "INT32 [1, 1, 4]",
        "OutputTensor": "FLOAT32 [1, 4, 3]",
        "Axis": 1,
        "IndexDimensions": 2,
    }


@pytest.mark.parametrize("level", BEFORE_3_0)
def test_before_3_0_gather_has_four_dimensions_and_uint32_indices(level: str) -> None:
    (desc,) = check(gather(array("float16", 5, 3), positions(5, 2), -2), level)
    assert fields(desc) == {
        "type": "GATHER",
        "InputTensor": "FLOAT16 [1, 1, 5, 3]",
        "IndicesTensor": "UINT32 [1, 1, 1, 2]",
        "OutputTensor": "FLOAT16 [1, 1, 2, 3]",
        "Axis": 2,
        "IndexDimensions": 1,
    }


def test_a_scalar_index_has_no_index_dimensions() -> None:
    (desc,) = check(gather(array("int8", 4), np.array(-2), 0), "3_0")
    assert fields(desc) == {
        "type": "GATHER",
        "InputTensor": "INT8 [4]",
        "IndicesTensor": "INT64 [1]",
        "OutputTensor": "INT8 [1]",
        "Axis": 0,
        "IndexDimensions": 0,
    }


@pytest.mark.parametrize("level", ["1_0", "6_4"])
def test_gather_of_more_dimensions_than_a_level_takes_is_merged(level: str) -> None:
    (desc,) = check(gather(array("float32", 2, 2, 1, 3, 2, 2, 3), positions(3, 2, 3, 2), 3), level)
    wide, kind = ((1,), "UINT32") if level == "1_0" else ((), "INT64")
    assert fields(desc) == {
        "type": "GATHER",
        "InputTensor": f"FLOAT32 {[*wide, 4, 3, 12]}",
        "IndicesTensor": f"{kind} {[*wide, 1, 1, 12]}",
        "OutputTensor": f"FLOAT32 {[*wide, 4, 12, 12]}",
        "Axis": 1 + len(wide),
        "IndexDimensions": 1,
    }


def test_gather_elements_with_smaller_indices_is_a_strided_view() -> None:
    case = Node("GatherElements", 13, array("uint16", 4, 5, 6), positions(5, 2, 7, 3), {"axis": 1})
    (desc,) = check(case, "3_0")
    assert fields(desc) == {
        "type": "GATHER_ELEMENTS",
        "InputTensor": "UINT16 [2, 5, 3] strides [30, 6, 1]",
        "IndicesTensor": "INT64 [2, 7, 3]",
        "OutputTensor": "UINT16 [2, 7, 3]",
        "Axis": 1,
    }
    (desc,) = check(case, "2_1")
    assert fields(desc)["InputTensor"] == "UINT16 [1, 2, 5, 3] strides [0, 30, 6, 1]"
    assert fields(desc)["IndicesTensor"] == "UINT32 [1, 2, 7, 3]"
    assert fields(desc)["Axis"] == 2


def test_gather_elements_whose_view_does_not_merge_is_cut_out_first() -> None:
    case = Node("GatherElements", 13, array("float32", 3, 3, 4, 3, 3, 3), positions(4, 2, 2, 5, 2, 2, 2), {"axis": 2})
    descs = check(case, "2_1")
    assert [desc.operator.name for desc in descs] == ["SLICE1", "SLICE1", "GATHER_ELEMENTS"]
    assert fields(descs[-1]) == {
        "type": "GATHER_ELEMENTS",
        "InputTensor": "FLOAT32 [1, 4, 4, 8]",
        "IndicesTensor": "UINT32 [1, 4, 5, 8]",
        "OutputTensor": "FLOAT32 [1, 4, 5, 8]",
        "Axis": 2,
    }
    (one,) = check(case, "3_0")
    assert fields(one)["InputTensor"] == "FLOAT32 [2, 2, 4, 2, 2, 2] strides [324, 108, 27, 9, 3, 1]"


def test_gather_nd_has_its_batch_in_gather_nd1() -> None:
    case = nd(array("int32", 2, 3, 4, 5), tuples((2, 6), 3, 4), 1)
    (desc,) = check(case, "3_0")
    assert fields(desc) == {
        "type": "GATHER_ND1",
        "InputTensor": "INT32 [2, 3, 4, 5]",
        "IndicesTensor": "INT64 [1, 2, 6, 2]",
        "OutputTensor": "INT32 [1, 2, 6, 5]",
        "InputDimensionCount": 4,
        "IndicesDimensionCount": 3,
        "BatchDimensionCount": 1,
    }


def test_before_gather_nd1_there_is_gather_nd() -> None:
    (desc,) = check(nd(array("int32", 3, 4), tuples((2, 2, 3), 3)), "2_1")
    assert fields(desc) == {
        "type": "GATHER_ND",
        "InputTensor": "INT32 [1, 1, 3, 4]",
        "IndicesTensor": "UINT32 [2, 2, 3, 1]",
        "OutputTensor": "INT32 [2, 2, 3, 4]",
        "InputDimensionCount": 2,
        "IndicesDimensionCount": 4,
    }
    (desc,) = check(nd(array("int32", 3, 4, 5), tuples((2, 2, 3), 3)), "2_1")
    assert fields(desc)["OutputTensor"] == "INT32 [1, 1, 12, 20]"


def test_before_gather_nd1_a_batch_of_one_is_padding() -> None:
    (desc,) = check(nd(array("int32", 1, 3, 4), tuples((1, 2), 3, 4), 1), "2_1")
    assert fields(desc) == {
        "type": "GATHER_ND",
        "InputTensor": "INT32 [1, 1, 3, 4]",
        "IndicesTensor": "UINT32 [1, 1, 2, 2]",
        "OutputTensor": "INT32 [1, 1, 1, 2]",
        "InputDimensionCount": 2,
        "IndicesDimensionCount": 2,
    }


def test_before_gather_nd1_a_batch_of_single_positions_is_gather_elements() -> None:
    (desc,) = check(nd(array("int32", 2, 3, 4, 5), tuples((2, 6), 3), 1), "2_1")
    assert fields(desc) == {
        "type": "GATHER_ELEMENTS",
        "InputTensor": "INT32 [1, 2, 3, 20]",
        "IndicesTensor": "UINT32 [1, 2, 6, 20] strides [0, 6, 1, 0]",
        "OutputTensor": "INT32 [1, 2, 6, 20]",
        "Axis": 2,
    }


@pytest.mark.parametrize("level", ["1_0", "2_1", "6_4"])
def test_empty_tuples_repeat_data(level: str) -> None:
    (desc,) = check(nd(array("float32", 2, 3), np.empty((2, 4, 0), np.int64), 1), level)
    name = "SLICE" if level == "1_0" else "SLICE1"
    wide = [] if level == "6_4" else [1]
    zero = [] if level == "6_4" else [0]
    assert fields(desc)["type"] == name
    assert fields(desc)["InputTensor"] == f"FLOAT32 {[*wide, 2, 4, 3]} strides {[*zero, 3, 0, 1]}"
    assert fields(desc)["OutputTensor"] == f"FLOAT32 {[*wide, 2, 4, 3]}"


def test_slice_is_a_window_of_slice1() -> None:
    (desc,) = check(sliced(array("float32", 8, 10), starts=[-2, 1], ends=[-(2**63), 9], axes=[0, -1], steps=[-3, 4]), "3_0")
    assert fields(desc) == {
        "type": "SLICE1",
        "InputTensor": "FLOAT32 [8, 10]",
        "OutputTensor": "FLOAT32 [3, 2]",
        "DimensionCount": 2,
        "InputWindowOffsets": [0, 1],
        "InputWindowSizes": [7, 5],
        "InputWindowStrides": [-3, 4],
    }


@pytest.mark.parametrize("level", ["1_0", "2_0"])
def test_before_slice1_there_is_slice(level: str) -> None:
    (desc,) = check(sliced(array("float32", 8, 10), starts=[1], ends=[9], axes=[1], steps=[4]), level)
    assert fields(desc) == {
        "type": "SLICE",
        "InputTensor": "FLOAT32 [1, 1, 8, 10]",
        "OutputTensor": "FLOAT32 [1, 1, 8, 2]",
        "DimensionCount": 4,
        "Offsets": [0, 0, 0, 1],
        "Sizes": [1, 1, 8, 2],
        "Strides": [1, 1, 1, 4],
    }


@pytest.mark.parametrize("step", [-(2**63), -9, 9, 2**63 - 1])
def test_one_element_needs_no_step(step: int) -> None:
    (desc,) = check(sliced(array("float32", 5), starts=[3], ends=[-(2**63) if step < 0 else 5], axes=[0], steps=[step]), "1_0")
    assert fields(desc)["Strides"] == [1, 1, 1, 1]
    assert fields(desc)["Offsets"] == [0, 0, 0, 3]


@pytest.mark.parametrize("level", ["2_1", "6_4"])
def test_a_slice_of_too_many_dimensions_merges_what_it_leaves_whole(level: str) -> None:
    bounds = {"starts": [1, 2], "ends": [9, 0], "axes": [2, 5], "steps": [1, -1]}
    (desc,) = check(sliced(array("float32", 2, 2, 3, 2, 2, 3, 2, 1, 2), **bounds), level)
    assert fields(desc) == {
        "type": "SLICE1",
        "InputTensor": "FLOAT32 [4, 3, 4, 3, 4]",
        "OutputTensor": "FLOAT32 [4, 2, 4, 2, 4]",
        "DimensionCount": 5,
        "InputWindowOffsets": [0, 1, 0, 1, 0],
        "InputWindowSizes": [4, 2, 4, 2, 4],
        "InputWindowStrides": [1, 1, 1, -1, 1],
    }


def test_a_slice_of_more_dimensions_than_merge_takes_several_descriptors() -> None:
    case = sliced(array("float32", *[3] * 6), starts=[1] * 6, ends=[3] * 6)
    first, second = check(case, "2_1")
    assert fields(first)["InputTensor"] == "FLOAT32 [3, 3, 3, 3, 9]"
    assert fields(first)["OutputTensor"] == "FLOAT32 [2, 2, 2, 2, 9]"
    assert fields(second)["InputTensor"] == "FLOAT32 [1, 16, 3, 3]"
    assert fields(second)["OutputTensor"] == "FLOAT32 [1, 16, 2, 2]"
    assert len(check(case, "3_0")) == 1
    assert len(check(sliced(array("float32", *[3] * 9), starts=[1] * 9, ends=[3] * 9), "6_4")) == 2


def test_a_scalar_travels_as_one_element() -> None:
    (desc,) = check(sliced(array("float32"), starts=[], ends=[]), "6_4")
    assert fields(desc)["InputTensor"] == "FLOAT32 [1]"


def test_slice_1_has_its_bounds_in_attributes() -> None:
    case = Node("Slice", 1, array("float32", 4, 5), None, {"starts": [1, 0], "ends": [3, -1], "axes": [0, 1]})
    (desc,) = check(case, "6_4")
    assert fields(desc)["InputWindowOffsets"] == [1, 0]
    assert fields(desc)["InputWindowSizes"] == [2, 4]


@pytest.mark.parametrize("level", ["2_1", "6_4"])
def test_blocks_have_operators_of_their_own(level: str) -> None:
    (desc,) = check(Node("DepthToSpace", 13, array("int8", 2, 8, 3, 5), None, {"blocksize": 2, "mode": "CRD"}), level)
    assert fields(desc) == {
        "type": "DEPTH_TO_SPACE1",
        "InputTensor": "INT8 [2, 8, 3, 5]",
        "OutputTensor": "INT8 [2, 2, 6, 10]",
        "BlockSize": 2,
        "Order": "COLUMN_ROW_DEPTH",
    }
    (desc,) = check(Node("SpaceToDepth", 13, array("bool", 2, 2, 6, 10), None, {"blocksize": 2}), level)
    assert fields(desc) == {
        "type": "SPACE_TO_DEPTH1",
        "InputTensor": "UINT8 [2, 2, 6, 10]",
        "OutputTensor": "UINT8 [2, 8, 3, 5]",
        "BlockSize": 2,
        "Order": "DEPTH_COLUMN_ROW",
    }


def test_blocks_of_types_that_they_do_not_take_are_sliced_whole() -> None:
    wide = Node("SpaceToDepth", 13, array("float64", 2, 2, 4, 6), None, {"blocksize": 2})
    (desc,) = check(wide, "4_1")
    assert fields(desc)["type"] == "SLICE1"
    assert fields(desc)["InputTensor"] == "FLOAT64 [2, 2, 2, 2, 3, 2]"
    assert fields(desc)["OutputTensor"] == "FLOAT64 [2, 2, 2, 2, 3, 2] strides [48, 6, 3, 24, 1, 12]"
    (desc,) = check(wide, "5_0")
    assert fields(desc)["type"] == "SPACE_TO_DEPTH1"
    double = Node("DepthToSpace", 13, array("complex128", 1, 4, 2, 3), None, {"blocksize": 2})
    (desc,) = check(double, "6_4")
    assert fields(desc)["type"] == "SLICE1"
    assert fields(desc)["OutputTensor"] == "UINT64 [1, 1, 2, 2, 3, 2, 2]"


@pytest.mark.parametrize(
    ("kind", "stated", "level"),
    [("bool", "UINT8 [4, 3]", "3_0"), (ml_dtypes.bfloat16, "UINT16 [4, 3]", "3_0"), ("complex64", "UINT64 [4, 3]", "4_1")],
    ids=str,
)
def test_types_that_directml_does_not_have_travel_as_their_bits(kind: Any, stated: str, level: str) -> None:
    data = array(kind, 4, 3)
    for case in (
        gather(data, positions(4, 4), 0),
        Node("GatherElements", 13, data, positions(4, 4, 3), {"axis": 0}),
        nd(data, tuples((4,), 4)),
        sliced(data, starts=[-1], ends=[-5], axes=[0], steps=[-1]),
    ):
        (desc,) = check(case, level)
        assert fields(desc)["InputTensor"] == fields(desc)["OutputTensor"] == stated


def test_complex128_has_a_further_dimension_of_two() -> None:
    data = array("complex128", 4, 3)
    assert [fields(desc)["InputTensor"] for desc in check(gather(data, positions(4, 2), 0), "4_1")] == ["UINT64 [4, 3, 2]"]
    (desc,) = check(Node("GatherElements", 13, data, positions(4, 2, 3), {"axis": 0}), "4_1")
    assert fields(desc)["IndicesTensor"] == "INT64 [2, 3, 2] strides [3, 1, 0]"
    (desc,) = check(nd(data, tuples((5,), 4, 3)), "4_1")
    assert fields(desc)["OutputTensor"] == "UINT64 [1, 5, 2]"
    assert fields(desc)["InputDimensionCount"] == 3
    (desc,) = check(sliced(data, starts=[1], ends=[3], axes=[0]), "4_1")
    assert fields(desc)["InputWindowSizes"] == [2, 3, 2]
