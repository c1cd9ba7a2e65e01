"""The kernels give the reference's bits in the interpreter, which checks each access. Plans: random ones, every variant and every
instruction of its PTX, split ones, and the extremes of every index type.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dmlgather.backends.cuda import launch
from dmlgather.backends.cuda.driver import kernel_source
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.variants import VARIANTS, KernelKind, Variant
from dmlgather.plan import IndexPlan, IndexType, OutOfBounds
from dmlgather.selftest.random_plans import EXTREMES, PlanBuffers, random_buffers, random_plan, random_runs, unwritable_fill
from tests.kernels.plans import row_gather
from tests.kernels.ptx import runs
from tests.kernels.ptx.compile import ARCHITECTURES
from tests.kernels.ptx.coverage import UNREACHABLE, executed, never_executed
from tests.kernels.ptx.draws import case_for
from tests.kernels.ptx.machine import Violation
from tests.kernels.ptx.runs import AS_WRITTEN, Case, Kernels, differs

seeds = st.integers(0, 2**64 - 1).map(random.Random)


@settings(max_examples=350, deadline=None)
@given(seeds, st.sampled_from((16, 8, 4, 2, 1)), st.booleans(), st.sampled_from((0, 132)))
def test_random_plans_equal_the_reference(rng: random.Random, alignment: int, specialise: bool, multiprocessors: int) -> None:
    plan = random_plan(rng)
    if unwritable_fill(plan, alignment):
        with pytest.raises(ValueError, match="cannot be written by aligned pieces"):
            launches_for(plan, alignment)
    else:
        buffers = random_buffers(plan, rng)
        assert not differs(Case.of(plan, buffers, alignment, specialise=specialise, multiprocessors=multiprocessors))


@settings(max_examples=200, deadline=None)
@given(seeds, st.sampled_from((16, 8, 4, 2, 1)), st.sampled_from((0, 132)))
def test_random_long_runs_equal_the_reference(rng: random.Random, alignment: int, multiprocessors: int) -> None:
    plan = random_runs(rng)
    alignment = plan.element_bytes if unwritable_fill(plan, alignment) else alignment
    assert not differs(Case.of(plan, random_buffers(plan, rng), alignment, multiprocessors=multiprocessors))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_every_variant_executes_all_of_its_instructions(variant: Variant, rng: random.Random) -> None:
    """The test runs at least 4 plans, and more until the kernel has executed all of its PTX. Spans sometimes need hundreds."""
    unreachable, _ = UNREACHABLE.get(variant.kind, (0, ""))
    for number in range(5000):
        if number >= 4 and (~executed(variant)).sum() <= unreachable:
            break
        assert not differs(case_for(variant, rng))
    left = never_executed(variant)
    assert len(left) <= unreachable, "\n".join(left)


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name != AS_WRITTEN.architecture])
def test_other_architectures_equal_the_reference(architecture: str, rng: random.Random) -> None:
    """This is a sample of kernels, each compiled alone like in a user's first call. ci/heavy interpret runs all kernels."""
    kernels = Kernels(architecture, kernel_source)
    for variant in rng.sample(VARIANTS, 8):
        for _ in range(5):
            assert not differs(case_for(variant, rng), kernels)


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(20, 300), st.sampled_from((random_plan, random_runs)))
def test_plans_with_too_many_threads_are_split(rng: random.Random, most: int, draw: Callable[..., IndexPlan]) -> None:
    plan = draw(rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "MAX_THREADS", most)
        assert all(part.grid <= most for part in launches_for(plan, 16, 0))
        assert not differs(Case.of(plan, random_buffers(plan, rng)))


@pytest.mark.parametrize("kind", list(IndexType), ids=lambda kind: kind.name)
@pytest.mark.parametrize("policy", list(OutOfBounds), ids=lambda policy: policy.name)
@pytest.mark.parametrize(("element_bytes", "row"), [(1, 3), (2, 3), (4, 3), (8, 3), (16, 3), (1, 101)])
def test_extreme_indices_equal_the_reference(
    kind: IndexType, policy: OutOfBounds, element_bytes: int, row: int, rng: random.Random
) -> None:
    """One bad value at a time lies among good ones, at each walked position of a thread."""
    size = 5
    info = np.iinfo(kind.value.lower())
    values = [info.min, info.max, -size - 1, -size, -1, size - 1, size, *EXTREMES]
    for value in (value for value in values if info.min <= value <= info.max):
        indices: NDArray[Any] = np.arange(24, dtype=info.dtype) % size
        indices[7] = value
        fill = b"\xab" * element_bytes if policy is OutOfBounds.FILL else b""
        plan = replace(row_gather(size, 24, row, element_bytes, kind), out_of_bounds=policy, fill=fill)
        data = np.frombuffer(rng.randbytes(size * row * element_bytes), f"V{element_bytes}")
        assert not differs(Case.of(plan, PlanBuffers(data, indices, np.zeros(24 * row, data.dtype))))


def test_accesses_outside_a_buffer_or_misaligned_are_violations(rng: random.Random) -> None:
    variant = Variant(KernelKind.GATHER, 2, 16, lookups=1, index_bytes=8, checked=False, invariant=True)
    whole = case_for(variant, rng)
    plan, buffers = whole.plan, whole.buffers
    assert not differs(whole)
    with pytest.raises(Violation, match="which is not a multiple of 16"):
        differs(replace(whole, in_at=8, out_at=8))
    last, size = plan.out_reach, plan.element_bytes
    assert last is not None
    assert buffers.indices is not None
    short_out = buffers.out.view(np.uint8)[: (last[1] + 1) * size - 1]
    with pytest.raises(Violation, match="outside every buffer"):
        runs.execute(replace(whole, buffers=replace(buffers, out=short_out)))
    with pytest.raises(Violation, match="outside every buffer"):
        runs.execute(replace(whole, buffers=replace(buffers, indices=buffers.indices[:0])))


def test_most_buffers_lie_across_a_multiple_of_2_to_the_32(rng: random.Random) -> None:
    size = 4000
    found = [runs.address(rng, number % 5, size, number % 16) for number in range(1000)]
    assert [place % 16 for place in found] == [number % 16 for number in range(1000)]
    across = [place // 2**32 < (place + size - 1) // 2**32 for place in found]
    assert sum(across) > 900
