"""The staged kernels: the plans whose rows are staged, their teams, and broken kernels."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.backends.cuda import launch
from dmlgather.backends.cuda.describe import describe
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import DEFAULT_SHARED, Launch
from dmlgather.backends.cuda.variants import VARIANTS, KernelKind, Variant
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.selftest.random_plans import EXTREMES, PlanBuffers, random_buffers
from tests import seeds
from tests.kernels.plans import columns_of, part
from tests.kernels.ptx.draws import case_for, case_for_one_of
from tests.kernels.ptx.runs import Case, differs, execute, judged, mismatches
from tests.noticing import BrokenPrograms


def staging(staged: Launch) -> tuple[int, int]:
    """Return the number of threads that share a row, and of rows that each team moves."""
    numbers = part(staged, "staging", "6I")
    return 1 << numbers[3], numbers[4]


@pytest.mark.parametrize(
    ("plan", "name", "team_and_steps", "grid_and_shared"),
    [
        pytest.param(columns_of(4096, 4096, 4096), "staged_e4_i8", (256, 8), (512, 16400), id="a block has a row"),
        pytest.param(columns_of(65536, 256, 120), "staged_e4_i8", (8, 4), (512, 32 * 1040), id="a block has 32 short rows"),
        pytest.param(columns_of(16384, 4096, 4096, 2), "staged_e2_i8", (256, 16), (1024, 8208), id="fp16: two waves"),
        pytest.param(columns_of(16384, 512, 5000), "staged_e4_i8", (256, 16), (2048, 2064), id="two blocks share a row"),
        pytest.param(columns_of(250000, 500, 250), "staged_e4_i8", (16, 15), (1042, 16 * 2016), id="no vectors of outputs"),
        pytest.param(columns_of(4096, 4097, 4096), "staged_e4_i8", (256, 8), (512, 16416), id="rows start anywhere"),
        pytest.param(columns_of(1584, 1000, 4000), "staged_e4_i8", (256, 3), (528, 4016), id="three rows for each team"),
    ],
)
def test_known_workloads_get_the_expected_staged_launch(
    plan: IndexPlan, name: str, team_and_steps: tuple[int, int], grid_and_shared: tuple[int, int]
) -> None:
    (found,) = launches_for(plan)
    assert found.variant.name == name
    team, steps = staging(found)
    assert (team, steps) == team_and_steps
    assert (found.grid, found.shared_bytes) == grid_and_shared
    rows, picked = plan.shape
    parts = -(-picked // (team * found.variant.unroll))
    assert found.grid * steps * (256 // team) >= rows * parts, "every row has a team"


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(columns_of(4096, 4096, 511), id="fewer sectors than the row has"),
        pytest.param(columns_of(4096, 256, 64), id="fewer sectors than the row has are needed"),
        pytest.param(columns_of(10**6, 255, 256), id="rows of few sectors"),
        pytest.param(columns_of(1056, 4096, 4096), id="two rows for each team"),
        pytest.param(
            replace(columns_of(2048, 4096, 4096), lookups=(Lookup((4096, 1), 0, 4096, 0, 1),), index_extent=2048 * 4096),
            id="indices of their own for each row",
        ),
        pytest.param(replace(columns_of(4096, 4096, 4096), index_type=IndexType.INT16), id="narrow indices"),
        pytest.param(replace(columns_of(4096, 4096, 4096), in_strides=(4096, 1), in_extent=4096 * 4097), id="inputs move, too"),
        pytest.param(
            replace(columns_of(4096, 4096, 4096), in_strides=(2**29, 0), in_extent=4096 * 2**29), id="rows 2^31 bytes apart"
        ),
        pytest.param(
            replace(
                columns_of(4096, 4096, 4096),
                shape=(8, 8, 8, 8, 4096),
                out_strides=(2**21, 2**18, 2**15, 2**12, 1),
                in_strides=(2**12,) * 4 + (0,),
                lookups=(Lookup((0, 0, 0, 0, 1), 0, 4096, 0, 1),),
            ),
            id="rows in four dimensions",
        ),
    ],
)
def test_plans_without_staging_get_other_kernels(plan: IndexPlan) -> None:
    assert {found.variant.kind for found in launches_for(plan)} <= {KernelKind.GATHER, KernelKind.GENERAL}


def test_staging_begins_at_the_modelled_limits() -> None:
    def staged(plan: IndexPlan, alignment: int = 16) -> bool:
        return [found.variant.kind for found in launches_for(plan, alignment)] == [KernelKind.STAGED]

    assert staged(columns_of(4096, 4096, 600))
    assert not staged(columns_of(4096, 4096, 512))
    assert staged(columns_of(4096, DEFAULT_SHARED // 4 - 4, 4096))
    assert staged(columns_of(10**6, 256, 256))
    assert staged(columns_of(1057, 4096, 4096))
    assert not staged(columns_of(4096, 4096, 600), 8)


def test_a_description_gives_the_reason_for_staging() -> None:
    assert describe(columns_of(4096, 4096, 4096)) == (
        "staged_e4_i8, 512 blocks of 256 threads: rows in shared memory, 4-byte elements, up to 16 per thread and row, "
        "indices resolved once per block\n"
        "  (rows are read in random order, so each is loaded into shared memory and gathered from there)"
    )


@pytest.mark.parametrize(("rows", "picked"), [(300, 130), (75, 512), (13, 4200)])
def test_blocks_of_several_row_groups_equal_the_reference(rows: int, picked: int, rng: random.Random) -> None:
    """There are several groups of rows, the last one incomplete, with columns of one block or of more."""
    plan = columns_of(rows, 520, picked, 2)
    (found,) = launches_for(plan, 16, 1)
    team, steps = staging(found)
    parts = -(-picked // (team * found.variant.unroll))
    assert (found.variant.kind, found.grid // parts > 1) == (KernelKind.STAGED, True)
    assert rows % (steps * 256 // team) != 0
    assert not differs(Case.of(plan, random_buffers(plan, rng), multiprocessors=1))


def test_a_plan_for_too_many_rows_is_split(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "MAX_THREADS", 100)
    plan = columns_of(320, 260, 130)
    assert [part.variant.kind for part in launches_for(plan, 16, 0)] == [KernelKind.STAGED] * 4
    assert not differs(Case.of(plan, random_buffers(plan, rng)))


every_index_type = pytest.mark.parametrize("kind", [kind for kind in IndexType if kind.bytes >= 4], ids=lambda kind: kind.name)
every_policy = pytest.mark.parametrize("policy", list(OutOfBounds), ids=lambda policy: policy.name)


def check_extremes(plan: IndexPlan, steps: tuple[int, int], kernel: KernelKind, kind: IndexType, policy: OutOfBounds) -> None:
    """Check the result of `columns_of` with bad indices between good ones, and the smallest offset of a bad one under RAISE.

    steps: from each good index to the next, and from each bad one.
    """
    (lookup,), info = plan.lookups, np.iinfo(kind.value.lower())
    width, element = lookup.limit, np.dtype(f"u{plan.element_bytes}")
    values = [info.min, info.max, -width - 1, -width, -1, width - 1, width, *EXTREMES]
    bad = [value for value in values if info.min <= value <= info.max]
    indices: NDArray[Any] = np.arange(plan.index_extent, dtype=info.dtype) * steps[0] % width
    indices[1 :: steps[1]] = np.resize(np.array(bad, info.dtype), len(indices[1 :: steps[1]]))
    plan = replace(
        plan,
        lookups=(replace(lookup, wrap=width if kind.signed else 0),),
        index_type=kind,
        out_of_bounds=policy,
        fill=b"\xab\xcd"[: element.itemsize] if policy is OutOfBounds.FILL else b"",
    )
    assert [found.variant.kind for found in launches_for(plan, 16, 0)] == [kernel]
    data = np.frombuffer(seeds.rng().randbytes(plan.in_extent * element.itemsize), element)
    case = Case.of(plan, PlanBuffers(data, indices, np.zeros(plan.out_extent, element)))
    assert (execute(case).first_bad is not None) == (policy is OutOfBounds.RAISE)
    assert not differs(case)


@every_index_type
@every_policy
def test_extreme_indices_equal_the_reference(kind: IndexType, policy: OutOfBounds) -> None:
    check_extremes(columns_of(70, 520, 300, 2), (1, 3), KernelKind.STAGED, kind, policy)


SOME = [
    variant
    for variant in VARIANTS
    if variant.kind is KernelKind.STAGED and (variant.element_bytes, variant.index_bytes) == (2, 8)
]
"""One of the eight kernels to break. All share the broken text."""


BYTES = Variant(KernelKind.STAGED, 0, 1, 1, 8)


ENDS = range(1024, 1024 + 16)
"""Widths of rows in bytes."""


def last_elements(width: int, rng: random.Random) -> Case:
    """Return a case that picks the last elements of rows of bytes. The input ends inside a vector."""
    plan = columns_of(97, width, 120, 1)
    buffers = random_buffers(plan, rng)
    assert buffers.indices is not None
    buffers.indices[:] = width - 1 - np.arange(120)
    case = Case.of(plan, buffers)
    assert {found.variant for found in case.launches} == {BYTES}
    return case


def test_the_last_elements_of_an_input_are_read(rng: random.Random) -> None:
    """Teams have fewer threads than the input's last vector has elements."""
    assert mismatches(last_elements(width, rng) for width in ENDS) == []


def test_rows_in_shared_memory_have_no_race(rng: random.Random) -> None:
    assert mismatches(case_for(variant, rng) for _ in range(4) for variant in SOME) == []


ROW, LAST, BARRIER = "        if (row < a.threads) gather_row", "a block's step in a team", "        __syncthreads();\n"
MUTATIONS = {
    "no barrier before a row is read": (f"{BARRIER}{ROW}", ROW),
    "no barrier behind a row": (f"to.out, at);\n{BARRIER}", "to.out, at);\n"),
    LAST: ("at < bytes; at += team * Bytes", "at < bytes; at += BLOCK * Bytes"),
    "a vector too many": ("? vectors : bytes / VECTOR", "? vectors + 1 : bytes / VECTOR"),
    "a vector beyond the input's end": ("? vectors : bytes / VECTOR", "? vectors : vectors"),
    "a last element that does not come": ("at < bytes; at += team", "at + Bytes < bytes; at += team"),
    "rows that start at their vector": ("slot + misalignment(to.in)", "slot"),
    "the fill value is elsewhere": ("fill = a.staging.slot_bytes - VECTOR", "fill = a.staging.slot_bytes"),
    "the first of some indices for all": ("index[c + k + i] = some[i]", "index[c + k + i] = some[0]"),
    "indices of vectors that are not": (" % (Some * IndexBytes) == 0", " % IndexBytes == 0"),
    "a vector too few": ("stage_some<LOADS - 1, true>", "stage_some<LOADS - 2, true>"),
    "a row too many": ("if (row < a.threads) {\n            to =", "if (row <= a.threads) {\n            to ="),
    "a vector of columns too many": ("if (column >= a.staging.columns) continue", "if (column > a.staging.columns) continue"),
    "a column too many": ("if (column < a.staging.columns) store", "if (column <= a.staging.columns) store"),
}
"""Text of `staged.cuh`, and the text that breaks it."""


def judge(name: str, seed: int) -> tuple[str, str]:
    rng = random.Random(seed)
    case = last_elements(rng.choice(ENDS), rng) if name == LAST else case_for_one_of(SOME, rng)
    return judged(case, *MUTATIONS[name])


PROGRAMS = BrokenPrograms("tests/kernels/test_staged.py", MUTATIONS, judge)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_kernel_is_noticed(name: str) -> None:
    shown = PROGRAMS.check(name)
    if name.startswith("no barrier"):
        assert re.search("without a barrier|no thread of the block has written", shown)
