"""The facts inside findings: place, both values, remedy. Expectations follow from the documents by hand."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.directml.writing import cut, document, found, moved, rows, tensor

CASES: dict[str, tuple[dict[str, Any], str, str, str, str]] = {
    "size 0": (cut(tensor([4, 0]), tensor([4, 1])), "InputTensor.Sizes[1]", "at least 1", "0", "do not run the operator"),
    "count 9": (cut(tensor([1] * 9), tensor([1] * 9)), "InputTensor.DimensionCount", "1 … 8", "9", "merge adjacent dimensions"),
    "scalar": (cut(tensor([]), tensor([1]), Sizes=[]), "InputTensor.DimensionCount", "1 … 8", "0", "{1}"),
    "strides": (
        cut(tensor([4, 3], Strides=[1]), tensor([4, 3])),
        *("InputTensor.Strides", "2 entries", "1 entry", "one stride per dimension"),
    ),
    "total": (
        cut(tensor([3], "INT8", TotalTensorSizeInBytes=3), tensor([3], "INT8")),
        *("InputTensor.TotalTensorSizeInBytes", "at least 4: 3 elements of 1 byte,", "3", "set TotalTensorSizeInBytes to 4"),
    ),
    "total beyond 32 bits": (
        cut(
            tensor([3, 3], "FLOAT64", Strides=[2**30, 2**30 - 1], TotalTensorSizeInBytes=2**35 - 20),
            tensor([1, 1], "FLOAT64"),
        ),
        *("InputTensor.TotalTensorSizeInBytes", f"at least {(2 * 2**30 + 2 * (2**30 - 1) + 1) * 8}", str(2**35 - 20)),
        f"to {2**35 - 8}",
    ),
    "span": (
        cut(tensor([2, 2], Strides=[2**31, 2**31]), tensor([1, 1])),
        *("InputTensor.Strides", "at most 4294967295", "4294967297", "split"),
    ),
    "product of an output": (
        cut(
            tensor([2**17, 2**16], Strides=[0, 1]),
            tensor([2**17, 2**16], Strides=[1, 1]),
        ),
        *("OutputTensor.Sizes", "at most 4294967295", "8589934592, the product of {131072,65536}", "split"),
    ),
    "alignment": (
        cut(tensor([4], "INT64", GuaranteedBaseOffsetAlignment=4), tensor([4], "INT64")),
        *("InputTensor.GuaranteedBaseOffsetAlignment", "no smaller than 8, the bytes of INT64", "4", "set it to 16"),
    ),
    "stride 0 of an output": (
        cut(tensor([4, 3]), tensor([4, 3], Strides=[0, 1])),
        *("OutputTensor.Strides[0]", "at least 1 in a dimension of size 4", "0", "a stride for its 4 elements"),
    ),
    "collision": (
        cut(tensor([3, 3]), tensor([3, 3], Strides=[2, 1])),
        *("OutputTensor.Strides", "each of the 9 elements", "{2,1} for sizes {3,3}: elements (0, 2) and (1, 0) both lie at 2"),
        "packed",
    ),
    "UNKNOWN": (
        rows(tensor([4]), tensor([2], "UNKNOWN"), tensor([2])),
        *("IndicesTensor.DataType", "INT64, INT32, UINT64 or UINT32 (GATHER from level 4_1)", "UNKNOWN"),
        "state which of these types",
    ),
    "half bytes": (
        rows(tensor([4]), tensor([2], "INT4"), tensor([2])),
        *("IndicesTensor.DataType", "INT64, INT32, UINT64 or UINT32 (GATHER from level 4_1)", "INT4", "use one of these types"),
    ),
    "other type": (
        cut(tensor([4]), tensor([4], "FLOAT16")),
        *("OutputTensor.DataType", "FLOAT32", "FLOAT16", "set OutputTensor.DataType to FLOAT32"),
    ),
    "other rank": (
        rows(tensor([1, 4]), tensor([2]), tensor([1, 2]), axis=1),
        *("IndicesTensor.DimensionCount", "2, as in InputTensor", "1", "{1,2}"),
    ),
    "axis": (
        rows(tensor([1, 4]), tensor([1, 2]), tensor([1, 2]), axis=7),
        *("Axis", "0 … 1", "7", "Axis = 1 gives the stated output {1,2}"),
    ),
    "output of GATHER": (
        *(rows(tensor([30, 8]), tensor([1, 5]), tensor([5, 7])), "OutputTensor.Sizes[1]"),
        "{5,8}, joined from {} of InputTensor before Axis 0, {5} of IndicesTensor and {8} of InputTensor behind Axis,",
        *("{5,7} (dimension 1: expected 8, got 7)", "set OutputTensor.Sizes to {5,8}"),
    ),
    "output of GATHER for another Axis": (
        rows(tensor([5, 8]), tensor([1, 2]), tensor([5, 2])),
        *("OutputTensor.Sizes", "{2,8}", "{5,2} (dimension 0: expected 2, got 5, dimension 1: expected 8, got 2)"),
        "Axis = 1 gives the stated output {5,2}",
    ),
    "batch of indices before Axis": (
        *(rows(tensor([5, 8]), tensor([3, 2]), tensor([2, 8])), "IndicesTensor.Sizes[0]", "at most 0 batch dimensions"),
        "1 dimension {3}, of the dimensions before the last one of {3,2}",
        "set the dimensions before the last one of IndicesTensor to 1, or raise IndexDimensions",
    ),
    "indices of GATHER_ELEMENTS": (
        document("GATHER_ELEMENTS", tensor([5, 8]), tensor([5, 2]), tensor([5, 2]), Axis=0),
        *("IndicesTensor.Sizes[1]", "{5,8}", "{5,2} (dimension 1: expected 8, got 2)", "Axis = 1 gives the stated output {5,2}"),
    ),
    "tuples": (
        document(
            "GATHER_ND1",
            *(tensor([2, 3, 4]), tensor([2, 1, 3]), tensor([1, 2, 1])),
            InputDimensionCount=3,
            IndicesDimensionCount=3,
            BatchDimensionCount=1,
        ),
        *("IndicesTensor.Sizes[2]", "1 … 2: InputDimensionCount 3 less 1 batch dimensions", "3"),
        "BatchDimensionCount = 0 gives the stated output {1,2,1}",
    ),
    "counts of GATHER_ND": (
        document(
            "GATHER_ND",
            *(tensor([5, 6]), tensor([3, 1]), tensor([3, 6])),
            InputDimensionCount=3,
            IndicesDimensionCount=2,
        ),
        *("InputDimensionCount", "1 … 2", "3", "InputDimensionCount = 2 gives the stated output {3,6}"),
    ),
    "reads": (
        cut(tensor([10]), tensor([5]), Offsets=[1], Strides=[3]),
        *("Sizes[0]", "positions 0 … 9", "1 + 4·3 = 13 at the end; the first one outside is 10, for element 3"),
        "Strides[0] to 2",
    ),
    "offset": (
        cut(tensor([10]), tensor([2]), Offsets=[12]),
        *("Offsets[0]", "positions 0 … 9", "the first one outside is 12, for element 0", "Offsets[0] to 8"),
    ),
    "slice sizes": (cut(tensor([9]), tensor([5]), Sizes=[4]), "Sizes[0]", "{5}", "{4}", "OutputTensor.Sizes to {4}"),
    "window": (
        document(
            "SLICE1",
            *(tensor([9]), tensor([2])),
            InputWindowOffsets=[4],
            InputWindowSizes=[6],
            InputWindowStrides=[-3],
        ),
        *("InputWindowSizes[0]", "at most 9", "4 + 6 = 10; the first position outside is 9", "InputWindowSizes[0] to 5"),
    ),
    "yield": (
        document(
            "SLICE1",
            *(tensor([9]), tensor([3])),
            InputWindowOffsets=[1],
            InputWindowSizes=[4],
            InputWindowStrides=[-3],
        ),
        *("OutputTensor.Sizes[0]", "1 … 2: 1 + (4 - 1) div 3", "3"),
        "InputWindowStrides[0] to 1 or -1 or InputWindowSizes[0] to 7",
    ),
    "3 dimensions of 4": (
        moved(tensor([4, 2, 2]), tensor([1, 4, 4]), 2),
        *("InputTensor.DimensionCount", "4 (DEPTH_TO_SPACE1 at level 6_4)", "3"),
        "prepend sizes of 1 in all tensors ({1,4,2,2} here)",
    ),
    "5 dimensions of 4": (
        moved(tensor([1] * 5), tensor([1] * 5)),
        *("InputTensor.DimensionCount", "4 (DEPTH_TO_SPACE1 at level 6_4)", "5", "reshape the tensors to 4 dimensions"),
    ),
    "rows of other ranks": (
        rows(tensor([4, 3]), tensor([1, 1, 2]), tensor([1, 2, 3])),
        *("InputTensor.DimensionCount", "3, as in IndicesTensor", "2", "prepend sizes of 1: {1,4,3}, and raise Axis by 1"),
    ),
    "a slice of other ranks": (
        cut(tensor([4, 3]), tensor([1, 2, 3]), Sizes=[2, 3]),
        *("InputTensor.DimensionCount", "3, as in OutputTensor", "2"),
        "prepend sizes of 1: {1,4,3}, and prepend 1 entry to the slice's arrays: 0 in Offsets, 1 in Sizes and Strides",
    ),
    "two fields out of range": (
        rows(tensor([3, 4]), tensor([2, 2]), tensor([2, 4]), axis=5, count=7),
        *("Axis", "0 … 1", "5", "Axis = 0 or Axis = 1 removes this error, but not the others; or choose"),
    ),
    "no block": (
        moved(tensor([1, 8, 2, 3]), tensor([1, 2, 4, 6]), 0),
        *("BlockSize", "at least 1", "0", "BlockSize = 2 gives the stated output {1,2,4,6}"),
    ),
    "channels of half a block": (
        moved(tensor([1, 8, 2, 3]), tensor([1, 2, 4, 6]), 3),
        *("InputTensor.Sizes[1]", "a multiple of 9, BlockSize · BlockSize", "8"),
        "BlockSize = 2 gives the stated output {1,2,4,6}; or pad dimension 1 of the input to 9",
    ),
    "a block of more channels than a tensor may have": (
        moved(tensor([1, 8, 2, 3]), tensor([1, 1, 4, 6]), 2**32 - 1),
        *("InputTensor.Sizes[1]", "a multiple of", "8", "choose a smaller BlockSize"),
    ),
    "more elements than any memory holds": (
        cut(tensor([2**24] * 2 + [2], "INT8"), tensor([1] * 3, "INT8")),
        *("InputTensor.Sizes", "at most 4294967295", "562949953421312", "correct the sizes: no memory"),
    ),
    "rows of half a block": (
        moved(tensor([1, 2, 5, 6]), tensor([1, 8, 2, 3]), 2, "SPACE_TO_DEPTH1"),
        *("InputTensor.Sizes[2]", "a multiple of 2, BlockSize", "5", "pad dimension 2 of the input to 6"),
    ),
    "output of DEPTH_TO_SPACE1": (
        *(moved(tensor([1, 8, 2, 3]), tensor([1, 2, 4, 3]), 2), "OutputTensor.Sizes[3]"),
        *("{1,2,4,6}, {N, C / 4, H · 2, W · 2} of InputTensor", "{1,2,4,3} (dimension 3: expected 6, got 3)"),
        "set OutputTensor.Sizes to {1,2,4,6}",
    ),
    "output of SPACE_TO_DEPTH1 as its page prints it": (
        moved(tensor([1, 8, 2, 4]), tensor([1, 2, 4, 8]), 2, "SPACE_TO_DEPTH1"),
        *("OutputTensor.Sizes", "{1,32,1,2}, {N, C · 4, H / 2, W / 2} of InputTensor", "{1,2,4,8}"),
        "set OutputTensor.Sizes to {1,32,1,2}, or use DEPTH_TO_SPACE1, which gives the stated sizes",
    ),
}
"""By name: a descriptor, the path of its first finding, and what is in the expectation, the value and the remedy."""


def test_an_older_operator_is_named_where_the_level_has_one() -> None:
    window = {"InputWindowOffsets": [0], "InputWindowSizes": [4], "InputWindowStrides": [1]}
    remedies = {
        "SLICE1": document("SLICE1", tensor([4]), tensor([4]), **window),
        "DEPTH_TO_SPACE1": moved(tensor([1, 4, 1, 1]), tensor([1, 1, 2, 2]), 2),
        "GATHER_ELEMENTS": document("GATHER_ELEMENTS", tensor([1] * 4), tensor([1] * 4, "UINT32"), tensor([1] * 4), Axis=0),
        "GATHER_ND1": document(
            "GATHER_ND1",
            *(tensor([1] * 4), tensor([1] * 4), tensor([1] * 4)),
            InputDimensionCount=4,
            IndicesDimensionCount=4,
            BatchDimensionCount=0,
        ),
    }
    assert {name: found(written, "2_0")[0].remedy for name, written in remedies.items()} == {
        "SLICE1": "use feature level 3_0 or newer, or SLICE if it is sufficient",
        "DEPTH_TO_SPACE1": "use feature level 2_1 or newer",
        "GATHER_ELEMENTS": "use feature level 2_1 or newer",
        "GATHER_ND1": "use feature level 3_0 or newer",
    }
    assert found(remedies["GATHER_ND1"], "2_1")[0].remedy.endswith("or newer, or GATHER_ND if it is sufficient")


def test_a_value_gives_the_stated_output_only_where_it_mends_all() -> None:
    """A claim in a remedy is tried: with the value set, no error is left."""
    wrong = [
        rows(tensor([3, 4]), tensor([2, 2]), tensor([2, 4]), axis=5, count=7),
        rows(tensor([3, 4]), tensor([2, 2]), tensor([2, 4]), axis=5),
        rows(tensor([3, 4]), tensor([1, 2]), tensor([2, 4]), axis=5),
        document(
            "GATHER_ND1",
            *(tensor([3, 4]), tensor([2, 2]), tensor([1, 2])),
            InputDimensionCount=7,
            IndicesDimensionCount=2,
            BatchDimensionCount=5,
        ),
    ]
    claims = 0
    for written in wrong:
        for finding in found(written):
            claim, stated, _ = finding.remedy.partition(" gives the stated output")
            for field, value in re.findall(r"(\w+) = (\d+)", claim) if stated else ():
                claims += 1
                assert found({**written, "desc": {**written["desc"], field: int(value)}}) == []
    assert claims == 1


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (
            rows(tensor([4, 3]), tensor([1, 2]), tensor([2, 3])),
            rows(tensor([1, 1, 4, 3]), tensor([1, 1, 1, 2]), tensor([1, 1, 2, 3]), 2),
        ),
        (cut(tensor([4, 3]), tensor([2, 3])), cut(tensor([1, 1, 4, 3]), tensor([1, 1, 2, 3]))),
    ],
)
def test_dimensions_are_prepended_together_with_what_counts_them(small: dict[str, Any], large: dict[str, Any]) -> None:
    """Level 2_0 wants 4 dimensions. `large` follows the remedy to the letter."""
    remedies = [finding.remedy for finding in found(small, "2_0")]
    said = {
        "GATHER": "and raise Axis by 2,",
        "SLICE": "prepend 2 entries to the slice's arrays: 0 in Offsets, 1 in Sizes and Strides,",
    }
    assert remedies
    assert all(said[small["type"].removeprefix("DML_OPERATOR_")] in remedy for remedy in remedies)
    assert found(large, "2_0") == []


def test_an_array_of_the_wrong_length_hides_no_other_rule() -> None:
    sizes = cut(tensor([4, 6]), tensor([2, 3]), Sizes=[2, 4], Strides=[1])
    assert [finding.code for finding in found(sizes)] == ["DML601", "DML604"]
    steps = cut(tensor([4, 6]), tensor([2, 3]), Strides=[0])
    assert [finding.code for finding in found(steps)] == ["DML601", "DML603"]
    window = {"InputWindowOffsets": [0, 0], "InputWindowSizes": [0, 3], "InputWindowStrides": [1]}
    assert [finding.code for finding in found(document("SLICE1", tensor([4, 6]), tensor([2, 3]), **window))] == [
        "DML601",
        "DML606",
    ]


@pytest.mark.parametrize("name", CASES)
def test_facts_of_a_finding(name: str) -> None:
    written, path, expected, got, remedy = CASES[name]
    first, *_ = (finding for finding in found(written) if finding.path == path)
    assert expected in first.expected
    assert got in first.got
    assert remedy in first.remedy
    line = str(first)
    assert "\n" not in line
    for part in (first.code, first.path, first.expected, first.got, first.remedy):
        assert part in line
