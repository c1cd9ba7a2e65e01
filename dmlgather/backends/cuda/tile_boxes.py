"""Boxes of elements with runs of adjacent ones in the input and in the output. A box grows along both until it is full: small
dimensions are taken whole, and at most one on each side is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd, inf, lcm, prod

from dmlgather.backends.cuda.arguments import MAX_TILED
from dmlgather.backends.cuda.cost import SECTOR

RUNS = (64, 256, 1024)
"""Bytes of a run of the output that are weighed, besides boxes with runs of one length on both sides."""
Sizes = tuple[int, ...]
"""Of a box, along the dimensions of the work."""


@dataclass(frozen=True, slots=True)
class Side:
    """The input or the output of some work. offset, steps: in bytes; a step for each dimension. order: the dimensions along which
    addresses move, those with small steps first.
    """

    element_bytes: int
    offset: int
    steps: tuple[int, ...]
    order: tuple[int, ...]

    @classmethod
    def of(cls, element_bytes: int, offset: int, steps: Sequence[int]) -> Side:
        """The side with these steps."""
        order = sorted((axis for axis, step in enumerate(steps) if step), key=lambda axis: abs(steps[axis]))
        return cls(element_bytes, offset, tuple(steps), tuple(order))

    def run(self, sizes: Sizes) -> tuple[int, tuple[int, ...]]:
        """Bytes of the elements of a box that are adjacent, and the dimensions along which they lie."""
        reached = self.element_bytes
        for count, axis in enumerate(self.order):
            if abs(self.steps[axis]) != reached:
                return reached, self.order[:count]
            reached *= sizes[axis]
        return reached, self.order

    def spread(self, sizes: Sizes) -> tuple[int, float]:
        """Bytes from one end of a run to the other, where steps may be smaller than what lies between them, as those of windows
        that overlap; and how often each of these bytes is moved.
        """
        reached = moved = self.element_bytes
        for axis in self.order:
            step = abs(self.steps[axis])
            if step > reached:
                break
            moved *= sizes[axis]
            reached += step * (sizes[axis] - 1)
        return reached, moved / reached

    def growing(self, sizes: Sequence[int], whole: Sizes) -> tuple[int, int]:
        """Bytes from one end of a box's elements to the other, and the dimension along which they become more; -1 without one. A
        gap of a sector ends them.
        """
        reached = self.element_bytes
        for axis in self.order:
            step = abs(self.steps[axis])
            if step > reached + SECTOR - self.element_bytes:
                break
            reached = step * sizes[axis]
            if sizes[axis] < whole[axis]:
                return reached, axis
        return reached, -1

    def start(self, sizes: Sizes) -> int:
        """Bytes from the first element of a box to the lowest one."""
        return sum((size - 1) * min(step, 0) for size, step in zip(sizes, self.steps, strict=True))


def boxes(whole: Sizes, source: Side, target: Side, most: int) -> Iterable[Sizes]:
    """Boxes of at most `most` elements that are worth weighing."""
    even = _even_box(whole, (target, source), most)
    return dict.fromkeys((even, *(_box(whole, source, target, run, most) for run in RUNS)))


def _even_box(whole: Sizes, sides: tuple[Side, Side], most: int) -> Sizes:
    """A box of at most `most` elements with runs of about one length on both sides."""
    sizes = [1] * len(whole)
    fixed = {axis for axis in range(len(whole)) if any(not side.steps[axis] for side in sides)}
    growing = True
    while growing:
        growing = False
        for _, axis in sorted((side.growing(sizes, whole) for side in sides), key=lambda found: found[0]):
            size = min(whole[axis], 2 * sizes[axis]) if axis >= 0 else 0
            tiled = sum(size > 1 for size in sizes) < MAX_TILED or (axis >= 0 and sizes[axis] > 1)
            if axis >= 0 and axis not in fixed and tiled and sizes[axis] < size <= most // (prod(sizes) // sizes[axis]):
                sizes[axis], growing = size, True
                break
    for axis, (size, end) in enumerate(zip(sizes, whole, strict=True)):
        if 1 < size < end:
            sizes[axis] = _cut(end, most // (prod(sizes) // size), [side.steps[axis] for side in sides])
    return tuple(sizes)


def _box(whole: Sizes, source: Side, target: Side, run: int, most: int) -> Sizes:
    """A box of at most `most` elements with runs of about `run` bytes in the output, and as long ones as there is room for in the
    input.
    """
    sizes = [1] * len(whole)
    for side, wanted in ((target, run), (source, inf), (target, inf)):
        while True:
            reached, axis = side.growing(sizes, whole)
            crowded = sum(size > 1 for size in sizes) >= MAX_TILED and sizes[axis] == 1
            if axis < 0 or reached >= wanted or crowded or not (source.steps[axis] and target.steps[axis]):
                break
            size = min(whole[axis], most // (prod(sizes) // sizes[axis]))
            if wanted < inf:
                size = min(size, max(sizes[axis], -(-run // abs(side.steps[axis]))))
            if size < whole[axis]:
                size = _cut(whole[axis], size, [source.steps[axis], target.steps[axis]])
            if size <= sizes[axis]:
                break
            sizes[axis] = size
    return tuple(sizes)


def _cut(whole: int, most: int, steps: Sequence[int]) -> int:
    """At most so many elements of a dimension: pieces of about one size that begin at whole sectors on both sides."""
    sector = lcm(*(SECTOR // gcd(SECTOR, step) for step in steps))
    most = most - most % sector if most > sector else most
    if most >= whole:
        return whole
    even = -(-whole // -(-whole // most))
    return min(most, -(-even // sector) * sector)
