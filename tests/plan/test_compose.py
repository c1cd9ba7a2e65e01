"""Composition: one plan gives the result of two plans in sequence. Judge: the reference backend, run twice."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dmlgather.backends import reference
from dmlgather.plan import IndexPlan, Lookup, OutOfBounds, canonicalise, packed_strides
from dmlgather.plan.compose import compose
from dmlgather.plan.walk import CompositionError
from dmlgather.selftest.random_plans import random_buffers, random_plan
from tests.backends.shapes import Kind, gather

seeds = st.integers(0, 2**64 - 1).map(random.Random)


def packed_view(shape: tuple[int, ...], rng: random.Random) -> IndexPlan:
    """Return a random crop, step, flip, permutation or flattening of a packed tensor of `shape`, with a packed output."""
    starts, steps, counts = [], [], []
    for size in shape:
        step = rng.choice((1, 1, 1, 2, -1))
        count = rng.randint(1, (size + abs(step) - 1) // abs(step)) if rng.random() < 0.5 else (size + abs(step) - 1) // abs(step)
        slack = size - 1 - (count - 1) * abs(step)
        starts.append(rng.randint(0, slack) + (0 if step > 0 else (count - 1) * -step))
        steps.append(step)
        counts.append(count)
    strides = packed_strides(shape)
    order = rng.sample(range(len(shape)), len(shape)) if rng.random() < 0.5 else range(len(shape))
    out_shape = tuple(counts[axis] for axis in order)
    elements = int(np.prod(shape, dtype=int))
    return IndexPlan(
        shape=out_shape,
        out_strides=packed_strides(out_shape),
        in_strides=tuple(steps[axis] * strides[axis] for axis in order),
        element_bytes=4,
        in_extent=elements,
        out_extent=int(np.prod(out_shape, dtype=int)),
        in_offset=sum(start * step for start, step in zip(starts, strides, strict=True)),
    )


def run_both(outer: IndexPlan, inner: IndexPlan, rng: random.Random) -> None:
    """Assert that the composed plan gives the bits of `inner` followed by `outer`."""
    together = compose(outer, inner)
    first, second = random_buffers(inner, rng), random_buffers(outer, rng)
    bad = reference.run(inner, first.data, first.indices, first.out)
    expected = second.out.copy()
    indices = first.indices if inner.lookups else second.indices
    if bad is None:
        middle = first.out.view("u1")[: outer.in_extent * outer.element_bytes].view(f"V{outer.element_bytes}")
        bad = reference.run(outer, middle, second.indices, expected)
    found = second.out.copy()
    assert reference.run(together, first.data, indices, found) == bad
    if bad is None:
        assert found.tobytes() == expected.tobytes()


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_any_two_plans_compose_to_the_same_bits_or_are_refused(rng: random.Random) -> None:
    inner = random_plan(rng, element_bytes=4, elements=60)
    outer = random_plan(rng, element_bytes=4, elements=60, lookups=rng.choice((0, 0, 1)) if not inner.lookups else 0)
    assume(outer.in_extent <= inner.out_extent)
    try:
        run_both(outer, inner, rng)
    except CompositionError:
        return


@settings(max_examples=300, deadline=None)
@given(seeds)
def test_views_of_packed_results_always_compose(rng: random.Random) -> None:
    shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 4)))
    inner = packed_view(shape, rng)
    run_both(packed_view(inner.shape, rng), inner, rng)


@pytest.mark.parametrize("policy", list(OutOfBounds))
def test_views_and_gathers_compose_both_ways(policy: OutOfBounds) -> None:
    rng = random.Random(5)
    rows = gather((4, 6), (5,), 0, Kind(policy=policy)).plan
    transposed = IndexPlan((6, 5), (5, 1), (1, 6), 4, 30, 30)
    run_both(transposed, rows, rng)  # a view of a gather
    flipped = IndexPlan((4, 6), (6, 1), (-6, -1), 4, 24, 24, in_offset=23)
    run_both(rows, flipped, rng)  # a gather of a view


def test_a_chain_of_slices_is_one_canonical_slice() -> None:
    crop = IndexPlan((6,), (1,), (1,), 4, 10, 6, in_offset=2)
    every_other = IndexPlan((3,), (1,), (2,), 4, 6, 3)
    last_first = IndexPlan((3,), (1,), (-1,), 4, 3, 3, in_offset=2)
    chain = compose(last_first, compose(every_other, crop))
    assert canonicalise(chain) == canonicalise(IndexPlan((3,), (1,), (-2,), 4, 10, 3, in_offset=6))


def test_a_flat_view_of_a_padded_tensor_is_split_at_rows() -> None:
    pad = IndexPlan((4, 6), (6, 1), (8, 1), 4, 32, 24)
    flat = IndexPlan((24,), (1,), (1,), 4, 24, 24)
    assert canonicalise(compose(flat, pad)) == canonicalise(pad)


GATHER = gather((5,), (4,)).plan


def test_plans_with_different_index_tensors_do_not_compose() -> None:
    with pytest.raises(CompositionError, match="one index tensor"):
        compose(replace(GATHER, in_extent=4, lookups=(Lookup((1,), 0, 4, 4, 1),)), GATHER)


def test_composition_may_not_skip_checks_of_raise() -> None:
    first_half = IndexPlan((2,), (1,), (1,), 4, 4, 2)
    compose(first_half, GATHER)
    with pytest.raises(CompositionError, match="reads 2 of 4 positions"):
        compose(first_half, replace(GATHER, out_of_bounds=OutOfBounds.RAISE))
    nothing = IndexPlan((0,), (1,), (1,), 4, 4, 0)
    with pytest.raises(CompositionError, match="no longer be checked"):
        compose(nothing, replace(GATHER, out_of_bounds=OutOfBounds.RAISE))


def test_reading_elements_that_were_not_written_is_refused() -> None:
    spread = IndexPlan((4,), (2,), (1,), 4, 4, 7)
    with pytest.raises(CompositionError, match="falls between the elements"):
        compose(IndexPlan((7,), (1,), (1,), 4, 7, 7), spread)
