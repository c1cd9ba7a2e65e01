"""What a kernel costs a multiprocessor, where several could serve the same plan: counted, and combined by a simple model.

Three things are added up: the sectors that memory moves, at SECTOR_CYCLES each; the cache lines that requests look up, one a
cycle; and the instructions that are issued, ISSUED a cycle, one for each scheduler. That they do not overlap is assumed, and so
is the line a cycle.

`form_cost` counts sectors and lines of a block's addresses: it decides which dimension threads walk. `tile_cost` computes them
from the runs of a tile. Spans and elements move the same sectors, so only lines and instructions are compared there, for each 512
bytes of output: a vector of 16 bytes for each thread of a warp. docs/kernels.md ("Choosing a kernel") has the derivation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cuda.variants import BLOCK
from dmlgather.backends.cuda.work import Work

if TYPE_CHECKING:
    from dmlgather.backends.cuda.launch_form import LaunchForm

SECTOR, LINE = 32, 128
"""Bytes of which memory moves whole ones, and bytes that a request of a warp looks up in the L1 cache at once."""
WARP = 32
SECTOR_CYCLES = 1.7
"""Of a multiprocessor for a sector, where 132 of them at 1.7 GHz share 4.3 TB/s. Computed."""
SECTOR_ALONE = 0.5
"""The same of a multiprocessor that is alone: 64 bytes a cycle. Assumed."""
ISSUED = 4
"""Instructions that a multiprocessor issues a cycle."""
REQUEST_BYTES = 512
"""Of output, that a warp stores at once by vectors of 16 bytes; all numbers below are for as many."""
CHUNK_BYTES = 4 * REQUEST_BYTES
"""Of output, that a warp of a span kernel moves; the short path needs all of them in one run."""


@dataclass(frozen=True, slots=True)
class SpanCost:
    """Instructions of a warp for 512 bytes of output. inside: of a chunk in one run. across: of any other chunk. seam: more, if
    runs end there. Counted in machine code (sm_90).
    """

    inside: int
    across: int
    seam: int


@dataclass(frozen=True, slots=True)
class ElementCost:
    """Of a thread for one element: instructions, counted in machine code (sm_90), and lines that a warp looks up, counted by
    interpreting PTX with random rows of 82 to 10,246 bytes.
    """

    instructions: float
    lines: float


SLICED_SPANS = SpanCost(inside=33, across=108, seam=76)
GATHERED_SPANS = SpanCost(inside=37, across=123, seam=85)
"""`span_d3`; `span_d2_k1_i8_clamp`."""
SPAN_LINES, SEAM_LINES = 14.0, 3.3
"""Counted: 14.4, 15.8, 22.3, 31.5 and 46.8 lines for random rows of 10,246, 1537, 202, 97 and 49 bytes."""

SLICED_ELEMENTS = ElementCost(14, 3.4)
GATHERED_ONCE = ElementCost(14.25, 3.9)
GATHERED_EACH = ElementCost(29, 3.8)
"""`copy_d3_e2`; `gather_d2_k1_e2_i8_clamp_once` and `_each`, of which a thread walks eight elements. Walks along a run also store
sectors that they do not fill; for the memory's work with these, a line is added. Assumed.
"""


def span_cost(run_bytes: int, looked_up: bool) -> float:
    """Of runs of that length. looked_up: by an index; otherwise they are at fixed places."""
    cost = GATHERED_SPANS if looked_up else SLICED_SPANS
    inside = max(0.0, 1 - CHUNK_BYTES / run_bytes)
    seams = REQUEST_BYTES / run_bytes
    instructions = inside * cost.inside + (1 - inside) * cost.across + min(1.0, seams) * cost.seam
    return instructions / ISSUED + SPAN_LINES + seams * SEAM_LINES


def element_cost(element_bytes: int, looked_up: bool, once: bool) -> float:
    """Of elements of that size. once: a thread resolves its indices once."""
    cost = SLICED_ELEMENTS if not looked_up else GATHERED_ONCE if once else GATHERED_EACH
    return (cost.instructions / ISSUED + cost.lines) * REQUEST_BYTES / 32 / element_bytes


_THREADS = np.arange(BLOCK)

SCRAMBLE = 0x9E3779B1
"""Odd; makes places that look random of the places of indices."""
START, EACH, RESOLVED = 62.0, 6.3, 13.0
"""Instructions of a thread, of each element that it moves, and of each index that it resolves. Fitted to counts in machine code:
`copy_d3_e4` 112 for 8 elements, `copy_d3_e16` 87 for 4, `gather_d2_k1_e4_i8_clamp_each` 140 for 4.
"""
FURTHER_DIMENSION = 20.0
"""Instructions of a thread for each dimension beyond the fourth. Counted: the code of `copy_d6_e16` has 24 more than that of
`copy_d4_e16`, and 40 more than that of `copy_d3_e16`.
"""
GENERAL_START = 400.0
"""Instructions of a thread of a general kernel."""
TILE, TILE_DIMENSION, TILE_UNIT, TILE_ELEMENT = 40.0, 20.0, 4.0, 2.0
TILE_PLACE = 20.0
"""Instructions of a thread for a tile, for each dimension along which tiles lie, for a unit that is loaded or stored, and for an
element that is read from shared memory; and once a block, for an element whose places it computes. Estimated from the machine
code of `tiles_e4_l4_s4`.
"""


def form_cost(work: Work, form: LaunchForm, start: float = START, enough: float = inf) -> float:
    """Cycles of a multiprocessor for an element, where `work` is launched in `form`.

    A block in the middle of the launch stands for all. Of what it loads, each sector counts once, because its L1 cache keeps
    them; of what it stores, each for every request. Indices are taken to be random. start: instructions before the first
    element. enough: counting may end where it costs as much; what is returned is then at least that.
    """
    if form.cost is not None and start == START:
        return form.cost
    if enough < inf and (bound := _least_cost(work, form, start)) >= enough:
        return bound
    moved, count = form.moved, len(work.lookups)
    places, ordered, walking = _block(work, form)
    walkers, rounds = BLOCK if form.full else 0, [(places, ordered, moved)]
    if walking is not None:
        walkers, steps = int(np.count_nonzero(walking)), (form.walked.out_step, form.walked.in_step, *form.walked.index_steps)
        behind = ~walking * (moved - 1)  # what does not walk lies behind what does
        rounds = [([row + behind * step for row, step in zip(places, steps, strict=True)], ordered, 1)]
        if walkers:  # in the other steps, threads that do not walk touch nothing of their own
            one = int(walking.argmax())
            rounds.append(([np.where(walking, row, row[one]) for row in rounds[0][0]], [False] * len(ordered), moved - 1))
    elements = BLOCK + walkers * (moved - 1)
    cycles = _issued(start, elements, (BLOCK if form.invariant else elements) * count)
    for number, ((out, first, *indices), in_order, times) in enumerate(rounds):
        data = first
        for lookup, index, rising in zip(work.lookups, indices, in_order[2:], strict=True):
            data = data + index * SCRAMBLE % max(1, lookup.limit) * lookup.in_step
            cycles += _loaded(index, rising) * (times if not form.invariant else number == 0)
        stored = _changes(out if in_order[0] else _in_warps(out))
        cycles += (_units(stored, SECTOR) * SECTOR_CYCLES + _units(stored, LINE)) * times
        if enough < inf and (bound := (cycles + (_least_loaded(work, form) if walking is None else 0.0)) / elements) >= enough:
            return bound
        # Random places share no sectors, but the steps of a walk may.
        cycles += _loaded(data, False) * times if count else _loaded(data, in_order[1], times, form.walked.in_step)
    return cycles / elements


def _least_cost(work: Work, form: LaunchForm, start: float = START) -> float:
    """What `form_cost` says at least, by a bound that takes no counting; 0 where there is none."""
    if not (least := _least_loaded(work, form)):
        return 0.0
    size, elements = work.element_bytes, BLOCK * form.moved
    stored = BLOCK * size // SECTOR * SECTOR_CYCLES + max(BLOCK * size // LINE, BLOCK // WARP)
    return (_issued(start, elements, 0) + stored * form.moved + least) / elements


def _least_loaded(work: Work, form: LaunchForm) -> float:
    """For what a block whose threads all walk loads of a slice that reads no byte twice; 0 where it may."""
    if form.threads < BLOCK or work.lookups or not _apart([(dim.in_step, dim.size) for dim in work.dims], work.element_bytes):
        return 0.0
    bytes_once, moved = BLOCK * work.element_bytes, form.moved
    sectors, lines = bytes_once // SECTOR * moved, max(bytes_once // LINE, BLOCK // WARP)
    if _alike(form):
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


def _block(work: Work, form: LaunchForm) -> tuple[list[NDArray[Any]], list[bool], NDArray[np.bool] | None]:
    """What the threads of a block in the middle touch first: in the output, in the input, and in each lookup's indices. Whether
    these addresses rise or fall all the way. Which threads walk, where not all do.
    """
    first = form.threads // 2 // BLOCK * BLOCK
    most = min(BLOCK, form.threads - first) - 1
    numbers = _THREADS if most == BLOCK - 1 else np.minimum(_THREADS, most)
    begin = [work.out_offset, work.in_offset, *[lookup.offset for lookup in work.lookups]]
    rows: list[Any] = [None] * len(begin)
    moves: list[tuple[list[int], int]] = []
    walking, before = None, [0] * len(begin)  # before: to the end of the dimension before, which a carry takes back
    for axis, dim in enumerate(form.dimensions):
        first, at = divmod(first, dim.size)
        steps = [dim.out_step, dim.in_step, *dim.index_steps]
        if at:
            begin = [place + at * step for place, step in zip(begin, steps, strict=True)]
        walks = form.full if axis == form.chunk else 0
        if not most:
            walking = np.zeros(BLOCK, bool) if walks and at >= walks else walking
            continue
        for number, step in enumerate(steps):
            if more := step - before[number]:
                rows[number] = numbers * more if rows[number] is None else rows[number] + numbers * more
        moves.append((steps, form.walked.size if walks else dim.size))
        found, last, most = numbers, at + most, (at + most) // dim.size
        if most:
            numbers, last, before = (numbers + at) // dim.size, dim.size - 1, [dim.size * step for step in steps]
        if walks and last >= walks:
            walking = (found - numbers * dim.size if most else found) < walks - at
    ordered = [_in_order([(steps[number], size) for steps, size in moves]) for number in range(len(rows))]
    places = [np.full(BLOCK, place) if row is None else row + place for row, place in zip(rows, begin, strict=True)]
    return places, ordered, walking


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
    lines = _units(changes, LINE) * repeated
    if merged:
        return _units(every, SECTOR, times * BLOCK) * SECTOR_CYCLES + lines
    return _units(changes if ordered else _changes(block), SECTOR, BLOCK) * repeated * SECTOR_CYCLES + lines


def _in_warps(places: NDArray[Any]) -> NDArray[Any]:
    """Sorted within each warp."""
    return np.sort(places.reshape(-1, WARP)).ravel()


def _changes(places: NDArray[Any]) -> NDArray[Any]:
    """The bits in which each address differs from the one before."""
    changes: NDArray[Any] = places[..., 1:] ^ places[..., :-1]
    return changes


def _units(changes: NDArray[Any], unit: int, within: int = WARP) -> int:
    """Units of memory that so many threads touch, each after the other, added up. No element crosses the end of a unit."""
    other = changes >= unit
    count = np.count_nonzero(other) + changes.size // changes.shape[-1] * (changes.shape[-1] + 1) // within
    return int(count - np.count_nonzero(other[..., within - 1 :: within]) if within == WARP else count)


@dataclass(frozen=True, slots=True)
class RunCost:
    """One side of a tile: bytes that are adjacent, how often each of them is moved, what these and their addresses are
    multiples of, and bytes of a load or store. stored: each request counts; of what is loaded, each sector counts once.
    """

    run: int
    times: float
    aligned: int
    unit: int
    stored: bool


def tile_cost(
    sides: Sequence[RunCost], *, tile_bytes: int, most_bytes: int, element_bytes: int, dimensions: int, tiles: int, idle: float
) -> float:
    """Cycles of a multiprocessor for an element of a tile. most_bytes: of a tile of the kernel, whose threads execute as much
    for smaller ones. dimensions: along which tiles lie. tiles: that a block moves. idle: how many times as long so few blocks
    take.
    """
    elements = tile_bytes / element_bytes
    instructions = (TILE + TILE_DIMENSION * dimensions) * BLOCK + (TILE_ELEMENT + TILE_PLACE / tiles) * most_bytes / element_bytes
    cycles = 0.0
    for side in sides:
        requests = tile_bytes / side.unit / WARP
        for unit, each in ((SECTOR, max(SECTOR_CYCLES, SECTOR_ALONE * idle)), (LINE, idle)):
            each_counts = side.stored or unit == LINE
            moved = tile_bytes if each_counts else tile_bytes / side.times
            pieces = tile_bytes / side.times / side.run + (requests if each_counts else 0)
            cycles += (moved / unit + pieces * (1 - gcd(side.aligned, unit) / unit)) * each
        instructions += most_bytes / side.unit * TILE_UNIT
    return (cycles + instructions / WARP / ISSUED * idle) / elements


def idle(blocks: int, multiprocessors: int) -> float:
    """How many times the cycles of a full GPU so few blocks take: each multiprocessor without one waits."""
    return max(1.0, multiprocessors / blocks)
