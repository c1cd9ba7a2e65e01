"""The cost of a launch form. Judge: a count over the elements that each thread of a block moves (`block_counts.py`).

The formula is exact if no thread of a block walks, and, without lookups, if all threads walk and every step of a walk stores at
the same places of lines. Otherwise it is an estimate: the first step's stores and lookups stand for those of all steps, and loads
of only some threads are counted separately. A launch with less than a block is not judged, because its last thread stands for the
missing ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from math import inf, isclose, prod
from typing import Any

import numpy as np
import pytest

from dmlgather.backends.cuda import form_cost as formula
from dmlgather.backends.cuda.arguments import Dimension, LookupBytes
from dmlgather.backends.cuda.form_cost import form_cost
from dmlgather.backends.cuda.launch_form import LaunchForm
from dmlgather.backends.cuda.work import Work
from tests.kernels.block_counts import LINE, NOTHING, THREADS, BlockCounts, block_counts, steps_of
from tests.rates import assert_often

WORKS = 300
"""Number of works that a test draws."""
MOST = 20_000
"""Number of elements from which a work gets no further dimension."""
IDLE = 8 * 3.7
"""Cycles per step of warps that do not walk while others do. They count a stored sector and line, and a loaded line. Each lookup
may add a line.
"""


def walked(work: Work, axis: int, full: int, moved: int) -> LaunchForm:
    """Return the form whose threads at `full` coordinates of a dimension walk `moved` elements along it; 0 and 1 for none."""
    dim = work.dims[axis]
    chunks = dim._replace(size=dim.size - (moved - 1) * full)
    steps = [full * step for step in (dim.out_step, dim.in_step, *dim.index_steps)]
    walk = Dimension(dim.size, steps[0], steps[1], tuple(steps[2:]))
    dims = (*work.dims[:axis], chunks, *work.dims[axis + 1 :])
    return LaunchForm(dims, walk, full, axis, not any(steps[2:]), moved)


def forms_of(work: Work, rng: random.Random) -> Iterator[LaunchForm]:
    """Yield forms without a walk, and along each long enough dimension: the most walks, fewer walks, and whole lines of
    elements.
    """
    yield walked(work, 0, 0, 1)
    for axis, dim in enumerate(work.dims):
        moved = rng.choice((2, 4, 8))
        most = dim.size // moved
        for full in {most, most - most % LINE, rng.randint(0, most)}:
            if full:
                yield walked(work, axis, full, moved)


def random_work(rng: random.Random, lookups: int) -> Work:
    """Return a work with at least as many elements as a block has threads, in one to four dimensions. Input and indices are
    contiguous, strided, reversed, broadcast, overlapping or reordered. The output is packed, or has gaps between rows.
    """
    element, index = rng.choice((1, 1, 2, 4, 8, 16)), rng.choice((4, 8))
    sizes = [rng.choice((2, 3, 5, 8, 12, 31, 32, 64, 100, 257, 1000))]
    while len(sizes) < 4 and prod(sizes) < MOST and (prod(sizes) < THREADS or rng.random() < 0.5):
        sizes.append(rng.choice((2, 3, 5, 8, 12, 31, 32, 64)))
    if prod(sizes) < THREADS:
        sizes[-1] *= THREADS
    out = _steps(rng, sizes, element, in_order=True)
    rows = [_steps(rng, sizes, element, in_order=False), *[_steps(rng, sizes, index, in_order=False) for _ in range(lookups)]]
    starts = [
        _start(sizes, row, width, rng) for row, width in zip((out, *rows), (element, element, *[index] * lookups), strict=True)
    ]
    moved = tuple(LookupBytes(start, 0, 0, rng.randint(2, 5000), element * rng.randint(1, 300), True) for start in starts[2:])
    dims = [
        Dimension(size, step, row[0], tuple(row[1:])) for size, step, row in zip(sizes, out, zip(*rows, strict=True), strict=True)
    ]
    return Work(tuple(dims), element, starts[1], starts[0], moved, index if lookups else 0)


def _steps(rng: random.Random, sizes: list[int], width: int, in_order: bool) -> list[int]:
    """Return the step along each dimension in bytes: packed with or without gaps, possibly reordered, then changed."""
    order = list(range(len(sizes)))
    if not in_order and rng.random() < 0.5:
        rng.shuffle(order)
    steps, step = [0] * len(sizes), width * (1 if in_order else rng.choice((1, 1, 1, 2, 3, 9)))
    for axis in order:
        steps[axis] = step if in_order else step * rng.choice((1, 1, 1, 1, -1, -1, 0))
        step = step * sizes[axis] + width * rng.choice((0, 0, 0, 1, 4))
    if not in_order and rng.random() < 0.1:
        steps[rng.randrange(len(steps))] = width * rng.randint(1, 9)
    return steps


def _start(sizes: list[int], steps: list[int], width: int, rng: random.Random) -> int:
    lowest = sum((size - 1) * min(0, step) for size, step in zip(sizes, steps, strict=True))
    return width * rng.choice((0, 0, 0, 1, 3, 16)) - lowest


def drawn(rng: random.Random) -> Iterator[tuple[Work, LaunchForm, BlockCounts]]:
    """Yield forms of random works that fill a block, with their counts."""
    for number in range(WORKS):
        work = random_work(rng, lookups=number % 3)
        for form in forms_of(work, rng):
            if form.threads >= THREADS:
                yield work, form, block_counts(work, form)


def is_exact(work: Work, form: LaunchForm, counts: BlockCounts) -> bool:
    if counts.elements == THREADS:
        return True  # no thread walks
    alike = counts.elements == THREADS * form.moved
    return alike and not work.lookups and form.walked.out_step % LINE == 0


def off(work: Work, form: LaunchForm, counts: BlockCounts) -> bool:
    return not isclose(form_cost(work, form), counts.cycles, rel_tol=1e-12)


SLICES = {
    "contiguous": (4, ((1024, 4, 4),), (32, 8), (32, 8)),
    "every other": (4, ((1024, 4, 8),), (32, 8), (64, 16)),
    "every ninth": (4, ((1024, 4, 36),), (32, 8), (256, 72)),
    "backwards": (4, ((1024, 4, -4),), (32, 8), (33, 16)),
    "broadcast": (4, ((1024, 4, 0),), (32, 8), (1, 8)),
    "bytes": (1, ((1024, 1, 1),), (8, 8), (8, 8)),
    "vectors": (16, ((1024, 16, 16),), (128, 32), (128, 32)),
    "turned": (4, ((64, 4, 256), (64, 256, 4)), (32, 8), (64, 256)),
    "rows of 16 with gaps": (4, ((16, 4, 4), (64, 64, 128)), (32, 8), (32, 16)),
}
"""Bytes of an element; size, output step and input step of each dimension; stored and loaded sectors and lines, worked out by
hand.
"""


def slice_work(name: str) -> Work:
    element, dims, _, _ = SLICES[name]
    start = -min(0, *(step * (size - 1) for size, _, step in dims))
    return Work(tuple(Dimension(*dim) for dim in dims), element, start - start % LINE + (LINE if start else 0), 0)


@pytest.mark.parametrize("name", SLICES)
def test_slices_cost_what_was_worked_out_by_hand(name: str) -> None:
    work, (_, _, stored, loaded) = slice_work(name), SLICES[name]
    form = walked(work, 0, 0, 1)
    counts = block_counts(work, form)
    assert (counts.elements, counts.stored, counts.loaded) == (THREADS, stored, loaded)
    assert not off(work, form, counts)


def test_threads_move_every_element_once(rng: random.Random) -> None:
    for number in range(20):
        while (work := random_work(rng, lookups=number % 2)).elements > MOST:
            pass
        form = rng.choice(list(forms_of(work, rng)))
        moved = [steps_of(form, first).reshape(-1, len(work.dims)) for first in range(0, form.threads, THREADS)]
        places = np.concatenate(moved)
        places = places[(places != NOTHING).all(axis=1)]
        assert len(places) == work.elements
        assert len(np.unique(places, axis=0)) == work.elements
        assert (places < [dim.size for dim in work.dims]).all()


def test_exact_costs_equal_the_count(rng: random.Random) -> None:
    cases = list(drawn(rng))
    exact = [(work, form, counts) for work, form, counts in cases if is_exact(work, form, counts)]
    assert_often(len(exact), len(cases), 0.25)
    assert_often(sum(counts.elements > THREADS for _, _, counts in exact), len(exact), 0.04)
    for work, form, counts in exact:
        assert not off(work, form, counts), (work, form)


def test_an_estimate_is_near_the_count(rng: random.Random) -> None:
    """Steps that touch other places of sectors and lines touch between half and twice as many of them. Sectors that steps share
    are counted once per step for lookups, and twice if only some threads walk.
    """
    near = total = 0
    for work, form, counts in drawn(rng):
        if not is_exact(work, form, counts):
            cost, most = form_cost(work, form), 2 * form.moved if work.lookups else 3
            idle = (IDLE + 8 * len(work.lookups)) * (form.moved - 1) / counts.elements
            assert counts.cycles / 2 <= cost <= most * counts.cycles + idle, (work, form)
            near, total = near + (0.9 <= cost / counts.cycles <= 1.3), total + 1
    assert_often(near, total, 0.85)


def test_a_cost_above_enough_may_be_a_lower_bound(rng: random.Random) -> None:
    bounded = total = 0
    for work, form, _ in drawn(rng):
        cost = form_cost(work, form)
        enough = cost * rng.choice((0.3, 0.6, 0.9, 1.1))
        said = form_cost(work, form, enough=enough)
        assert said == cost if cost < enough else enough <= said <= cost * (1 + 1e-12), (work, form)
        assert form_cost(work, form, enough=inf) == cost
        bounded, total = bounded + (said != cost), total + 1
    assert_often(bounded, total, 0.25)


def _one_more(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: real(*arguments) + 1


def _one_sector_less(real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: real(*arguments) - 1.7


MISTAKES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a unit more in requests": ("_in_requests", _one_more),
    "a sector less of what is loaded": ("_loaded", _one_sector_less),
    "sectors of 64 bytes": ("_SECTOR", lambda _: np.array(64)),
    "lines of 64 bytes": ("_LINE", lambda _: np.array(64)),
    "addresses that are not sorted": ("_in_order", lambda _: lambda moves: True),
    "warps that go on with the last one's unit": ("_changes", lambda real: lambda places: real(places)[..., :-1]),
    "a block of 255 threads": ("_THREADS", lambda threads: np.minimum(threads, THREADS - 2)),
}
"""For each error: the name in `form_cost.py`, and its replacement."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work = [slice_work(known) for known in SLICES]
    forms = [(each, walked(each, axis, 32, 2)) for each in work for axis in range(len(each.dims)) if each.dims[axis].size >= 64]
    cases = [(each, form, block_counts(each, form)) for each, form in forms]
    assert not any(off(*case) for case in cases if is_exact(*case))
    place, wrong = MISTAKES[name]
    monkeypatch.setattr(formula, place, wrong(getattr(formula, place)))
    assert any(off(*case) for case in cases if is_exact(*case))
