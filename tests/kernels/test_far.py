"""Offsets beyond 2^31 elements and 2^32 bytes, in buffers of up to 2^45 bytes."""

from __future__ import annotations

import random

import pytest

from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.variants import KernelKind
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.selftest.random_plans import unwritable_fill
from tests.kernels.ptx import far

FAR = 3 * 2**31
"""Number of elements that exceeds 32 bits, also as a byte offset of any element."""


def agree(plan: IndexPlan, rng: random.Random, alignment: int = 4, *, specialise: bool = True) -> set[KernelKind]:
    """Return the kinds of kernels whose results agree with the plan."""
    launches = launches_for(plan, alignment, 0, specialise=specialise)
    far.agree(plan, launches, rng, alignment)
    return {launch.variant.kind for launch in launches}


def test_random_far_plans_equal_the_plan(rng: random.Random) -> None:
    kinds: set[KernelKind] = set()
    for _ in range(100):
        plan = far.far_plan(rng)
        alignment = plan.element_bytes if unwritable_fill(plan, 16) else rng.choice((16, plan.element_bytes))
        kinds |= agree(plan, rng, alignment)
    assert kinds >= {KernelKind.GENERAL, KernelKind.COPY, KernelKind.GATHER}


@pytest.mark.parametrize(("row", "family"), [(12, KernelKind.GATHER), (331, KernelKind.SPAN), (12, KernelKind.GENERAL)])
@pytest.mark.parametrize("kind", [IndexType.INT32, IndexType.INT64, IndexType.UINT64], ids=lambda kind: kind.name)
def test_a_gather_reads_a_table_of_over_2_to_the_31_elements(
    kind: IndexType, row: int, family: KernelKind, rng: random.Random
) -> None:
    rows = FAR // row
    plan = IndexPlan(
        shape=(64, row),
        out_strides=(row, 1),
        in_strides=(0, 1),
        element_bytes=4,
        in_extent=rows * row,
        out_extent=64 * row,
        lookups=(Lookup((1, 0), 0, rows, 0, row),),
        index_type=kind,
        index_extent=64,
    )
    alignment = 2 if family is KernelKind.SPAN else 4  # spans move elements of at most two bytes
    assert agree(plan, rng, alignment, specialise=family is not KernelKind.GENERAL) == {family}


@pytest.mark.parametrize("size", [1, 16])
def test_specialised_kernels_address_2_to_the_45_bytes(size: int, rng: random.Random) -> None:
    rows, step = 2**31 - 1, 2**14 // size
    plan = IndexPlan(
        shape=(64, 5),
        out_strides=(5, 1),
        in_strides=(0, 1),
        element_bytes=size,
        in_extent=rows * step,
        out_extent=64 * 5,
        lookups=(Lookup((1, 0), 0, rows, rows, step),),
        index_type=IndexType.INT32,
        index_extent=64,
    )
    assert agree(plan, rng, size) == {KernelKind.GATHER}


def test_a_limit_beyond_31_bits_goes_through_the_general_kernel(rng: random.Random) -> None:
    plan = IndexPlan(
        shape=(64,),
        out_strides=(1,),
        in_strides=(0,),
        element_bytes=4,
        in_extent=FAR,
        out_extent=64,
        lookups=(Lookup((1,), 0, FAR, FAR, 1),),
        index_type=IndexType.INT64,
        index_extent=64,
        out_of_bounds=OutOfBounds.CLAMP,
    )
    assert agree(plan, rng) == {KernelKind.GENERAL}


@pytest.mark.parametrize(("row", "family"), [(3, KernelKind.COPY), (3, KernelKind.GENERAL)])
def test_a_slice_writes_elements_far_apart(row: int, family: KernelKind, rng: random.Random) -> None:
    step = 2**29 - 3  # byte counts fit 31 bits, but coordinates times steps exceed 2^31 elements
    count = FAR // step
    plan = IndexPlan((count, row), (step, 1), (row, 1), 4, count * row, (count - 1) * step + row)
    assert agree(plan, rng, specialise=family is not KernelKind.GENERAL) == {family}


def test_a_slice_reads_runs_far_apart(rng: random.Random) -> None:
    step, row = 2**29 - 3, 301
    count = FAR // step
    plan = IndexPlan((count, row), (row, 1), (step, 1), 4, (count - 1) * step + row, count * row)
    assert agree(plan, rng, 2) == {KernelKind.SPAN}


def test_a_step_of_2_to_the_31_bytes_takes_the_general_kernel(rng: random.Random) -> None:
    step = 2**30
    plan = IndexPlan((5, 2), (step, 1), (2, 1), 4, 10, 4 * step + 2)
    assert agree(plan, rng) == {KernelKind.GENERAL}


@pytest.mark.parametrize("row", [12, 301])
@pytest.mark.parametrize(("limit", "step"), [(2**31, 301), (5, 2**31), (5, -(2**31) - 1)])
def test_lookups_beyond_31_bits_go_through_the_general_kernel(limit: int, step: int, row: int, rng: random.Random) -> None:
    """Single elements, and runs that span kernels would otherwise move."""
    far = (limit - 1) * step
    plan = IndexPlan(
        shape=(64, row),
        out_strides=(row, 1),
        in_strides=(0, 1),
        element_bytes=1,
        in_extent=abs(far) + row,
        out_extent=64 * row,
        in_offset=max(0, -far),
        lookups=(Lookup((1, 0), 0, limit, 0, step),),
        index_type=IndexType.INT64,
        index_extent=64,
    )
    assert agree(plan, rng, 1) == {KernelKind.GENERAL}


@pytest.mark.parametrize(("step", "family"), [(2**31 - 1, KernelKind.SPAN), (2**31, KernelKind.GENERAL)])
def test_runs_2_to_the_31_bytes_apart_take_the_general_kernel(step: int, family: KernelKind, rng: random.Random) -> None:
    plan = IndexPlan((5, 301), (301, 1), (step, 1), 1, 4 * step + 301, 5 * 301)
    assert agree(plan, rng, 1) == {family}


def test_rows_far_apart_come_into_shared_memory(rng: random.Random) -> None:
    step, width, columns = 2**29 - 3, 260, 2100  # byte counts fit 31 bits, but coordinates times steps exceed 2^32 bytes
    rows = FAR // step
    plan = IndexPlan(
        shape=(rows, columns),
        out_strides=(columns, 1),
        in_strides=(step, 0),
        element_bytes=4,
        in_extent=(rows - 1) * step + width,
        out_extent=rows * columns,
        lookups=(Lookup((0, 1), 0, width, 0, 1),),
        index_type=IndexType.INT64,
        index_extent=columns,
    )
    assert agree(plan, rng, 16) == {KernelKind.STAGED}
