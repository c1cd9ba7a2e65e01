"""OpenVINO's operations as DirectML descriptors: which descriptors, and where what they do differs."""

from __future__ import annotations

import doctest
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from tests.dialects import binding
from tests.dialects.binding import LEVELS, becomes, codes, listed, only
from tests.dialects.drafting import seeds
from tests.dialects.outcomes import Array
from tests.dialects.refusals import Refusals, check_refused, each_of
from tests.openvino.described import bound, counted, described, drawn_gather, operator, refusals
from tests.openvino.examples import EXAMPLES
from tests.openvino.faults import Fault
from tests.openvino.specification import Call, expected, gather
from tests.openvino.strategies import ROWS, broken_call, faults_of, good_call
from tests.test_docstrings import examples

ov: Any = dg.openvino


def run(call: Call, like: Array) -> Array:
    """What a call's descriptor gives at the newest level, in the place of that result."""
    buffer = binding.run(listed(described(call, "6_4")), **bound(call), level=LEVELS[-1], device="cpu")
    return buffer[: like.nbytes].view(like.dtype).reshape(like.shape)


@pytest.mark.parametrize("example", EXAMPLES[:-1], ids=lambda one: one.name)
@pytest.mark.parametrize("level", LEVELS[2:], ids=str)
def test_descriptors_give_the_worked_examples_of_the_page(example: Any, level: FeatureLevel) -> None:
    data, indices, output = example.arrays()
    call = gather(8, data, indices, example.axis, example.batch_dims)
    binding.check(described(call, level), level, output, **bound(call))


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_a_mask_of_the_differences_gives_the_bits_of_the_page(seed: int) -> None:
    """Indices of any value: the mask that the finding's bounds make is all there is between DirectML and OpenVINO."""
    rng, call = random.Random(seed), drawn_gather(seed)
    size = call.data.shape[call.more["axis"]]
    limits = np.iinfo(call.indices.dtype)
    wild = [max(limits.min, min(limits.max, rng.randint(-3 * size, 3 * size))) for _ in range(call.indices.size)]
    indices = np.array(wild, call.indices.dtype).reshape(call.indices.shape)
    call = gather(call.version, call.data, indices, **call.more)
    found = described(call, "6_4")
    if isinstance(found, dg.Report):
        assert refusals(call, LEVELS[-1])[0] == {"EXP102"}
        return
    assert found.operator.name == operator(call, LEVELS[-1])
    findings = dg.openvino.differences(call.data, indices, **call.more, version=call.version)
    first, last = (int(word) for word in findings[0].expected.removeprefix("indices from ").split(" to "))
    right = expected(call)
    got, wide = run(call, right), indices.astype(np.int64)
    axis, batch = counted(call)
    lead, trail = (1,) * (axis - batch), (1,) * (call.data.ndim - axis - 1)
    mask = ((wide < first) | (wide > last)).reshape((*indices.shape[:batch], *lead, *indices.shape[batch:], *trail))
    got[np.broadcast_to(mask, got.shape)] = np.zeros((), got.dtype)
    assert got.tobytes() == right.tobytes()


@pytest.mark.parametrize(
    ("version", "kind", "codes"),
    [(8, "int64", ["EXP201"]), (8, "uint8", ["EXP201"]), (7, "int32", ["EXP201", "EXP202"]), (1, "uint32", ["EXP201"])],
)
def test_differences_of_each_version(version: int, kind: str, codes: list[str]) -> None:
    found = dg.openvino.differences(((5, 2), "float32"), ((3,), kind), 0, version=version)
    assert [finding.code for finding in found] == codes
    assert {finding.severity for finding in found} == {dg.Severity.WARNING}
    signed = version == 8 and kind.startswith("int")
    assert found[0].expected == ("indices from -5 to 4" if signed else "indices from 0 to 4")


def test_arguments_are_arrays_or_pairs() -> None:
    data, indices = np.zeros((2, 5, 3), np.float32), np.zeros((2, 4), np.int32)
    pairs = ((2, 5, 3), "float32"), ((2, 4), "int32")
    found = dg.openvino.to_directml(data, indices, np.array([1], np.uint8), -1)
    assert found == dg.openvino.to_directml(*pairs, -2, 1, "6_4", version=7)
    assert isinstance(found, dg.GatherND1OperatorDesc)
    assert (found.batch_dimension_count, found.indices_tensor.sizes) == (1, (2, 4, 1))


def test_gather_elements_repeats_indices_by_strides_of_0() -> None:
    found = dg.openvino.to_directml(((2, 3, 2, 7, 4), "float16"), ((2, 5, 6), "int64"), 3, 1)
    indices = "INT64 [2, 6, 30, 4] strides [30, 0, 1, 0]"
    becomes(found, f"GATHER_ELEMENTS Axis 2: FLOAT16 [2, 6, 7, 4], {indices} -> FLOAT16 [2, 6, 30, 4]")


GOOD: dict[str, Any] = {"data": ((5, 2), "float32"), "indices": ((3,), "int64"), "axis": 0}
BROKEN: dict[str, dict[str, Any]] = {
    "axis is 4, but data has rank 2: expected -2 … 1": {"axis": 4},
    "axis has shape (2,), expected a scalar or one dimension of one element": {"axis": np.array([0, 1])},
    "batch_dims is 1, but axis counted from the front is 0: expected batch_dims <= axis": {"batch_dims": 1},
    "data has type complex64": {"data": ((5, 2), "complex64")},
    "version is 9, expected 1, 7 or 8": {"version": 9},
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_gather_that_breaks_a_rule_has_a_report(message: str) -> None:
    finding = only(dg.openvino.to_directml(**GOOD | BROKEN[message]))
    assert (finding.code, finding.got[: len(message)]) == ("EXP101", message)
    with pytest.raises((TypeError, ValueError)) as raised:
        dg.openvino.differences(**GOOD | BROKEN[message])
    assert str(raised.value) == finding.got


def stated(**changes: Any) -> Any:
    return lambda: dg.openvino.to_directml(**GOOD | changes)


CONTRADICTIONS: Refusals = {
    ValueError: {"unknown feature level '7_0'": stated(level="7_0")},
    TypeError: {
        "version is '8' of type str, expected an integer": stated(version="8"),
        "data is of type list, expected an array or a pair": stated(data=[1, 2]),
    },
}


@each_of(CONTRADICTIONS)
def test_a_caller_that_contradicts_itself_gets_an_exception(call: Any, error: type[Exception], message: str) -> None:
    check_refused(call, error, message)


def test_the_newest_level_refuses_only_no_elements_or_wide_steps() -> None:
    for seed in range(100):
        for row in ROWS:
            call = good_call(seed, row)
            found = described(call, "6_4")
            if isinstance(found, dg.Report):
                wide = any(abs(int(step)) >= 2**31 for name in ("step", "strides") for step in call.more.get(name, ()))
                certain, _ = refusals(call, LEVELS[-1])
                assert {*codes(found)} == (certain or {"EXP106"}), call
                assert certain or wide, call


SHAPE_FAULTS = [
    pytest.param(row, fault, id=f"{row}-{fault.name}")
    for row in ROWS
    if "Gather-" not in row
    for fault in faults_of(row)
    if fault.raises is not IndexError
]


@pytest.mark.parametrize(("row", "fault"), SHAPE_FAULTS)
def test_a_call_that_breaks_a_rule_has_a_report_or_is_no_call(row: str, fault: Fault) -> None:
    for seed in range(5):
        call = broken_call(seed, row, fault)
        try:
            report = described(call, "6_4")
        except TypeError:
            assert "type" in fault.name  # what is no integer and no list
            continue
        assert codes(report) == ["EXP101"]
        assert report.subject == f"OpenVINO {row}"


def test_each_operation_has_an_operator_with_its_fields() -> None:
    matrix = ((3, 4), "float32")
    becomes(
        ov.gather_elements.to_directml(((4, 3), "float16"), ((2, 3), "int32"), -2),
        "GATHER_ELEMENTS Axis 0: ... -> FLOAT16 [2, 3]",
    )
    for version in (5, 8):
        tuples = ov.gather_nd.to_directml(((2, 3, 4), "float32"), ((2, 3, 1), "int64"), 2, version=version)
        becomes(tuples, "GATHER_ND1 ...BatchDimensionCount 2: ... -> FLOAT32 [1, 2, 3]")
    window = ov.slice.to_directml(((10,), "float32"), [8], [2], [-3], level="2_1")
    becomes(window, "SLICE1 ...Offsets [0, 0, 0, 5], InputWindowSizes [1, 1, 1, 4], InputWindowStrides [1, 1, 1, -3]")
    masks = {"new_axis_mask": [1], "ellipsis_mask": [0, 1], "shrink_axis_mask": [0, 0, 1]}
    masked = ov.strided_slice.to_directml(matrix, [0, 0, -1], [0, 0, 0], **masks)
    becomes(masked, "SLICE1 ... -> FLOAT32 [3, 1]")  # the node's output is {1,3}, of the same elements
    becomes(ov.strided_slice.to_directml(matrix, [1], [3], level="1_0"), "SLICE ")


@pytest.mark.parametrize("method", ["to_directml", "differences"])
def test_the_examples_of_the_methods_run(method: str) -> None:
    (example,) = examples(method, getattr(dg.openvino.gather, method))
    printed: list[str] = []
    doctest.DocTestRunner().run(example, out=printed.append)
    assert not printed, "".join(printed)


def test_only_gather_has_indices_that_differ() -> None:
    assert ov.gather_elements.differences(((4, 3), "float16"), ((2, 3), "int32"), 0) == ()
    assert ov.gather_nd.differences(((4, 3), "float16"), ((2, 1), "uint8")) == ()
    assert ov.slice.differences(((4, 3), "float16"), [0], [1], [1]) == ()
    pair = ((4, 3), "float16"), ((2, 3), "int32"), 0
    assert ov.gather.differences(*pair, version=7) == ov.differences(*pair, version=7)
    assert ov.gather.to_directml(*pair, level="3_0") == ov.to_directml(*pair, 0, "3_0")


@pytest.mark.parametrize(("name", "value"), [("device", "cpu"), ("out_of_bounds", "clamp"), ("out", np.empty(2, np.float32))])
def test_a_descriptor_has_no_array_no_device_and_no_policy(name: str, value: Any) -> None:
    for method in (ov.gather_nd.to_directml, ov.gather_nd.differences):
        with pytest.raises(TypeError, match=f"{name} is given, but a descriptor has none: leave it out"):
            method(((4,), "float32"), ((2, 1), "int64"), **{name: value})
