"""How many bytes move as one unit, and how much scratch memory a unit needs."""

from __future__ import annotations

from math import gcd

from dmlgather.backends.cpu.geometry import WORDS, Geometry
from dmlgather.backends.cpu.tuning import Tuning


def scratch_of(geometry: Geometry) -> int:
    """Bytes of scratch memory per unit of a block with lookups: positions for each lookup, their sum, the places of bad indices,
    two masks, products if there are several lookups, and a copy of units that NumPy checks itself or that are not contiguous.
    """
    lookups = len(geometry.lookups)
    return 8 * lookups + 8 + 8 + 2 + 16 * (lookups > 1) + min(geometry.unit, 64)


def in_place(geometry: Geometry, opaque: bool) -> bool:
    """Whether take() writes straight into the output: the source and each run of the output are contiguous."""
    return not geometry.lookups or (opaque and geometry.pitch == geometry.unit and geometry.packed)


def unit_of(geometry: Geometry, tuning: Tuning, steady: bool) -> int:
    """Bytes of the unit: the innermost run, unless it is long, or so few words that a loop over another dimension is quicker.
    steady: take long runs in short parts, whose speed does not depend on their addresses.
    """
    run = geometry.run
    if geometry.lookups:
        most = tuning.part_unit if steady and run >= tuning.long_unit else tuning.longest_unit
        return run if run <= most else _part(geometry, most, tuning)
    word = gcd(run, max(WORDS))
    if run > tuning.longest_item:
        return word
    few = 2 < run // word <= tuning.short and run < tuning.cache_line // 2
    return word if few and geometry.rank > 1 and geometry.shape[-2] > tuning.short else run


def stalls(geometry: Geometry, tuning: Tuning, source: int, target: int) -> bool:
    """Whether long runs of the output often start 1 to 16 bytes after those of the source, modulo pages: the C library moves such
    runs 10 to 20 times slower. For plans with lookups. source, target: addresses of the buffers.
    """
    runs = geometry.joined(geometry.run)
    step = gcd(tuning.page, *runs.in_strides, *runs.out_strides, *(lookup.in_stride for lookup in runs.lookups))
    behind = (target + runs.out_offset - source - runs.in_offset) % step
    return step >= tuning.page // 8 and 0 < behind <= 16


def _part(geometry: Geometry, most: int, tuning: Tuning) -> int:
    """Bytes of the largest part of at most `most` bytes that divides a long run. If all such parts are tiny: the run itself, or
    one element if it is very long.
    """
    elements = geometry.run // geometry.unit
    part = geometry.unit * next(count for count in range(max(most // geometry.unit, 1), 0, -1) if elements % count == 0)
    if part > most // 8:
        return part
    return geometry.run if geometry.run <= tuning.longest_unit else geometry.unit
