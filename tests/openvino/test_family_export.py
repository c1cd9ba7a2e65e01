"""GatherElements, GatherND, Slice and StridedSlice as DirectML descriptors: they validate, and give the bits of the page."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from tests.dialects import binding
from tests.dialects.binding import LEVELS, held
from tests.dialects.drafting import seeds
from tests.directml.pages import PAGES
from tests.openvino.family_drafts import FAULTS, FamilyFault, broken_call, good_call
from tests.openvino.family_specification import FamilyCall, expected
from tests.openvino.specification import Array
from tests.openvino.test_family_judged import FUNCTIONS
from tests.test_docstrings import examples


def described(call: FamilyCall, level: FeatureLevel | str) -> Any:
    pairs = [(array.shape, array.dtype) for array in call.arrays]
    return FUNCTIONS[call.operation].to_directml(*pairs, **call.named, level=level)


def sizes_of(call: FamilyCall) -> Array:
    """What is added to negative indices where the described type is unsigned."""
    data, *indices = call.arrays
    if call.operation == "GatherElements":
        return np.array(data.shape[call.more["axis"]])
    if call.operation == "GatherND":
        batch = call.more["batch_dims"]
        return np.array(data.shape[batch : batch + indices[0].shape[-1]], np.int64)
    return np.array(0)


def empty(call: FamilyCall, right: Array) -> bool:
    """Whether a tensor that DirectML needs has no elements. Tuples without components are not looked at."""
    data, *indices = call.arrays
    shapes = [data.shape, right.shape, *(array.shape for array in indices)]
    if call.operation == "GatherND":
        shapes[-1] = shapes[-1][:-1]
    return any(0 in shape for shape in shapes)


def check(call: FamilyCall, level: FeatureLevel) -> set[str]:
    """What `to_directml` returns is right; the codes of a report."""
    found, right = described(call, level), expected(call)
    if isinstance(found, dg.Report):
        codes = {finding.code for finding in found.findings}
        assert (codes == {"EXP102"}) == empty(call, right), str(found)
        return codes
    data, indices = (*call.arrays, None)[:2]
    assert data is not None
    for desc in binding.check(found, level, right, data=data, indices=indices, sizes=sizes_of(call)):
        assert held(data.dtype)[0] in PAGES[desc.operator.name].at(level).data
    return set()


@settings(max_examples=300, deadline=None)
@given(seeds, st.sampled_from(LEVELS))
def test_what_is_returned_validates_and_gives_the_bits_of_the_page(seed: int, level: FeatureLevel) -> None:
    codes = check(good_call(seed), level)
    assert codes <= {"EXP102", "EXP104", "EXP106", "DML201"}


def test_the_newest_level_refuses_only_what_has_no_elements_or_a_wide_step() -> None:
    for seed in range(300):
        call = good_call(seed, dtypes=[np.dtype("float32")])
        codes = check(call, LEVELS[-1])
        wide = any(abs(int(step)) >= 2**31 for name in ("step", "strides") for step in call.more.get(name, ()))
        assert codes in (set(), {"EXP102"}) or (codes == {"EXP106"} and wide), call


@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.raises is not IndexError], ids=lambda one: f"{one.operation}-{one.name}"
)
def test_a_call_that_breaks_a_rule_has_a_report_or_is_no_call(fault: FamilyFault) -> None:
    for seed in range(5):
        call = broken_call(seed, fault)
        try:
            report = described(call, "6_4")
        except TypeError:
            assert "type" in fault.name  # what is no integer and no list
            continue
        assert isinstance(report, dg.Report)
        assert [finding.code for finding in report.findings] == ["EXP101"]
        assert report.subject == f"OpenVINO {call.operation}-{call.version}"


def test_the_operators_and_their_fields() -> None:
    elements = dg.openvino.gather_elements.to_directml(((4, 3), "float16"), ((2, 3), "int32"), -2)
    assert isinstance(elements, dg.GatherElementsOperatorDesc)
    assert (elements.axis, elements.output_tensor.sizes) == (0, (2, 3))
    for version in (5, 8):
        tuples = dg.openvino.gather_nd.to_directml(((2, 3, 4), "float32"), ((2, 3, 1), "int64"), 2, version=version)
        assert isinstance(tuples, dg.GatherND1OperatorDesc)
        assert (tuples.batch_dimension_count, tuples.output_tensor.sizes) == (2, (1, 2, 3))
    window = dg.openvino.slice.to_directml(((10,), "float32"), [8], [2], [-3], level="2_1")
    assert isinstance(window, dg.Slice1OperatorDesc)
    assert (window.input_window_offsets[-1], window.input_window_sizes[-1], window.input_window_strides[-1]) == (5, 4, -3)
    masked = dg.openvino.strided_slice.to_directml(
        ((3, 4), "float32"), [0, 0, -1], [0, 0, 0], new_axis_mask=[1], ellipsis_mask=[0, 1], shrink_axis_mask=[0, 0, 1]
    )
    assert isinstance(masked, dg.Slice1OperatorDesc)
    assert masked.output_tensor.sizes[-2:] == (3, 1)  # the node's output is {1,3}, of the same elements
    plain = dg.openvino.strided_slice.to_directml(((3, 4), "float32"), [1], [3], level="1_0")
    assert isinstance(plain, dg.SliceOperatorDesc)


@pytest.mark.parametrize("method", ["to_directml", "differences"])
def test_the_examples_of_the_methods_run(method: str) -> None:
    (example,) = examples(method, getattr(dg.openvino.gather, method))
    printed: list[str] = []
    doctest.DocTestRunner().run(example, out=printed.append)
    assert not printed, "".join(printed)


def test_only_gather_has_indices_that_differ() -> None:
    assert dg.openvino.gather_elements.differences(((4, 3), "float16"), ((2, 3), "int32"), 0) == ()
    assert dg.openvino.gather_nd.differences(((4, 3), "float16"), ((2, 1), "uint8")) == ()
    assert dg.openvino.slice.differences(((4, 3), "float16"), [0], [1], [1]) == ()
    pair = ((4, 3), "float16"), ((2, 3), "int32"), 0
    assert dg.openvino.gather.differences(*pair, version=7) == dg.openvino.differences(*pair, version=7)
    assert dg.openvino.gather.to_directml(*pair, level="3_0") == dg.openvino.to_directml(*pair, 0, "3_0")


@pytest.mark.parametrize(("name", "value"), [("device", "cpu"), ("out_of_bounds", "clamp"), ("out", np.empty(2, np.float32))])
def test_a_descriptor_has_no_array_no_device_and_no_policy(name: str, value: Any) -> None:
    for method in (dg.openvino.gather_nd.to_directml, dg.openvino.gather_nd.differences):
        with pytest.raises(TypeError, match=f"{name} is given, but a descriptor has none: leave it out"):
            method(((4,), "float32"), ((2, 1), "int64"), **{name: value})
    with pytest.raises(ValueError, match="unknown feature level '7_0'"):
        dg.openvino.gather_nd.to_directml(((4,), "float32"), ((2, 1), "int64"), level="7_0")
