"""Estimated cost of a launch form: instructions, and the sectors and lines that one block touches.

Counting takes time. So a form is excluded early if a lower bound of its cost is too high.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cuda.cost import EACH, ISSUED, LINE, RESOLVED, SECTOR, SECTOR_CYCLES, START, WARP
from dmlgather.backends.cuda.variants import BLOCK
from dmlgather.backends.cuda.work import Work

if TYPE_CHECKING:
    from dmlgather.backends.cuda.launch_form import LaunchForm

_THREADS, _ONES = np.arange(BLOCK), np.ones(BLOCK, np.int64)
_SECTOR, _LINE = np.array(SECTOR), np.array(LINE)  # NumPy compares arrays faster with an array than with a Python int

SCRAMBLE = 0x9E3779B1
"""Multiplier of Knuth's hash (2^32 / golden ratio), which turns an address into a pseudo-random index."""


def form_cost(work: Work, form: LaunchForm, start: float = START, enough: float = inf) -> float:
    """Return the estimated cycles of a multiprocessor per element if `work` is launched in `form`.

    Only a block in the middle of the launch is counted. A loaded sector counts once per block, because the L1 cache keeps it. A
    stored sector counts once per request of a warp. Indices are assumed to be random. Counting stops when the cost reaches
    `enough`. The result is then a lower bound, and at least `enough`.
    `start`: instructions of a thread before its first element.
    """
    if form.cost is not None and start == START:
        return form.cost
    least = _least_loaded(work, form) if enough < inf else 0.0
    if least and (bound := _least_cost(work, form, start, least)) >= enough:
        return bound
    moved, count = form.moved, len(work.lookups)
    places, ordered, walking = _block(work, form)
    walkers, rounds = BLOCK if form.full else 0, [(places, ordered, moved)]
    if walking is not None:
        walkers, steps = int(np.count_nonzero(walking)), [form.walked.out_step, form.walked.in_step, *form.walked.index_steps]
        skipped = ~walking * (moved - 1)  # the element of a thread that does not walk lies after all chunks
        rounds = [(places + np.multiply.outer(steps, skipped), ordered, 1)]
        if walkers:  # threads without more elements get an address of another thread, so that they add no sectors
            one = int(walking.argmax())
            rounds.append((np.where(walking, rounds[0][0], rounds[0][0][:, one : one + 1]), [False] * len(ordered), moved - 1))
    elements = BLOCK + walkers * (moved - 1)
    cycles = _issued(start, elements, (BLOCK if form.invariant else elements) * count)
    for number, (rows, in_order, times) in enumerate(rounds):
        out, data = rows[0], rows[1]
        for lookup, index, rising in zip(work.lookups, rows[2:], in_order[2:], strict=True):
            data = data + index * SCRAMBLE % max(1, lookup.limit) * lookup.in_step
            cycles += _loaded(index, rising) * (times if not form.invariant else number == 0)
        stored = _changes(out if in_order[0] else _in_warps(out))
        cycles += (_in_requests(stored, _SECTOR) * SECTOR_CYCLES + _in_requests(stored, _LINE)) * times
        if enough < inf and (bound := (cycles + (least if walking is None else 0.0)) / elements) >= enough:
            return bound
        # Random positions share no sectors. Without lookups, elements that a thread reads one after the other may share them.
        cycles += _loaded(data, False) * times if count else _loaded(data, in_order[1], times, form.walked.in_step)
    return cycles / elements


def _least_cost(work: Work, form: LaunchForm, start: float, loaded: float) -> float:
    size, elements = work.element_bytes, BLOCK * form.moved
    stored = BLOCK * size // SECTOR * SECTOR_CYCLES + max(BLOCK * size // LINE, BLOCK // WARP)
    return (_issued(start, elements, 0) + stored * form.moved + loaded) / elements


def _least_loaded(work: Work, form: LaunchForm) -> float:
    """Return a lower bound of the cycles for a block's loads, or 0 if a byte may be read twice."""
    if work.lookups or form.threads < BLOCK or not _apart([(dim.in_step, dim.size) for dim in work.dims], work.element_bytes):
        return 0.0
    bytes_once, moved = BLOCK * work.element_bytes, form.moved
    sectors, lines = bytes_once // SECTOR * moved, max(bytes_once // LINE, BLOCK // WARP)
    near = form.dimensions[0].size > 1 and abs(form.dimensions[0].in_step) < SECTOR
    if not near and _alike(form):
        walk = [(form.walked.in_step, moved)] if form.full else []
        sectors = max(sectors, _neighbours(form, SECTOR, BLOCK, walk) * moved, _neighbours(form, SECTOR, BLOCK, []))
        lines = max(lines, _neighbours(form, LINE, WARP, []) * BLOCK // WARP)
    return sectors * SECTOR_CYCLES + lines * moved


def _alike(form: LaunchForm) -> bool:
    """Return True if all threads of the block in the middle of the grid move the same number of elements."""
    if form.full in {0, form.dimensions[form.chunk].size}:
        return True
    inner = prod([dim.size for dim in form.dimensions[: form.chunk]])
    chunk, before = divmod(form.threads // 2 // BLOCK * BLOCK, inner)
    return chunk % form.dimensions[form.chunk].size + (before + BLOCK - 1) // inner < form.full


def _neighbours(form: LaunchForm, unit: int, among: int, walk: list[tuple[int, int]]) -> int:
    """Return a lower bound of the number of different sectors (or lines) that neighbouring threads read.

    Threads are counted only as long as all addresses are at least `unit` bytes apart.
    `unit`: the bytes of a sector or line. `among`: the number of threads to consider.
    `walk`: the elements of one thread, as pairs (step in bytes, size).
    """
    threads, moves = 1, walk
    for dim in form.dimensions:
        moves = [*moves, (dim.in_step, dim.size)]
        if threads >= among // 2 or not _apart(moves, unit):
            break
        threads *= dim.size
    return min(threads, among // 2)


def _apart(moves: Sequence[tuple[int, int]], unit: int) -> bool:
    """Return True if any two addresses of an array are at least `unit` bytes apart.

    `moves`: the array's dimensions, as pairs (step in bytes, size).
    """
    extent = unit
    for step, size in sorted([(abs(step), size) for step, size in moves]):
        if step < extent and size > 1:
            return False
        extent += step * (size - 1)
    return True


def _issued(start: float, elements: int, resolved: int) -> float:
    return (start * BLOCK + EACH * elements + RESOLVED * resolved) / WARP / ISSUED


def _block(work: Work, form: LaunchForm) -> tuple[NDArray[Any], list[bool], NDArray[np.bool] | None]:
    """Return the first address that each thread accesses, for the block in the middle of the grid.

    Returns three values:

    - the addresses: one row for the output, one for the input, and one for each lookup;
    - for each row, True if the addresses are monotonic;
    - for each thread, True if it walks; None if all threads of the block walk, or if no thread of the launch does.
    """
    first = form.threads // 2 // BLOCK * BLOCK
    most = min(BLOCK, form.threads - first) - 1
    begin = [work.out_offset, work.in_offset, *[lookup.offset for lookup in work.lookups]]
    before: list[int] = []  # size * step of the previous dimension: a carry subtracts it
    numbers = _THREADS if most == BLOCK - 1 else np.minimum(_THREADS, most)
    columns, factors = [_ONES], [begin]
    moves: list[tuple[list[int], int]] = []
    walking = None
    for axis, dim in enumerate(form.dimensions):
        first, at = divmod(first, dim.size)
        steps = [dim.out_step, dim.in_step, *dim.index_steps]
        if at:
            factors[0] = [place + at * step for place, step in zip(factors[0], steps, strict=True)]
        walks = form.full if axis == form.chunk else 0
        if not most:
            walking = np.zeros(BLOCK, bool) if walks and at >= walks else walking
            continue
        columns.append(numbers)
        factors.append([step - end for step, end in zip(steps, before, strict=True)] if before else steps)
        moves.append((steps, form.walked.size if walks else dim.size))
        undivided, last, most = numbers, at + most, (at + most) // dim.size
        if most:
            numbers, last, before = (numbers + at) // dim.size, dim.size - 1, [dim.size * step for step in steps]
        if walks and last >= walks:
            walking = (undivided - numbers * dim.size if most else undivided) < walks - at
    ordered = [_in_order([(steps[number], size) for steps, size in moves]) for number in range(len(begin))]
    return np.array(factors, np.int64).T @ np.array(columns), ordered, walking


def _in_order(moves: list[tuple[int, int]]) -> bool:
    """Return True if the addresses of an array rise or fall monotonically.

    `moves`: the array's dimensions, as pairs (step in bytes, size), fastest first.
    """
    extent = sign = 0
    for step, size in moves:
        if abs(step) < extent or step * sign < 0:
            return False
        extent += abs(step) * (size - 1)
        sign = sign or step
    return True


def _loaded(places: NDArray[Any], ordered: bool, times: int = 1, step: int = 0) -> float:
    """Return the cycles that the loads of a block take, for sectors and for cache lines.

    `places`: the first address that each thread loads. `ordered`: True if these addresses are monotonic.
    `times`: the number of loads of each thread, which are `step` bytes apart.
    """
    warps, block = (places, places) if ordered else (_in_warps(places), np.sort(places))
    rounds, repeated, merged = 1, times, False
    if times > 1:
        rounds = LINE // gcd(step, LINE)  # offsets in a line repeat after this many steps: for 48 bytes, after 128 / 16 = 8
        rounds, repeated = (times, 1) if times % rounds else (rounds, times // rounds)
        steps = _THREADS[:times, None] * step
        merged = abs(step) < abs(int(block[-1]) - int(block[0])) + SECTOR  # steps may share a sector
        if merged:
            every = _changes(np.sort((block + steps).ravel(), kind="stable"))
        if rounds > 1:
            warps, block = warps + steps[:rounds], block if ordered or merged else block + steps[:rounds]
    changes = _changes(warps)
    lines = _in_requests(changes, _LINE) * repeated
    if merged:
        return (int(np.count_nonzero(every >= _SECTOR)) + 1) * SECTOR_CYCLES + lines
    sectors = int(np.count_nonzero((changes if ordered else _changes(block)) >= _SECTOR)) + rounds
    return sectors * repeated * SECTOR_CYCLES + lines


def _in_warps(places: NDArray[Any]) -> NDArray[Any]:
    warps = places.reshape(-1, WARP).copy()
    warps.sort()
    return warps.ravel()


def _changes(places: NDArray[Any]) -> NDArray[Any]:
    """Return each address XOR the previous one.

    The result is at least 32 if the two addresses lie in different sectors. Example: 0x1f ^ 0x20 = 0x3f.
    """
    changes: NDArray[Any] = places[..., 1:] ^ places[..., :-1]
    return changes


def _in_requests(changes: NDArray[Any], unit: NDArray[Any]) -> int:
    """Return the number of sectors (or lines) that a block touches. A sector counts once for each warp that touches it.

    `changes`: each address XOR the previous one (`_changes`), for ordered addresses. `unit`: the bytes of a sector or line.
    """
    other = changes >= unit
    first: int = changes.size // changes.shape[-1] * (BLOCK // WARP)
    return first + int(np.count_nonzero(other)) - int(np.count_nonzero(other[..., WARP - 1 :: WARP]))
