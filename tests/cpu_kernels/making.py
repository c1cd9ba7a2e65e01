"""Cases for the engine: random plans, and plans for each kind of work, each inner loop and each measured block size."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, product

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from dmlgather.plan import ELEMENT_BYTES, IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.selftest.random_plans import EXTREMES, random_buffers, random_plan, random_runs
from tests.backends.shapes import Kind, Shaped, gather, gather_elements, gather_nd, readable, view
from tests.cpu_kernels.cases import AT_END, Case, Settings, machine_sets

BLOCK_UNITS = (0, 1, 7, 40, 300)
"""Units of a block; 0: the measured number."""


def random_settings(rng: random.Random, sets: tuple[str, ...] | None = None) -> Settings:
    return Settings(rng.choice((1, 1, 2, 3, 4)), rng.choice(BLOCK_UNITS), rng.choice(sets or machine_sets()))


def random_case(
    rng: random.Random,
    settings: Settings | None = None,
    plan: IndexPlan | None = None,
    *,
    callers: int = 1,
    data_at: int | None = None,
) -> Case:
    """Return a case of a plan, random by default, over random buffers. Addresses of indices are multiples of their size."""
    while plan is None or not readable(plan):
        kind = rng.random()
        plan = random_plan(rng) if kind < 0.65 else random_runs(rng) if kind < 0.95 else random_plan(rng, elements=20_000)
    size = plan.index_type.bytes if plan.index_type else 1
    places = (*((0, AT_END) * 3), 1, 2, 3, 4, 8, 12, 16, 17, 32, 33, 63)
    at = (rng.choice(places) if data_at is None else data_at, rng.choice((0, AT_END, size, 3 * size)), rng.choice(places))
    return Case.of(plan, random_buffers(plan, rng), settings or random_settings(rng), at=at, callers=callers)


def random_cases(rng: random.Random, count: int) -> Iterator[Case]:
    return (random_case(rng) for _ in range(count))


def wide(plan: IndexPlan) -> IndexPlan:
    """Return the same plan with 64-bit offsets, because of a lookup that accepts nearly every index and moves nothing."""
    first, kind = plan.lookups[0], plan.index_type
    wrap = 2**40 if kind is not None and kind.signed else 0
    return replace(plan, lookups=(*plan.lookups, replace(first, limit=2**40, wrap=wrap, in_stride=0)))


def apart(plan: IndexPlan, room: int = 1) -> IndexPlan:
    """Return the same plan with gaps between the output's rows."""
    row = plan.shape[-1]
    strides = tuple(step // row * (row + room) for step in plan.out_strides[:-1])
    return replace(plan, out_strides=(*strides, 1), out_extent=plan.out_extent // row * (row + room))


UNIT_BYTES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 192, 1000, 1030)
"""Sizes of a looked-up unit in bytes: the ends of each class of loops, their neighbours, and sizes in between."""


def each_load(rng: random.Random) -> Iterator[IndexPlan]:
    """Yield looked-up units and runs of every size, adjacent, apart and turned; shared columns; narrow and wide offsets."""
    for unit, size, is_apart, is_wide in product(UNIT_BYTES, ELEMENT_BYTES, (False, True), (False, True)):
        if unit % size or (unit // size > 16 and size == 1 and unit < 1000 and rng.random() < 0.5):
            continue
        plan = gather((13, unit // size), (rng.choice((1, 2, 21, 150, 600)),), 0, Kind(size, IndexType.INT64)).plan
        plan = apart(plan, rng.choice((1, 3))) if is_apart else plan
        yield wide(plan) if is_wide else plan
    for size, is_apart, is_wide in product(ELEMENT_BYTES, (False, True), (False, True)):
        plan = turned_rows(Kind(size, IndexType.INT64), rng.choice((3, 16, 64, 150, 600)), rng.choice((3, 16, 70, 130)))
        plan = apart(plan, rng.choice((1, 3))) if is_apart else plan
        yield wide(plan) if is_wide else plan
    for size, is_wide in product((1, 1, 2, 4, 8), (False, True)):
        reach = rng.choice((20, 40, 128, 256, 500)) // size
        plan = gather(
            (rng.choice((31, 40, 200)), reach), (rng.choice((16, 40, 64, 100)) // size,), 1, Kind(size, IndexType.INT64)
        ).plan
        yield wide(plan) if is_wide else plan
    for size, index_type in product((1, 2, 4, 8), (IndexType.UINT16, IndexType.INT64)):
        yield overlapping_rows(Kind(size, index_type), rng.choice((2, 3, 16, 40)), rng.choice((64, 70, 150)))


def overlapping_rows(kind: Kind, rows: int, columns: int) -> IndexPlan:
    """output[a, i] = input[indices[i], a + i], with overlapping windows."""
    plan = gather((2, rows + columns), (columns,), 0, kind).plan
    return replace(
        plan,
        shape=(rows, columns),
        in_strides=(1, 1),
        out_strides=(columns, 1),
        out_extent=rows * columns,
        lookups=tuple(replace(lookup, index_strides=(0, 1)) for lookup in plan.lookups),
    )


def transposed_rows(kind: Kind) -> IndexPlan:
    """output[i, a, b] = input[indices[i], b, a]."""
    plan = gather((5, 8, 9), (12,), 0, kind).plan
    return replace(plan, shape=(12, 9, 8), in_strides=(0, 1, 9), out_strides=(72, 8, 1))


def turned_rows(kind: Kind, rows: int = 50, columns: int = 70) -> IndexPlan:
    """output[a, i] = input[indices[i], a]."""
    plan = gather((40, columns), (rows,), 0, kind).plan
    return replace(
        plan,
        shape=(columns, rows),
        in_strides=(1, 0),
        out_strides=(rows, 1),
        lookups=tuple(replace(lookup, index_strides=(0, 1)) for lookup in plan.lookups),
    )


def looked_up(kind: Kind) -> tuple[IndexPlan, ...]:
    """Return small plans of each kind of looked-up work: units, units with a pattern, with two lookups, in rows, parts, runs."""
    return (
        gather((40,), (50,), 0, kind).plan,
        gather((6, 20), (9,), 1, kind).plan,
        gather_elements((5, 13), 1, kind).plan,
        gather_elements((7, 11), 0, kind).plan,
        gather_elements((3, 7, 5), 1, kind).plan,
        gather_nd((5, 6, 3), 17, 2, kind).plan,
        gather_nd((4, 3, 5), 30, 3, kind).plan,
        gather((9, 100), (12,), 0, kind).plan,
        gather((2, 9, 30), (4, 3), 1, kind).plan,
        transposed_rows(kind),
        turned_rows(kind),
    )


def hostile_indices(plan: IndexPlan, rng: random.Random) -> Iterator[np.ndarray]:
    """Yield indices that are in bounds except three equal extremes, for each extreme of the type; then only extremes."""
    assert plan.index_type is not None
    info = np.iinfo(plan.index_type.value.lower())
    limits = {lookup.limit for lookup in plan.lookups if lookup.limit < 2**31}
    near = {sign * limit + by for limit in limits for sign in (-2, -1, 1, 2) for by in (-1, 0, 1)}
    wild = sorted({value for value in {*EXTREMES, *near, -1, 0, info.min, info.max} if info.min <= value <= info.max})
    for hostile in wild:
        indices = np.array([rng.randrange(min(limits)) for _ in range(plan.index_extent)], info.dtype)
        indices[[rng.randrange(plan.index_extent) for _ in range(3)]] = hostile
        yield indices
    yield np.array(rng.choices(wild, k=plan.index_extent), info.dtype)


def hostile_cases(rng: random.Random, share: float = 1.0) -> Iterator[Case]:
    """Yield a share of the combinations of policies, index types, kinds of looked-up work and extremes."""
    for policy, index_type in product(OutOfBounds, IndexType):
        for plan in looked_up(Kind(rng.choice(ELEMENT_BYTES), index_type, policy)):
            for chosen in (plan, wide(plan)):
                for indices in hostile_indices(chosen, rng):
                    if rng.random() < share:
                        buffers = replace(random_buffers(chosen, rng), indices=indices)
                        yield Case.of(chosen, buffers, random_settings(rng), at=(rng.choice((0, AT_END)), 0, AT_END))


def views(size: int, rng: random.Random) -> tuple[Shaped, ...]:
    """Return plans without lookups: each kind of box, with sizes that are not multiples of a vector or a tile."""
    a, b, c = rng.randint(20, 90), rng.randint(20, 150), rng.randint(2, 9)
    step = rng.choice((2, 2, 3, 4, 5, 8))
    return (
        view((a, b), lambda x: x, size),
        view((a, b), lambda x: x[3:-5, 1:-2], size),
        view((a, b), lambda x: x.T, size),
        view((128, b + 64), lambda x: x.T, size),
        view((a, b), lambda x: x.T[::-1], size),
        view((64, b + 64), lambda x: x[::-1, ::-1].T, size),
        view((a, b, c), lambda x: x.transpose(2, 0, 1), size),
        view((a, b, c), lambda x: x.transpose(1, 0, 2), size),
        view((a, b, c), lambda x: x.transpose(2, 1, 0), size),
        view((a, b), lambda x: x[:, ::-1], size),
        view((a, b), lambda x: x[::-1, ::-1], size),
        view((a, b), lambda x: x[:, ::step], size),
        view((a, b), lambda x: x[::step, ::-step], size),
        view((a, b, c), lambda x: x[:, ::-1], size),
        view((a, b, c), lambda x: x[:, ::-1, 1:], size),
        view((a, b, c), lambda x: x[:, ::step, :-1], size),
        view((a, b, c), lambda x: x[..., ::-1], size),
        view((a, 1, c), lambda x: np.broadcast_to(x, (a, b, c)), size),
        view((a, c, 1), lambda x: np.broadcast_to(x, (a, c, b)), size),
        view((a, 1000), lambda x: x[:, 7:-3], size),
        view((3, 5, c, c, 4), lambda x: x.transpose(4, 3, 0, 2, 1), size),
        *pieces(size, rng),
    )


def pieces(size: int, rng: random.Random) -> tuple[Shaped, ...]:
    """Return short pieces of the output with several sources: patches, windows, blocks of pixels, small transpositions."""
    n, b, c, k = rng.randint(1, 5), rng.randint(2, 9), rng.randint(1, 5), rng.randint(2, 5)
    step, many = rng.randint(1, 6), rng.randint(30, 200)
    return (
        view((n, c, 3 * b, 4 * k), lambda x: x.reshape(n, c, 3, b, 4, k).transpose(0, 2, 4, 3, 5, 1), size),
        view((n, c, 3 * b, 4 * k), lambda x: x[:, ::-1].reshape(n, c, 3, b, 4, k).transpose(0, 2, 4, 1, 3, 5), size),
        view((n, 3 * b, 4 * k, c), lambda x: x.reshape(n, 3, b, 4, k, c).transpose(0, 1, 3, 5, 2, 4), size),
        view((n, 3 * b, 4 * k, c), lambda x: x[:, ::-1, ::-1].reshape(n, 3, b, 4, k, c).transpose(0, 1, 3, 2, 4, 5), size),
        view((n, c * b * k, 5, 6), lambda x: x.reshape(n, c, b, k, 5, 6).transpose(0, 1, 4, 2, 5, 3), size),
        view((many, b, k), lambda x: x.transpose(0, 2, 1), size),
        view((many, b, k), lambda x: x[::-1, :, ::-1].transpose(0, 2, 1), size),
        view((many, b, k, c), lambda x: x.transpose(0, 3, 2, 1), size),
        view((many + 20,), lambda x: sliding_window_view(x, b + 3)[::step], size),
        view((many + 20,), lambda x: sliding_window_view(x, b + 3)[::step, ::-1], size),
        view((c, 20, 30), lambda x: sliding_window_view(x, (k, b), (1, 2)).transpose(1, 2, 0, 3, 4), size),
        view((many, 1), lambda x: np.broadcast_to(x, (many, b)), size),
        view((n, 1, k, 1), lambda x: np.broadcast_to(x, (n, many, k, b)), size),
        view((9 + k, 1), lambda x: np.broadcast_to(x, (9 + k, 40)), size),  # pieces smaller than a vector, and a rest
    )


def view_cases(rng: random.Random, sets: Sequence[str] = ()) -> Iterator[Case]:
    """Yield every kind of box for every element size and instruction set. The source begins and ends with its memory."""
    for size, loops, at in product(ELEMENT_BYTES, sets or machine_sets(), (0, AT_END)):
        for shaped in views(size, rng):
            yield random_case(rng, replace(random_settings(rng), loops=loops), shaped.plan, data_at=at)


def load_cases(rng: random.Random, sets: Sequence[str] = ()) -> Iterator[Case]:
    for loops in sets or machine_sets():
        for plan in each_load(rng):
            yield random_case(rng, replace(random_settings(rng), loops=loops), plan)
    for index_type in (IndexType.INT8, IndexType.INT16, IndexType.INT32):
        yield random_case(rng, random_settings(rng), long_wrap(index_type))
    yield random_case(rng, Settings(1, 0, machine_sets()[0]), many_places())


def long_wrap(index_type: IndexType) -> IndexPlan:
    """Return a plan whose wrapped negative values stay far above the limit, unless the wrap loses its high bits."""
    lookup = Lookup((1,), index_offset=0, limit=5, wrap=2**31 + 5, in_stride=1)
    return IndexPlan(
        (60,), (1,), (0,), element_bytes=4, in_extent=5, out_extent=60, lookups=(lookup,), index_type=index_type, index_extent=60
    )


def many_places() -> IndexPlan:
    """Return a plan for 24,000 indices that two dimensions look up in another order: more than a block's space, in few bytes."""
    lookup = Lookup((1, 60), index_offset=0, limit=9, wrap=9, in_stride=1)
    return IndexPlan(
        (60, 400), (400, 1), (0, 0), element_bytes=1, in_extent=9, out_extent=24_000, lookups=(lookup,),
        index_type=IndexType.INT32, index_extent=24_000,
    )  # fmt: skip


def measured(rng: random.Random) -> Iterator[IndexPlan]:
    """Yield plans for each measured block size: columns of blocks, parts of long runs, stores past the cache, threads."""
    policy, index_type = rng.choice(list(OutOfBounds)), rng.choice((IndexType.INT32, IndexType.UINT64))
    yield gather_elements((1500, 701), 0, Kind(1, IndexType.INT16, policy)).plan
    yield gather_elements((700, 350), 0, Kind(4, index_type, policy)).plan
    yield gather((5, 270_001), (4, 2), 0, Kind(1, index_type, policy)).plan
    yield gather((3, 300_000), (29,), 0, Kind(1, index_type, policy)).plan
    yield gather((50, 771), (2_800,), 0, Kind(4, index_type, policy)).plan
    yield apart(gather((50, 1_200), (1_900,), 0, Kind(4, index_type, policy)).plan)
    yield gather((200_000,), (300_000,), 0, Kind(4, index_type, policy)).plan
    yield view((9, 1 << 20), lambda x: x[:, 5:-6], 1).plan
    yield view((1200, 1900), lambda x: x.T, 4).plan
    yield view((3001, 3003), lambda x: x[:, ::-1], 1).plan
    yield view((1500, 3003), lambda x: x[:, ::2], 4).plan
    yield view((7, 3, 400, 400), lambda x: x.reshape(7, 3, 25, 16, 50, 8).transpose(0, 2, 4, 3, 5, 1), 4).plan
    yield view((1, 2_200_000), lambda x: np.broadcast_to(x, (4, 2_200_000)), 1).plan


def measured_cases(rng: random.Random) -> Iterator[Case]:
    for plan in measured(rng):
        settings = Settings(rng.choice((0, 1, 2, 4)), 0, rng.choice(machine_sets()))
        yield random_case(rng, settings, plan)


def forced_cases(rng: random.Random, loops: str, count: int) -> Iterator[Case]:
    """Return each kind of box and class of units, hostile indices, and random plans, for the loops of one instruction set."""
    cases = chain(view_cases(rng, (loops,)), load_cases(rng, (loops,)), hostile_cases(rng, 0.02), random_cases(rng, count))
    return (case.forced(loops) for case in cases)
