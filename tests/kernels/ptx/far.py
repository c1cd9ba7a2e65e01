"""Plans over buffers of up to 2^45 bytes. Only the bytes that launches touch exist."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cuda.launch import Launch
from dmlgather.plan import ELEMENT_BYTES, IndexPlan, IndexType, Lookup, OutOfBounds, dot, reach
from dmlgather.plan.interpreter import IndexOutcome, Origin, index_addresses, origin_of
from dmlgather.selftest.random_plans import EXTREMES
from tests.kernels.ptx.machine import Buffer, pattern
from tests.kernels.ptx.runs import AS_WRITTEN, FARTHEST, INDICES, INPUT, OUTPUT, Kernels, Placed, Word, address

MOST_ELEMENTS = 600


def far_plan(rng: random.Random) -> IndexPlan:
    """Return a plan for a few runs of elements that lie far apart. Specialised kernels take steps below 2^31 bytes, the general
    ones up to 2^41.
    """
    size, longest = rng.choice(ELEMENT_BYTES), rng.choice((2**31, 2**31, 2**41))
    outer = [rng.randint(1, 4) for _ in range(rng.randint(1, 2 if longest == 2**31 else 3))]
    shape = (*outer, rng.choice((1, 3, 40, MOST_ELEMENTS // prod(outer))))
    out_strides, out_offset = _apart(rng, shape, longest // size)
    in_strides, _ = _apart(rng, shape, longest // size)
    count = rng.choice((0, 1, 1, 2))
    if count == 1 and rng.random() < 0.4:  # gathers along rows
        in_strides = (*in_strides[:-1], 0)
        lookups: tuple[Lookup, ...] = (_lookup(rng, shape, (1, 64, 300), 1, 1),)
    else:
        limits = (1, 5, rng.randint(64, 300), 2**31 - 1, 2**31, rng.randint(1, 2**32))
        far = rng.choice((1, shape[-1], longest // size - rng.randint(0, 2), int(2 ** rng.uniform(0, 36))))
        lookups = tuple(_lookup(rng, shape, limits, far, rng.choice((0, 0, 1))) for _ in range(count))
    kind = rng.choice((*IndexType, IndexType.INT32, IndexType.INT64)) if lookups else None
    if kind is not None and not kind.signed:
        lookups = tuple(replace(lookup, wrap=0) for lookup in lookups)
    policy = rng.choice(list(OutOfBounds)) if lookups else OutOfBounds.CLAMP
    lookups = tuple(replace(lookup, in_stride=min(lookup.in_stride, FARTHEST // 4 // size // lookup.limit)) for lookup in lookups)
    low, high = reach((*shape, *(lookup.limit for lookup in lookups)), (*in_strides, *(lookup.in_stride for lookup in lookups)))
    return IndexPlan(
        shape=shape,
        out_strides=out_strides,
        in_strides=in_strides,
        element_bytes=size,
        in_extent=high - low + 1 + rng.choice((0, 3)),
        out_extent=out_offset + reach(shape, out_strides)[1] + 1 + rng.choice((0, 5)),
        in_offset=-low,
        out_offset=out_offset,
        lookups=lookups,
        index_type=kind,
        index_extent=max((reach(shape, lookup.index_strides, lookup.index_offset)[1] + 1 for lookup in lookups), default=0),
        out_of_bounds=policy,
        fill=rng.randbytes(1) * size if policy is OutOfBounds.FILL else b"",
    )


def _apart(rng: random.Random, shape: Sequence[int], longest: int) -> tuple[tuple[int, ...], int]:
    """Return strides of up to `longest` elements that give all coordinates different places, and the first element's offset."""
    while True:
        strides = [1]
        for count in reversed(shape[1:]):
            least = strides[0] * count
            far = rng.choice((least, longest - rng.randint(0, 2), rng.randrange(longest), int(longest ** rng.random())))
            strides.insert(0, max(least, far))
        signed = (*(step if rng.random() < 0.8 else -step for step in strides[:-1]), 1)
        low, high = reach(shape, signed)
        if high - low < FARTHEST // 64:
            return signed, -low


def _lookup(rng: random.Random, shape: Sequence[int], limits: Sequence[int], step: int, along: int) -> Lookup:
    """Return a lookup whose indices lie far apart. along: index elements from one element of a run to the next."""
    strides, offset = _apart(rng, shape, rng.choice((2**28, 2**35)))
    limit = rng.choice(limits)
    return Lookup((*strides[:-1], along), offset, limit, rng.choice((0, limit, limit)), step)


def agree(
    plan: IndexPlan, launches: Sequence[Launch], rng: random.Random, alignment: int = 16, kernels: Kernels = AS_WRITTEN
) -> None:
    """Run `launches` over sparse buffers, and compare each byte with the byte that the plan's description gives.

    The input contains `pattern`. Indices are valid, bad and extreme. Raises AssertionError.
    """
    size, at = plan.element_bytes, alignment % 16
    data = _sparse(rng, INPUT, plan.in_extent * size, at, readable=True)
    out = _sparse(rng, OUTPUT, plan.out_extent * size, at, writable=True)
    steps = list(itertools.product(*map(range, plan.shape)))
    values = _index_values(plan, steps, rng)
    indices = None
    if plan.index_type is not None:
        width = plan.index_type.bytes
        indices = _sparse(rng, INDICES, plan.index_extent * width, width % 16, readable=True)
        for place, value in values.items():
            indices.write(place * width, value.to_bytes(width, "little", signed=plan.index_type.signed))
    word = Word(rng) if plan.out_of_bounds is OutOfBounds.RAISE else None
    placed, stored = Placed(data, indices, out, word), 0
    for launch in launches:
        placed.run(launch, rng, kernels)
        stored += out.bytes_stored()
    origins = [origin_of(plan, step, values.__getitem__) for step in steps]
    bad = [index.address for origin in origins for index in origin.indices if index.outcome is IndexOutcome.REFUSED]
    reported = word.first_bad if word else None
    assert reported == min(bad, default=None), f"the bad index at {reported} was reported, of {sorted(bad)}"
    if not bad:
        places = [plan.out_offset + dot(step, plan.out_strides) for step in steps]
        found, _ = out.read(_bytes_of(places, size))
        right = np.frombuffer(b"".join(_element(plan, origin, data) for origin in origins), np.uint8)
        wrong = np.flatnonzero(found != right)
        assert not wrong.size, f"{wrong.size} of {right.size} output bytes are wrong, the first one at {wrong[0]}"
        assert stored == right.size, f"{stored} bytes were stored for {right.size} of output"


def _sparse(rng: random.Random, number: int, size: int, at: int, *, readable: bool = False, writable: bool = False) -> Buffer:
    assert size <= FARTHEST
    return Buffer(address(rng, number, size, at), None, size=size, readable=readable, writable=writable)


def _index_values(plan: IndexPlan, steps: Sequence[tuple[int, ...]], rng: random.Random) -> dict[int, int]:
    """Return the index at each address of the index tensor that a step looks up."""
    values: dict[int, int] = {}
    if plan.index_type is None:
        return values
    info = np.iinfo(plan.index_type.value.lower())
    bad = rng.choice((0.0, 0.02, 0.5))
    for step in steps:
        for place, lookup in zip(index_addresses(plan, step), plan.lookups, strict=True):
            limit = lookup.limit
            edges = (0, limit - 1, limit // 2, *((-1, -limit) if lookup.wrap == limit else ()))
            good = rng.choice((*edges, rng.randrange(limit)))
            value = rng.choice((*EXTREMES, limit, -limit - 1)) if rng.random() < bad else good
            values.setdefault(place, min(max(value, int(info.min)), int(info.max)))
    return values


def _element(plan: IndexPlan, origin: Origin, data: Buffer) -> bytes:
    if origin.source is None:
        return plan.fill
    return pattern(_bytes_of([origin.source], plan.element_bytes).astype(np.uint64) + np.uint64(data.address)).tobytes()


def _bytes_of(places: Sequence[int], size: int) -> NDArray[np.int64]:
    """Return the offsets of the bytes of elements."""
    return (np.array(places, np.int64)[:, None] * size + np.arange(size)).reshape(-1)
