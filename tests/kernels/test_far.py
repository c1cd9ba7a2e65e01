"""Offsets beyond 2^31 elements and 2^32 bytes, in buffers of up to 2^45 bytes."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.variants import KernelKind
from dmlgather.plan import IndexPlan, IndexType, Lookup
from dmlgather.selftest.random_plans import unwritable_fill
from tests.kernels.plans import columns_of, row_gather, slice_of
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
    plan = row_gather(rows, 64, row, 4, kind)
    alignment = 2 if family is KernelKind.SPAN else 4  # spans move elements of at most two bytes
    assert agree(plan, rng, alignment, specialise=family is not KernelKind.GENERAL) == {family}


@pytest.mark.parametrize("row", [12, 301])
@pytest.mark.parametrize(("limit", "step"), [(2**31, 301), (5, 2**31), (5, -(2**31) - 1)])
def test_lookups_beyond_31_bits_go_through_the_general_kernel(limit: int, step: int, row: int, rng: random.Random) -> None:
    """Single elements, and runs that span kernels would otherwise move."""
    far = (limit - 1) * step
    lookups = (Lookup((1, 0), 0, limit, 0, step),)
    plan = replace(row_gather(limit, 64, row, 1), in_extent=abs(far) + row, in_offset=max(0, -far), lookups=lookups)
    assert agree(plan, rng, 1) == {KernelKind.GENERAL}


def far_rows(rows: int, step: int, element_bytes: int) -> IndexPlan:
    """Return a gather of rows of five elements, which lie `step` elements apart."""
    plan = row_gather(rows, 64, 5, element_bytes, IndexType.INT32)
    return replace(plan, in_extent=rows * step, lookups=(Lookup((1, 0), 0, rows, rows, step),))


APART = 2**29 - 3
"""Elements between rows of 4 bytes: byte counts fit 31 bits, but coordinates times steps exceed 2^32 bytes."""
COUNT = FAR // APART
WIDE = replace(columns_of(COUNT, 260, 2100), in_strides=(APART, 0), in_extent=(COUNT - 1) * APART + 260)
WRITTEN = IndexPlan((COUNT, 3), (APART, 1), (3, 1), 4, COUNT * 3, (COUNT - 1) * APART + 3)


@pytest.mark.parametrize(
    ("plan", "alignment", "specialise", "family"),
    [
        pytest.param(far_rows(2**31 - 1, 2**14, 1), 1, True, KernelKind.GATHER, id="2^45 bytes"),
        pytest.param(far_rows(2**31 - 1, 2**10, 16), 16, True, KernelKind.GATHER, id="2^45 bytes of vectors"),
        pytest.param(row_gather(FAR, 64, 1, 4), 4, True, KernelKind.GENERAL, id="a limit beyond 31 bits"),
        pytest.param(WRITTEN, 4, True, KernelKind.COPY, id="elements written far apart"),
        pytest.param(WRITTEN, 4, False, KernelKind.GENERAL, id="elements written far apart, general"),
        pytest.param(slice_of((COUNT, 301), (APART, 1)), 2, True, KernelKind.SPAN, id="runs read far apart"),
        pytest.param(IndexPlan((5, 2), (2**30, 1), (2, 1), 4, 10, 2**32 + 2), 4, True, KernelKind.GENERAL, id="2^32 bytes apart"),
        pytest.param(slice_of((5, 301), (2**31 - 1, 1), 0, 1), 1, True, KernelKind.SPAN, id="runs less than 2^31 bytes apart"),
        pytest.param(slice_of((5, 301), (2**31, 1), 0, 1), 1, True, KernelKind.GENERAL, id="runs 2^31 bytes apart"),
        pytest.param(WIDE, 16, True, KernelKind.STAGED, id="rows far apart come into shared memory"),
    ],
)
def test_far_elements_get_the_expected_kernel(
    plan: IndexPlan, alignment: int, specialise: bool, family: KernelKind, rng: random.Random
) -> None:
    assert agree(plan, rng, alignment, specialise=specialise) == {family}
