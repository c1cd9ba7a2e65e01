"""What a launch form costs: sectors and lines of the addresses of one block, counted, and instructions; in the unit of `cost.py`.

Bounds that take no counting exclude forms that cannot cost less than another one, or than tiles.
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
_SECTOR, _LINE = np.array(SECTOR), np.array(LINE)  # an array is compared sooner than a number

SCRAMBLE = 0x9E3779B1
"""Odd; makes places that look random of the places of indices."""


def form_cost(work: Work, form: LaunchForm, start: float = START, enough: float = inf) -> float:
    """Cycles of a multiprocessor for an element, where `work` is launched in `form`.

    A block in the middle of the launch stands for all. Of what it loads, each sector counts once, because its L1 cache keeps
    them; of what it stores, each for every request. Indices are taken to be random. start: instructions before the first
    element. enough: counting may end where it costs as much; what is returned is then at least that.
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
        behind = ~walking * (moved - 1)  # what does not walk lies behind what does
        rounds = [(places + np.multiply.outer(steps, behind), ordered, 1)]
        if walkers:  # in the other steps, threads that do not walk touch nothing of their own
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
        # Random places share no sectors, but the steps of a walk may.
        cycles += _loaded(data, False) * times if count else _loaded(data, in_order[1], times, form.walked.in_step)
    return cycles / elements


def _least_cost(work: Work, form: LaunchForm, start: float, loaded: float) -> float:
    """What `form_cost` says at least, by a bound that takes no counting. loaded: as `_least_loaded` says."""
    size, elements = work.element_bytes, BLOCK * form.moved
    stored = BLOCK * size // SECTOR * SECTOR_CYCLES + max(BLOCK * size // LINE, BLOCK // WARP)
    return (_issued(start, elements, 0) + stored * form.moved + loaded) / elements


def _least_loaded(work: Work, form: LaunchForm) -> float:
    """For what a block whose threads all walk loads of a slice that reads no byte twice; 0 where it may."""
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
    """Whether all threads walk, at least those of the block in the middle, or none does."""
    if form.full in {0, form.dimensions[form.chunk].size}:
        return True
    inner = prod([dim.size for dim in form.dimensions[: form.chunk]])
    chunk, before = divmod(form.threads // 2 // BLOCK * BLOCK, inner)
    return chunk % form.dimensions[form.chunk].size + (before + BLOCK - 1) // inner < form.full


def _neighbours(form: LaunchForm, unit: int, among: int, walk: list[tuple[int, int]]) -> int:
    """How many of so many adjacent threads at least read units of their own in each step of a walk: those along the first
    dimensions whose steps, and those of the walk, are that far apart.
    """
    threads, moves = 1, walk
    for dim in form.dimensions:
        moves = [*moves, (dim.in_step, dim.size)]
        if threads >= among // 2 or not _apart(moves, unit):
            break
        threads *= dim.size
    return min(threads, among // 2)


def _apart(moves: Sequence[tuple[int, int]], unit: int) -> bool:
    """Whether steps of these lengths, so many along each dimension, keep all places so far from each other."""
    reach = unit
    for step, size in sorted([(abs(step), size) for step, size in moves]):
        if step < reach and size > 1:
            return False
        reach += step * (size - 1)
    return True


def _issued(start: float, elements: int, resolved: int) -> float:
    """Cycles in which the instructions of a block are issued that moves so many elements and resolves so many indices."""
    return (start * BLOCK + EACH * elements + RESOLVED * resolved) / WARP / ISSUED


def _block(work: Work, form: LaunchForm) -> tuple[NDArray[Any], list[bool], NDArray[np.bool] | None]:
    """What the threads of a block in the middle touch first: a row of addresses in the output, one in the input, and one in each
    lookup's indices. Whether those of a row rise or fall all the way. Which threads walk, where not all do.
    """
    first = form.threads // 2 // BLOCK * BLOCK
    most = min(BLOCK, form.threads - first) - 1
    begin = [work.out_offset, work.in_offset, *[lookup.offset for lookup in work.lookups]]
    before: list[int] = []  # to the end of the dimension before, which a carry takes back
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
        found, last, most = numbers, at + most, (at + most) // dim.size
        if most:
            numbers, last, before = (numbers + at) // dim.size, dim.size - 1, [dim.size * step for step in steps]
        if walks and last >= walks:
            walking = (found - numbers * dim.size if most else found) < walks - at
    ordered = [_in_order([(steps[number], size) for steps, size in moves]) for number in range(len(begin))]
    return np.array(factors, np.int64).T @ np.array(columns), ordered, walking


def _in_order(moves: list[tuple[int, int]]) -> bool:
    """Whether places rise or fall all the way along dimensions of these steps and sizes, fastest first."""
    reach = sign = 0
    for step, size in moves:
        if abs(step) < reach or step * sign < 0:
            return False
        reach += abs(step) * (size - 1)
        sign = sign or step
    return True


def _loaded(places: NDArray[Any], ordered: bool, times: int = 1, step: int = 0) -> float:
    """For the sectors that a block touches, and the lines that each warp does, where threads walk by so many bytes."""
    warps, block = (places, places) if ordered else (_in_warps(places), np.sort(places))
    rounds, repeated, merged = 1, times, False
    if times > 1:
        rounds = LINE // gcd(step, LINE)  # so many steps lie differently in lines
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
    """Sorted within each warp."""
    warps = places.reshape(-1, WARP).copy()
    warps.sort()
    return warps.ravel()


def _changes(places: NDArray[Any]) -> NDArray[Any]:
    """The bits in which each address differs from the one before."""
    changes: NDArray[Any] = places[..., 1:] ^ places[..., :-1]
    return changes


def _in_requests(changes: NDArray[Any], unit: NDArray[Any]) -> int:
    """Units of memory that the threads of each warp touch, each after the other, added up over the warps of blocks. No element
    crosses the end of a unit.
    """
    other = changes >= unit
    first: int = changes.size // changes.shape[-1] * (BLOCK // WARP)
    return first + int(np.count_nonzero(other)) - int(np.count_nonzero(other[..., WARP - 1 :: WARP]))
