"""Random plans and buffers, for the self-test and for the tests of all backends.

No two output elements share an address, so the output does not depend on the order of execution. `rng` may be a Random from
Hypothesis.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.random import default_rng  # import now: numpy.random is loaded on first use, and Ctrl-C during that would be lost
from numpy.typing import NDArray

from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import SHARED_BYTES
from dmlgather.backends.cuda.variants import TOLD_LOOKUPS, KernelKind, Variant
from dmlgather.plan import ELEMENT_BYTES, IndexPlan, IndexType, Lookup, OutOfBounds, packed_strides, reach

EXTREMES = (
    *(-(2**63), 2**63 - 1, 2**64 - 1),
    *(-(2**31), 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, -(2**32)),
    *(-129, -128, 127, 128, 255, 256),
)
"""Index values near the limits of the integer types. They expose comparisons in a wrong type."""


@dataclass(frozen=True, slots=True)
class PlanBuffers:
    """The one-dimensional arrays that a plan reads and writes. Before the run, `out` has random bytes."""

    data: NDArray[Any]
    indices: NDArray[Any] | None
    out: NDArray[Any]


def random_plan(
    rng: random.Random,
    *,
    rank: int | None = None,
    lookups: int | None = None,
    element_bytes: int | None = None,
    index_type: IndexType | None = None,
    out_of_bounds: OutOfBounds | None = None,
    elements: int = 600,
) -> IndexPlan:
    """Return a random plan with at most `elements` output elements. A property whose argument is None is chosen at random."""
    rank = rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6)) if rank is None else rank
    count = rng.choice((0, 1, 1, 1, 1, 2, 2, 3)) if lookups is None else lookups
    size = rng.choice(ELEMENT_BYTES) if element_bytes is None else element_bytes
    dtype = (rng.choice(list(IndexType)) if index_type is None else index_type) if count else None
    policy = (rng.choice(list(OutOfBounds)) if out_of_bounds is None else out_of_bounds) if count else OutOfBounds.CLAMP
    shape = _shape(rng, rank, elements)
    out_strides, out_offset = _out_strides(rng, shape)
    in_strides = _strides(rng, shape)
    drawn_lookups = [_lookup(rng, shape, dtype, policy, in_strides) for _ in range(count)]
    index_extent = 0
    for number, lookup in enumerate(drawn_lookups):
        low, high = _address_range(shape, lookup.index_strides)
        offset = -low + rng.choice((0, 0, 0, 1, 5))
        drawn_lookups[number] = replace(lookup, index_offset=offset)
        index_extent = max(index_extent, high + offset + 1)
    limits = tuple(max(lookup.limit, 1) for lookup in drawn_lookups)
    low, high = _address_range((*shape, *limits), (*in_strides, *(lookup.in_stride for lookup in drawn_lookups)))
    in_offset = -low + rng.choice((0, 0, 0, 4, 7))
    return IndexPlan(
        shape=shape,
        out_strides=out_strides,
        in_strides=in_strides,
        element_bytes=size,
        in_extent=high + in_offset + 1 + rng.choice((0, 0, 3)),
        out_extent=_address_range(shape, out_strides)[1] + out_offset + 1 + rng.choice((0, 0, 5)),
        in_offset=in_offset,
        out_offset=out_offset,
        lookups=tuple(drawn_lookups),
        index_type=dtype,
        index_extent=index_extent + (rng.choice((0, 0, 2)) if drawn_lookups else 0),
        out_of_bounds=policy,
        fill=_fill(rng, size) if policy is OutOfBounds.FILL else b"",
    )


def random_runs(rng: random.Random, *, longest: int = 400, packed: bool = False, **fixed: Any) -> IndexPlan:
    """Return a random plan that copies up to 8 contiguous runs of 20 to `longest` elements each.

    `packed`: True if the runs follow one another in the output. `fixed`: properties of the plan, as for `random_plan`.
    """
    runs = random_plan(rng, elements=8, **fixed)
    size = rng.randint(20, longest)
    pitch = size + rng.choice((0, 0, 1, 3, 8))
    plan = replace(
        runs,
        shape=(*runs.shape, size),
        out_strides=(*(pitch * step for step in runs.out_strides), 1),
        in_strides=(*(pitch * step for step in runs.in_strides), 1),
        in_extent=pitch * runs.in_extent,
        out_extent=pitch * runs.out_extent,
        in_offset=pitch * runs.in_offset + rng.randint(0, pitch - size),
        out_offset=pitch * runs.out_offset + rng.randint(0, pitch - size),
        lookups=tuple(
            replace(lookup, index_strides=(*lookup.index_strides, 0), in_stride=pitch * lookup.in_stride)
            for lookup in runs.lookups
        ),
    )
    if not packed:
        return plan
    before, behind = rng.randint(0, 20), rng.choice((0, 0, 3))
    extent = before + plan.elements + behind
    return replace(plan, out_strides=packed_strides(plan.shape), out_offset=before, out_extent=extent)


def random_buffers(plan: IndexPlan, rng: random.Random) -> PlanBuffers:
    """Return buffers for a plan, with random bytes and random indices."""
    bits = default_rng(rng.getrandbits(64))
    dtype = np.dtype(f"V{plan.element_bytes}")

    def elements(count: int) -> NDArray[Any]:
        return np.frombuffer(bits.bytes(count * plan.element_bytes), dtype).copy()

    return PlanBuffers(elements(plan.in_extent), random_indices(plan, rng), elements(plan.out_extent))


def random_indices(plan: IndexPlan, rng: random.Random) -> NDArray[Any] | None:
    """Return random indices for a plan, or None if it has no lookups.

    About 0, 2 or 60% of the indices are out of range or extreme.
    """
    if plan.index_type is None:
        return None
    dtype = np.dtype(plan.index_type.value.lower())
    info = np.iinfo(dtype)
    limit = max(min(lookup.limit for lookup in plan.lookups), 1)
    wrap = min(lookup.wrap for lookup in plan.lookups)
    bad_share = rng.choice((0.0, 0.0, 0.02, 0.6))
    numpy_rng = default_rng(rng.getrandbits(64))
    low = -min(wrap, limit) if info.min < 0 else 0
    good = numpy_rng.integers(max(low, info.min), min(limit - 1, info.max), plan.index_extent, dtype=np.int64, endpoint=True)
    values = good.astype(dtype)
    for position in np.flatnonzero(numpy_rng.random(plan.index_extent) < bad_share):
        choices = (*EXTREMES, -1, -2, limit, limit + 1, -limit, -limit - 1, -wrap - 1, info.min, info.max)
        values[position] = max(info.min, min(info.max, rng.choice(choices)))
    return values


def _shape(rng: random.Random, rank: int, max_elements: int) -> tuple[int, ...]:
    shape = []
    for _ in range(rank):
        sizes = [size for size in (1, 1, 2, 2, 3, 4, 5, 7, 8, 16, 33, 64, 257) if size <= max_elements]
        size = 0 if rng.random() < 0.02 else rng.choice(sizes)
        shape.append(size)
        max_elements //= max(size, 1)
    rng.shuffle(shape)
    return tuple(shape)


def _out_strides(rng: random.Random, shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Return random strides and an offset for the output. No two elements share an address, and no address is negative."""
    order = list(reversed(range(len(shape))))
    if rng.random() < 0.4:
        rng.shuffle(order)
    step, offset = rng.choice((1, 1, 1, 1, 2, 3)), rng.choice((0, 0, 0, 8, 5))
    padding = rng.choice(((0,), (0,), (0, 0, 1, 4)))
    strides = [0] * len(shape)
    for axis in order:
        strides[axis] = step
        step = step * max(shape[axis], 1) + rng.choice(padding)
        if rng.random() < 0.1:
            offset += (max(shape[axis], 1) - 1) * strides[axis]
            strides[axis] = -strides[axis]
    return tuple(strides), offset


def _strides(rng: random.Random, shape: Sequence[int]) -> tuple[int, ...]:
    """Return random strides for the input or the indices. Most are packed in some order, with a few strides changed."""
    if rng.random() < 0.2:
        return tuple(rng.choice((0, 1, 1, 2, 3, 4, 8, -1, -4)) for _ in shape)
    order = list(range(len(shape)))
    if rng.random() < 0.3:
        rng.shuffle(order)
    packed = packed_strides([shape[axis] * rng.choice((1, 1, 1, 2)) for axis in order])
    strides = [0] * len(shape)
    for axis, step in zip(order, packed, strict=True):
        strides[axis] = step * rng.choice((1, 1, 1, 1, 1, 1, 0, -1, 2))
    return tuple(strides)


def _lookup(
    rng: random.Random, shape: Sequence[int], dtype: IndexType | None, policy: OutOfBounds, in_strides: Sequence[int]
) -> Lookup:
    empty_axis = policy in (OutOfBounds.FILL, OutOfBounds.RAISE) or 0 in shape
    limit = 0 if empty_axis and rng.random() < 0.1 else rng.choice((1, 2, 3, 5, 8, 13, 40, 300))
    moving = [axis for axis in range(len(shape)) if rng.random() < 0.5]
    strides = [0] * len(shape)
    for axis, step in zip(moving, _strides(rng, [shape[axis] for axis in moving]), strict=True):
        strides[axis] = step
    assert dtype is not None
    wrap = rng.choice((0, limit, limit, limit + 1)) if dtype.signed else 0
    row = max((abs(size * step) for size, step in zip(shape, in_strides, strict=True)), default=1)
    return Lookup(tuple(strides), 0, limit, wrap, rng.choice((row, row, row, 1, 1, 16, 3, -2, 0)))


def _fill(rng: random.Random, size: int) -> bytes:
    unit = rng.choice([width for width in ELEMENT_BYTES if width <= size])
    return rng.randbytes(unit) * (size // unit)


def _address_range(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return the lowest and the highest address of an array whose offset is 0, in elements.

    A dimension of size 0 counts as size 1.
    """
    return reach([max(size, 1) for size in shape], strides)


def unwritable_fill(plan: IndexPlan, alignment: int) -> bool:
    """Return True if stores of `alignment` bytes cannot write the fill value, because all stores write the same bytes.

    Example: stores of 2 bytes can write the bytes 1 2 1 2, but not 1 2 3 4.
    """
    return plan.fill[:alignment] * (plan.element_bytes // alignment) != plan.fill if plan.element_bytes > alignment else False


# Plans for a kernel variant.


_MAX_DRAWS = 2000


def plan_for(
    variant: Variant, rng: random.Random, elements: int = 1500, shared_bytes: int = SHARED_BYTES
) -> tuple[IndexPlan, int]:
    """Return a random plan for which this kernel is chosen, and the alignment in bytes that its buffers need."""
    for _ in range(_MAX_DRAWS):
        plan, alignment = _candidate(variant, rng, elements)
        if any(launch.variant == variant for launch in launches_for(plan, alignment, 0, shared_bytes)):
            return plan, alignment
    raise AssertionError(f"no plan for {variant.name} in {_MAX_DRAWS} tries")


def _candidate(variant: Variant, rng: random.Random, elements: int) -> tuple[IndexPlan, int]:
    size = variant.element_bytes
    match variant.kind:
        case KernelKind.COPY:
            return random_plan(rng, rank=rng.randint(1, 6), lookups=0, element_bytes=size, elements=elements), size
        case KernelKind.GATHER:
            fixed = _lookup_arguments(variant, rng)
            return random_plan(rng, rank=rng.randint(1, 4), element_bytes=size, elements=elements, **fixed), size
        case KernelKind.SPAN:
            fixed = _lookup_arguments(variant, rng) if variant.lookups else {"lookups": 0}
            size, longest = rng.choice((1, 2)), rng.choice((400, 400, 6000))
            plan = random_runs(rng, longest=longest, packed=True, rank=rng.randint(0, 3), element_bytes=size, **fixed)
            return plan, rng.choice((size, 16))
        case KernelKind.GENERAL:
            return random_plan(rng, rank=rng.randint(4, 6), element_bytes=size, elements=elements), size
        case KernelKind.CHECK:
            return random_plan(rng, lookups=rng.randint(1, 3), out_of_bounds=OutOfBounds.RAISE), 16
        case KernelKind.REVERSE:
            return _reversed_rows(size, rng), 16
        case KernelKind.STAGED | KernelKind.LONG:
            return _staged_gather(variant, rng), 16
        case KernelKind.STRETCH if rng.random() < 0.8:
            return _contiguous_boxes(variant, rng), rng.choice((variant.load_bytes, variant.store_bytes, 16))
        case KernelKind.SQUARES:
            return _squares(variant, rng), 16
    return _permutation(size, rng), rng.choice((size, 16))


def _lookup_arguments(variant: Variant, rng: random.Random) -> dict[str, Any]:
    checked, clamped = (OutOfBounds.FILL, OutOfBounds.RAISE, OutOfBounds.RAISE), (OutOfBounds.CLAMP, OutOfBounds.PROMISE)
    policies = (*checked, *clamped) if variant.lookups >= TOLD_LOOKUPS else checked if variant.checked else clamped
    index_type = rng.choice([dtype for dtype in IndexType if dtype.bytes == variant.index_bytes])
    return {"lookups": variant.lookups, "index_type": index_type, "out_of_bounds": rng.choice(policies)}


def _reversed_rows(size: int, rng: random.Random) -> IndexPlan:
    """Return a plan that reverses rows. The length of a row is a multiple of 16 bytes."""
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


def _permutation(size: int, rng: random.Random) -> IndexPlan:
    """Return a plan that permutes one to six dimensions, some of which are reversed or padded."""
    shape = [_dimension(rng, 70)]
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4, 5))):
        if (largest := 6000 // prod(shape)) >= 2:
            shape.append(_dimension(rng, min(largest, 90)))
    rng.shuffle(shape)
    order = rng.sample(range(len(shape)), len(shape))
    gaps = [[rng.choice((0, 0, 0, rng.choice((1, 3, 4)))) for _ in shape] for _ in range(2)]
    starts = [rng.choice((0, 0, 4, 16, rng.randint(0, 20))) for _ in range(2)]
    out_strides = packed_strides([count + gap for count, gap in zip(shape, gaps[1], strict=True)])
    packed = packed_strides([shape[axis] + gap for axis, gap in zip(order, gaps[0], strict=True)])
    in_strides, in_offset = [0] * len(shape), starts[0]
    for axis, step in zip(order, packed, strict=True):
        in_strides[axis] = step
    in_extent, out_extent = starts[0] + 1 + _last_address(shape, in_strides), starts[1] + 1 + _last_address(shape, out_strides)
    for axis in range(len(shape)):
        if rng.random() < 0.15:
            in_offset += (shape[axis] - 1) * in_strides[axis]
            in_strides[axis] = -in_strides[axis]
    return IndexPlan(tuple(shape), out_strides, tuple(in_strides), size, in_extent, out_extent, in_offset, starts[1])


def _contiguous_boxes(variant: Variant, rng: random.Random) -> IndexPlan:
    """Return a plan for a stretch kernel, which moves boxes that are contiguous in the output.

    The plan permutes the dimensions of each box. Boxes start at multiples of the kernel's load width in the input, and of the
    store width in the output. Mostly, all boxes start at the same offset in a sector of the output.
    """
    size, max_elements = variant.element_bytes, min(variant.tile_bytes, 3000) // variant.element_bytes
    load, store = variant.load_bytes // size, variant.store_bytes // size
    vector = max(load, store)
    box = [vector * rng.randint(1, 12), rng.randint(2, 40)]
    while prod(box) > max_elements:
        box[1] -= 1
    if (largest := max_elements // prod(box)) >= 2 and rng.random() < 0.5:
        box.append(rng.randint(2, min(largest, 9)))
    rng.shuffle(box)
    boxes, elements, sector = rng.choice(((1, rng.randint(1, 4)), (rng.randint(2, 3), rng.randint(2, 3)))), prod(box), 32 // size
    pitch = -(-elements // sector) * sector if rng.random() < 0.8 else elements
    outer_pitch = boxes[1] * pitch + sector
    starts = load * rng.randint(0, 5), store * rng.randint(0, 2 * sector)
    order = rng.sample(range(len(box)), len(box))
    strides = dict(zip(order, packed_strides([box[axis] for axis in order]), strict=True))
    return IndexPlan(
        shape=(*boxes, *box),
        out_strides=(outer_pitch, pitch, *packed_strides(box)),
        in_strides=(boxes[1] * elements, elements, *(strides[axis] for axis in range(len(box)))),
        element_bytes=size,
        in_extent=starts[0] + prod(boxes) * elements,
        out_extent=starts[1] + (boxes[0] - 1) * outer_pitch + (boxes[1] - 1) * pitch + elements,
        in_offset=starts[0],
        out_offset=starts[1],
    )


def _squares(variant: Variant, rng: random.Random) -> IndexPlan:
    """Return a plan that permutes dimensions, for a kernel that transposes squares of N x N elements.

    Dimension 0 is contiguous in the input, dimension 1 in the output. The sizes, gaps and starts of both are multiples of N.
    """
    edge = variant.store_bytes // variant.element_bytes
    shape = [edge * rng.choice((1, 2, 3, 4, 8, rng.randint(1, 24))) for _ in range(2)]
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        if (largest := 9000 // prod(shape)) >= 2:
            shape.append(_dimension(rng, min(largest, 40)))
    others = range(2, len(shape))
    sides = []
    for first, second in ((0, 1), (1, 0)):
        order = [first, *rng.sample([second, *others], len(shape) - 1)]
        gaps = [edge * rng.choice((0, 0, 0, 1, 2)), *(rng.choice((0, 0, 1)) for _ in order[1:])]
        sizes = [shape[axis] + gap for axis, gap in zip(order, gaps, strict=True)]
        packed = packed_strides(sizes[::-1])[::-1]
        sides.append([step for _, step in sorted(zip(order, packed, strict=True))])
    in_strides, out_strides = sides
    starts = [edge * rng.choice((0, 0, 1, 2, 5)) for _ in sides]
    in_extent, out_extent = starts[0] + 1 + _last_address(shape, in_strides), starts[1] + 1 + _last_address(shape, out_strides)
    in_offset = starts[0]
    for axis in range(1, len(shape)):
        if rng.random() < 0.15:
            in_offset += (shape[axis] - 1) * in_strides[axis]
            in_strides[axis] = -in_strides[axis]
    size = variant.element_bytes
    return IndexPlan(tuple(shape), tuple(out_strides), tuple(in_strides), size, in_extent, out_extent, in_offset, starts[1])


def _dimension(rng: random.Random, largest: int) -> int:
    """Return a random size of at most `largest`.

    Many sizes are 1 more than a multiple of 8, so that the last tile has only one element along the dimension.
    """
    return min(largest, rng.choice((rng.randint(2, largest), rng.choice((2, 3, 4, 8, 12, 16, 32)), 8 * rng.randint(1, 11) + 1)))


def _staged_gather(variant: Variant, rng: random.Random) -> IndexPlan:
    """Return a plan that gathers along the innermost dimension, with the same indices in every row."""
    size = variant.element_bytes
    lanes = 16 // size
    policy = rng.choice(list(OutOfBounds))
    index_type = rng.choice([dtype for dtype in IndexType if dtype.bytes == variant.index_bytes])
    limit = 1024 // size + rng.choice((0, 1, lanes, rng.randint(0, 300), rng.randint(0, 9000) // size))
    columns = rng.choice((limit // 4 + 1, limit, limit + 1, lanes * rng.randint(5, 40), rng.randint(32, 300)))
    if rng.random() < 0.1:
        columns = 256 * variant.unroll + rng.choice((1, lanes))
    padded = rng.random() < 0.3  # with padding, the rows' dimensions cannot be merged
    one, two, three = (rng.randint(3, 130),), (rng.randint(2, 11), rng.randint(2, 12)), (3, rng.randint(2, 6), rng.randint(2, 7))
    if variant.kind is KernelKind.LONG:
        limit, columns = _long_row(size, rng)
        one, two, three = (rng.randint(3, 8),), (2, rng.randint(2, 4)), (2, 2, 2)
    rows = three if padded else rng.choice((one, two, three))

    def row_strides(row: int, gaps: tuple[int, ...]) -> tuple[int, ...]:
        counts = [count + (1 if padded else rng.choice((0, 0, 1))) for count in rows]
        return packed_strides((*counts, row + rng.choice(gaps)))[:-1]

    gaps, offset = rng.choice(((0,), (0, 1, lanes))), rng.choice((0, 0, 1, lanes))
    out_strides = (*row_strides(columns, gaps), 1)
    in_strides = (*row_strides(limit, gaps), 0)
    step = rng.choice((1, 1, 1, 2, -1))
    shape = (*rows, columns)
    first = (columns - 1) * -step if step < 0 else rng.choice((0, 0, 1))
    return IndexPlan(
        shape=shape,
        out_strides=out_strides,
        in_strides=in_strides,
        element_bytes=size,
        in_extent=offset + _last_address(rows, in_strides) + limit + rng.choice((0, 0, 1)),
        out_extent=offset + _last_address(shape, out_strides) + 1,
        in_offset=offset,
        out_offset=offset,
        lookups=(
            Lookup((*(0,) * len(rows), step), first, limit, rng.choice((0, limit, limit + 1)) if index_type.signed else 0, 1),
        ),
        index_type=index_type,
        index_extent=first + (columns - 1) * max(step, 0) + 1,
        out_of_bounds=policy,
        fill=rng.randbytes(size) if policy is OutOfBounds.FILL else b"",
    )


def _long_row(size: int, rng: random.Random) -> tuple[int, int]:
    """Return the number of input elements and of output columns of a long row.

    Either the row has about 48 KB, or the output has more columns than a block of the other staged kernels can copy. With
    elements of 1 or 2 bytes, the row may also have about 2^16 elements: up to this limit, kernels store positions in 2 bytes.
    """
    if size <= 2 and rng.random() < 0.4:
        more, columns = rng.choice(((rng.randint(-20, 500), 18_000), (36_000 // size, 7000)))
        return 2**16 + more, columns + rng.randint(0, 500)
    if rng.random() < 0.5:
        return (48 * 1024 + rng.choice((0, 1, rng.randint(0, 3000)))) // size, rng.randint(1700, 5000)
    return rng.randint(2048, 16_000) // size, (2048 if size == 8 else 4096) + rng.randint(1, 14_000)


def _last_address(shape: Sequence[int], strides: Sequence[int]) -> int:
    return sum((count - 1) * step for count, step in zip(shape, strides, strict=False))
