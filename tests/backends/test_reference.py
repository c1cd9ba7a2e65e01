"""The reference backend. Judges: the plan's pseudocode, one element at a time, and the interpreter for single elements."""

from __future__ import annotations

import functools
import random
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgather.backends import reference
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds, dot, packed_strides, reach
from dmlgather.plan.interpreter import origin_of
from dmlgather.selftest.random_plans import EXTREMES, PlanBuffers, random_buffers, random_plan, random_runs
from tests.backends import literal
from tests.backends.shapes import FILL, Kind, Shaped, gather, gather_elements, gather_nd, view
from tests.noticing import BrokenPrograms

seeds = st.integers(0, 2**64 - 1).map(random.Random)
block_sizes = st.sampled_from((1, 2, 3, 7, 16, 50, reference.BLOCK))

Run = Callable[[IndexPlan, Any, Any, Any], int | None]


def outcome(run: Run, plan: IndexPlan, buffers: PlanBuffers) -> tuple[Any, bytes]:
    """Return the offset of the first bad index or the error, and the bytes of a complete output."""
    out = buffers.out.copy()
    try:
        bad = run(plan, buffers.data, buffers.indices, out)
    except ValueError as error:
        return str(error), out.tobytes()
    return bad, out.tobytes() if bad is None else b""


def any_plan(rng: random.Random) -> IndexPlan:
    """Return a random plan. Some have a wrap beyond int64, or more dimensions of size 0 or 1 with arbitrary strides."""
    plan = rng.choice((random_plan(rng, elements=150), random_runs(rng, longest=60)))
    if plan.index_type is not None and plan.index_type.signed and rng.random() < 0.1:
        wrap = rng.choice((2**63 - 1, 2**63, 2**70))
        plan = replace(plan, lookups=tuple(replace(lookup, wrap=wrap) for lookup in plan.lookups))
    if rng.random() < 0.1:
        shape = rng.choice(((0,), (1,), (1,) * 66, (0, 2**40)))
        more = tuple(rng.choice((0, 1, -7, 2**70)) for _ in shape)
        still = (0,) * len(shape)
        plan = replace(
            plan,
            shape=(*shape, *plan.shape),
            in_strides=(*more, *plan.in_strides),
            out_strides=(*more, *plan.out_strides),
            lookups=tuple(replace(lookup, index_strides=(*still, *lookup.index_strides)) for lookup in plan.lookups),
        )
    return plan


@settings(max_examples=300, deadline=None)
@given(seeds, block_sizes)
def test_random_plans_equal_the_pseudocode(rng: random.Random, block: int) -> None:
    plan = any_plan(rng)
    buffers = random_buffers(plan, rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "BLOCK", block)
        assert outcome(reference.run, plan, buffers) == outcome(literal.run, plan, buffers)


@settings(max_examples=150, deadline=None)
@given(seeds)
def test_every_element_has_the_interpreters_origin(rng: random.Random) -> None:
    plan = random_plan(rng, element_bytes=8, elements=200)
    plan = replace(plan, fill=np.int64(-1).tobytes() if plan.fill else b"")
    buffers = random_buffers(plan, rng)
    out = np.zeros(plan.out_extent, np.int64)
    try:
        bad = reference.run(plan, range(plan.in_extent), buffers.indices, out)
    except ValueError:
        return
    if bad is None:
        indices = np.zeros(plan.index_extent, int) if plan.constant or buffers.indices is None else buffers.indices
        for o in np.ndindex(plan.shape):
            source = origin_of(plan, o, lambda at: int(indices[at])).source
            assert out[plan.out_offset + dot(o, plan.out_strides)] == (-1 if source is None else source)


LIMITS = (1, 5, 2**31, 2**32 + 1, 2**63 - 1, 2**63, 2**64, 2**70)
WRAPS = (0, 5, 2**31, 2**63 - 1, 2**63, 2**70)


@pytest.mark.parametrize("kind", list(IndexType), ids=lambda kind: kind.name)
@pytest.mark.parametrize("policy", list(OutOfBounds), ids=lambda policy: policy.name)
def test_indices_limits_wraps_and_strides_of_any_size_are_exact(kind: IndexType, policy: OutOfBounds) -> None:
    """The data is a range longer than any array, so that each element is its own address."""
    info = np.iinfo(kind.value.lower())
    wanted = (*range(-6, 7), info.min, info.min + 1, info.max, *EXTREMES)
    indices = np.array(sorted({value for value in wanted if info.min <= value <= info.max}), info.dtype)
    filled = policy is OutOfBounds.FILL  # then elements have 8 bytes, and addresses must not be longer
    for limit in LIMITS:
        for wrap in WRAPS if kind.signed else (0,):
            for in_stride, column in ((int(limit <= 2**64), 0),) if filled else ((1, 1), (-3, 1), (0, 2**65), (2**60, -1)):
                low, high = reach((2, limit), (column, in_stride))
                plan = IndexPlan(
                    shape=(len(indices), 2),
                    out_strides=(2, 1),
                    in_strides=(0, column),
                    element_bytes=8,
                    in_extent=high - low + 1,
                    out_extent=2 * len(indices),
                    in_offset=-low,
                    lookups=(Lookup((1, 0), 0, limit, wrap, in_stride),),
                    index_type=kind,
                    index_extent=len(indices),
                    out_of_bounds=policy,
                    fill=FILL[:8] if filled else b"",
                )
                found, expected = (np.zeros(plan.out_extent, np.uint64 if filled else object) for _ in range(2))
                bad = literal.run(plan, range(plan.in_extent), indices, expected)
                assert reference.run(plan, range(plan.in_extent), indices, found) == bad
                assert bad is not None or found.tolist() == expected.tolist()


def test_a_lookup_into_one_position_has_a_stride_of_any_size() -> None:
    plan = replace(gather((1, 3), (4,)).plan, lookups=(Lookup((1, 0), 0, 1, 1, 2**70),))
    out = np.zeros(12, np.uint32)
    assert reference.run(plan, np.arange(3, dtype=np.uint32), np.array([0, 5, -1, -9]), out) is None
    assert out.tolist() == [0, 1, 2] * 4


# Contents of elements.


@pytest.mark.parametrize("policy", list(OutOfBounds), ids=lambda policy: policy.name)
@pytest.mark.parametrize(
    "dtype", ["?", "i1", "f2", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, "f4", "U1", "f8", "M8[ns]", "c8", "c16", "U4", "V16"]
)
def test_every_data_type_moves_as_bits(dtype: Any, policy: OutOfBounds) -> None:
    """The bytes are random, so they include NaN payloads."""
    dtype = np.dtype(dtype)
    rng = random.Random(dtype.itemsize)
    plan = gather((40, 33), (70,), 0, Kind(dtype.itemsize, IndexType.INT32, policy)).plan
    buffers = random_buffers(plan, rng)
    some_bad = np.arange(-50, 20, dtype=np.int32)
    for indices in (some_bad, some_bad % 40):
        opaque = replace(buffers, indices=indices)
        typed = PlanBuffers(buffers.data.view(dtype), indices, buffers.out.view(dtype))
        assert outcome(reference.run, plan, typed) == outcome(literal.run, plan, opaque)


def test_python_objects_and_strings_are_moved() -> None:
    things = [object() for _ in range(30)]
    data = np.empty(30, object)
    data[:] = things
    plan, indices, out = gather((30,), (4,), 0, Kind(8)).plan, np.array([29, 3, -30, 3]), np.zeros(4, object)
    assert reference.run(plan, data, indices, out) is None
    assert all(one is other for one, other in zip(out, (things[29], things[3], things[0], things[3]), strict=True))
    words = np.array([f"{number} " * 20 for number in range(30)], np.dtypes.StringDType())
    heard = np.zeros(4, words.dtype)
    assert reference.run(replace(plan, element_bytes=16), words, indices, heard) is None
    assert heard.tolist() == words[indices].tolist()


# Shapes.


def test_plans_may_have_more_dimensions_than_arrays() -> None:
    rng = random.Random(5)
    shape = (1, 2, *[1] * 40, 3, *[1] * 30, 2, *[2] * 8, 5)
    packed = packed_strides(shape)
    order = rng.sample(range(len(shape)), len(shape))
    plan = IndexPlan(
        shape=shape,
        out_strides=packed,
        in_strides=tuple(packed_strides([shape[axis] for axis in order])[order.index(axis)] for axis in range(len(shape))),
        element_bytes=4,
        in_extent=prod(shape),
        out_extent=prod(shape),
    )
    assert plan.rank > 64
    buffers = random_buffers(plan, rng)
    assert outcome(reference.run, plan, buffers) == outcome(literal.run, plan, buffers)


def test_addresses_beyond_2_to_the_32_are_exact() -> None:
    """Addresses of sparse buffers, in a shape that nobody could list. Its first blocks come at once."""
    far = 2**32 + 7
    data, out = np.zeros(far + 10, np.uint8), np.zeros(far + 10, np.uint8)
    data[far:] = np.arange(10)
    plan = IndexPlan((2, 5), (far, -1), (5, 1), 1, far + 10, far + 10, in_offset=far, out_offset=4)
    assert reference.run(plan, data, None, out) is None
    assert (out[:5].tolist(), out[far:][:5].tolist()) == ([4, 3, 2, 1, 0], [9, 8, 7, 6, 5])
    long = IndexPlan((2**20, 2**20, 3), (2**22, 4, 1), (0, 0, 1), 1, 3, 2**42)

    class Stop(Exception):  # noqa: N818 # as Ctrl-C ends a run
        pass

    def stop(done: int, count: int) -> None:
        assert count == 3 * 2**40
        if done:
            raise Stop

    wide = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (2**42,), (0,))
    with pytest.raises(Stop), reference.watched(stop):
        reference.run(long, np.zeros(3, np.uint8), None, wide)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2**40, 0), (0, 2**70)])
def test_an_empty_output_under_raise_still_checks_its_indices(shape: tuple[int, ...]) -> None:
    still = (0,) * len(shape)
    lookups = (Lookup((*still, 1), 1, 9, 9, 1), Lookup((*still, 2), 0, 5, 5, 1))
    plan = IndexPlan(
        (*shape, 3), (*still, 0), (*still, 0), 1, 0, 0,
        lookups=lookups, index_type=IndexType.INT8, index_extent=5, out_of_bounds=OutOfBounds.RAISE,
    )  # fmt: skip
    for values, bad in (([0, 1, 2, 3, 4], None), ([0, 1, 9, 9, 4], 2), ([0, 9, 4, -10, -6], 1), ([6, 0, 0, 0, 0], 0)):
        nothing = np.zeros(0, np.uint8)
        assert reference.run(plan, nothing, np.array(values, np.int8), nothing) == bad


def test_a_constant_reads_nothing() -> None:
    """FILL over an axis without elements reads no input and no index."""
    plan = replace(gather((0, 3), (4,), 0, Kind(4, policy=OutOfBounds.FILL)).plan, index_extent=0)
    out = np.zeros(12, np.uint32)
    assert reference.run(plan, np.zeros(0, np.uint32), np.zeros(0, np.int64), out) is None
    assert out.tobytes() == 12 * FILL[:4]


BIG: dict[str, Shaped] = {
    "rows": gather((4000, 250), (8000,)),
    "elements": gather_elements((1500, 1500), 1, Kind(1, IndexType.INT8)),
    "filled": gather_elements((1500, 1500), 0, Kind(4, IndexType.UINT64, OutOfBounds.FILL)),
    "checked": gather_nd((300, 300), 1_500_000, 2, Kind(16, IndexType.INT32, OutOfBounds.RAISE)),
    "turned": view((1500, 1500), lambda x: x.T[::-1], 1),
    "many dimensions": view((2,) * 21, lambda x: x.T, 1),
}


@pytest.mark.parametrize("name", BIG)
def test_a_run_takes_little_memory_beyond_its_buffers(name: str) -> None:
    plan = BIG[name].plan
    dtype = np.dtype(f"V{plan.element_bytes}")
    data, out = np.zeros(plan.in_extent, dtype), np.zeros(plan.out_extent, dtype)
    indices = None if plan.index_type is None else np.zeros(plan.index_extent, plan.index_type.value.lower())
    tracemalloc.start()
    try:
        assert reference.run(plan, data, indices, out) is None
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


# The tests above notice deliberate errors.

SOURCE = Path(str(reference.__file__)).read_text(encoding="utf-8")
MUTATIONS = {
    "no wrap": ("            v[v < 0] += lookup.wrap\n            ok", "            ok"),
    "0 wraps": ("v[v < 0] += lookup.wrap\n            ok", "v[v <= 0] += lookup.wrap\n            ok"),
    "wraps until it is valid": (
        "v[v < 0] += lookup.wrap\n            ok",
        "v = v % lookup.wrap if lookup.wrap else v\n            ok",
    ),
    "the limit is valid": ("(v < lookup.limit)", "(v <= lookup.limit)"),
    "negatives are valid": ("ok & (v >= 0) &", "ok &"),
    "the last lookup decides": ("ok = ok & (v >= 0)", "ok = (v >= 0)"),
    "one bad index fills the block": ("np.where(ok, value, fill)", "np.where(ok.all(), value, fill)"),
    "no clamp from below": ("np.maximum(v, 0)", "v"),
    "clamped to 0": ("lookup.limit - 1).astype", "0).astype"),
    "clamped one too low": ("lookup.limit - 1).astype", "max(lookup.limit - 2, 0)).astype"),
    "no input offset": ("o.address(plan.in_offset,", "o.address(0,"),
    "no output offset": ("o.address(plan.out_offset,", "o.address(0,"),
    "no index offset": ("o.address(lookup.index_offset, lookup.index_strides))", "o.address(0, lookup.index_strides))"),
    "values have no stride": (" * lookup.in_stride", ""),
    "FILL clamps": ("value if fill is None else", "value if True else"),
    "CLAMP fills": ("if plan.fill else None", "if plan.fill else np.zeros(1, out.dtype)"),
    "a constant looks up": ("if plan.constant:", "if False:"),
    "RAISE clamps": ("if bad is not None:", "if False:"),
    "the first bad index of the walk": ("yield int(bad.min())", "yield int(bad.flat[0])"),
    "the largest offset of a bad index": ("bad.min()", "bad.max()"),
    "the check ignores negatives": ("(v < 0) | (v >= lookup.limit)", "v >= lookup.limit"),
    "the check has no wrap": ("            v[v < 0] += lookup.wrap\n            bad", "            bad"),
    "the check walks the output": ("_blocks(plan, plan.index_shape)", "_blocks(plan, plan.shape)"),
    "uint64 as int64": ('np.uint64 if indices.dtype.kind == "u" and offset.dtype != object else offset.dtype', "np.int64"),
    "indices stay narrow": (".astype(exact)", ".copy()"),
    "always int64": ("else object\n", "else np.int64\n"),
    "a part too few": ("-(-size // step)", "max(size // step, min(size, 1))"),
    "every part is the first": (
        "o.insert(0, np.arange(start, min(start + step, size)",
        "o.insert(0, np.arange(0, min(step, size)",
    ),
    "outer dimensions stand still": ("o.insert(0, start)", "o.insert(0, 0)"),
    "the last part is too long": ("min(start + step, size)", "start + step"),
}


@functools.cache
def broken(name: str) -> Run:
    """Return `run` of a copy of the reference with a deliberate error."""
    before, after = MUTATIONS[name]
    assert SOURCE.count(before) == 1, f"{before!r} is no longer a part of the reference"
    module = ModuleType("broken_reference")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "broken_reference", module)  # dataclasses look up their module
        exec(compile(SOURCE.replace(before, after), "broken_reference.py", "exec"), vars(module))
    module.BLOCK = 16  # type: ignore[attr-defined] # a module of this test
    run: Run = module.run
    return run


def judge(name: str, seed: int) -> tuple[str, str]:
    rng = random.Random(seed)
    plan = any_plan(rng)
    buffers = random_buffers(plan, rng)
    right = outcome(literal.run, plan, buffers)
    sound = "" if outcome(reference.run, plan, buffers) == right else "the result is not the pseudocode's"
    try:
        return sound, "" if outcome(broken(name), plan, buffers) == right else "the result is another one"
    except Exception as error:
        return sound, f"{type(error).__name__}: {error}"


PROGRAMS = BrokenPrograms("tests/backends/test_reference.py", MUTATIONS, judge)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_deliberate_error_is_noticed(name: str) -> None:
    PROGRAMS.check(name)
