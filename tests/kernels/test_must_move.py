"""The sectors that must move. Judge: sets of addresses, element by element."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from benchmarks.traffic import traffic
from dmlgather.plan import IndexPlan, IndexType, OutOfBounds, canonicalise, dot
from dmlgather.selftest.random_plans import random_plan
from tests.kernels.must_move import SECTOR, MustMove, must_move
from tests.kernels.plans import row_gather


def by_sets(plan: IndexPlan, indices: np.ndarray | None) -> MustMove:
    """Return the counts by their definition, one byte at a time."""
    plan = canonicalise(plan)
    size, width = plan.element_bytes, plan.index_type.bytes if plan.index_type else 0

    def sectors(element: int, bytes_each: int) -> set[int]:
        return {byte // SECTOR for byte in range(element * bytes_each, (element + 1) * bytes_each)}

    rows: dict[tuple[int, ...], set[int]] = {}
    looked_up: set[int] = set()
    stored: set[int] = set()
    for at in itertools.product(*map(range, plan.shape)):
        source = plan.in_offset + dot(at, plan.in_strides)
        for lookup in plan.lookups:
            place = lookup.index_offset + dot(at, lookup.index_strides)
            looked_up |= sectors(place, width)
            source += int(indices[place]) * lookup.in_stride if indices is not None else 0
        rows.setdefault(at[:-1] if plan.lookups else (), set()).update(sectors(source, size))
        stored |= sectors(plan.out_offset + dot(at, plan.out_strides), size)
    return MustMove(len(looked_up) + sum(map(len, rows.values())), len(stored), plan.elements * size)


@pytest.mark.parametrize("seed", range(150))
def test_random_plans_equal_the_count_by_sets(seed: int) -> None:
    rng = random.Random(seed)
    kind = rng.choice((IndexType.INT32, IndexType.INT64))
    plan = random_plan(rng, index_type=kind, out_of_bounds=OutOfBounds.CLAMP, lookups=rng.choice((0, 1, 1, 2)))
    if plan.empty or any(lookup.limit == 0 for lookup in plan.lookups):
        return
    least = min((lookup.limit for lookup in plan.lookups), default=1)
    indices = np.random.default_rng(seed).integers(0, least, plan.index_extent) if plan.lookups else None
    assert must_move(plan, indices) == by_sets(plan, indices)


@pytest.mark.parametrize(
    ("plan", "indices", "loaded", "stored"),
    [
        pytest.param(row_gather(100, 8, 64, 1), range(8), 2 + 8 * 2, 16, id="whole sectors, and 64 bytes of indices"),
        pytest.param(row_gather(100, 4, 64, 1), [3] * 4, 1 + 4 * 2, 8, id="a row that is read four times"),
        pytest.param(row_gather(100, 3, 40, 1), [0, 1, 3], 1 + 2 + 2 + 2, 4, id="40 bytes from 0, 40 and 120"),
        pytest.param(row_gather(100, 1, 33, 1), [31], 1 + 2, 2, id="33 bytes"),
    ],
)
def test_rows_move_the_sectors_counted_by_hand(plan: IndexPlan, indices: list[int], loaded: int, stored: int) -> None:
    found = must_move(plan, np.array(indices))
    assert (found.loaded, found.stored) == (loaded, stored)


def test_a_slice_loads_a_sector_once() -> None:
    overlapping = IndexPlan((10, 64), (64, 1), (32, 1), 4, in_extent=352, out_extent=640)
    assert must_move(overlapping, None).loaded == 352 * 4 // SECTOR
    assert must_move(overlapping, None).loaded * SECTOR == traffic(overlapping, None, SECTOR).touched_bytes
