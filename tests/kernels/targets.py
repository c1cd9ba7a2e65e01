"""Plans that a given kernel variant runs, for every row of the table of variants."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod

from dmlgather.backends.cuda.launches import launches_for
from dmlgather.backends.cuda.variants import Kind, Variant
from dmlgather.plan import IndexPlan, IndexType, OutOfBounds, packed_strides
from tests.plans import random_plan

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
        case Kind.COPY:
            return random_plan(rng, rank=rng.randint(1, 5), lookups=0, element_bytes=size, elements=elements), size
        case Kind.GATHER:
            kinds = [kind for kind in IndexType if kind.bytes == variant.index_bytes]
            policies = (OutOfBounds.FILL, OutOfBounds.RAISE) if variant.checked else (OutOfBounds.CLAMP, OutOfBounds.PROMISE)
            return random_plan(
                rng,
                rank=rng.randint(1, 4),
                lookups=variant.lookups,
                element_bytes=size,
                index_type=rng.choice(kinds),
                out_of_bounds=rng.choice(policies),
                elements=elements,
            ), size
        case Kind.GENERAL:
            return random_plan(rng, rank=rng.randint(4, 6), element_bytes=size, elements=elements), size
        case Kind.CHECK:
            return random_plan(rng, lookups=rng.randint(1, 3), out_of_bounds=OutOfBounds.RAISE), 16
        case Kind.REVERSE:
            return _reversed(size, rng), 16
    return _transposed(size, rng), size


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
    """The innermost dimension swapped with another one, between up to two batch dimensions."""
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
    return IndexPlan(tuple(shape), out_strides, tuple(in_strides), size, extent, out_extent, in_offset)
