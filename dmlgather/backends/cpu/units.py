"""How many bytes move as one unit, and what scratch memory units need."""

from __future__ import annotations

from math import gcd

from dmlgather.backends.cpu.geometry import WORDS, Geometry
from dmlgather.backends.cpu.tuning import Tuning


def scratch_of(geometry: Geometry) -> int:
    """Bytes of scratch memory per unit of a block with lookups: positions for each lookup, their sum, the places of bad indices,
    two masks, products where lookups are several, and a copy of units that NumPy checks itself or that lie scattered.
    """
    lookups = len(geometry.lookups)
    return 8 * lookups + 8 + 8 + 2 + 16 * (lookups > 1) + min(geometry.unit, 64)


def in_place(geometry: Geometry, opaque: bool) -> bool:
    """Whether take() writes where units belong, and not to a copy: the source and each run of the output are contiguous."""
    return not geometry.lookups or (opaque and geometry.pitch == geometry.unit and geometry.packed)


def unit_of(geometry: Geometry, tuning: Tuning) -> int:
    """Bytes of the unit: the innermost run, unless it is long or a few words that are quicker walked apart."""
    run = geometry.run
    if geometry.lookups:
        return run if run < tuning.long_unit else _part(geometry, tuning)
    word = gcd(run, max(WORDS))
    if run > tuning.longest_item:
        return word
    few = 2 < run // word <= tuning.short and run < tuning.cache_line // 2
    return word if few and geometry.rank > 1 and geometry.shape[-2] > tuning.short else run


def _part(geometry: Geometry, tuning: Tuning) -> int:
    """The largest even part of a long run that is short enough. The run itself, or its elements, where there is none but tiny
    ones.
    """
    elements = geometry.run // geometry.unit
    most = max(tuning.part_unit // geometry.unit, 1)
    part = geometry.unit * next(count for count in range(most, 0, -1) if elements % count == 0)
    if part > tuning.part_unit // 8:
        return part
    return geometry.run if geometry.run <= tuning.longest_unit else geometry.unit
