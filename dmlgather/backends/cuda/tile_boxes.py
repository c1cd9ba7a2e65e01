"""Boxes of elements with runs of adjacent ones in the input and in the output. A box grows along both until it is full: small
dimensions are taken whole, and at most one on each side is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, inf, prod
from typing import NamedTuple

from dmlgather.backends.cuda.arguments import MAX_TILED
from dmlgather.backends.cuda.cost import SECTOR

RUNS = (64, 256, 1024)
"""Bytes of a run of the output that are weighed, besides boxes with runs of one length on both sides."""
Sizes = tuple[int, ...]
"""Of a box, along the dimensions of the work."""


class Side(NamedTuple):
    """The input or the output of some work. offset, steps: in bytes; a step for each dimension. order: the dimensions along which
    addresses move, those with small steps first. moves: the same, each with its bytes, forwards.
    """

    element_bytes: int
    offset: int
    steps: tuple[int, ...]
    order: tuple[int, ...]
    moves: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, element_bytes: int, offset: int, steps: Sequence[int]) -> Side:
        """The side with these steps."""
        moves = sorted([(abs(step), axis) for axis, step in enumerate(steps) if step])
        order = tuple([axis for _, axis in moves])
        return cls(element_bytes, offset, tuple(steps), order, tuple([(axis, step) for step, axis in moves]))

    def run(self, sizes: Sizes) -> tuple[int, tuple[int, ...]]:
        """Bytes of the elements of a box that are adjacent, and the dimensions along which they lie."""
        reached = self.element_bytes
        for count, (axis, step) in enumerate(self.moves):
            if step != reached:
                return reached, self.order[:count]
            reached *= sizes[axis]
        return reached, self.order

    def spread(self, sizes: Sizes, apart: int = -1) -> tuple[int, float]:
        """Bytes from one end of a run to the other, where steps may be smaller than what lies between them, as those of windows
        that overlap; and how often each of these bytes is moved. apart: a dimension whose elements are not moved together.
        """
        reached = moved = self.element_bytes
        for axis, step in self.moves:
            if step > reached or axis == apart:
                break
            moved *= sizes[axis]
            reached += step * (sizes[axis] - 1)
        return reached, moved / reached

    def growing(self, sizes: Sequence[int], whole: Sizes) -> tuple[int, int]:
        """Bytes from one end of a box's elements to the other, and the dimension along which they become more; -1 without one. A
        gap of a sector ends them.
        """
        reached = self.element_bytes
        gap = SECTOR - reached
        for axis, step in self.moves:
            if step > reached + gap:
                break
            size = sizes[axis]
            reached = step * size
            if size < whole[axis]:
                return reached, axis
        return reached, -1

    def start(self, sizes: Sizes) -> int:
        """Bytes from the first element of a box to the lowest one."""
        return sum([(size - 1) * step for size, step in zip(sizes, self.steps, strict=True) if step < 0])

    def reach(self, sizes: Sizes) -> int:
        """Bytes from the lowest element of a box to the highest one."""
        return sum([(sizes[axis] - 1) * step for axis, step in self.moves])

    def aligned(self, forms: Sequence[Sizes], cut: Sequence[int], starts: bool) -> int:
        """What all runs, and the places where they begin, are multiples of, in bytes. forms: the sizes that boxes have, whole
        ones first. cut: the dimensions along which there are several. starts: whether each begins at its lowest element.
        """
        reached, along = self.run(forms[0])
        numbers = [self.offset, reached, *[self.run(sizes)[0] for sizes in forms[1:]]]
        if starts and min(self.steps) < 0:
            numbers += map(self.start, forms)
        for axis, step in enumerate(self.steps):
            if axis not in along:
                numbers.append(step)
            elif axis in cut:
                numbers.append(step * forms[0][axis])
        return gcd(*numbers)

    def needed(self, unit: int, whole: Sizes) -> dict[int, int] | None:
        """How large boxes are at least, along some dimensions, if their runs begin and end at multiples of `unit` bytes; None
        where none do.

        Along each dimension of a run but the last one, a box takes what is adjacent; further steps are multiples of the unit.
        """
        if unit == self.element_bytes:
            return {}
        order, steps = self.order, [step for _, step in self.moves]
        last = max([number for number, step in enumerate(steps) if step % unit], default=-1)
        if self.offset % unit or last < 0 or steps[0] != self.element_bytes or steps[last] * whole[order[last]] % unit:
            return None
        sizes = {axis: then // step for axis, step, then in zip(order[:last], steps, steps[1:], strict=False)}
        return sizes | {order[last]: unit // gcd(unit, steps[last])}


def fit(sides: tuple[Side, Side], units: tuple[int, int], whole: Sizes, most: int) -> bool:
    """Whether boxes of at most `most` elements might have runs on both sides that begin and end at multiples of these units."""
    one, other = sides[0].needed(units[0], whole), sides[1].needed(units[1], whole)
    if one is None or other is None:
        return False
    return prod([max(one.get(axis, 1), other.get(axis, 1)) for axis in one.keys() | other]) <= most


def boxes(whole: Sizes, sides: tuple[Side, Side], most: int) -> Iterable[Sizes]:
    """Boxes of at most `most` elements that are worth weighing. sides: input and output."""
    # A dimension along which only one side moves is not cut; pieces of the others are to begin at whole sectors.
    pairs = zip(sides[0].steps, sides[1].steps, strict=True)
    sectors = [SECTOR // gcd(SECTOR, *pair) if all(pair) else 0 for pair in pairs]
    return dict.fromkeys(
        (_even_box(whole, (sides[1], sides[0]), sectors, most), *[_box(whole, sides, sectors, run, most) for run in RUNS])
    )


def _even_box(whole: Sizes, sides: tuple[Side, Side], sectors: Sequence[int], most: int) -> Sizes:
    """A box of at most `most` elements with runs of about one length on both sides."""
    sizes, elements = [1] * len(whole), 1
    one, other = sides
    end, other_end = one.growing(sizes, whole), other.growing(sizes, whole)
    while True:
        for _, axis in (end, other_end) if end[0] <= other_end[0] else (other_end, end):
            if axis < 0 or not sectors[axis]:
                continue
            old = sizes[axis]
            size = min(whole[axis], 2 * old)
            if old < size <= most // (elements // old) and (old > 1 or _open(sizes)):
                break
        else:
            break
        sizes[axis], elements = size, elements // old * size
        if end[1] == axis:
            end = (end[0] // old * size, axis) if size < whole[axis] else one.growing(sizes, whole)
        if other_end[1] == axis:
            other_end = (other_end[0] // old * size, axis) if size < whole[axis] else other.growing(sizes, whole)
    for axis, (size, every) in enumerate(zip(sizes, whole, strict=True)):
        if 1 < size < every:
            sizes[axis] = _cut(every, most // (prod(sizes) // size), sectors[axis])
    return tuple(sizes)


def _box(whole: Sizes, sides: tuple[Side, Side], sectors: Sequence[int], run: int, most: int) -> Sizes:
    """A box of at most `most` elements with runs of about `run` bytes in the output, and as long ones as there is room for in
    the input.
    """
    sizes, elements, gap = [1] * len(whole), 1, SECTOR - sides[0].element_bytes
    for side, wanted in ((sides[1], run), (sides[0], inf), (sides[1], inf)):
        reached = side.element_bytes
        for axis, step in side.moves:
            if step > reached + gap:
                break
            size, every = sizes[axis], whole[axis]
            if size < every:
                if step * size >= wanted or not sectors[axis] or (size == 1 and not _open(sizes)):
                    break
                others = elements // size
                larger = min(every, most // others)
                if wanted < inf:
                    larger = min(larger, max(size, -(-run // step)))
                if larger < every:
                    larger = _cut(every, larger, sectors[axis])
                if larger <= size:
                    break
                sizes[axis], elements = larger, others * larger
                if larger < every:
                    break
            reached = step * every
    return tuple(sizes)


def _open(sizes: Sequence[int]) -> bool:
    """Whether a box may get another dimension."""
    return len(sizes) <= MAX_TILED or len(sizes) - sizes.count(1) < MAX_TILED


def _cut(whole: int, most: int, sector: int) -> int:
    """At most so many elements of a dimension: pieces of about one size that begin at multiples of whole sectors."""
    most = most - most % sector if most > sector else most
    if most >= whole:
        return whole
    even = -(-whole // -(-whole // most))
    return min(most, -(-even // sector) * sector)
