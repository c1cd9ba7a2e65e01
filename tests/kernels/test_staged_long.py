"""The staged kernels for long rows: their plans, devices and blocks, and broken kernels."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from dmlgather.backends.cuda import staged
from dmlgather.backends.cuda.describe import describe
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import SHARED_BYTES, Launch
from dmlgather.backends.cuda.variants import LONG_BLOCK, VARIANTS, KernelKind
from dmlgather.plan import IndexPlan, IndexType, OutOfBounds
from dmlgather.selftest.random_plans import plan_for, random_buffers
from tests import seeds
from tests.kernels.plans import columns_of, part
from tests.kernels.ptx import runs
from tests.kernels.ptx.machine import Module, Violation
from tests.kernels.ptx.runs import Case, judged, mismatches
from tests.kernels.test_staged import check_extremes, every_index_type, every_policy, staging
from tests.noticing import BrokenPrograms

KB = 1024
VOCABULARY = columns_of(512, 50257, 50257, 2)


def parts_of(staged: Launch) -> int:
    """Return the number of blocks that share a row."""
    return part(staged, "dimension", "I")[0]


@pytest.mark.parametrize(
    ("plan", "name", "steps_and_parts", "grid_and_shared"),
    [
        pytest.param(VOCABULARY, "staged_e2_i8_long", (4, 1), (128, 201152), id="four rows for each multiprocessor"),
        pytest.param(columns_of(64, 50257, 50257, 2), "staged_e2_i8_long", (2, 4), (128, 125760), id="few rows: shared by four"),
        pytest.param(columns_of(4096, 12 * KB, 4096), "staged_e4_i8_long", (32, 1), (128, 57360), id="48 KB and the fill value"),
        pytest.param(columns_of(4096, 4096, 9000), "staged_e4_i8_long", (32, 1), (128, 34448), id="more columns than a block"),
        pytest.param(columns_of(4096, 70000, 70000, 1), "staged_e1_i8_long", (63, 2), (132, 210304), id="places of 4 bytes"),
    ],
)
def test_known_workloads_get_the_expected_staged_launch(
    plan: IndexPlan, name: str, steps_and_parts: tuple[int, int], grid_and_shared: tuple[int, int]
) -> None:
    (found,) = launches_for(plan)
    assert (found.variant.name, found.block) == (name, 1024)
    team, steps = staging(found)
    assert team == LONG_BLOCK
    assert (steps, parts_of(found)) == steps_and_parts
    assert (found.grid, found.shared_bytes) == grid_and_shared
    assert found.grid // parts_of(found) * steps >= plan.shape[0], "every row has a block"


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(columns_of(4096, 4096, 4096), id="a row that a block of the other kernels stages whole"),
        pytest.param(columns_of(4096, 60_000, 60_000), id="a row of more than 227 KB"),
        pytest.param(columns_of(4096, 50_000, 2000), id="fewer sectors than the row has"),
        pytest.param(columns_of(2, 50257, 50257, 2), id="two rows"),
    ],
)
def test_rows_too_short_too_long_or_too_few_get_other_kernels(plan: IndexPlan) -> None:
    assert KernelKind.LONG not in {found.variant.kind for found in launches_for(plan)}


@pytest.mark.parametrize(
    ("allowed", "parts"),
    [(227, 1), (163, 2), (132, 3), (110, 9), (100, None), (99, None), (64, None), (48, None)],
    ids=str,
)
def test_the_allowed_shared_memory_decides_how_rows_are_shared(allowed: int, parts: int | None) -> None:
    """Blocks share a row of 98 KB at this limit in KB. The places of their columns use the remaining memory."""
    (found,) = launches_for(VOCABULARY, 16, 132, allowed * KB)
    if parts is None:
        assert found.variant.name == "gather_d2_k1_e2_i8_clamp_once"
    else:
        assert (found.variant.kind, parts_of(found)) == (KernelKind.LONG, parts)
        assert found.shared_bytes <= allowed * KB


def test_no_launch_exceeds_the_allowed_shared_memory(rng: random.Random) -> None:
    for variant in (variant for variant in VARIANTS if variant.kind is KernelKind.LONG):
        for _ in range(20):
            allowed = rng.choice((64, 99, 163, 227)) * KB
            plan, alignment = plan_for(variant, rng, shared_bytes=allowed)
            assert {found.variant for found in launches_for(plan, alignment, 0, allowed)} == {variant}
            assert all(found.shared_bytes <= allowed for found in launches_for(plan, alignment, 0, allowed))


def test_a_kernel_without_opt_in_gets_48_kb(rng: random.Random) -> None:
    (found,) = launches_for(columns_of(3, 12 * KB, 4096), 16, 0)
    assert (found.shared_bytes, found.variant.opts_in) == (57360, True)
    module: Module = runs.AS_WRITTEN.module(found.variant)
    name, block = found.variant.name, found.block
    for asked, problem in ((48 * KB, ValueError), (57359, ValueError), (57360, Violation)):  # the last one starts, without memory
        with pytest.raises(problem, match=r"no device launches|outside every buffer"):
            module.launch(name, found.grid, found.arguments, [], block=block, shared_bytes=found.shared_bytes, shared_limit=asked)


@pytest.mark.parametrize(("units", "reads"), [(32, 64), (512, 256), (3141, 256), (8, 32)])
def test_random_reads_touch_as_many_sectors_as_modelled(units: int, reads: int) -> None:
    """The mean of 1000 draws is within a fiftieth, more than ten times the random deviation of such a mean."""
    drawn = seeds.numpy_rng().integers(0, units, (1000, reads))
    touched = float(np.mean([len(set(row)) for row in drawn.tolist()]))
    assert touched == pytest.approx(staged._touched(units, reads), rel=0.02)


def test_a_description_gives_the_reason_for_staging() -> None:
    assert describe(VOCABULARY) == (
        "staged_e2_i8_long, 128 blocks of 1024 threads: long rows in shared memory, 2-byte elements, up to 16 per thread at "
        "once, indices resolved once per block\n"
        "  (rows are read in random order, so each is loaded into shared memory and gathered from there)"
    )


@every_index_type
@every_policy
def test_extreme_indices_equal_the_reference(kind: IndexType, policy: OutOfBounds) -> None:
    """Places have 2 or 4 bytes."""
    for width, columns in ((1500, 4500), (2**16, 6000)):
        check_extremes(columns_of(3, width, columns, 1), (7, 50), KernelKind.LONG, kind, policy)


SOME = [variant for variant in VARIANTS if variant.kind is KernelKind.LONG and variant.element_bytes <= 2]
"""Kernels to break. In those for wider elements, a unit is an element."""


def case_of(rng: random.Random) -> Case:
    """Return a case for one of these kernels, some with so little shared memory that several blocks share a row."""
    while True:
        plan, alignment = plan_for(rng.choice(SOME), rng)
        buffers, allowed, multiprocessors = random_buffers(plan, rng), rng.choice((SHARED_BYTES, 24 * KB)), rng.choice((0, 2, 3))
        case = Case.of(plan, buffers, alignment, multiprocessors=multiprocessors, shared_bytes=allowed)
        if {launch.variant for launch in case.launches} <= set(SOME):
            return case


def test_rows_shared_by_several_blocks_are_exact(rng: random.Random) -> None:
    plan = columns_of(5, 3000, 11_001, 2)
    for allowed, parts in ((24, 2), (10, 6)):
        case = Case.of(plan, random_buffers(plan, rng), shared_bytes=allowed * KB)
        assert [parts_of(found) for found in case.launches] == [parts]
        assert mismatches([case]) == []


def test_long_rows_in_shared_memory_have_no_race(rng: random.Random) -> None:
    assert mismatches(case_of(rng) for _ in range(8)) == []


GATHER = "gather_long<Bytes>(memory + misalignment(to.in), places, advance(to.out, start, Bytes), count);\n"
BARRIER = "        __syncthreads();\n"
MUTATIONS = {
    "no barrier before a row is read": (f"{BARRIER}        {GATHER}", f"        {GATHER}"),
    "no barrier behind a row": (f"{GATHER}{BARRIER}", GATHER),
    "rows that start at their vector": ("memory + misalignment(to.in), places", "memory, places"),
    "columns at another block's place": ("places, advance(to.out, start, Bytes), count", "places, to.out, count"),
    "indices of another block": ("a.lookup[0].offset, start, a.dimension", "a.lookup[0].offset, 0, a.dimension"),
    "columns behind the last one": ("min(share, staging.columns - start)", "share"),
    "the fill value is elsewhere": ("fill = (a.staging.slot_bytes - VECTOR) / Bytes", "fill = a.staging.slot_bytes / Bytes"),
    "narrow places of many elements": ("- VECTOR > 0xffff * Bytes", "- VECTOR > 0x1ffff * Bytes"),
    "the first of some indices for all": ("resolve<IndexBytes>(index[k]", "resolve<IndexBytes>(index[0]"),
    "a place too many": ("if (c + k * LONG_BLOCK < count) places", "if (c + k * LONG_BLOCK <= count) places"),
    "bad indices that nobody reports": ("if (all_good || !a.first_bad) return;", "return;"),
    "units before the row": ("if (i >= begin && i < end)", "if (i < end)"),
    "units at any address": (" % STORE_LINE", " % 1"),
    "a unit too many": ("for (; i < end; i += LONG_BLOCK)", "for (; i <= end; i += LONG_BLOCK)"),
    "no columns before the first unit": ("column < (first ? head : all)", "column < (first ? 0 : all)"),
    "no columns behind the last unit": ("column < (first ? head : all)", "column < (first ? head : tail)"),
    "a row too many": ("min(first + staging.steps, a.threads)", "first + staging.steps"),
    "columns of a unit in reverse": ("return __byte_perm(lane[0], lane[1],", "return __byte_perm(lane[1], lane[0],"),
}
"""Text of `staged_long.cuh`, and the text that breaks it."""


def judge(name: str, seed: int) -> tuple[str, str]:
    return judged(case_of(random.Random(seed)), *MUTATIONS[name])


PROGRAMS = BrokenPrograms("tests/kernels/test_staged_long.py", MUTATIONS, judge)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_kernel_is_noticed(name: str) -> None:
    shown = PROGRAMS.check(name)
    if name.startswith("no barrier"):
        assert re.search("without a barrier|no thread of the block has written", shown)
