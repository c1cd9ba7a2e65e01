"""Random calls judged by JAX on the CPU and by the specification: bits and refusals."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from hypothesis import given, settings

from tests.dialects.drafting import EXTREMES, seeds
from tests.dialects.outcomes import check_good, content
from tests.gpus import NUMBERS
from tests.lax.calling import kernels, run
from tests.lax.drafts import MODES, Range, good
from tests.lax.faults import FAULTS, Fault
from tests.lax.judge import judge, judged_content, refusal
from tests.lax.specification import INTEGERS, TYPES, Call, expected
from tests.lax.strategies import NARROW_INTEGERS, NARROW_TYPES, any_call, any_calls, broken_call, judged_call
from tests.peers.faults import PeerFault, leaves_out_at_most
from tests.peers.jax import BITS, LAX

TOGETHER = 50
"""Calls that JAX compiles at once."""


@pytest.mark.slow
@pytest.mark.parametrize("x64", [True, False])
@leaves_out_at_most(0.2)
@settings(max_examples=6, deadline=None)
@given(seed=seeds)
def test_every_device_does_what_jax_does(x64: bool, seed: int) -> None:
    calls = [judged_call(seed + number, x64) for number in range(TOGETHER)]
    calls = [call for call in calls if LAX.known_fault(call) is None]
    for call, verdict in zip(calls, judge(calls), strict=True):
        right = expected(call)
        compared = judged_content if BITS.known_fault(call) else content
        assert compared(right) == compared(verdict), f"the specification of {call}"
        check_good(call, right, run)


@pytest.mark.parametrize("fault", [*LAX.faults, *BITS.faults], ids=lambda fault: fault.title)
def test_where_jax_is_wrong_this_is_not(fault: PeerFault[Call]) -> None:
    check_good(fault.example, expected(fault.example), run)


@settings(max_examples=200, deadline=None)
@given(any_calls)
def test_every_device_does_what_the_page_says_at_full_width(call: Call) -> None:
    check_good(call, expected(call), run)


@pytest.mark.gpu
@settings(max_examples=300, deadline=None)
@given(any_calls)
def test_a_gpu_does_what_the_page_says(call: Call) -> None:
    if call.operand.dtype in NUMBERS:
        assert content(kernels(call)) == content(expected(call)), call


def outcome(call: Call) -> Exception:
    with pytest.raises((TypeError, ValueError)) as found:
        run(call)
    return found.value


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_every_fault(fault: Fault, seed: int) -> None:
    call = broken_call(seed, fault)
    found = outcome(call)
    assert type(found) is fault.raises, f"{call}: got {found!r}"
    if fault.judged:
        verdict = refusal(call)
        assert type(verdict) is fault.raises, f"{call}: JAX says {verdict!r}"


PHRASES = {
    r"Gather index leaf dimension must": r"start_indices has rank 0",
    r"(\w+) in gather op must be sorted": r"{} is .*; expected ascending order",
    r"(\w+) in gather op must not repeat": r"{} is .*; expected each dimension once",
    r"Offset dimension \d+ in gather op": r"offset_dims is .*; expected dimensions of the result",
    r"Gather op has \d+ elements in start_index_map": r"start_index_map is .*; expected \d+ entr",
    r"Invalid start_index_map": r"start_index_map is .*; expected dimensions of operand",
    r"Invalid (\w+) set in gather op": r"{} is .*; expected dimensions of \w+",
    r"(\w+) and \w+ in gather op must be disjoint": r"{} is .* and operand_batching_dims is .*; .* no dimension in both",
    r"cannot have the index vector dimension": r"start_indices_batching_dims is .*; expected other dimensions than \d+",
    r"requires equal numbers of": r"operand_batching_dims is .* and start_indices_batching_dims is .*; expected equal lengths",
    r"dimensions to have the same shape": r"batching dimension \d+ of operand has size",
    r"must have one slice size for every": r"slice_sizes is .*; expected \d+ entr.* one per dimension",
    r"All components of the offset index": r"slice_sizes is .*, offset_dims .*, collapsed_slice_dims .*, operand_batching_dims",
    r"Slice size at index (\d+)": r"slice_sizes\[{}\] is .*; expected 0 … ",
    r"can only collapse slice dims .* index (\d+) at": r"slice_sizes\[{}\] is .*; expected 1, because collapsed",
    r"can only have operand batching dims .* index (\d+) at": r"slice_sizes\[{}\] is .*; expected 1, because operand_batching",
}
"""What JAX's check says -> what ours says, with the name or number that JAX gave."""

SHAPE_FAULTS = FAULTS[: [fault.name for fault in FAULTS].index("slice size type")]


def broken_twice(seed: int) -> Call:
    """The call of a seed with one fault or several, whichever are seen."""
    rng = random.Random(seed)
    while True:
        draft = good(rng, ("float32",), ("int32",), "clip", x64=False, values=Range(outside=False))
        faults = rng.sample(SHAPE_FAULTS, rng.randint(1, 3))
        try:
            broken = all(fault.breaks(rng, draft) is not False for fault in faults)
        except IndexError:  # a fault that cannot follow another
            continue
        if broken and draft.operand.ndim:
            return draft.finished(rng, " and ".join(fault.name for fault in faults), seed)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(seed=seeds)
def test_of_several_faults_the_one_is_named_that_jax_names(seed: int) -> None:
    call = broken_twice(seed)
    verdict = refusal(call)
    if verdict is None:  # one fault mended the other
        assert content(run(call)) == content(expected(call))
        return
    assert isinstance(verdict, TypeError), f"{call}: JAX says {verdict!r}"
    (phrase, named), *more = [
        (meaning, found.groups()) for theirs, meaning in PHRASES.items() if (found := re.search(theirs, str(verdict)))
    ]
    assert not more
    ours = outcome(call)
    assert type(ours) is TypeError
    assert re.match(phrase.format(*named), str(ours)), f"{call}: JAX says {verdict}; got {ours}"


def test_every_check_is_met_by_some_fault() -> None:
    verdicts = [str(refusal(broken_call(seed, fault))) for fault in SHAPE_FAULTS for seed in range(3)]
    for phrase in PHRASES:
        assert any(re.search(phrase, verdict) for verdict in verdicts), phrase


def test_random_calls_hold_what_is_hard() -> None:
    drawn = [judged_call(seed, bool(seed % 2)) for seed in range(3000)]
    assert {call.operand.dtype for call in drawn if call.x64} == set(TYPES)
    assert {call.operand.dtype for call in drawn if not call.x64} == set(NARROW_TYPES)
    assert {call.start_indices.dtype for call in drawn if call.x64} == set(INTEGERS)
    assert {call.start_indices.dtype for call in drawn if not call.x64} == set(NARROW_INTEGERS)
    assert {call.mode for call in drawn} == set(MODES)
    assert any(call.operand.ndim == 0 for call in drawn)
    assert any(0 in call.operand.shape and 0 not in call.start_indices.shape for call in drawn)
    assert any(0 in call.slice_sizes for call in drawn)
    assert any(call.start_indices.shape[-1] == 0 and 0 not in call.start_indices.shape[:-1] for call in drawn)
    assert any(size > most for call in drawn for size, most in zip(call.slice_sizes, call.operand.shape, strict=True))
    assert any(1 < size < most for call in drawn for size, most in zip(call.slice_sizes, call.operand.shape, strict=True))
    assert any(len(call.numbers[3]) == 2 and call.numbers[4][0] > call.numbers[4][1] for call in drawn)
    assert any(list(call.numbers[2]) != sorted(call.numbers[2]) for call in drawn)
    filled = [call for call in drawn if call.mode == "fill" and np.asarray(expected(call)).size]
    assert sum(content(expected(call)) != content(run(call, out_of_bounds="clamp")) for call in filled) > 50
    values = {int(value) for seed in range(3000) for value in np.unique(any_call(seed).start_indices)}
    assert values.issuperset(EXTREMES)
