"""The CPU backend gives the reference's bits: random plans, every recipe, every policy, hostile indices."""

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

from dmlgather.backends import reference
from dmlgather.backends.cpu import CpuProgram, prepare
from dmlgather.backends.cpu.recipes import RECIPES
from dmlgather.backends.cpu.tuning import MEASURED, Tuning
from dmlgather.plan import ELEMENT_BYTES, IndexPlan, IndexType, Lookup, OutOfBounds, packed_strides
from tests.backends.shapes import FLOATS, Kind, Shaped, gather, gather_elements, gather_nd, view
from tests.plans import EXTREMES, random_buffers, random_plan

seeds = st.integers(0, 2**64 - 1).map(random.Random)

SMALL = Tuning(
    block_bytes=256,
    block_units=24,
    share_bytes=64,
    page=32,
    long_unit=32,
    part_unit=24,
    longest_unit=64,
    tile=4,
    tile_bytes=64,
    column_block=5,
    cache_line=64,
    alias_bytes=8,
    short=2,
    row_units=8,
    shared_row_units=8,
    slice_units=16,
    native_unit=8,
    small_units=12,
    small_bytes=64,
    scratch_bytes=4096,
    longest_item=16,
)
"""Blocks of a few units, so that small plans have many, shared by threads."""
TINY = replace(
    SMALL, block_bytes=16, block_units=1, longest_unit=1, tile=1, short=1, row_units=1, shared_row_units=1, slice_units=1
)
TUNINGS = (MEASURED, SMALL, TINY)


def recipe_of(program: CpuProgram) -> str:
    return program.describe().partition(":")[0]


def readable_plan(rng: random.Random) -> IndexPlan:
    """A random plan that may run: under CLAMP and PROMISE no axis of size 0 is indexed."""
    while True:
        plan = random_plan(rng)
        if plan.empty or plan.out_of_bounds in (OutOfBounds.FILL, OutOfBounds.RAISE) or all(k.limit for k in plan.lookups):
            return plan


def check(plan: IndexPlan, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any], tuning: Tuning) -> str:
    """Run `plan` as the reference does, compare every byte of the output buffer, and return the recipe's name."""
    expected, written = out.copy(), out.copy()
    program = CpuProgram(plan, tuning)
    bad = reference.run(plan, data, indices, expected)
    assert program.run(data, indices, written) == bad, program.describe()
    if bad is None:
        assert written.tobytes() == expected.tobytes(), program.describe()
    return recipe_of(program)


@settings(max_examples=350, deadline=None)
@given(seeds)
def test_random_plans_equal_the_reference(rng: random.Random) -> None:
    plan = readable_plan(rng)
    buffers = random_buffers(plan, rng)
    for tuning in TUNINGS:
        check(plan, buffers.data, buffers.indices, buffers.out, tuning)


@settings(max_examples=40, deadline=None)
@given(seeds, st.integers(4, 40))
def test_many_lookups_equal_the_reference(rng: random.Random, lookups: int) -> None:
    plan = random_plan(rng, lookups=lookups, elements=60, out_of_bounds=rng.choice((OutOfBounds.FILL, OutOfBounds.RAISE)))
    buffers = random_buffers(plan, rng)
    for tuning in TUNINGS:
        check(plan, buffers.data, buffers.indices, buffers.out, tuning)


def gather_transposed(shape: tuple[int, int, int], index_shape: tuple[int], kind: Kind = FLOATS) -> Shaped:
    """output[i, a, b] = input[indices[i], b, a]."""
    found = gather(shape, index_shape, 0, kind)
    count, b, a = found.plan.shape
    plan = replace(found.plan, shape=(count, a, b), in_strides=(0, 1, a), out_strides=(a * b, b, 1))
    return replace(found, plan=plan, numpy=lambda data, indices: data[indices].transpose(0, 2, 1))


LOOKING: dict[str, Callable[[Kind], Shaped]] = {
    "slices": lambda kind: gather_transposed((5, 8, 9), (12,), kind),
    "columns": lambda kind: gather((6, 20), (9,), 1, kind),
    "rows": lambda kind: gather_elements((5, 13), 1, kind),
    "narrow": lambda kind: gather_elements((7, 11), 0, kind),
    "flat": lambda kind: gather_nd((5, 6, 3), 17, 2, kind),
}
"""Small plans that SMALL cuts by each recipe that looks up indices."""


@pytest.mark.parametrize("policy", OutOfBounds)
@pytest.mark.parametrize("index_type", IndexType)
@pytest.mark.parametrize("name", LOOKING)
def test_hostile_indices_in_every_recipe(name: str, index_type: IndexType, policy: OutOfBounds) -> None:
    noise = np.random.default_rng()
    shaped = LOOKING[name](Kind(4, index_type, policy))
    plan = shaped.plan
    info = np.iinfo(index_type.value.lower())
    limit = plan.lookups[0].limit
    wild = [value for value in (*EXTREMES, -1, 0, limit - 1, limit, -limit, -limit - 1) if info.min <= value <= info.max]
    data = np.frombuffer(noise.bytes(4 * plan.in_extent), "V4")
    for hostile in wild:
        indices = noise.integers(0, limit, plan.index_extent).astype(info.dtype)
        indices[noise.integers(0, plan.index_extent, 3)] = hostile
        out = np.frombuffer(noise.bytes(4 * plan.out_extent), "V4").copy()
        assert check(plan, data, indices, out, SMALL) == name
    everything = np.resize(np.array(wild, info.dtype), plan.index_extent)
    check(plan, data, everything, np.zeros(plan.out_extent, "V4"), SMALL)


TYPICAL: dict[str, tuple[Shaped, ...]] = {
    "copy": (
        view((70, 90), lambda x: x[8:-8, 8:-8]),
        view((70, 90), lambda x: x[::-1, ::2]),
        view((70, 90), lambda x: x[:, 1::2], 1),
        view((70, 91), lambda x: x[:, ::2], 2),
        view((70, 91), lambda x: x[:, ::-1], 1),
        view((30, 90), lambda x: x[3:-3, 5:-5]),
        view((30, 333), lambda x: x[:, 7:], 1),
        view((64, 50, 40), lambda x: x.transpose(1, 0, 2), 1),
        view((8, 16, 49), lambda x: x.transpose(0, 2, 1)),
    ),
    "swapped": (
        view((300, 64), lambda x: x[:, ::-1], 1),
        view((20, 30, 36), lambda x: x[::2, ::-1, ::-1], 1),
        view((20, 30, 1020), lambda x: x[:, 3:, 1009:9:-1], 1),
    ),
    "halves": (
        view((300, 64), lambda x: x[::2, ::2], 1),
        view((300, 64), lambda x: x[::-1, 2:-1:2], 2),
        view((40, 30, 66), lambda x: x[::2, ::-3, 64:9:-2], 1),
    ),
    "apart": (
        view((3, 40, 30, 3), lambda x: x[:, :, ::-1], 1),
        view((3, 40, 30, 3), lambda x: x[..., ::-1], 1),
        view((2, 3, 40, 30), lambda x: x.transpose(0, 2, 3, 1), 2),
    ),
    "tiles": (
        view((512, 1024), lambda x: x.T),
        view((300, 512, 2), lambda x: x.transpose(2, 1, 0)[:, ::-1], 2),
        view((16, 16, 16, 16), lambda x: x.transpose(), 8),
    ),
    "slices": (gather((4, 2**18 + 3), (3,)), gather_transposed((4, 128, 160), (5,))),
    "columns": (
        gather((50, 400), (33,), 1),
        gather((30, 40, 50), (2, 8), 1, Kind(2)),
        gather((9, 7, 256), (5,), 1, Kind(16)),
        gather((9, 7, 1000), (500,), 1, Kind(8)),
        gather((3, 2, 128, 129), (2, 2), 1),
    ),
    "rows": (gather_elements((3, 2000), 1), gather_elements((2, 3, 1500), 2, Kind(1))),
    "narrow": (gather_elements((40, 700), 0), gather_elements((20, 30, 300), 1, Kind(2))),
    "flat": (
        gather((500, 96), (40,)),
        gather((60, 1024), (40,)),
        gather((60, 700, 5), (2, 9), 0, Kind(8)),
        gather((60, 2053), (40,), 0, Kind(1)),
        gather((4, 2**19), (3,)),
        gather((5000,), (30, 40), 0, Kind(8, IndexType.UINT32)),
        gather((50, 3), (1000,), 0, Kind(1, IndexType.INT8)),
        gather_elements((900, 50), 1),
        gather_nd((30, 40, 16), 500, 2),
        gather_nd((30, 40), 900, 2, Kind(8, IndexType.UINT64)),
    ),
}
"""What the measured thresholds choose, by shape."""


@pytest.mark.parametrize(("name", "shaped"), [(name, shaped) for name, group in TYPICAL.items() for shaped in group])
def test_typical_shapes_use_their_recipe_and_equal_numpy(name: str, shaped: Shaped) -> None:
    plan = shaped.plan
    noise = np.random.default_rng()
    data = np.frombuffer(noise.bytes(plan.in_extent * plan.element_bytes), _number(plan.element_bytes)).reshape(
        shaped.input_shape
    )
    indices = None
    if plan.lookups:
        assert plan.index_type is not None
        limit = min(lookup.limit for lookup in plan.lookups)
        indices = noise.integers(0, limit, shaped.index_shape).astype(plan.index_type.value.lower())
    out = np.frombuffer(noise.bytes(plan.out_extent * plan.element_bytes), data.dtype).copy()
    program = prepare(plan)
    assert recipe_of(program) == name
    assert program.run(data.reshape(-1), None if indices is None else indices.reshape(-1), out) is None
    assert out.tobytes() == shaped.numpy(data, indices if indices is not None else np.empty(0, np.int64)).tobytes()


def _number(element_bytes: int) -> str:
    return {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}[element_bytes]


def test_every_recipe_is_tested() -> None:
    trivial = {"nothing", "check", "fill"}
    assert {recipe.name for recipe in RECIPES} == trivial | set(TYPICAL)


def test_an_empty_output_checks_its_indices_only_under_raise() -> None:
    plan = gather((7, 0), (5,), 0, Kind(policy=OutOfBounds.RAISE)).plan
    data, out = np.empty(0, "f4"), np.empty(0, "f4")
    program = prepare(plan)
    assert recipe_of(program) == "check"
    assert program.run(data, np.array([0, -7, 6, 3, 1]), out) is None
    assert program.run(data, np.array([0, 1, 7, 3, -8]), out) == 2
    clamping = prepare(replace(plan, out_of_bounds=OutOfBounds.CLAMP))
    assert recipe_of(clamping) == "nothing"
    assert clamping.run(data, np.array([0, 1, 7, 3, -8]), out) is None


@pytest.mark.parametrize("element_bytes", ELEMENT_BYTES)
def test_fill_over_an_empty_axis_writes_the_fill_value_alone(element_bytes: int) -> None:
    fill = bytes(range(1, element_bytes + 1))
    lookup = Lookup((1, 0), index_offset=0, limit=0, wrap=0, in_stride=0)
    plan = IndexPlan(
        (3, 4), (6, 1), (0, 1), element_bytes, in_extent=0, out_extent=18, lookups=(lookup,),
        index_type=IndexType.INT32, index_extent=3, out_of_bounds=OutOfBounds.FILL, fill=fill,
    )  # fmt: skip
    dtype = f"V{element_bytes}"
    out = np.zeros(18, dtype)
    program = prepare(plan)
    assert recipe_of(program) == "fill"
    program.run(np.empty(0, dtype), np.array([1, 2, 3], np.int32), out)
    rows = out.reshape(3, 6)
    assert rows[:, :4].tobytes() == 12 * fill
    assert not any(rows[:, 4:].tobytes())


def test_raise_names_the_smallest_offset_whatever_the_order_of_execution() -> None:
    # The output walks the indices backwards and column by column; offsets are counted in the index buffer all the same.
    shape = (50, 40)
    lookup = Lookup((-1, -50), index_offset=1999, limit=9, wrap=9, in_stride=1)
    plan = IndexPlan(
        shape, packed_strides(shape), (0, 0), 2, in_extent=9, out_extent=2000, lookups=(lookup,),
        index_type=IndexType.INT16, index_extent=2000, out_of_bounds=OutOfBounds.RAISE,
    )  # fmt: skip
    indices = np.zeros(2000, np.int16)
    indices[[1700, 613, 1999]] = (9, -10, 32767)
    for tuning in TUNINGS:
        assert CpuProgram(plan, tuning).run(np.zeros(9, "u2"), indices, np.zeros(2000, "u2")) == 613


def test_clamping_into_an_empty_axis_is_refused() -> None:
    plan = IndexPlan(
        (3,), (1,), (0,), 1, in_extent=1, out_extent=3, lookups=(Lookup((1,), 0, limit=0, wrap=0, in_stride=1),),
        index_type=IndexType.INT8, index_extent=3,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"lookup 0 indexes an axis of size 0 while the output has 3 elements"):
        prepare(plan)


def test_limits_beyond_64_bits_are_refused() -> None:
    lookup = Lookup((1,), index_offset=0, limit=2**63, wrap=0, in_stride=0)
    plan = IndexPlan(
        (3,), (1,), (1,), 1, in_extent=3, out_extent=3, lookups=(lookup,),
        index_type=IndexType.UINT64, index_extent=3, out_of_bounds=OutOfBounds.RAISE,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"limit 9223372036854775808 .* expected at most 9223372036854775807"):
        prepare(plan).describe()
