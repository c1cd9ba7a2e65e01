"""Runs of bytes at any alignment: every pair of addresses in the interpreter, broken kernels, the plan."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dmlgather.backends.cuda import spans
from dmlgather.backends.cuda.describe import describe
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.variants import VARIANTS, KernelKind, Variant
from dmlgather.plan import IndexPlan, OutOfBounds
from dmlgather.selftest.kernel_plans import plan_for
from dmlgather.selftest.random_plans import random_buffers, random_runs
from tests.kernels.ptx.runs import Case, broken, mismatches, noticed
from tests.kernels.test_planning import axis_gather, fields, row_gather, slice_of

UNIT = "span.cu"
SHORTEST = spans.SHORTEST_SLICED[1]


def every_address(rng: random.Random) -> list[Case]:
    """Runs of bytes for input and output at every pair of addresses modulo 16."""
    cases: list[Case] = []
    while len(cases) < 256:
        plan = random_runs(rng, element_bytes=1, longest=200)
        case = Case.at(plan, random_buffers(plan, rng), *divmod(len(cases), 16))
        cases += [case] if {launch.variant.kind for launch in case.launches} == {KernelKind.SPAN} else []
    return cases


def every_variant(rng: random.Random) -> list[Case]:
    cases = []
    for variant in VARIANTS * 3:
        if variant.unit == UNIT:
            plan, alignment = plan_for(variant, rng)
            cases.append(Case.of(plan, random_buffers(plan, rng), alignment))
    return cases


def group_with_a_gap(rng: random.Random) -> Case:
    """93 runs, which leave three places of three groups of 32 empty."""
    plan = slice_of((31, 3, 101), (400, 103, 1), 1, 1)
    assert spans.group_of(93) == 32
    return Case.at(plan, random_buffers(plan, rng), 5, 0)


def nothing_but_fill(rng: random.Random) -> Case:
    """Rows of which every index is bad."""
    plan = replace(row_gather(5, 7, 101), out_of_bounds=OutOfBounds.FILL, fill=b"\x12\x34")
    buffers = random_buffers(plan, rng)
    assert buffers.indices is not None
    buffers.indices[:] = 2**40
    return Case.at(plan, buffers, 2, 4)


def buffers_of_one_run(rng: random.Random) -> list[Case]:
    """Whole buffers of every length, so that the vectors over their ends stick out."""
    plans = [IndexPlan((length,), (1,), (1,), 1, length, length) for length in range(SHORTEST, SHORTEST + 150)]
    return [Case.at(plan, random_buffers(plan, rng), rng.randrange(16), rng.randrange(1, 16, 2)) for plan in plans]


def test_input_and_output_at_every_pair_of_addresses(rng: random.Random) -> None:
    cases = every_address(rng)
    assert mismatches(cases) == []


def test_buffers_of_one_run_groups_with_gaps_and_fill_values(rng: random.Random) -> None:
    cases = [*buffers_of_one_run(rng), group_with_a_gap(rng)]
    assert {launch.variant for case in cases for launch in case.launches} == {Variant(KernelKind.SPAN, 3, 16)}
    cases.append(nothing_but_fill(rng))
    assert mismatches(cases) == []


MUTATIONS = {
    "reads a vector behind the input": ("last + VECTOR <= a.in + a.in_bytes", "last <= a.in + a.in_bytes"),
    "reads a vector before the input": ("first >= a.in && ", "first + VECTOR > a.in && "),
    "writes from the start of the first vector on": ("const u32 skipped = vector ? 0 : lead;", "const u32 skipped = 0;"),
    "writes the last vector whole": ("rest < VECTOR ? static_cast<u32>(rest) : VECTOR", "VECTOR"),
    "a last vector too many": ("u > 0 && rest > 0", "u > 0"),
    "walks a vector too far": ("at - walked * walk.size + 1 : part", "at - walked * walk.size + 2 : part"),
    "runs of another group": ("(number << a.extent[0]) + (walks", "(number << a.extent[0]) + number + (walks"),
    "a run behind the last": ("d == Dimensions && rest >= dim.size", "d == Dimensions && rest > dim.size"),
    "shifts by whole words only": ("const u32 bits = 8 * (shift & 3);\n    return", "const u32 bits = 0;\n    return"),
    "the wrong words": ("case 2: join_all<2>", "case 2: join_all<1>"),
    "no fill value in parts of vectors": ("if (!good) {", "if (!good && false) {"),
    "no fill value in whole vectors": ("good ? first[u] : fill_value<VECTOR>(a.fill)", "good || true ? first[u] : uint4()"),
}
"""Text of span.cuh, and the text that breaks it."""


SOME = [Variant(KernelKind.SPAN, 3, 16), Variant(KernelKind.SPAN, 2, 16, 1, 8, checked=True)]
"""Two of the kernels to break: what is broken is the same in all."""


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_kernel_is_noticed(name: str, rng: random.Random) -> None:
    """By what the interpreter checks or by a wrong result; without the mutation, the same cases pass (see above)."""
    makers = (lambda rng: [group_with_a_gap(rng), nothing_but_fill(rng)], buffers_of_one_run, every_variant, every_address)
    cases = (case for make in makers for case in make(rng))
    chosen = (case for case in cases if {launch.variant for launch in case.launches} <= set(SOME))
    assert noticed(chosen, broken(SOME, *MUTATIONS[name]))


@pytest.mark.parametrize(
    ("plan", "alignment", "name", "full"),
    [
        pytest.param(row_gather(30000, 10000, 2049), 16, "span_d2_k1_i8_clamp", 63, id="rows of an odd width"),
        pytest.param(row_gather(30000, 10000, 2050), 16, "span_d2_k1_i8_clamp", 63, id="rows of 4-byte multiples"),
        pytest.param(row_gather(30000, 10000, 2052), 16, "gather_d2_k1_e8_i8_clamp_once", 128, id="rows of 8-byte multiples"),
        pytest.param(row_gather(30000, 10000, 2048), 2, "span_d2_k1_i8_clamp", 63, id="arrays that start anywhere"),
        pytest.param(row_gather(30000, 10**6, 47, 1), 16, "gather_d2_k1_e1_i8_clamp_each", 250000, id="too short"),
        pytest.param(row_gather(30000, 10**5, 101, 4), 16, "span_d2_k1_i8_clamp", 6, id="short rows"),
        pytest.param(slice_of((10**6, 101), (103, 1), 1, 4), 16, "copy_d2_e4", 125000, id="short rows of a slice"),
        pytest.param(slice_of((10000, 257), (259, 1), 1, 4), 16, "span_d3", 15, id="rows of a slice"),
        pytest.param(row_gather(30000, 100, 101, 4), 16, "span_d2_k1_i8_clamp", 0, id="few rows: one vector a thread"),
        pytest.param(axis_gather(128, 1024, 1024, 1001), 16, "span_d3_k1_i4_clamp", 62, id="middle axis"),
        pytest.param(slice_of((192, 224, 225), (65536, 256, 1), 3, 1), 16, "span_d3", 3, id="crop"),
        pytest.param(slice_of((5, 192, 20, 225), (2**24, 65536, 256, 1), 3, 1), 16, "copy_d4_e1", 24, id="crop of volumes"),
        pytest.param(slice_of((2**33,), (1,), 1, 4), 16, "span_d3", 2**29 - 1, id="one long run"),
    ],
)
def test_the_kernel_and_the_walk_of_runs(plan: IndexPlan, alignment: int, name: str, full: int) -> None:
    (launch,) = launches_for(plan, alignment)
    assert launch.variant.name == name
    assert fields(launch)["full"] == full


@pytest.mark.parametrize("runs", [1, 2, 3, 5, 31, 33, 100, 1000, 12345])
def test_a_group_leaves_few_places_empty(runs: int) -> None:
    group = spans.group_of(runs)
    assert group in (1, 2, 4, 8, 16, 32)
    assert runs <= -(-runs // group) * group <= runs * 9 / 8


def test_more_threads_than_a_launch_has_are_split() -> None:
    """So many runs that half of them is one launch: each writes its own part."""
    plan = slice_of((2**29, 101), (103, 1), 1, 1)
    launches = launches_for(plan)
    assert {launch.variant.name for launch in launches} == {"span_d3"}
    assert len({fields(launch)["out_offset"] for launch in launches}) == len(launches) > 1


def test_a_description_says_what_a_thread_does() -> None:
    text = describe(row_gather(30000, 10000, 2049))
    assert text.startswith("span_d2_k1_i8_clamp, ")
    assert "runs of bytes by 16-byte vectors, each from two aligned ones, up to 4 per thread, indices resolved once" in text
