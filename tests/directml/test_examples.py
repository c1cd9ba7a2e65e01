"""Every example of DirectML's pages gives its documented result, by the documented reference and by the lowered plan."""

from __future__ import annotations

import numpy as np
import pytest

from dmlgather.backends import reference
from dmlgather.directml import (
    BufferTensorDesc,
    GatherND1OperatorDesc,
    GatherNDOperatorDesc,
    lower,
    minimum_level,
    validate,
)
from dmlgather.plan import Layout, OutOfBounds
from tests.directml.examples import EXAMPLES, GATHER_3_AS_PRINTED, Example


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_documented_reference(example: Example) -> None:
    desc = example.desc
    assert not validate(desc).findings
    result = desc.operator.reference(desc, *example.arrays)
    np.testing.assert_array_equal(result, example.result, strict=True)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_lowered_plan(example: Example) -> None:
    arrays = [array.reshape(-1) for array in example.arrays]
    out = np.full(example.result.size, 0xA5, example.result.dtype)
    reference.run(lower(example.desc), arrays[0], arrays[1] if len(arrays) > 1 else None, out)
    np.testing.assert_array_equal(out.reshape(example.result.shape), example.result, strict=True)


def test_gather_example_3_as_printed_is_a_misprint() -> None:
    report = validate(GATHER_3_AS_PRINTED.desc)
    (finding,) = report.findings
    assert finding.code == "DML303"
    assert "{3,1,2}" in finding.got
    assert finding.remedy.startswith("IndexDimensions = 1 gives the stated output {3,2}")
    assert minimum_level(GATHER_3_AS_PRINTED.desc) is None


def test_shape_example_of_gather_nd() -> None:
    # [GN]: {3,4,5,6,7} indexed by tuples of 3 leaves the last two dimensions.
    desc = GatherNDOperatorDesc(
        input_tensor=BufferTensorDesc(data_type="FLOAT32", sizes=(3, 4, 5, 6, 7)),
        indices_tensor=BufferTensorDesc(data_type="UINT32", sizes=(1, 1, 1, 2, 3)),
        output_tensor=BufferTensorDesc(data_type="FLOAT32", sizes=(1, 1, 2, 6, 7)),
        input_dimension_count=5,
        indices_dimension_count=3,
    )
    assert desc.operator.output_sizes(desc) == (1, 1, 2, 6, 7)
    assert not validate(desc).findings
    as_the_formula_says = desc.model_copy(update={"output_tensor": BufferTensorDesc(data_type="FLOAT32", sizes=(1, 2, 5, 6, 7))})
    assert {finding.code for finding in validate(as_the_formula_says).errors} == {"DML507"}


def test_batched_gather_reads_each_row_with_its_own_indices() -> None:
    # microsoft/DirectML#685, the answer that equals numpy.take_along_axis.
    example = Example(
        "issue-685",
        "GATHER",
        {"InputTensor": [3, 3], "IndicesTensor": [3, 2], "OutputTensor": [3, 2]},
        {"Axis": 1, "IndexDimensions": 1},
        (list(range(1, 10)), [0, 2, 1, 0, 2, 1]),
        [1, 3, 5, 4, 9, 8],
    )
    (finding,) = validate(example.desc).findings
    assert finding.code == "DML305"
    assert "microsoft/DirectML#685" in finding.message
    data, indices = example.arrays
    np.testing.assert_array_equal(example.result, np.take_along_axis(data, indices, 1))
    np.testing.assert_array_equal(example.desc.operator.reference(example.desc, data, indices), example.result)
    test_lowered_plan(example)


@pytest.mark.parametrize(
    ("kind", "value", "row"),
    [
        ("int32", -1, 3),
        ("int32", -4, 0),
        ("int32", -5, 0),
        ("int32", 4, 3),
        ("int32", -(2**31), 0),
        ("int64", -(2**63), 0),
        ("int64", 2**63 - 1, 3),
        ("int64", 2**32 + 1, 3),
        ("uint64", 2**64 - 1, 3),
        ("uint64", 2**32 + 1, 3),
        ("uint32", 2**32 - 1, 3),
    ],
)
def test_an_index_wraps_once_and_is_then_clamped_on_its_axis(kind: str, value: int, row: int) -> None:
    desc = GatherND1OperatorDesc(
        input_tensor=BufferTensorDesc(data_type="FLOAT32", sizes=(4, 2)),
        indices_tensor=BufferTensorDesc(data_type=kind.upper(), sizes=(1, 2)),
        output_tensor=BufferTensorDesc(data_type="FLOAT32", sizes=(1, 1)),
        input_dimension_count=2,
        indices_dimension_count=1,
        batch_dimension_count=0,
    )
    assert validate(desc).ok
    data, indices = np.arange(8, dtype=np.float32), np.array([value, 1], kind)
    out = np.full(1, np.nan, np.float32)
    reference.run(lower(desc), data, indices, out)
    assert out[0] == 2 * row + 1
    assert desc.operator.reference(desc, data.reshape(4, 2), indices.reshape(1, 2)).item() == 2 * row + 1


def test_lower_takes_layouts_and_a_policy() -> None:
    desc = EXAMPLES[1].desc
    data = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::-2]  # columns 3 and 1, backwards
    layout = Layout((3, 2), (4, -2), 3, 12)
    backwards = Layout((1, 4), (0, -1), 4, 5)
    plan = lower(desc, {"input_tensor": layout, "indices_tensor": backwards}, OutOfBounds.FILL, np.float32(-1).tobytes())
    out = np.full(8, np.nan, np.float32)
    reference.run(plan, np.arange(12, dtype=np.float32), np.array([7, 2, 1, 9, 0], np.uint32), out)
    np.testing.assert_array_equal(out.reshape(4, 2), [data[0], [-1, -1], data[1], data[2]])


def test_lower_refuses_foreign_layouts() -> None:
    desc = EXAMPLES[1].desc
    with pytest.raises(ValueError, match=r"GATHER has no tensor 'updates_tensor'.*'indices_tensor'"):
        lower(desc, {"updates_tensor": Layout.packed((3, 2))})
    with pytest.raises(ValueError, match=r"InputTensor has sizes \(2, 3\), but the descriptor has \(3, 2\)"):
        lower(desc, {"input_tensor": Layout.packed((2, 3))})
