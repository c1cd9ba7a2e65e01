"""Estimated time of a kernel in cycles of a multiprocessor, to choose between kernels that could execute the same plan.

The cost is a sum of three terms: SECTOR_CYCLES for each sector that memory moves, one cycle for each cache line that a request
looks up, and one cycle for ISSUED instructions. The model assumes that the three do not overlap. Span kernels and element
kernels move the same sectors, so `span_cost` and `element_cost` have only lines and instructions. docs/kernels.md ("Choosing a
kernel") has the derivation.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from dmlgather.backends.cuda.variants import BLOCK

SECTOR, LINE = 32, 128
"""Bytes of a sector, which memory moves as a whole, and of a cache line."""
WARP = 32
SECTOR_CYCLES = 1.7
"""Cycles per sector if 132 multiprocessors at 1.7 GHz share 4.3 TB/s: 132 * 1.7e9 / (4.3e12 / 32)."""
SECTOR_ALONE = 0.5
"""Cycles per sector if only one multiprocessor uses the memory. Assumed."""
ISSUED = 4
"""Instructions that a multiprocessor issues per cycle."""
REQUEST_BYTES = 512
"""Bytes that a warp stores at once by vectors of 16 bytes."""
CHUNK_BYTES = 4 * REQUEST_BYTES
"""Bytes of output of a warp of a span kernel. One run for all of them is faster."""


SLICED_SPANS, GATHERED_SPANS = (33, 108, 76), (37, 123, 85)
"""Instructions of a warp for 512 bytes: in one run, in several runs, and more if a run ends there.

Counted in the machine code (sm_90) of `span_d3` and `span_d2_k1_i8_clamp`.
"""
SPAN_LINES, SEAM_LINES = 14.0, 3.3
"""Cache lines that a warp looks up for 512 bytes of output, and more for each end of a run.

Fitted to counts for rows of 49 to 10,246 bytes. For 202 bytes, 22.3 are counted: 14 + 512 / 202 * 3.3 = 22.4.
"""

SLICED_ELEMENTS, GATHERED_ONCE, GATHERED_EACH = (14, 3.4), (14.25, 3.9), (29, 3.8)
"""Instructions and cache lines of a warp for 32 elements.

Counted in machine code (sm_90), and by interpreting PTX. One line more is assumed, because walks along a run store partial
sectors.
"""


def span_cost(run_bytes: int, looked_up: bool) -> float:
    """Return the estimated cycles in which a span kernel writes 512 bytes. Cycles for sectors are left out.

    `run_bytes`: the bytes of one contiguous run. `looked_up`: True if indices decide where the runs begin.
    """
    inside_cost, across_cost, seam_cost = GATHERED_SPANS if looked_up else SLICED_SPANS
    inside = max(0.0, 1 - CHUNK_BYTES / run_bytes)  # share of the chunks that lie in one run
    seams = REQUEST_BYTES / run_bytes
    instructions = inside * inside_cost + (1 - inside) * across_cost + min(1.0, seams) * seam_cost
    return instructions / ISSUED + SPAN_LINES + seams * SEAM_LINES


def element_cost(element_bytes: int, looked_up: bool, once: bool) -> float:
    """Return the estimated cycles in which a kernel writes 512 bytes element by element. Cycles for sectors are left out.

    `looked_up`: True if the elements are looked up. `once`: True if a thread resolves its indices only once.
    """
    instructions, lines = SLICED_ELEMENTS if not looked_up else GATHERED_ONCE if once else GATHERED_EACH
    return (instructions / ISSUED + lines) * REQUEST_BYTES / 32 / element_bytes


START, EACH, RESOLVED = 62.0, 6.3, 13.0
"""Instructions of a thread: before its first element, for each element, and for each index that it resolves.

Fitted to counts, such as 112 (62 + 8 * 6.3) for 8 elements in `copy_d3_e4`.
"""
FURTHER_DIMENSION = 20.0
"""Instructions of a thread for each dimension after the fourth. `copy_d6_e16` has 24 more than `copy_d4_e16`."""
GENERAL_START = 400.0
"""`START` of a general kernel."""
TILE, TILE_DIMENSION, TILE_UNIT, TILE_ELEMENT = 40.0, 20.0, 4.0, 2.0
"""Estimated instructions of a thread for each tile, each dimension of tiles, each load or store, and each element."""
TILE_PLACE = 20.0
"""Instructions to compute an element's position in shared memory, once per block. Estimated."""


class RunCost(NamedTuple):
    """How a tile kernel accesses one side of a tile: the input or the output.

    `run`: the bytes of each contiguous run of elements.
    `times`: how often each byte is moved on average. It is above 1 if windows overlap.
    `aligned`: a number of bytes that divides the lengths and the addresses of all runs.
    `unit`: the bytes of one load or store.
    `stored`: True for the output. Each request of a warp stores its own sectors, while loaded sectors stay in the cache.
    `whole`: True if requests begin and end at sector boundaries.
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
    """Return the estimated cycles of a multiprocessor for each element of a tile.

    `most_bytes`: the bytes of the kernel's largest tile. A smaller tile costs as many instructions as the largest.
    `read_bytes`: the bytes that a thread reads from shared memory at once.
    `dimensions`: the number of dimensions along which there are several tiles. `tiles`: the number of tiles per block.
    `idle`: the factor that the function `idle` returns.
    """
    elements = tile_bytes / element_bytes
    instructions = (TILE + TILE_DIMENSION * dimensions) * BLOCK + (TILE_ELEMENT + TILE_PLACE / tiles) * most_bytes / read_bytes
    cycles = 0.0
    for side in sides:
        requests = tile_bytes / side.unit / WARP
        for unit, unit_cycles in ((SECTOR, max(SECTOR_CYCLES, SECTOR_ALONE * idle)), (LINE, idle)):
            every_request = side.stored or unit == LINE
            moved = tile_bytes if every_request else tile_bytes / side.times
            torn = requests if every_request and not (side.whole and unit == SECTOR) else 0
            pieces = tile_bytes / side.times / side.run + torn
            # Example: a piece at a random multiple of 8 bytes touches, on average, 1 - 8 / 32 sectors more than its bytes fill.
            cycles += (moved / unit + pieces * (1 - gcd(side.aligned, unit) / unit)) * unit_cycles
        instructions += most_bytes / side.unit * TILE_UNIT
    return (cycles + instructions / WARP / ISSUED * idle) / elements


def idle(blocks: int, multiprocessors: int) -> float:
    """Return the factor by which a launch takes longer because it has fewer blocks than the GPU has multiprocessors."""
    return max(1.0, multiprocessors / blocks)
