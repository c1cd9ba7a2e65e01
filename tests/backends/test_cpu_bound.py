"""Bound calls: checked once, run many times by many threads, with the arrays' current contents."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.plan import IndexPlan, IndexType, OutOfBounds
from dmlgather.selftest.random_plans import random_buffers
from tests import seeds
from tests.at_once import at_once
from tests.backends.shapes import Kind, Shaped, gather, gather_elements, gather_nd, view
from tests.backends.test_cpu import LOOKING, generators, readable_plan
from tests.backends.ways import BLOCKS, Way


def expected(plan: IndexPlan, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> tuple[int | None, bytes]:
    """Return the reference's result and its output buffer."""
    written = out.copy()
    return reference.run(plan, data, indices, written), written.tobytes()


def check(call: Callable[[], int | None], plan: IndexPlan, data: NDArray[Any], indices: NDArray[Any] | None, out: Any) -> None:
    """Assert that a bound call gives the reference's result."""
    bad, written = expected(plan, data, indices, out)
    assert call() == bad
    assert bad is not None or out.tobytes() == written


@settings(max_examples=80, deadline=None)
@given(generators)
def test_a_bound_call_reads_the_current_contents(way: Way, rng: random.Random) -> None:
    plan = readable_plan(rng)
    first, second = random_buffers(plan, rng), random_buffers(plan, rng)
    for block in BLOCKS:
        data, out = first.data.copy(), first.out.copy()
        indices = None if first.indices is None else first.indices.copy()
        call = way.prepare(plan, block).bind(data, indices, out)
        for buffers in (first, second, first):
            data[...], out[...] = buffers.data, buffers.out
            if indices is not None:
                indices[...] = buffers.indices
            check(call, plan, data, indices, out)


SMALL_CALLS: dict[str, Shaped] = {
    "rows": gather((100, 16), (8,)),
    "long rows": gather((7, 640), (5,)),
    "columns": gather((6, 20), (9,), 1),
    "elements": gather_elements((8, 8), 1),
    "elements, axis 0": gather_elements((8, 9), 0),
    "tuples": gather_nd((5, 6, 3), 17, 2),
}
"""Problems with one block."""


@pytest.mark.parametrize("policy", OutOfBounds)
@pytest.mark.parametrize("index_type", IndexType)
@pytest.mark.parametrize("name", SMALL_CALLS)
def test_small_bound_calls_equal_the_reference(name: str, index_type: IndexType, policy: OutOfBounds, way: Way) -> None:
    noise = seeds.numpy_rng()
    plan = SMALL_CALLS[name].plan
    lookups = [replace(one, wrap=one.limit if index_type.signed else 0) for one in plan.lookups]
    fill = b"\x81\x02\xfe\x5a" if policy is OutOfBounds.FILL else b""
    plan = replace(plan, lookups=tuple(lookups), index_type=index_type, out_of_bounds=policy, fill=fill)
    info = np.iinfo(index_type.value.lower())
    limit = plan.lookups[0].limit
    indices = noise.integers(0, min(one.limit for one in plan.lookups), plan.index_extent).astype(info.dtype)
    clean = indices.copy()
    data = np.frombuffer(noise.bytes(4 * plan.in_extent), "u4")
    out = np.zeros(plan.out_extent, "u4")
    call = way.prepare(plan).bind(data, indices, out)
    wild = (None, -1, -limit, None, -limit - 1, limit - 1, limit, info.min, info.max, None)
    for value in [one for one in wild if one is None or info.min <= one <= info.max]:
        indices[...] = clean
        if value is not None:
            indices[noise.integers(0, indices.size)] = value
        out[...] = 0xABCD
        check(call, plan, data, indices, out)


MANY_BLOCKS = (
    gather((500,), (70, 40)),
    gather((50, 2), (700,), 0, Kind(4, IndexType.INT32)),
    gather((300,), (1000,), 0, Kind(1, IndexType.UINT8)),
    gather((3, 50), (900,), 1),
    gather_elements((2, 700), 1, Kind(2)),
)
"""Problems with many blocks of 64 or fewer units."""


@pytest.mark.parametrize("policy", OutOfBounds)
@pytest.mark.parametrize("shaped", MANY_BLOCKS)
def test_bad_indices_between_good_blocks_equal_the_reference(shaped: Shaped, policy: OutOfBounds, way: Way) -> None:
    noise = seeds.numpy_rng()
    size = shaped.plan.element_bytes
    fill = bytes(range(0x80, 0x80 + size)) if policy is OutOfBounds.FILL else b""
    plan = replace(shaped.plan, out_of_bounds=policy, fill=fill)
    assert plan.index_type is not None
    info = np.iinfo(plan.index_type.value.lower())
    limit = plan.lookups[0].limit
    data = np.frombuffer(noise.bytes(size * plan.in_extent), f"V{size}")
    for block in (64, 24):
        out = np.frombuffer(noise.bytes(size * plan.out_extent), f"V{size}").copy()
        low = -limit if plan.index_type.signed else 0
        indices = noise.integers(max(low, info.min), min(limit, info.max), plan.index_extent).astype(info.dtype)
        call = way.prepare(plan, block).bind(data, indices, out)
        for many in (0, 1, 5, 0):
            changed = indices.copy()
            indices[noise.integers(0, indices.size, many)] = info.max
            check(call, plan, data, indices, out)
            indices[...] = changed


@pytest.mark.parametrize(
    "shaped",
    [*SMALL_CALLS.values(), *MANY_BLOCKS, *(make(Kind()) for make in LOOKING.values()), view((40, 30), lambda x: x.T)],
)
def test_threads_may_share_a_bound_call(shaped: Shaped, way: Way) -> None:
    noise = seeds.numpy_rng()
    plan = shaped.plan
    data = np.frombuffer(noise.bytes(plan.element_bytes * plan.in_extent), f"u{plan.element_bytes}")
    indices = None
    if plan.index_type is not None:
        info = np.iinfo(plan.index_type.value.lower())
        indices = noise.integers(-3 if plan.index_type.signed else 0, 3, plan.index_extent).astype(info.dtype)
        indices[-1] = info.max  # so that some blocks use scratch memory
    for block in (0, 64, 24):
        out = np.zeros(plan.out_extent, data.dtype)
        _, written = expected(plan, data, indices, out)
        call = way.prepare(plan, block, threads=3).bind(data, indices, out)
        # All threads write the same bytes, unless a thread uses another's scratch memory.
        found = at_once(lambda _: [(call(), out.tobytes() == written) for _ in range(10)], range(6))  # noqa: B023 - mapped at once
        assert found == [[(None, True)] * 10] * 6
