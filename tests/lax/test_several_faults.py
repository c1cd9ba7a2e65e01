"""Of several faults of a call, the one is named that JAX names."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings

from tests.dialects.drafting import seeds
from tests.dialects.outcomes import Refusal, content
from tests.lax.calling import run
from tests.lax.drafts import Range, good
from tests.lax.faults import FAULTS
from tests.lax.judge import refusal
from tests.lax.specification import Call, expected

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
    if not isinstance(verdict, Refusal):  # one fault mended the other
        assert content(run(call)) == content(expected(call))
        return
    assert verdict.kind is TypeError, f"{call}: JAX says {verdict}"
    (phrase, named), *more = [
        (meaning, found.groups()) for theirs, meaning in PHRASES.items() if (found := re.search(theirs, verdict.message))
    ]
    assert not more
    with pytest.raises(TypeError) as ours:
        run(call)
    assert ours.type is TypeError
    assert re.match(phrase.format(*named), str(ours.value)), f"{call}: JAX says {verdict.message}; got {ours.value}"
