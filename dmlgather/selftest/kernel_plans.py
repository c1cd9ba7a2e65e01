"""Plans that a given kernel variant runs, for every row of the table of variants."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.variants import KernelKind, Variant
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds, packed_strides
from dmlgather.selftest.random_plans import random_plan, random_runs

TRIES = 2000


def plan_for(variant: Variant, rng: random.Random, elements: int = 1500) -> tuple[IndexPlan, int]:
    """A random plan whose launches use `variant`, and the alignment to launch it with."""
    for _ in range(TRIES):
        plan, alignment = _candidate(variant, rng, elements)
        if any(launch.variant == variant for launch in launches_for(plan, alignment, 0)):
            return plan, alignment
    raise AssertionError(f"no plan for {variant.name} in {TRIES} tries")


def _candidate(variant: Variant, rng: random.Random, elements: int) -> tuple[IndexPlan, int]:
    size = variant.element_bytes
    match variant.kind:
        case KernelKind.COPY:
            return random_plan(rng, rank=rng.randint(1, 5), lookups=0, element_bytes=size, elements=elements), size
        case KernelKind.GATHER:
            fixed = _looked_up(variant, rng)
            return random_plan(rng, rank=rng.randint(1, 4), element_bytes=size, elements=elements, **fixed), size
        case KernelKind.SPAN:
            fixed = _looked_up(variant, rng) if variant.lookups else {"lookups": 0}
            size, longest = rng.choice((1, 2)), rng.choice((400, 400, 6000))
            plan = random_runs(rng, longest=longest, packed=True, rank=rng.randint(0, 3), element_bytes=size, **fixed)
            return plan, rng.choice((size, 16))
        case KernelKind.GENERAL:
            return random_plan(rng, rank=rng.randint(4, 6), element_bytes=size, elements=elements), size
        case KernelKind.CHECK:
            return random_plan(rng, lookups=rng.randint(1, 3), out_of_bounds=OutOfBounds.RAISE), 16
        case KernelKind.REVERSE:
            return _reversed(size, rng), 16
        case KernelKind.STAGED:
            return _staged(variant, rng), 16
    return _transposed(size, rng), size


def _looked_up(variant: Variant, rng: random.Random) -> dict[str, Any]:
    """How a random plan looks up what `variant` looks up."""
    checked, clamped = (OutOfBounds.FILL, OutOfBounds.RAISE, OutOfBounds.RAISE), (OutOfBounds.CLAMP, OutOfBounds.PROMISE)
    policies = checked if variant.checked else clamped
    kind = rng.choice([kind for kind in IndexType if kind.bytes == variant.index_bytes])
    return {"lookups": variant.lookups, "index_type": kind, "out_of_bounds": rng.choice(policies)}


def _reversed(size: int, rng: random.Random) -> IndexPlan:
    """An innermost dimension that runs backwards, in whole vectors."""
    lanes = 16 // size
    shape = (rng.randint(1, 5), rng.randint(1, 5), rng.randint(1, 20) * lanes)
    outer, middle, inner = packed_strides((*shape[:-1], shape[-1] + lanes * rng.randint(0, 2)))
    sign = rng.choice((1, -1))
    plan = IndexPlan(
        shape=shape,
        out_strides=(outer, middle, inner),
        in_strides=(outer, sign * middle, -1),
        element_bytes=size,
        in_extent=prod(shape[:2]) * middle,
        out_extent=prod(shape[:2]) * middle,
        in_offset=shape[2] - 1 + (0 if sign > 0 else (shape[1] - 1) * middle),
    )
    return plan if rng.random() < 0.8 else replace(plan, shape=(*shape[:-1], shape[-1] - lanes))


def _transposed(size: int, rng: random.Random) -> IndexPlan:
    """The innermost dimension swapped with another one, between up to two batch dimensions, with or without room ahead."""
    shape = [rng.randint(16, 70), rng.randint(16, 70)]
    for _ in range(rng.randint(0, 2)):
        shape.insert(rng.randint(0, 1), rng.randint(2, 3))
    padding = rng.choice((0, 3))
    out_strides = packed_strides((*shape[:-1], shape[-1] + padding))
    order = [*range(len(shape))]
    turned = rng.randrange(len(shape) - 1)
    order[turned], order[-1] = order[-1], order[turned]
    packed = packed_strides([shape[axis] + rng.choice((0, 1)) for axis in order])
    in_strides = [0] * len(shape)
    for axis, step in zip(order, packed, strict=True):
        in_strides[axis] = step
    extent = 1 + sum((count - 1) * step for count, step in zip(shape, in_strides, strict=True))
    backwards = rng.random() < 0.3
    in_offset = (shape[turned] - 1) * in_strides[turned] if backwards else 0
    if backwards:
        in_strides[turned] = -in_strides[turned]
    out_extent = 1 + sum((count - 1) * step for count, step in zip(shape, out_strides, strict=True))
    ahead, before = rng.choice((0, 0, 1, 16)), rng.choice((0, 0, 1, 5))
    return IndexPlan(
        shape=tuple(shape),
        out_strides=out_strides,
        in_strides=tuple(in_strides),
        element_bytes=size,
        in_extent=before + extent,
        out_extent=ahead + out_extent,
        in_offset=before + in_offset,
        out_offset=ahead,
    )


def _staged(variant: Variant, rng: random.Random) -> IndexPlan:
    """A gather along the innermost dimension: rows that start anywhere or at vectors, three or more for each team, in up to three
    dimensions; rows of a few vectors for each thread and of many; columns that one block of threads has or that several share.
    """
    size = variant.element_bytes
    lanes = 16 // size
    policy = rng.choice(list(OutOfBounds))
    kind = rng.choice([kind for kind in IndexType if kind.bytes == variant.index_bytes])
    limit = 1024 // size + rng.choice((0, 1, lanes, rng.randint(0, 300), rng.randint(0, 9000) // size))
    columns = rng.choice((limit // 4 + 1, limit, limit + 1, lanes * rng.randint(5, 40), rng.randint(32, 300)))
    if rng.random() < 0.1:
        columns = 256 * variant.unroll + rng.choice((1, lanes))
    apart = rng.random() < 0.3
    one, two, three = (rng.randint(3, 130),), (rng.randint(2, 11), rng.randint(2, 12)), (3, rng.randint(2, 6), rng.randint(2, 7))
    rows = three if apart else rng.choice((one, two, three))

    def strides(row: int, room: tuple[int, ...]) -> tuple[int, ...]:
        """Of the rows' dimensions, which stay dimensions of their own if `apart`."""
        return packed_strides((*(count + (1 if apart else rng.choice((0, 0, 1))) for count in rows), row + rng.choice(room)))[:-1]

    gap, ahead = rng.choice(((0,), (0, 1, lanes))), rng.choice((0, 0, 1, lanes))
    out_strides = (*strides(columns, gap), 1)
    in_strides = (*strides(limit, gap), 0)
    step = rng.choice((1, 1, 1, 2, -1))
    shape = (*rows, columns)
    first = (columns - 1) * -step if step < 0 else rng.choice((0, 0, 1))
    return IndexPlan(
        shape=shape,
        out_strides=out_strides,
        in_strides=in_strides,
        element_bytes=size,
        in_extent=ahead + _reach(rows, in_strides) + limit + rng.choice((0, 0, 1)),
        out_extent=ahead + _reach(shape, out_strides) + 1,
        in_offset=ahead,
        out_offset=ahead,
        lookups=(Lookup((*(0,) * len(rows), step), first, limit, rng.choice((0, limit, limit + 1)) if kind.signed else 0, 1),),
        index_type=kind,
        index_extent=first + (columns - 1) * max(step, 0) + 1,
        out_of_bounds=policy,
        fill=rng.randbytes(size) if policy is OutOfBounds.FILL else b"",
    )


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    return sum((count - 1) * step for count, step in zip(shape, strides, strict=False))
