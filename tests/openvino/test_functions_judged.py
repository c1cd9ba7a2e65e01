"""Random calls of every version, judged by OpenVINO's `Model.evaluate` and by the specification: bits and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import dmlgather as dg
from tests.dialects.drafting import EXTREMES, seeds
from tests.dialects.outcomes import Refusal, check_broken, check_good, content, outcome
from tests.gpus import NUMBERS, placed
from tests.openvino.faults import FAULTS, Fault
from tests.openvino.judge import (
    EVALUATED_DATA,
    EVALUATED_INDICES,
    NotCoveredError,
    can_be_asked,
    judge,
    signature,
)
from tests.openvino.runtime import openvino
from tests.openvino.specification import INTEGERS, NAMES, Array, Call, expected, whole_byte_types
from tests.openvino.strategies import any_call, any_calls, broken_call, evaluated_call, evaluated_calls
from tests.peers.faults import PeerFault
from tests.peers.openvino import EVALUATE


def is_judged(call: Call) -> bool:
    """Whether OpenVINO is a judge of a call."""
    return can_be_asked(call) and EVALUATE.known_fault(call) is None


def ours(call: Call, **more: Any) -> Array | type[Exception]:
    """What the function under test does."""
    return outcome(dg.openvino.gather, *call.arguments, version=call.version, **more)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(evaluated_calls)
def test_every_device_does_what_openvino_evaluates(call: Call) -> None:
    assert is_judged(call)
    verdict = judge(call)
    assert not isinstance(verdict, Refusal), f"{call}: {verdict.message}"
    assert content(expected(call)) == content(verdict), f"the specification of {call}"
    check_good(call, verdict, ours)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(any_calls)
def test_every_device_does_what_the_page_says_in_every_type(call: Call) -> None:
    right = expected(call)
    assert signature(call) == (NAMES[right.dtype], right.shape), f"the specification of {call}"
    check_good(call, right, ours)


@pytest.mark.gpu
@settings(max_examples=300, deadline=None)
@given(any_calls)
def test_a_gpu_does_what_the_page_says(call: Call) -> None:
    if call.data.dtype in NUMBERS:
        found = dg.openvino.gather(placed(call.data), placed(call.indices), call.axis, call.batch_dims, version=call.version)
        assert content(found.get()) == content(expected(call)), call


@pytest.mark.parametrize(
    ("version", "fault"),
    [pytest.param(version, fault, id=f"{version}-{fault.name}") for fault in FAULTS for version in fault.versions],
)
@settings(max_examples=20, deadline=None)
@given(seed=seeds)
def test_every_fault_in_every_version_that_can_have_it(version: int, fault: Fault, seed: int) -> None:
    call = broken_call(seed, version, fault)
    check_broken(call, fault.raises, ours(call), outcome(expected, call), judge(call) if is_judged(call) else None)


def test_openvino_judges_every_fault_that_it_can_be_asked_about() -> None:
    unasked = {
        (fault.name, version)
        for fault in FAULTS
        for version in fault.versions
        if not any(is_judged(broken_call(seed, version, fault)) for seed in range(60))
    }
    assert unasked == {
        ("batch_dims below minus the rank of indices", 7),
        ("batch_dims below minus the rank of indices", 8),
        ("batch_dims in version 1", 1),
        ("index type", 1),
        *((name, version) for name in ("data type", "batch_dims type", "unknown version") for version in (1, 7, 8)),
    }


@pytest.mark.parametrize("fault", EVALUATE.faults, ids=lambda fault: fault.title)
def test_where_openvino_is_wrong_this_is_not(fault: PeerFault[Call]) -> None:
    assert content(ours(fault.example)) == content(outcome(expected, fault.example))


@pytest.mark.parametrize("version", [1, 7])
def test_openvino_contradicts_itself_on_negative_indices_before_version_8(version: int) -> None:
    """The pages and the CPU plugin give zero, as we do; `Model.evaluate` and constant folding count from the end."""
    data, indices = np.arange(1, 6, dtype=np.float32), np.array([0, -1, -5, -6], np.int32)
    call = Call(version, data, indices, 0)
    assert content(ours(call)) == content(np.array([1, 0, 0, 0], np.float32))
    evaluated = judge(call)
    assert not isinstance(evaluated, Refusal)
    assert content(evaluated) == content(np.array([1, 5, 1, 0], np.float32))

    def on_cpu(*inputs: Any) -> Array:
        parameters = [one for one in inputs if isinstance(one, openvino.op.Parameter)]
        node = getattr(openvino, f"opset{version}").gather(*inputs, openvino.op.Constant(np.array(0)))
        compiled = openvino.Core().compile_model(openvino.Model([node], parameters, "one_gather"), "CPU")
        found: Array = np.array(compiled([data, indices][: len(parameters)])[0])
        return found

    parameters = [
        openvino.op.Parameter(openvino.Type(array.dtype), openvino.PartialShape(list(array.shape))) for array in (data, indices)
    ]
    assert content(on_cpu(*parameters)) == content(ours(call))
    constants = [openvino.op.Constant(array) for array in (data, indices)]  # which are folded before the plugin runs
    assert content(on_cpu(*constants)) == content(evaluated)


def test_evaluate_covers_the_types_that_it_is_asked_about_and_no_others() -> None:
    def covered(data: Any, indices: Any) -> bool:
        try:
            judge(Call(8, np.zeros(3, data), np.zeros(2, indices), 0))
        except NotCoveredError:
            return False
        return True

    assert {name for dtype, name in NAMES.items() if covered(dtype, "int32")} == set(EVALUATED_DATA)
    assert {NAMES[dtype] for dtype in INTEGERS if covered("float32", dtype)} == set(EVALUATED_INDICES)


def test_the_types_are_those_of_the_installed_openvino() -> None:
    assert set(NAMES.values()) == whole_byte_types()


def test_random_calls_hold_what_is_hard() -> None:
    drawn = [evaluated_call(seed) for seed in range(600)]
    assert {NAMES[call.data.dtype] for call in drawn} == set(EVALUATED_DATA)
    floats = [call.data for call in drawn if call.data.dtype in (np.float16, np.float32)]
    assert any(np.isnan(data).any() for data in floats)
    assert any(0 in call.data.shape for call in drawn)
    assert any(0 in call.indices.shape for call in drawn)
    assert any(not call.indices.ndim for call in drawn)
    assert any(call.batch_dims < 0 and np.asarray(call.axis) < 0 for call in drawn)
    assert any(0 < call.batch_dims == call.axis for call in drawn)
    assert any(not array.flags.forc for call in drawn for array in (call.data, call.indices))
    assert any(min(array.strides, default=0) < 0 for call in drawn for array in (call.data, call.indices))
    for array in ("data", "indices"):
        assert any(
            0 in [step for size, step in zip(found.shape, found.strides, strict=True) if size > 1]
            for found in (getattr(call, array) for call in drawn)
            if found.size
        )
    values = {int(value) for seed in range(4000) for value in np.unique(any_call(seed).indices)}
    assert values.issuperset(EXTREMES)
