"""The launches of a plan: the walks of known workloads, limits and refusals. No kernel runs here."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgather.backends.cuda.describe import describe
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import MAX_THREADS
from dmlgather.backends.cuda.variants import VARIANTS, KernelKind
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.selftest.random_plans import random_plan
from tests.kernels.plans import axis_gather, fields, gather_elements, points, row_gather, slice_of


@pytest.mark.parametrize(
    ("plan", "name", "full"),
    [
        pytest.param(row_gather(151936, 10000, 2560), "gather_d2_k1_e16_i8_clamp_once", 320 // 4, id="embedding"),
        pytest.param(row_gather(151936, 10000, 2564), "gather_d2_k1_e8_i8_clamp_once", 641 // 4, id="rows of 8-byte multiples"),
        pytest.param(row_gather(30522, 32, 384), "gather_d2_k1_e16_i8_clamp_once", 0, id="few tokens: one element a thread"),
        pytest.param(row_gather(10**6, 10**6, 200), "gather_d2_k1_e16_i8_clamp_each", 250000, id="segments would tear sectors"),
        pytest.param(row_gather(10**6, 10**6, 128), "gather_d2_k1_e16_i8_clamp_each", 250000, id="segments would halve lines"),
        pytest.param(row_gather(10**6, 10**6, 5, 2), "gather_d2_k1_e2_i8_clamp_each", 124992, id="rows of 5 halves: whole lines"),
        pytest.param(row_gather(30000, 10000, 2057, 4), "gather_d2_k1_e4_i8_clamp_once", 256, id="odd rows: whole sectors"),
        pytest.param(row_gather(10**6, 10**6, 16), "gather_d2_k1_e16_i8_clamp_each", 250000, id="short rows: walk the rows"),
        pytest.param(row_gather(10**6, 10**6, 8), "gather_d2_k1_e16_i8_clamp_each", 250000, id="rows of one vector"),
        pytest.param(row_gather(10**7, 5 * 10**6, 1, 4), "gather_d2_k1_e4_i8_clamp_each", 1249984, id="elements: whole lines"),
        pytest.param(axis_gather(4096, 4096, 4096, 1), "staged_e4_i4", 0, id="inner axis"),
        pytest.param(axis_gather(4096, 4096, 500, 1), "gather_d2_k1_e4_i4_clamp_once", 512, id="inner axis, few indices"),
        pytest.param(axis_gather(128, 1024, 1024, 1024), "gather_d3_k1_e16_i4_clamp_once", 64, id="middle axis"),
        pytest.param(gather_elements(2048, 4096, 2048), "gather_d2_k1_e4_i8_clamp_each", 1024, id="gather elements"),
        pytest.param(slice_of((4096, 4096), (4096, -1), 4095), "reverse_d3_e4", 256, id="mirrored"),
        pytest.param(slice_of((4096, 4096), (1, 4096)), "squares_e4_l8_s8", 16, id="transposed: 16 tiles a block"),
        pytest.param(slice_of((64, 50176, 3), (150528, 1, 50176), element_bytes=1), "tiles_e1_l4_s4", 5, id="NCHW to NHWC"),
        pytest.param(slice_of((64, 50176, 3), (150528, 1, 50176)), "copy_d3_e4", 6272, id="NCHW to NHWC of floats: pixels"),
        pytest.param(slice_of((64, 3, 50176), (150528, 1, 3)), "tiles_e4_l4_s4", 9, id="NHWC to NCHW"),
        pytest.param(
            slice_of((16, 64, 56, 2, 56, 2), (802816, 12544, 56, 6272, 1, 3136)),
            "copy_d6_e4",
            7,
            id="pixel shuffle: 6 dimensions",
        ),
        pytest.param(slice_of((64, 49, 31), (1519, 1, 49)), "stretch_e4_l4_s4", 1, id="images of odd size: one run each"),
        pytest.param(slice_of((6400, 49, 31), (1519, 1, 49)), "tiles_e4_l4_s4", 13, id="several begin anywhere in sectors"),
        pytest.param(slice_of((64, 48, 32), (1536, 1, 48)), "squares_e4_l8_s8", 1, id="images of even size: whole sectors"),
        pytest.param(slice_of((192, 224, 224), (65536, 256, 1)), "copy_d3_e16", 56, id="crop: walks the rows"),
        pytest.param(slice_of((64, 2048, 2048), (2**25, 8192, 2)), "copy_d3_e4", 256, id="every other element"),
        pytest.param(points(64, 16384, 4096, 3), "gather_d3_k1_e4_i8_clamp_each", 1024, id="points: a batch's own stay together"),
    ],
)
def test_known_workloads_get_the_expected_kernel_and_walk(plan: IndexPlan, name: str, full: int) -> None:
    (launch,) = launches_for(plan)
    assert launch.variant.name == name
    assert fields(launch)["full"] == full


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**64 - 1).map(random.Random))
def test_random_plans_get_declared_variants_within_the_limits(rng: random.Random) -> None:
    plan = random_plan(rng)
    for launch in launches_for(plan, 16, rng.choice((0, 1, 132))):
        assert launch.variant in VARIANTS
        assert len(launch.arguments) < 4096
        assert 0 < launch.grid < 2**31
        assert 0 < fields(launch)["threads"] <= MAX_THREADS


def test_a_plan_for_too_many_threads_is_split() -> None:
    plan = slice_of((2**33 + 5, 3), (4, 1), element_bytes=1)
    launches = launches_for(plan)
    assert len(launches) > 1
    threads = [fields(launch)["threads"] for launch in launches]
    assert max(threads) <= MAX_THREADS
    moved = sum(fields(launch)["full"] * 3 * 8 + (fields(launch)["threads"] - fields(launch)["full"] * 3) for launch in launches)
    assert moved == plan.elements
    assert len({fields(launch)["out_offset"] for launch in launches}) == len(launches)


def test_an_empty_plan_is_launched_only_to_check_indices() -> None:
    plan = replace(axis_gather(1, 7, 5, 3), shape=(1, 5, 0))
    assert launches_for(plan) == ()
    (launch,) = launches_for(replace(plan, out_of_bounds=OutOfBounds.RAISE))
    assert launch.variant.kind is KernelKind.CHECK
    assert fields(launch)["threads"] == 5


def test_each_policy_has_its_launch_over_an_empty_axis() -> None:
    """RAISE only checks indices, FILL reads the fill value, and CLAMP is refused."""
    plan = row_gather(7, 5, 4)
    plan = replace(plan, lookups=(replace(plan.lookups[0], limit=0),), in_extent=0)
    assert [launch.variant.kind for launch in launches_for(replace(plan, out_of_bounds=OutOfBounds.RAISE))] == [KernelKind.CHECK]
    (launch,) = launches_for(replace(plan, out_of_bounds=OutOfBounds.FILL, fill=b"\x01\x02"))
    assert launch.variant.kind is KernelKind.COPY
    assert launch.input_in_table is not None
    assert launch.table[launch.input_in_table :] == b"\x01\x02" * 4  # 40 bytes have five elements of 8
    with pytest.raises(ValueError, match="indexes an axis of size 0"):
        launches_for(plan)


def test_a_lower_alignment_narrows_the_elements() -> None:
    plan = row_gather(100, 1000, 2560)
    kernels = {alignment: launches_for(plan, alignment)[0].variant.name for alignment in (16, 8, 4, 2, 1)}
    assert (kernels[16], kernels[8]) == ("gather_d2_k1_e16_i8_clamp_once", "gather_d2_k1_e8_i8_clamp_once")
    assert kernels[4] == "gather_d2_k1_e4_i8_clamp_once"
    assert {kernels[2], kernels[1]} == {"span_d2_k1_i8_clamp"}
    strided = slice_of((1000, 1000), (3000, 2), element_bytes=16)
    assert [launches_for(strided, alignment)[0].variant.element_bytes for alignment in (16, 8, 4, 2)] == [16, 8, 4, 2]
    with pytest.raises(ValueError, match="cannot be written by aligned pieces of 1 bytes"):
        launches_for(replace(plan, out_of_bounds=OutOfBounds.FILL, fill=b"\x01\x02"), 1)


@pytest.mark.parametrize(
    ("plan", "alignment", "reverses"),
    [
        pytest.param(slice_of((3, 32), (32, -1), 31, 1), 16, True, id="mirrored"),
        pytest.param(slice_of((3, 32), (32, -1), 31, 1), 8, False, id="pointers that are no multiples of 16"),
        pytest.param(slice_of((3, 32), (32, -1), 32, 1), 16, False, id="no multiples of 16 in the input"),
        pytest.param(slice_of((3, 33), (48, -1), 47, 1), 16, False, id="no multiples of 16 in the output"),
        pytest.param(slice_of((33,), (-1,), 47, 1), 16, False, id="no whole vectors"),
        pytest.param(slice_of((3, 32), (32, 1), 15, 1), 16, False, id="forwards"),
        pytest.param(slice_of((3, 32), (64, -2), 63, 1), 16, False, id="every second element"),
    ],
)
def test_mirrored_and_aligned_rows_are_reversed_by_vectors(plan: IndexPlan, alignment: int, reverses: bool) -> None:
    kinds = {launch.variant.kind for launch in launches_for(plan, alignment)}
    assert (KernelKind.REVERSE in kinds) == reverses


def test_the_general_kernels_take_32_dimensions_and_no_more() -> None:
    def sparse_slice(rank: int) -> IndexPlan:
        return slice_of((2,) * rank, tuple(3**axis for axis in reversed(range(rank))), element_bytes=1)

    threads = [fields(launch)["threads"] for launch in launches_for(sparse_slice(32), 1, 2**20)]
    assert sum(threads) == 2**32
    with pytest.raises(ValueError, match="has 33 dimensions, the CUDA kernels take up to 32"):
        launches_for(sparse_slice(33), 1)


def test_limits_beyond_63_bits_are_refused() -> None:
    plan = IndexPlan(
        (3,), (1,), (0,), 1, 1, 3, lookups=(Lookup((1,), 0, 2**63, 0, 0),), index_type=IndexType.UINT64, index_extent=3,
        out_of_bounds=OutOfBounds.RAISE,
    )  # fmt: skip
    with pytest.raises(ValueError, match="counts to 2\\^63 - 1"):
        launches_for(plan)
    assert describe(plan).startswith("refused: lookup 0 has limit 9223372036854775808")


def test_a_description_names_kernels_blocks_and_walks() -> None:
    assert describe(row_gather(151936, 10000, 2560)) == (
        "gather_d2_k1_e16_i8_clamp_once, 3125 blocks of 256 threads: 16-byte elements, up to 4 per thread "
        "along the dimension of 320, indices resolved once per thread\n"
        "  (single elements, of the widest size to which every address is aligned)"
    )
    assert describe(IndexPlan((0,), (1,), (1,), 4, 0, 0)) == "no launch: nothing is written"
