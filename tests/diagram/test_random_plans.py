"""Pictures of random plans of any rank, strides, lookups and policy. Judge: the reference backend."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgather.backends import reference
from dmlgather.diagram import draw, of_plan
from dmlgather.plan import IndexPlan, OutOfBounds, overlaps
from dmlgather.selftest.random_plans import random_indices, random_plan
from tests.backends.shapes import readable
from tests.diagram.parsed import Picture

FILL = -1


def runnable(rng: random.Random) -> IndexPlan:
    """Return a random plan of 8-byte elements that can run."""
    while True:
        plan = random_plan(rng, element_bytes=8)
        filled = plan.out_of_bounds is OutOfBounds.FILL
        plan = replace(plan, fill=np.int64(FILL).tobytes() if filled else b"")
        if readable(plan):
            return plan


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_a_diagram_of_a_plan_shows_what_the_reference_reads(seed: int) -> None:
    rng = random.Random(seed)
    plan = runnable(rng)
    indices = random_indices(plan, rng)
    subject = of_plan(plan) if indices is None else of_plan(plan).with_values(indices)
    picture = Picture(draw(subject))
    out = np.full(plan.out_extent, -2, np.int64)
    bad = reference.run(plan, np.arange(plan.in_extent), indices, out)
    shown = picture.boxes.get("output", {})
    outcomes = {box.outcome for box in shown.values()}
    assert len(picture.joins) <= 24
    if plan.empty:
        assert not shown
        assert "has no elements" in picture.words
        return
    if bad is not None:
        assert outcomes <= {"valid", "refused"}
        return
    expected = {at: int(out[plan.out_offset + sum(c * s for c, s in zip(at, plan.out_strides, strict=True))]) for at in shown}
    assert picture.texts["output"] == {at: "fill" if value == FILL else str(value) for at, value in expected.items()}
    assert outcomes <= {"valid", "filled" if plan.out_of_bounds is OutOfBounds.FILL else "clamped"}
    for join in picture.joins:
        assert [source[0] for source in join.sources] == [expected[at] for at in join.targets]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_a_plan_without_known_indices_has_a_diagram(seed: int) -> None:
    """Output addresses differ, so each cell has a separate place and nothing is drawn twice."""
    plan = runnable(random.Random(seed))
    text = draw(of_plan(plan))
    picture = Picture(text)
    assert text == draw(of_plan(plan))
    assert not overlaps(plan.shape, plan.out_strides)
    places = [(box.x, box.y) for box in picture.boxes.get("output", {}).values()]
    assert len(places) == len(set(places))
