"""Random calls of GatherElements, GatherND, Slice and StridedSlice, judged by OpenVINO and by the specification."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import dmlgather as dg
from tests.dialects.drafting import seeds
from tests.dialects.outcomes import Refusal, check_broken, check_good, content, outcome
from tests.gpus import NUMBERS, placed
from tests.openvino.family_drafts import FAULTS, FamilyFault, broken_call, gathers_of_one_kind, good_call
from tests.openvino.family_judge import PLUGIN_DATA, can_be_asked, judge, signature
from tests.openvino.family_specification import FamilyCall, expected
from tests.openvino.runtime import openvino
from tests.openvino.specification import NAMES, Array
from tests.peers.faults import PeerFault, leaves_out_at_most, leaving_out_at_most
from tests.peers.openvino import FAMILY

FUNCTIONS: dict[str, Any] = {
    "GatherElements": dg.openvino.gather_elements,
    "GatherND": dg.openvino.gather_nd,
    "Slice": dg.openvino.slice,
    "StridedSlice": dg.openvino.strided_slice,
}
GATHERS, SLICES = ("GatherElements", "GatherND"), ("Slice", "StridedSlice")


def is_judged(call: FamilyCall) -> bool:
    """Whether OpenVINO is a judge of a call."""
    return can_be_asked(call) and FAMILY.known_fault(call) is None


def ours(call: FamilyCall, **more: Any) -> Array | type[Exception]:
    """What the function under test does."""
    return outcome(FUNCTIONS[call.operation], *call.arrays, **call.named, **more)


def judged(call: FamilyCall) -> None:
    """OpenVINO, the specification and the cpu backend agree on a good call, as far as OpenVINO is a judge."""
    right = expected(call)
    assert content(ours(call)) == content(right), f"{call}: right is {right!r}"
    if is_judged(call):
        verdict = judge(call)
        assert not isinstance(verdict, Refusal), f"{call}: {verdict.message}"
        assert content(verdict) == content(right), f"the specification of {call}: {verdict!r}"


@pytest.mark.slow
@leaves_out_at_most(0.3)
@settings(max_examples=600, deadline=None)
@given(seeds)
def test_slices_do_what_openvino_evaluates(seed: int) -> None:
    judged(good_call(seed, SLICES))


@pytest.mark.parametrize("number", range(40))
def test_gathers_do_what_the_cpu_plugin_does(number: int) -> None:
    for call in gathers_of_one_kind(number, PLUGIN_DATA):
        assert is_judged(call)
        judged(call)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(seeds)
def test_every_device_does_what_the_page_says_in_every_type(seed: int) -> None:
    call = good_call(seed)
    right = expected(call)
    if is_judged(call) or call.operation in GATHERS:
        assert signature(call) == (NAMES[right.dtype], right.shape), f"the specification of {call}"
    check_good(call, right, ours)


@pytest.mark.gpu
@settings(max_examples=250, deadline=None)
@given(seeds)
def test_a_gpu_does_what_the_page_says(seed: int) -> None:
    call = good_call(seed)
    if call.arrays[0].dtype in NUMBERS:
        found = FUNCTIONS[call.operation](*map(placed, call.arrays), **call.named)
        assert content(found.get()) == content(expected(call)), call


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.operation}-{fault.name}")
@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_every_fault(fault: FamilyFault, seed: int) -> None:
    call = broken_call(seed, fault)
    check_broken(call, fault.raises, ours(call), outcome(expected, call), judge(call) if is_judged(call) else None)


def test_most_broken_calls_are_judged() -> None:
    with leaving_out_at_most(0.4):
        for fault in FAULTS:
            for seed in range(5):
                is_judged(broken_call(seed, fault))


@pytest.mark.parametrize("fault", FAMILY.faults, ids=lambda fault: fault.title)
def test_where_openvino_is_wrong_this_is_not(fault: PeerFault[FamilyCall]) -> None:
    assert content(ours(fault.example)) == content(outcome(expected, fault.example))


@pytest.mark.parametrize("version", [5, 6, 8])
def test_evaluate_has_no_code_for_these_gathers(version: int) -> None:
    kinds = (openvino.Type.f32, openvino.Type.i64)
    parameters = [openvino.op.Parameter(kind, openvino.PartialShape([2, 2])) for kind in kinds]
    operations = getattr(openvino, f"opset{version}")
    node = operations.gather_elements(*parameters, axis=0) if version == 6 else operations.gather_nd(*parameters)
    model = openvino.Model([node], parameters, "one_gather")
    tensors = [openvino.Tensor(np.zeros((2, 2), kind)) for kind in (np.float32, np.int64)]
    output = openvino.Tensor(np.zeros(tuple(node.get_output_shape(0)), np.float32))
    with pytest.raises(RuntimeError, match="Evaluation failed"):
        model.evaluate([output], tensors)


def compiled(node: Any, parameter: Any, data: Array) -> Array:
    model = openvino.Model([node], [parameter], "one_slice")
    found: Array = np.array(openvino.Core().compile_model(model, "CPU")([data])[0])
    return found


def test_evaluate_and_the_cpu_plugin_disagree_on_a_masked_begin_of_a_shrunk_dimension() -> None:
    call = FamilyCall(
        "StridedSlice",
        1,
        (np.arange(5, dtype=np.float32),),
        {"begin": [2], "end": [3]}
        | {
            "begin_mask": [1],
            "shrink_axis_mask": [1],
        },
    )
    (data,) = call.arrays
    parameter = openvino.op.Parameter(openvino.Type.f32, openvino.PartialShape([5]))
    bounds = [openvino.op.Constant(np.array([value])) for value in (2, 3, 1)]
    node = openvino.opset1.strided_slice(parameter, *bounds, [1], [0], [], [1], [])
    evaluated = judge(call)
    assert not isinstance(evaluated, Refusal)
    assert content(evaluated) == content(ours(call)) == content(np.array(2, np.float32))
    assert compiled(node, parameter, data) == 0


def test_masks_of_different_lengths_are_in_the_page_and_not_in_openvino() -> None:
    data = np.arange(24).reshape(2, 3, 4)
    masks: dict[str, Any] = {"begin_mask": [0, 1, 1], "end_mask": [1, 1, 1], "new_axis_mask": [0] * 5, "shrink_axis_mask": [0, 0]}
    found = dg.openvino.strided_slice(data, [1, 1, 123], [0, 0, 2], [1, 1, -1], **masks, ellipsis_mask=[0])
    assert found.tobytes() == data[1:, :, ::-1].tobytes()
    parameter = openvino.op.Parameter(openvino.Type.i64, openvino.PartialShape([2, 3, 4]))
    bounds = [openvino.op.Constant(np.array(values)) for values in ([1, 1, 123], [0, 0, 2], [1, 1, -1])]
    with pytest.raises(RuntimeError, match="masks of StridedSlice must have the same size"):
        openvino.opset1.strided_slice(parameter, *bounds, *masks.values(), [0])


def test_random_calls_hold_what_is_hard() -> None:
    drawn = [good_call(seed) for seed in range(4000)]
    strided = [call.more for call in drawn if call.operation == "StridedSlice"]
    for one in ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask"):
        for other in ("begin_mask", "end_mask", "new_axis_mask", "shrink_axis_mask", "ellipsis_mask"):
            assert any(1 in more[one] and 1 in more[other] for more in strided), (one, other)
    assert any("strides" not in more for more in strided)
    assert any(len(more["begin_mask"]) > len(more["begin"]) for more in strided)
    assert any(len(more["begin_mask"]) < len(more["begin"]) for more in strided)
    judged_ones = [call for call in drawn if call.operation in SLICES and is_judged(call)]
    assert any(0 in expected(call).shape for call in judged_ones)
    assert any(call.version == 5 and call.more["batch_dims"] > 1 for call in drawn)
    assert any(call.operation == "GatherND" and not call.arrays[1].shape[-1] for call in drawn)
