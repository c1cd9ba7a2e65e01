"""The host-built kernels write the reference's bits: random plans, every variant, plans that are split."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.backends.cuda import launch
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.variants import VARIANTS, Variant
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.selftest.kernel_plans import plan_for
from dmlgather.selftest.random_plans import EXTREMES, random_buffers, random_plan, random_runs, unwritable_fill
from tests.kernels import host

seeds = st.integers(0, 2**64 - 1).map(random.Random)


def agree(plan: IndexPlan, rng: random.Random, alignment: int = 16, **launching: Any) -> None:
    """The host-built kernels and the reference leave the same bits, and name the same bad index."""
    buffers = random_buffers(plan, rng)
    expected, found = buffers.out.copy(), buffers.out.copy()
    bad = reference.run(plan, buffers.data, buffers.indices, expected)
    assert host.run(plan, buffers.data, buffers.indices, found, alignment=alignment, **launching) == bad
    if bad is None:
        assert found.tobytes() == expected.tobytes()


@settings(max_examples=350, deadline=None)
@given(seeds, st.sampled_from((16, 8, 4, 2, 1)), st.booleans(), st.sampled_from((0, 132)))
def test_random_plans(rng: random.Random, alignment: int, specialise: bool, multiprocessors: int) -> None:
    plan = random_plan(rng)
    if unwritable_fill(plan, alignment):
        with pytest.raises(ValueError, match="cannot be written by aligned pieces"):
            launches_for(plan, alignment)
    else:
        agree(plan, rng, alignment, specialise=specialise, multiprocessors=multiprocessors)


@settings(max_examples=200, deadline=None)
@given(seeds, st.sampled_from((16, 8, 4, 2, 1)), st.sampled_from((0, 132)))
def test_random_runs(rng: random.Random, alignment: int, multiprocessors: int) -> None:
    """Long ones, of any length and at any offset."""
    plan = random_runs(rng)
    agree(plan, rng, plan.element_bytes if unwritable_fill(plan, alignment) else alignment, multiprocessors=multiprocessors)


@settings(max_examples=4, deadline=None)
@given(rng=seeds)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_every_variant(variant: Variant, rng: random.Random) -> None:
    plan, alignment = plan_for(variant, rng)
    agree(plan, rng, alignment)


@settings(max_examples=50, deadline=None)
@given(seeds, st.integers(1, 200), st.sampled_from((random_plan, random_runs)))
def test_plans_with_too_many_threads_are_split(rng: random.Random, most: int, draw: Callable[..., IndexPlan]) -> None:
    plan = draw(rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "MAX_THREADS", most)
        assert all(part.grid <= most for part in launches_for(plan, 16, 0))
        agree(plan, rng)


@pytest.mark.parametrize("kind", list(IndexType), ids=lambda kind: kind.name)
@pytest.mark.parametrize("policy", list(OutOfBounds), ids=lambda policy: policy.name)
@pytest.mark.parametrize(("element_bytes", "row"), [(1, 3), (2, 3), (4, 3), (8, 3), (16, 3), (1, 101)])
def test_index_extremes(kind: IndexType, policy: OutOfBounds, element_bytes: int, row: int) -> None:
    """One bad value at a time, among good ones, at each of a thread's walked positions."""
    size = 5
    info = np.iinfo(kind.value.lower())
    values = [info.min, info.max, -size - 1, -size, -1, size - 1, size, *EXTREMES]
    for value in (value for value in values if info.min <= value <= info.max):
        indices: NDArray[Any] = np.arange(24, dtype=info.dtype) % size
        indices[7] = value
        plan = IndexPlan(
            shape=(24, row),
            out_strides=(row, 1),
            in_strides=(0, 1),
            element_bytes=element_bytes,
            in_extent=size * row,
            out_extent=24 * row,
            lookups=(Lookup((1, 0), 0, size, size if kind.signed else 0, row),),
            index_type=kind,
            index_extent=24,
            out_of_bounds=policy,
            fill=b"\xab" * element_bytes if policy is OutOfBounds.FILL else b"",
        )
        data = np.frombuffer(random.randbytes(size * row * element_bytes), f"V{element_bytes}")
        expected, found = np.zeros(24 * row, data.dtype), np.zeros(24 * row, data.dtype)
        bad = reference.run(plan, data, indices, expected)
        assert host.run(plan, data, indices, found) == bad
        if bad is None:
            assert found.tobytes() == expected.tobytes()
