"""Plans whose source, indices or output span gigabytes in sparse buffers, so that 32-bit offsets do not suffice."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from tests.cpu_kernels.cases import Case, Memory, Part, Settings, plan_words
from tests.cpu_kernels.making import random_settings

FAR = 2**32


def addresses(shape: Sequence[int], strides: Sequence[int], offset: int) -> NDArray[np.int64]:
    """Return offset + o·strides for every o."""
    found = np.array([offset])
    for size, step in zip(shape, strides, strict=True):
        found = np.add.outer(found, np.arange(size) * step).ravel()
    return found


def sparse(array: NDArray[Any], at: NDArray[np.int64]) -> Memory:
    """Return a buffer that contains only these elements."""
    unique, size = np.unique(at), array.itemsize
    runs = np.split(unique, np.flatnonzero(np.diff(unique) > 1) + 1)
    return Memory(array.nbytes, 0, tuple(Part(int(run[0]) * size, array[run].tobytes()) for run in runs))


def far_case(plan: IndexPlan, settings: Settings, rng: random.Random) -> Case:
    """Return a run of the plan. The elements and indices that it reads are random, and all others are 0."""
    noise, dtype = np.random.default_rng(rng.getrandbits(64)), np.dtype(f"V{plan.element_bytes}")
    indices, index_memory = None, Memory(0, 0, ())
    if plan.index_type is not None:
        looked = [addresses(plan.index_shape, lookup.index_strides, lookup.index_offset) for lookup in plan.lookups]
        indices = np.zeros(plan.index_extent, plan.index_type.value.lower())
        info = np.iinfo(indices.dtype)
        for lookup, at in zip(plan.lookups, looked, strict=True):
            indices[at] = [_index(lookup, int(info.min), int(info.max), rng) for _ in at]
        index_memory = sparse(indices, np.concatenate(looked))
    sources = np.zeros(plan.elements, np.int64)
    packed = replace(plan, element_bytes=8, out_of_bounds=OutOfBounds.CLAMP, fill=b"", **_packed_output(plan))
    assert reference.run(packed, range(plan.in_extent), indices, sources) is None
    data = np.zeros(plan.in_extent, dtype)
    data[sources] = np.frombuffer(noise.bytes(sources.size * dtype.itemsize), dtype)
    targets = addresses(plan.shape, plan.out_strides, plan.out_offset)
    out = np.zeros(plan.out_extent, dtype)
    out[targets] = np.frombuffer(noise.bytes(targets.size * dtype.itemsize), dtype)
    before = sparse(out, targets)
    bad = reference.run(plan, data, indices, out)
    if bad is not None:
        reference.run(replace(plan, out_of_bounds=OutOfBounds.CLAMP), data, indices, out)
    return Case(
        plan_words(plan, settings),
        callers=1,
        returned=-1 if bad is None else bad,
        data=sparse(data, sources),
        indices=index_memory,
        out=before,
        expected=sparse(out, targets),
        title=f"{settings}\n{plan}",
    )


def _packed_output(plan: IndexPlan) -> dict[str, Any]:
    strides, step = list[int](), 1
    for size in reversed(plan.shape):
        strides.insert(0, step)
        step *= size
    return {"out_strides": tuple(strides), "out_extent": step, "out_offset": 0}


def _index(lookup: Lookup, low: int, high: int, rng: random.Random) -> int:
    """Return an index of a type from `low` to `high`: at a power of two, at an end of the axis, or out of bounds."""
    near = (0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, lookup.limit - 1, lookup.limit - 2, lookup.limit // 2)
    good = [value for value in near if 0 <= value < lookup.limit]
    bad = (*(lookup.limit + beyond for beyond in (0, 2**31, 2**32)), -lookup.limit, -lookup.limit - 1)
    bad = (*bad, -1, -2, -(2**31), -(2**32), low, high)
    value = rng.choice(good) if rng.random() < 0.7 else rng.choice((*bad, rng.randrange(lookup.limit)))
    return max(low, min(high, value))


def far_plans(rng: random.Random) -> Iterator[IndexPlan]:
    """Yield plans that reach beyond 2^31 or 2^32 in different ways."""
    for kind in (IndexType.INT64, IndexType.UINT64, IndexType.UINT32):
        yield _gather((301,), 1, (FAR + 5, 1), kind, rng)  # the limit
        yield _gather((3, 200), 1, (2**20, 4099), kind, rng)  # the product with the step of a run
        yield _gather((90, 3), 2, (2**20, 4099), kind, rng)  # the product with the step of a unit
    yield _gather((90,), 4, (2**30, 1), IndexType.INT32, rng)
    for limit in (2**30, 2**30 + 1):  # the last product within 32 bits, and the first beyond
        yield _gather((90,), 1, (limit, 2), IndexType.INT32, rng)
    yield _gather((90,), 1, (9, 2**29), IndexType.INT8, rng)
    yield _gather((90,), 1, (9, -(2**29)), IndexType.INT8, rng)
    yield _gather((90,), 1, (2, 2**32 + 1), IndexType.UINT8, rng)
    yield replace(_gather((90,), 1, (1000, 1), IndexType.INT64, rng), lookups=(Lookup((1,), 0, 1000, 2**33, 1),))  # the wrap
    # Two lookups, or a lookup and a step along its dimension, that only together reach far.
    half = Lookup((1, 2), 0, 2**30, 2**30, 1)
    yield _looked(
        (9, 8), (0, 0), (half, replace(half, index_offset=3, in_stride=2)), extents=(3 * 2**30, 30), kind=IndexType.INT64, rng=rng
    )
    yield _looked((9, 8), (0, 2**28), (half,), extents=(2**30 + 7 * 2**28, 30), kind=IndexType.INT64, rng=rng)
    yield _looked((9, 8), (2**28 + 1, 0), (half,), extents=(2**30 + 8 * (2**28 + 1), 30), kind=IndexType.INT64, rng=rng)
    yield _looked(
        (9, 4, 3), (5, 2**31, 2**30), (Lookup((1, 0, 0), 0, 4, 0, 1),), extents=(2**34, 9), kind=IndexType.INT16, rng=rng
    )  # parts
    # The index tensor, the output, a copy.
    yield _looked(
        (3, 50), (0, 0), (Lookup((2**31 + 3, 1), 0, 99, 99, 1),), extents=(99, 2 * (2**31 + 3) + 50), kind=IndexType.INT8, rng=rng
    )
    for fill in (False, True):
        plan = _looked((3, 70), (0, 1), (Lookup((1, 0), 0, 9, 9, 70),), extents=(630, 3), kind=IndexType.INT32, rng=rng)
        plan = replace(plan, out_of_bounds=OutOfBounds.FILL, fill=b"\xa7" * plan.element_bytes) if fill else plan
        yield replace(plan, out_strides=(2**31 + 13, 1), out_extent=2**32 + 100)
    for strides in ((2**32 + 7, 1), (1, 2**26 + 1), (-(2**32), -1)):
        low = -sum(min(step, 0) * (size - 1) for size, step in zip((3, 70), strides, strict=True))
        extent = 1 + sum(abs(step) * (size - 1) for size, step in zip((3, 70), strides, strict=True))
        yield IndexPlan((3, 70), (70, 1), strides, 1, extent, 210, low)


def _gather(shape: tuple[int, ...], size: int, reach: tuple[int, int], kind: IndexType, rng: random.Random) -> IndexPlan:
    """Return a plan for looked-up elements, or rows for a shape of two dimensions. reach: the limit and its step."""
    limit, step = reach
    rows = (0,) * (len(shape) - 1)
    wrap = limit if kind.signed else 0
    inner = shape[1] if rows else 1
    extent = (limit - 1) * abs(step) + inner
    policy = rng.choice(list(OutOfBounds))
    return IndexPlan(
        shape=shape,
        out_strides=(inner, 1)[: len(shape)] if rows else (1,),
        in_strides=(0, 1)[: len(shape)],
        element_bytes=size,
        in_extent=extent,
        out_extent=shape[0] * inner,
        in_offset=0 if step > 0 else -step * (limit - 1),
        lookups=(Lookup((1, *rows), 0, limit, wrap, step),),
        index_type=kind,
        index_extent=shape[0],
        out_of_bounds=policy,
        fill=bytes(range(7, 7 + size)) if policy is OutOfBounds.FILL else b"",
    )


def _looked(
    shape: tuple[int, ...],
    in_strides: tuple[int, ...],
    lookups: tuple[Lookup, ...],
    *,
    extents: tuple[int, int],
    kind: IndexType,
    rng: random.Random,
) -> IndexPlan:
    """Return a plan for looked-up bytes. extents: of the input and of the indices."""
    strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    policy = rng.choice((OutOfBounds.CLAMP, OutOfBounds.RAISE, OutOfBounds.PROMISE))
    return IndexPlan(
        shape=shape,
        out_strides=strides,
        in_strides=in_strides,
        element_bytes=1,
        in_extent=extents[0],
        out_extent=int(np.prod(shape)),
        lookups=lookups,
        index_type=kind,
        index_extent=extents[1],
        out_of_bounds=policy,
    )


def far_cases(rng: random.Random) -> Iterator[Case]:
    for plan in far_plans(rng):
        settings = random_settings(rng)
        yield far_case(plan, settings, rng)
        yield far_case(plan, replace(settings, block_units=0), rng)
