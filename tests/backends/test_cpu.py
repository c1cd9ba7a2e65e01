"""The CPU backend gives the reference's bits with the engine and with NumPy: random plans, all recipes and policies."""

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
from dmlgather.backends.cpu import CpuProgram, engine, prepare
from dmlgather.backends.cpu.fallback import RECIPES
from dmlgather.plan import ELEMENT_BYTES, IndexPlan, IndexType, Lookup, OutOfBounds, packed_strides
from dmlgather.selftest.random_plans import EXTREMES, random_buffers, random_plan, random_runs
from tests import seeds
from tests.backends.shapes import FLOATS, Kind, Shaped, gather, gather_elements, gather_nd, readable, view
from tests.backends.ways import BLOCKS, ENGINE_EXPECTED, Way

generators = st.integers(0, 2**64 - 1).map(random.Random)

FALLBACK = Way("fallback")


def recipe_of(program: CpuProgram) -> str:
    return program.describe().partition(":")[0]


def readable_plan(rng: random.Random) -> IndexPlan:
    """Return a random plan that may run. Under CLAMP and PROMISE it indexes no axis of size 0."""
    while True:
        plan = random_runs(rng, longest=90) if rng.random() < 0.2 else random_plan(rng)
        if readable(plan):
            return plan


def check(program: CpuProgram, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> None:
    """Run a program and the reference, and compare every byte of the output buffer."""
    expected, written = out.copy(), out.copy()
    bad = reference.run(program.plan, data, indices, expected)
    assert program.run(data, indices, written) == bad, program.describe()
    if bad is None:
        assert written.tobytes() == expected.tobytes(), program.describe()


def check_random(way: Way, plan: IndexPlan, rng: random.Random) -> None:
    """Check a plan with random buffers and each number of units in a block."""
    buffers = random_buffers(plan, rng)
    for block in BLOCKS:
        check(way.prepare(plan, block), buffers.data, buffers.indices, buffers.out)


def test_the_engine_is_loaded_if_expected() -> None:
    assert (engine.load() is not None) is ENGINE_EXPECTED, engine.status()


@settings(max_examples=350, deadline=None)
@given(generators)
def test_random_plans_equal_the_reference(way: Way, rng: random.Random) -> None:
    check_random(way, readable_plan(rng), rng)


@settings(max_examples=40, deadline=None)
@given(generators, st.integers(4, 40))
def test_many_lookups_equal_the_reference(way: Way, rng: random.Random, lookups: int) -> None:
    policy = rng.choice((OutOfBounds.FILL, OutOfBounds.RAISE))
    check_random(way, random_plan(rng, lookups=lookups, elements=60, out_of_bounds=policy), rng)


def gather_transposed(shape: tuple[int, int, int], index_shape: tuple[int], kind: Kind = FLOATS) -> Shaped:
    """output[i, a, b] = input[indices[i], b, a]."""
    found = gather(shape, index_shape, 0, kind)
    count, b, a = found.plan.shape
    plan = replace(found.plan, shape=(count, a, b), in_strides=(0, 1, a), out_strides=(a * b, b, 1))
    return replace(found, plan=plan, numpy=lambda data, indices: data[indices].transpose(0, 2, 1))


LOOKING: dict[str, Callable[[Kind], Shaped]] = {
    "rows": lambda kind: gather((9, 5), (7,), 0, kind),
    "columns": lambda kind: gather((6, 20), (9,), 1, kind),
    "transposed rows": lambda kind: gather_transposed((5, 8, 9), (12,), kind),
    "elements": lambda kind: gather_elements((5, 13), 1, kind),
    "elements, axis 0": lambda kind: gather_elements((7, 11), 0, kind),
    "tuples": lambda kind: gather_nd((5, 6, 3), 17, 2, kind),
}
"""Small plans with lookups."""


@pytest.mark.parametrize("policy", OutOfBounds)
@pytest.mark.parametrize("index_type", IndexType)
@pytest.mark.parametrize("name", LOOKING)
def test_extreme_indices_of_every_type_equal_the_reference(
    name: str, index_type: IndexType, policy: OutOfBounds, way: Way
) -> None:
    noise = seeds.numpy_rng()
    shaped = LOOKING[name](Kind(4, index_type, policy))
    plan = shaped.plan
    info = np.iinfo(index_type.value.lower())
    limit = plan.lookups[0].limit
    wild = [value for value in (*EXTREMES, -1, 0, limit - 1, limit, -limit, -limit - 1) if info.min <= value <= info.max]
    data = np.frombuffer(noise.bytes(4 * plan.in_extent), "V4")
    program = way.prepare(plan, 24)
    for hostile in wild:
        indices = noise.integers(0, limit, plan.index_extent).astype(info.dtype)
        indices[noise.integers(0, plan.index_extent, 3)] = hostile
        check(program, data, indices, np.frombuffer(noise.bytes(4 * plan.out_extent), "V4"))
    everything = np.resize(np.array(wild, info.dtype), plan.index_extent)
    check(program, data, everything, np.zeros(plan.out_extent, "V4"))


@pytest.mark.parametrize("policy", OutOfBounds)
@pytest.mark.parametrize("index_type", [IndexType.INT32, IndexType.INT64, IndexType.UINT32, IndexType.UINT64])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((900,), 0), ((3, 300), 1), ((3, 2, 70), 2), ((140, 67), 0), ((4, 33, 64), 1), ((1, 257), 1)],
    ids=str,
)
def test_one_bad_index_in_a_run_of_units_is_treated_alone(
    shape: tuple[int, ...], axis: int, index_type: IndexType, policy: OutOfBounds, way: Way
) -> None:
    noise = seeds.numpy_rng()
    for element_bytes in (1, 2, 4, 8):
        plan = gather_elements(shape, axis, Kind(element_bytes, index_type, policy)).plan
        info = np.iinfo(index_type.value.lower())
        limit = plan.lookups[0].limit
        data = np.frombuffer(noise.bytes(element_bytes * plan.in_extent), f"V{element_bytes}")
        out = np.frombuffer(noise.bytes(element_bytes * plan.out_extent), f"V{element_bytes}")
        good = noise.integers(0, limit, plan.index_extent).astype(info.dtype)
        for program in (way.prepare(plan), way.prepare(plan, 100), way.prepare(plan, threads=3)):
            check(program, data, good, out)
            for place in {0, plan.index_extent - 1, *map(int, noise.integers(0, plan.index_extent, 4))}:
                indices = good.copy()
                indices[place] = noise.choice(np.array([value for value in (-1, limit, int(info.min), int(info.max))
                                                        if info.min <= value <= info.max], info.dtype))  # fmt: skip
                check(program, data, indices, out)


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
        view((300, 64), lambda x: x[:, ::-1], 1),
        view((20, 30, 1020), lambda x: x[:, 3:, 1009:9:-1], 1),
        view((300, 64), lambda x: x[::-1, 2:-1:2], 2),
        view((40, 30, 66), lambda x: x[::2, ::-3, 64:9:-2], 1),
        view((3, 40, 30, 3), lambda x: x[:, :, ::-1], 1),
        view((3, 40, 30, 3), lambda x: x[..., ::-1], 1),
        view((2, 3, 40, 30), lambda x: x.transpose(0, 2, 3, 1), 2),
        view((512, 1024), lambda x: x.T),
        view((300, 512, 2), lambda x: x.transpose(2, 1, 0)[:, ::-1], 2),
        view((16, 16, 16, 16), lambda x: x.transpose(), 8),
        view((3, 2**17 + 5), lambda x: x[:, 2:], 1),
        view((3, 2**14 + 5), lambda x: x[:, 2:], 16),
    ),
    "slices": (
        gather((4, 2**18 + 3), (3,)),
        gather((4, 2**16 + 1), (3,), 0, Kind(1)),
        gather((5, 2**13), (2, 2), 0, Kind(16)),
        gather((3, 2, 128, 129), (2, 2), 1),
        gather_transposed((4, 128, 160), (5,)),
    ),
    "take": (
        gather((500, 96), (40,)),
        gather((60, 1024), (40,)),
        gather((4, 2**14), (5,)),
        gather((60, 700, 5), (2, 9), 0, Kind(8)),
        gather((60, 2053), (40,), 0, Kind(1)),
        gather((5000,), (30, 40), 0, Kind(8, IndexType.UINT32)),
        gather((50, 3), (1000,), 0, Kind(1, IndexType.INT8)),
        gather((50, 400), (33,), 1),
        gather((30, 40, 50), (2, 8), 1, Kind(2)),
        gather((9, 7, 256), (5,), 1, Kind(16)),
        gather((9, 7, 1000), (500,), 1, Kind(8)),
        gather_elements((3, 2000), 1),
        gather_elements((2, 3, 1500), 2, Kind(1)),
        gather_elements((40, 700), 0),
        gather_elements((20, 30, 300), 1, Kind(2)),
        gather_elements((900, 50), 1),
        gather_nd((30, 40, 16), 500, 2),
        gather_nd((30, 40), 900, 2, Kind(8, IndexType.UINT64)),
    ),
}
"""Shapes of operators, by NumPy's recipe for moving them."""


@pytest.mark.parametrize("shaped", [shaped for group in TYPICAL.values() for shaped in group])
def test_typical_shapes_equal_numpy(shaped: Shaped, way: Way) -> None:
    plan = shaped.plan
    noise = seeds.numpy_rng()
    data = np.frombuffer(noise.bytes(plan.in_extent * plan.element_bytes), _number(plan.element_bytes)).reshape(
        shaped.input_shape
    )
    indices = None
    if plan.lookups:
        assert plan.index_type is not None
        limit = min(lookup.limit for lookup in plan.lookups)
        indices = noise.integers(0, limit, shaped.index_shape).astype(plan.index_type.value.lower())
    out = np.frombuffer(noise.bytes(plan.out_extent * plan.element_bytes), data.dtype).copy()
    assert way.prepare(plan).run(data.reshape(-1), None if indices is None else indices.reshape(-1), out) is None
    assert out.tobytes() == shaped.numpy(data, indices if indices is not None else np.empty(0, np.int64)).tobytes()


def _number(element_bytes: int) -> str:
    return {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}[element_bytes]


@pytest.mark.parametrize(("name", "shaped"), [(name, shaped) for name, group in TYPICAL.items() for shaped in group])
def test_typical_shapes_use_their_recipe(name: str, shaped: Shaped) -> None:
    assert recipe_of(FALLBACK.prepare(shaped.plan)) == name


def test_every_recipe_is_tested() -> None:
    assert {recipe.name for recipe in RECIPES} == {"fill"} | set(TYPICAL)


def test_an_empty_output_checks_its_indices_only_under_raise(way: Way) -> None:
    plan = gather((7, 0), (5,), 0, Kind(policy=OutOfBounds.RAISE)).plan
    data, out = np.empty(0, "f4"), np.empty(0, "f4")
    program = way.prepare(plan)
    assert program.run(data, np.array([0, -7, 6, 3, 1]), out) is None
    assert program.run(data, np.array([0, 1, 7, 3, -8]), out) == 2
    clamping = way.prepare(replace(plan, out_of_bounds=OutOfBounds.CLAMP))
    assert clamping.run(data, np.array([0, 1, 7, 3, -8]), out) is None


@pytest.mark.parametrize("element_bytes", ELEMENT_BYTES)
def test_fill_over_an_empty_axis_writes_the_fill_value_alone(element_bytes: int, way: Way) -> None:
    fill = bytes(range(1, element_bytes + 1))
    lookup = Lookup((1, 0), index_offset=0, limit=0, wrap=0, in_stride=0)
    plan = IndexPlan(
        (3, 4), (6, 1), (0, 1), element_bytes, in_extent=0, out_extent=18, lookups=(lookup,),
        index_type=IndexType.INT32, index_extent=3, out_of_bounds=OutOfBounds.FILL, fill=fill,
    )  # fmt: skip
    dtype = f"V{element_bytes}"
    out = np.zeros(18, dtype)
    assert recipe_of(FALLBACK.prepare(plan)) == "fill"
    way.prepare(plan).run(np.empty(0, dtype), np.array([1, 2, 3], np.int32), out)
    rows = out.reshape(3, 6)
    assert rows[:, :4].tobytes() == 12 * fill
    assert not any(rows[:, 4:].tobytes())


def test_raise_names_the_smallest_offset_in_any_execution_order(way: Way) -> None:
    # The output reads the indices in reverse and column by column. Offsets still count positions in the index buffer.
    shape = (50, 40)
    lookup = Lookup((-1, -50), index_offset=1999, limit=9, wrap=9, in_stride=1)
    plan = IndexPlan(
        shape, packed_strides(shape), (0, 0), 2, in_extent=9, out_extent=2000, lookups=(lookup,),
        index_type=IndexType.INT16, index_extent=2000, out_of_bounds=OutOfBounds.RAISE,
    )  # fmt: skip
    indices = np.zeros(2000, np.int16)
    indices[[1700, 613, 1999]] = (9, -10, 32767)
    for block in BLOCKS:
        assert way.prepare(plan, block).run(np.zeros(9, "u2"), indices, np.zeros(2000, "u2")) == 613


def test_clamping_into_an_empty_axis_is_refused() -> None:
    plan = IndexPlan(
        (3,), (1,), (0,), 1, in_extent=1, out_extent=3, lookups=(Lookup((1,), 0, limit=0, wrap=0, in_stride=1),),
        index_type=IndexType.INT8, index_extent=3,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"lookup 0 indexes an axis of size 0 while the output has 3 elements"):
        prepare(plan)


@pytest.mark.parametrize("policy", [OutOfBounds.FILL, OutOfBounds.RAISE])
@pytest.mark.parametrize("index_type", [IndexType.INT64, IndexType.UINT64, IndexType.INT8])
def test_the_largest_limits_and_unused_strides_are_exact(index_type: IndexType, policy: OutOfBounds, way: Way) -> None:
    wrap = 2**63 - 1 if index_type.signed else 0
    widest = Lookup((1,), index_offset=0, limit=2**63 - 1, wrap=wrap, in_stride=0)
    single = Lookup((0,), index_offset=7, limit=1, wrap=min(wrap, 1), in_stride=2**100)
    plan = IndexPlan(
        (7,), (1,), (1,), 2, in_extent=7, out_extent=7, lookups=(widest, single), index_type=index_type, index_extent=8,
        out_of_bounds=policy, fill=b"\x01\x02" if policy is OutOfBounds.FILL else b"",
    )  # fmt: skip
    info = np.iinfo(index_type.value.lower())
    data = np.arange(7, dtype=np.uint16)
    for last in (0, 1):
        indices = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1, 5, last], info.dtype)
        for block in BLOCKS:
            check(way.prepare(plan, block), data, indices, np.zeros(7, np.uint16))


def test_raise_over_an_empty_axis_reads_nothing(way: Way) -> None:
    lookup = Lookup((0, 1), index_offset=0, limit=0, wrap=0, in_stride=2**70)
    plan = IndexPlan(
        (3, 4), (4, 1), (-(2**80), 5), 4, in_extent=0, out_extent=12, in_offset=2**90, lookups=(lookup,),
        index_type=IndexType.INT32, index_extent=4, out_of_bounds=OutOfBounds.RAISE,
    )  # fmt: skip
    assert way.prepare(plan).run(np.empty(0, "u4"), np.zeros(4, np.int32), np.zeros(12, "u4")) == 0


def test_limits_beyond_64_bits_are_refused() -> None:
    lookup = Lookup((1,), index_offset=0, limit=2**63, wrap=0, in_stride=0)
    plan = IndexPlan(
        (3,), (1,), (1,), 1, in_extent=3, out_extent=3, lookups=(lookup,),
        index_type=IndexType.UINT64, index_extent=3, out_of_bounds=OutOfBounds.RAISE,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"limit 9223372036854775808 .* expected at most 9223372036854775807"):
        prepare(plan)


@pytest.mark.parametrize(("window", "hop"), [(192, 128), (160, 128), (200, 128), (320, 256)])
def test_rows_that_overlap_in_the_source_equal_numpy(way: Way, window: int, hop: int) -> None:
    """The columns of a frame begin where a shorter block of the frame before began. Judge: NumPy."""
    noise = seeds.numpy_rng()
    base = noise.integers(0, 2**31, (1024, 1024), np.int32)
    indices = noise.integers(0, 1024, ((1024 - window) // hop + 1, 400, window))
    frames = np.lib.stride_tricks.sliding_window_view(base, window, axis=1)[:, ::hop].transpose(1, 0, 2)
    plan = IndexPlan(
        shape=indices.shape,
        out_strides=packed_strides(indices.shape),
        in_strides=(hop, 0, 1),
        element_bytes=4,
        in_extent=base.size,
        out_extent=indices.size,
        lookups=(Lookup(packed_strides(indices.shape), index_offset=0, limit=1024, wrap=0, in_stride=1024),),
        index_type=IndexType.INT64,
        index_extent=indices.size,
    )
    for threads in (1, 2):
        out = np.zeros(indices.size, np.int32)
        assert way.prepare(plan, threads=threads).run(base.reshape(-1), indices.reshape(-1), out) is None
        np.testing.assert_array_equal(out.reshape(indices.shape), np.take_along_axis(frames, indices, 1))
