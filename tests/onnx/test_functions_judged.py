"""Random calls of every version, good and broken, judged by the specification and by onnxruntime: bits and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.dialects.drafting import seeds
from tests.dialects.outcomes import Refusal, content, outcome
from tests.onnx.calling import run
from tests.onnx.faults import FAULTS, Fault
from tests.onnx.judge import judge, strings
from tests.onnx.specification import VERSIONS, Call, expected, type_name
from tests.onnx.strategies import ROWS, broken_call, calls, faults_of, good_call
from tests.peers.faults import PeerFault, leaves_out_at_most, leaving_out_at_most
from tests.peers.onnxruntime import ONNXRUNTIME

RAISES = {fault.name: fault.raises for fault in FAULTS}


def check(call: Call) -> None:
    """The function does what both judges say, as far as they are judges, and the specification knows the fault."""
    found = outcome(run, call)
    specified = outcome(expected, call)
    assert (specified if isinstance(specified, type) else None) is RAISES.get(call.fault), f"the specification of {call}"
    assert content(found) == content(specified), f"{call}: got {found!r}, the specification says {specified!r}"
    if ONNXRUNTIME.known_fault(call) is None:
        verdict = judge(call)
        judged = verdict.kind if isinstance(verdict, Refusal) else verdict
        as_judged = found if isinstance(found, type) else strings(found)
        assert content(as_judged) == content(judged), f"{call}: got {found!r}, onnxruntime says {verdict!r}"


@pytest.mark.slow
@leaves_out_at_most(0.45)  # of types that it lacks, mostly
@settings(max_examples=600, deadline=None)
@given(calls)
def test_any_call_is_as_both_judges_say(call: Call) -> None:
    check(call)


@pytest.mark.parametrize(("operator", "version"), ROWS)
@settings(max_examples=20, deadline=None)
@given(seeds)
def test_good_calls_of_every_version(operator: str, version: int, seed: int) -> None:
    check(good_call(seed, operator, version))


@pytest.mark.parametrize(
    ("operator", "version", "fault"),
    [pytest.param(*row, fault, id=f"{row[0]}-{row[1]}-{fault.name}") for row in ROWS for fault in faults_of(*row)],
)
@settings(max_examples=3, deadline=None)
@given(seeds)
def test_every_fault_in_every_version_that_can_have_it(operator: str, version: int, fault: Fault, seed: int) -> None:
    check(broken_call(seed, operator, version, fault))


def test_most_broken_calls_are_judged() -> None:
    with leaving_out_at_most(0.4):
        for row in ROWS:
            for fault in faults_of(*row):
                for seed in range(5):
                    ONNXRUNTIME.known_fault(broken_call(seed, *row, fault))


@pytest.mark.parametrize("fault", ONNXRUNTIME.faults, ids=lambda fault: fault.title)
def test_where_onnxruntime_is_wrong_this_is_not(fault: PeerFault[Call]) -> None:
    assert content(outcome(run, fault.example)) == content(outcome(expected, fault.example))


def test_the_judges_ask_about_every_version_of_the_installed_onnx() -> None:
    from onnx import defs

    found = {(schema.name, schema.since_version) for schema in defs.get_all_schemas_with_history() if schema.domain == ""}
    assert set(ROWS) == {row for row in found if row[0] in VERSIONS}


def test_random_data_hold_what_is_hard_to_move() -> None:
    drawn = [good_call(seed, *row) for row in ROWS for seed in range(60)]
    kinds = {type_name(call.data.dtype) for call in drawn}
    assert {"tensor(bfloat16)", "tensor(complex128)", "tensor(string)", "tensor(bool)"} <= kinds
    floats = [call.data for call in drawn if call.data.dtype in (np.float16, np.float32, np.float64)]
    assert any(np.isnan(data).any() for data in floats)
    assert any(0 in call.data.shape for call in drawn)
    assert any(not array.flags.forc for call in drawn for array in call.arrays)
    assert any(0 in array.strides and array.size > 1 for call in drawn for array in call.arrays)
