"""What a kernel costs a multiprocessor, where several could serve the same plan: counted, and combined by a simple model.

Three things are added up: the sectors that memory moves, at SECTOR_CYCLES each; the cache lines that requests look up, one a
cycle; and the instructions that are issued, ISSUED a cycle, one for each scheduler. That they do not overlap is assumed, and so
is the line a cycle.

`form_cost.py` counts sectors and lines of a block's addresses: it decides which dimension threads walk. `tile_cost` computes them
from the runs of a tile. Spans and elements move the same sectors, so only lines and instructions are compared there, for each 512
bytes of output: a vector of 16 bytes for each thread of a warp. docs/kernels.md ("Choosing a kernel") has the derivation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

from dmlgather.backends.cuda.variants import BLOCK

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


class RunCost(NamedTuple):
    """One side of a tile: bytes that are adjacent, how often each of them is moved, what these and their addresses are
    multiples of, and bytes of a load or store. stored: each request counts; of what is loaded, each sector counts once. whole:
    requests begin and end with sectors.
    """

    run: int
    times: float
    aligned: int
    unit: int
    stored: bool
    whole: bool = False


def tile_cost(
    sides: Sequence[RunCost],
    *,
    tile_bytes: int,
    most_bytes: int,
    element_bytes: int,
    read_bytes: int,
    dimensions: int,
    tiles: int,
    idle: float,
) -> float:
    """Cycles of a multiprocessor for an element of a tile. most_bytes: of a tile of the kernel, whose threads execute as much
    for smaller ones. read_bytes: that are read from shared memory at once. dimensions: along which tiles lie. tiles: that a
    block moves. idle: how many times as long so few blocks take.
    """
    elements = tile_bytes / element_bytes
    instructions = (TILE + TILE_DIMENSION * dimensions) * BLOCK + (TILE_ELEMENT + TILE_PLACE / tiles) * most_bytes / read_bytes
    cycles = 0.0
    for side in sides:
        requests = tile_bytes / side.unit / WARP
        for unit, each in ((SECTOR, max(SECTOR_CYCLES, SECTOR_ALONE * idle)), (LINE, idle)):
            each_counts = side.stored or unit == LINE
            moved = tile_bytes if each_counts else tile_bytes / side.times
            torn = requests if each_counts and not (side.whole and unit == SECTOR) else 0
            pieces = tile_bytes / side.times / side.run + torn
            cycles += (moved / unit + pieces * (1 - gcd(side.aligned, unit) / unit)) * each
        instructions += most_bytes / side.unit * TILE_UNIT
    return (cycles + instructions / WARP / ISSUED * idle) / elements


def idle(blocks: int, multiprocessors: int) -> float:
    """How many times the cycles of a full GPU so few blocks take: each multiprocessor without one waits."""
    return max(1.0, multiprocessors / blocks)
