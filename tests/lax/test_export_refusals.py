"""lax.gather calls that DirectML cannot take, each reason with its facts; and where what it takes differs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.lax import GatherDimensionNumbers
from tests.dialects.binding import becomes, facts, only

ROWS = GatherDimensionNumbers((1,), (0,), (0,))
DATA, INDICES = ((5, 2), "float32"), ((3, 1), "int32")


def reported(*call: Any, **options: Any) -> dg.Report:
    report = dg.lax.to_directml(*call, **options)
    assert isinstance(report, dg.Report)
    return report


def refusal(*call: Any, **options: Any) -> dg.Finding:
    report = reported(*call, **options)
    assert report.subject == "JAX lax.gather"
    return only(report)


@pytest.mark.parametrize(
    ("call", "got"),
    [
        ((DATA, INDICES, ROWS, (2, 2)), "slice_sizes[0] is 2; expected 1, because collapsed_slice_dims contains 0"),
        ((DATA, ((3, 2), "int32"), ROWS, (1, 2)), "start_index_map is (0,); expected 2 entries"),
        ((DATA, ((3, 1), "float32"), ROWS, (1, 2)), "start_indices has type float32, but lax.gather takes int8"),
        ((((5, 2), "object"), INDICES, ROWS, (1, 2)), "operand has type object, but lax.gather takes bool"),
        ((DATA, INDICES, (0, 1), (1, 2)), "dimension_numbers is of type tuple, expected GatherDimensionNumbers"),
        ((DATA, INDICES, ROWS, (1, 2), "wrap"), "mode is 'wrap', expected 'clip', 'fill', 'drop' or 'promise_in_bounds'"),
    ],
)
def test_a_call_that_breaks_a_rule_is_a_finding(call: tuple[Any, ...], got: str) -> None:
    mode: Any = call[4] if call[4:] else None
    finding = refusal(*call[:4], mode=mode)
    assert facts(finding)[:3] == ("EXP101", "", "a call that lax.gather allows")
    assert finding.got.startswith(got)
    with pytest.raises((TypeError, ValueError)) as error:
        dg.lax.differences(*call[:4], mode=mode)
    assert str(error.value) == finding.got


def test_an_empty_tensor_is_refused() -> None:
    window, element = GatherDimensionNumbers((1,), (), (0,)), GatherDimensionNumbers((), (0,), (0,))
    calls: tuple[tuple[tuple[Any, ...], str, str], ...] = (
        ((((0, 2), "float32"), ((0, 1), "int32"), ROWS, (1, 2)), "start_indices.shape[0]", "0 in [0, 1]"),
        ((((5, 0), "float32"), INDICES, ROWS, (1, 0)), "operand.shape[1]", "0 in [5, 0]"),
        ((DATA, INDICES, ROWS, (1, 0)), "output.shape[1]", "0 in [3, 0]"),
        ((((0,), "float32"), ((2, 1), "int32"), window, (0,)), "operand.shape[0]", "0 in [0]"),
        ((((3,), "float32"), ((0, 1), "int32"), element, (1,)), "start_indices.shape[0]", "0 in [0, 1]"),
    )
    for (call, path, got), level, mode in product(calls, ("1_0", "2_1", "6_4"), (None, "clip", "fill")):
        finding = next(each for each in reported(*call, level=level, mode=mode).findings if each.path == path)
        assert facts(finding) == ("EXP102", path, "at least 1", got, None)


def test_partial_windows_of_too_many_repetitions_are_refused() -> None:
    images = ((2**15, 2**15), "uint8")
    finding = refusal(images, ((3, 2), "int32"), GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 2**15 - 2))
    got = "6442450944: {32768,32768}, repeated {2,3} times for windows of {2,32766}"
    most = "at most 4294967295 elements in the copy of data for the windows"
    assert facts(finding) == ("EXP110", "slice_sizes", most, got, None)
    assert "the window's start plus the element's offset" in finding.remedy
    found = dg.lax.to_directml(images, ((3, 2), "int32"), GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 2**15))
    assert isinstance(found, tuple)


def test_an_operand_over_the_limit_is_refused_for_any_window() -> None:
    finding = refusal(((2**16, 2**16), "uint8"), INDICES, GatherDimensionNumbers((1, 2), (), (0,)), (2, 2**16))
    assert (finding.code, finding.path) == ("EXP107", "operand.shape")


def test_batches_of_pairs_need_gather_nd1() -> None:
    pairs = GatherDimensionNumbers((), (1, 2), (1, 2), (0,), (0,))
    finding = refusal(((2, 5, 6), "float32"), ((2, 3, 2), "int32"), pairs, (1, 1, 1), "2_1")
    expected = "1 batch, because level 2_1 has no BatchDimensionCount; or tuples of 1 component in 1 dimension"
    assert facts(finding) == ("EXP106", "operand_batching_dims", expected, "2 batches, 2 components, 1 dimension", "3_0")


def test_a_partial_window_that_always_starts_at_0_is_a_view() -> None:
    found = dg.lax.to_directml(((5, 8), "float32"), INDICES, ROWS, (1, 3))
    becomes(found, "GATHER ...: FLOAT32 [5, 3] strides [8, 1], ")


def test_a_type_that_a_level_lacks_is_the_validators_finding() -> None:
    report = reported(((5, 2), "float64"), INDICES, ROWS, (1, 2), "3_0")
    found = [(finding.code, finding.path, str(finding.level)) for finding in report.findings]
    assert found == [("DML201", "InputTensor.DataType", "4_1"), ("DML201", "OutputTensor.DataType", "4_1")]


@pytest.mark.parametrize(
    ("mode", "kind", "expected"),
    [
        ("clip", "int32", [("EXP202", "starts from 0 on")]),
        ("clip", "uint32", []),
        ("fill", "int64", [("EXP201", "starts from 0 to 4"), ("EXP202", "starts from 0 on")]),
        ("drop", "uint8", [("EXP201", "starts from 0 to 4")]),
        ("promise_in_bounds", "int32", []),
        (None, "int32", []),
    ],
)
def test_a_mode_differs_for_starts_that_it_treats_otherwise(mode: str | None, kind: str, expected: list[tuple[str, str]]) -> None:
    found = dg.lax.differences(DATA, ((3, 1), kind), ROWS, (1, 2), mode=mode)
    assert [(finding.code, finding.expected) for finding in found] == expected
    assert all((finding.severity, finding.path) == ("warning", "start_indices") for finding in found)
    assert isinstance(dg.lax.to_directml(DATA, ((3, 1), kind), ROWS, (1, 2), mode=mode), dg.GatherOperatorDesc)


def test_they_differ_as_the_warnings_say() -> None:
    """What runs: JAX clamps a negative start to 0 and fills beyond the end, the descriptor counts from the end and clamps."""
    data, starts = np.arange(5, dtype=np.float32), np.array([[-2], [7], [3]], np.int32)
    call = (GatherDimensionNumbers((), (0,), (0,)), (1,))
    desc = dg.lax.to_directml(data, starts, *call, mode="clip")
    assert isinstance(desc, dg.GatherOperatorDesc)
    described = dg.compile(desc, "cpu")(data.reshape(desc.input_tensor.sizes), starts.reshape(desc.indices_tensor.sizes))
    assert described.tolist() == [3, 4, 3]
    assert dg.lax.gather(data, starts, *call, mode="clip").tolist() == [0, 4, 3]
    assert dg.lax.gather(data, starts, *call, mode="fill", fill_value=9).tolist() == [9, 9, 3]


def test_constants_in_bounds_do_not_differ() -> None:
    inside, outside = np.array([[0], [4]]), np.array([[0], [-1]])
    assert dg.lax.differences(DATA, None, ROWS, (1, 2), mode="fill", constants={"start_indices": inside}) == ()
    found = dg.lax.differences(DATA, None, ROWS, (1, 2), mode="fill", constants={"start_indices": outside})
    assert [finding.code for finding in found] == ["EXP201", "EXP202"]


def test_a_caller_that_contradicts_itself_gets_an_exception() -> None:
    starts = np.zeros((3, 1), np.int64)
    with pytest.raises(ValueError, match=r"start_indices is int32 \[3, 1\], but the constant is int64 \[3, 1\]"):
        dg.lax.to_directml(DATA, INDICES, ROWS, (1, 2), constants={"start_indices": starts})
    with pytest.raises(ValueError, match="constants has 'indices', expected nothing but 'start_indices'"):
        dg.lax.to_directml(DATA, INDICES, ROWS, (1, 2), constants={"indices": starts})
    with pytest.raises(ValueError, match="unknown feature level '7_0'"):
        dg.lax.to_directml(DATA, INDICES, ROWS, (1, 2), "7_0")
    with pytest.raises(TypeError, match="start_indices is of type NoneType"):
        dg.lax.to_directml(DATA, None, ROWS, (1, 2))


@pytest.mark.parametrize("kind", ["int4", "uint4", "int2", "float4_e2m1fn"])
def test_elements_below_a_byte(kind: str) -> None:
    finding = refusal(((3,), kind), ((2, 1), "int32"), GatherDimensionNumbers((), (0,), (0,)), (1,))
    assert (finding.code, finding.got) == ("EXP103", kind)
