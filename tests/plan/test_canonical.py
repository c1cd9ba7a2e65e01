"""The canonical form keeps every bit, and is the same for equivalent plans. Judge: the reference backend."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgather.backends import reference
from dmlgather.plan import ELEMENT_BYTES, IndexPlan, IndexType, Lookup, OutOfBounds, canonicalise, narrow, packed_strides
from dmlgather.selftest.random_plans import PlanBuffers, random_buffers, random_plan
from tests.backends.shapes import Kind, gather

seeds = st.integers(0, 2**64 - 1).map(random.Random)


def execute(plan: IndexPlan, buffers: PlanBuffers) -> tuple[int | None, bytes]:
    """Run any form of a plan over the same bytes."""
    data = buffers.data.view("u1")[: plan.in_extent * plan.element_bytes].view(f"V{plan.element_bytes}")
    out = buffers.out.view("u1").copy()
    bad = reference.run(plan, data, buffers.indices, out[: plan.out_extent * plan.element_bytes].view(f"V{plan.element_bytes}"))
    return bad, out.tobytes() if bad is None else b""


@settings(max_examples=400, deadline=None)
@given(seeds)
def test_the_canonical_form_writes_the_same_bits(rng: random.Random) -> None:
    plan = random_plan(rng, elements=200)
    buffers = random_buffers(plan, rng)
    assert execute(canonicalise(plan), buffers) == execute(plan, buffers)


@settings(max_examples=400, deadline=None)
@given(seeds)
def test_the_canonical_form_is_a_fixed_point_at_every_width(rng: random.Random) -> None:
    plan = canonicalise(random_plan(rng))
    assert canonicalise(plan) == plan
    for widest in ELEMENT_BYTES:
        if plan.fill and widest < plan.element_bytes and plan.fill != plan.fill[:widest] * (plan.element_bytes // widest):
            with pytest.raises(ValueError, match="cannot be written by aligned pieces"):
                narrow(plan, widest)
        elif widest <= plan.element_bytes:
            assert canonicalise(plan, widest).element_bytes <= widest
            assert canonicalise(canonicalise(plan, widest)) == plan


@settings(max_examples=200, deadline=None)
@given(seeds)
def test_plans_with_the_same_meaning_get_the_same_form(rng: random.Random) -> None:
    plan = random_plan(rng)
    if plan.empty:
        plan = random_plan(rng, rank=0)
    assert canonicalise(_disguised(plan, rng)) == canonicalise(plan)


@settings(max_examples=400, deadline=None)
@given(seeds)
def test_checks_without_output_name_the_same_bad_index(rng: random.Random) -> None:
    plan = _emptied(random_plan(rng, lookups=rng.randint(1, 3), out_of_bounds=OutOfBounds.RAISE))
    form = canonicalise(plan)
    assert canonicalise(form) == form
    if len({item.index_offset for item in form.lookups}) == len(form.lookups):  # otherwise their order may be the caller's
        assert canonicalise(_disguised(plan, rng)) == form
    buffers = random_buffers(plan, rng)
    assert execute(form, buffers) == execute(plan, buffers)


def _emptied(plan: IndexPlan) -> IndexPlan:
    """Return the same indices with an additional dimension of size 0, along which none of them moves."""
    return replace(
        plan,
        shape=(0, *plan.shape),
        out_strides=(0, *plan.out_strides),
        in_strides=(0, *plan.in_strides),
        lookups=tuple(replace(item, index_strides=(0, *item.index_strides)) for item in plan.lookups),
    )


def _disguised(plan: IndexPlan, rng: random.Random) -> IndexPlan:
    """Return the same copy in another form: an additional dimension of size 1, reordered dimensions, one of them reversed."""
    order = [*range(plan.rank), plan.rank]
    rng.shuffle(order)
    backwards = rng.randrange(plan.rank) if plan.rank else -1

    def strides(given: tuple[int, ...]) -> tuple[int, ...]:
        turned = [-step if axis == backwards else step for axis, step in enumerate(given)]
        return tuple([*turned, rng.randint(-9, 9)][axis] for axis in order)

    def start(offset: int, given: tuple[int, ...]) -> int:
        return offset + (plan.shape[backwards] - 1) * given[backwards] if backwards >= 0 else offset

    return replace(
        plan,
        shape=tuple([*plan.shape, 1][axis] for axis in order),
        in_strides=strides(plan.in_strides),
        out_strides=strides(plan.out_strides),
        in_offset=start(plan.in_offset, plan.in_strides),
        out_offset=start(plan.out_offset, plan.out_strides),
        lookups=tuple(
            replace(item, index_strides=strides(item.index_strides), index_offset=start(item.index_offset, item.index_strides))
            for item in rng.sample(plan.lookups, len(plan.lookups))
        ),
    )


def rows(count: int, width: int, element_bytes: int) -> IndexPlan:
    """Return a gather of `count` rows from a table of 10."""
    return gather((10, width), (count,), 0, Kind(element_bytes, IndexType.INT32)).plan


@pytest.mark.parametrize(
    ("width", "element_bytes", "expected_shape", "expected_bytes"),
    [
        (384, 4, (7, 96), 16),  # a row of an embedding
        (4, 4, (7,), 16),  # exactly one vector: the dimension disappears
        (6, 4, (7, 3), 8),
        (3, 4, (7, 3), 4),  # an odd width stays
        (5, 2, (7, 5), 2),
        (64, 1, (7, 4), 16),
        (2, 16, (7, 2), 16),
    ],
)
def test_rows_get_the_widest_elements_that_divide_them(
    width: int, element_bytes: int, expected_shape: tuple[int, ...], expected_bytes: int
) -> None:
    form = canonicalise(rows(7, width, element_bytes))
    assert (form.shape, form.element_bytes) == (expected_shape, expected_bytes)


def test_rows_of_any_type_with_the_same_bytes_are_one_plan() -> None:
    assert canonicalise(rows(7, 64, 4)) == canonicalise(rows(7, 32, 8)) == canonicalise(rows(7, 256, 1))


def test_a_pitch_that_does_not_divide_keeps_elements_narrow() -> None:
    plan = rows(7, 8, 4)
    padded = replace(plan, out_strides=(9, 1), out_extent=9 * 7)
    assert canonicalise(padded).element_bytes == 4
    padded = replace(plan, lookups=(replace(plan.lookups[0], in_stride=10),), in_extent=98)
    assert canonicalise(padded).element_bytes == 8


def test_a_lookup_without_effect_is_dropped_under_clamp() -> None:
    plan = replace(rows(7, 4, 4), lookups=(Lookup((1, 0), 0, limit=1, wrap=1, in_stride=4),))
    assert canonicalise(plan).lookups == ()
    assert canonicalise(plan).index_type is None
    assert len(canonicalise(replace(plan, out_of_bounds=OutOfBounds.RAISE)).lookups) == 1
    assert len(canonicalise(replace(plan, out_of_bounds=OutOfBounds.FILL, fill=b"abcd")).lookups) == 1


def test_strides_without_effect_become_zero() -> None:
    indexed = rows(3, 4, 4)
    raising = replace(indexed, out_of_bounds=OutOfBounds.RAISE)
    (lookup,) = raising.lookups
    one = replace(raising, lookups=(replace(lookup, limit=1, wrap=1, in_stride=2**100),))
    assert [item.in_stride for item in canonicalise(one).lookups] == [0]
    none = replace(
        raising, in_strides=(2**80, -1), in_offset=2**90, lookups=(replace(lookup, limit=0, wrap=0, in_stride=-(2**70)),)
    )
    form = canonicalise(none)
    assert (form.in_offset, {*form.in_strides}, form.lookups[0].in_stride, form.in_extent) == (0, {0}, 0, 0)


def test_an_empty_output_under_raise_keeps_its_lookups() -> None:
    plan = replace(rows(7, 0, 4), out_of_bounds=OutOfBounds.RAISE)
    form = canonicalise(plan)
    assert form.shape == (0, 7)
    assert form.index_shape == (1, 7)
    assert canonicalise(rows(7, 0, 4)).lookups == ()


def test_a_contiguous_copy_is_one_dimension() -> None:
    shape = (4, 6, 8)
    plan = IndexPlan(shape, packed_strides(shape), packed_strides(shape), 2, 192, 192)
    form = canonicalise(plan)
    assert (form.shape, form.element_bytes) == ((24,), 16)
