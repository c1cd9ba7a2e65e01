"""Boxes of elements that have long contiguous runs in the input and in the output, the two *sides*.

A box grows along the fastest dimensions of both sides until it is full. It spans small dimensions completely, and cuts at most
one dimension of each side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, inf, prod
from typing import NamedTuple

from dmlgather.backends.cuda.arguments import MAX_TILED
from dmlgather.backends.cuda.cost import SECTOR

RUNS = (64, 256, 1024)
"""Bytes. For each, `boxes` tries a box with pieces of about this length in the output."""
Sizes = tuple[int, ...]
"""Sizes of a box, one for each dimension of a `Work`."""


class Side(NamedTuple):
    """The strides of a `Work` in its input or in its output, in bytes. A *box* is a slice of the work's elements.

    A *run* of a box is a range of its elements that are adjacent in memory.
    `order`: the dimensions with a step other than 0, sorted by absolute step, smallest first.
    `moves`: pairs (dimension, absolute step) in the same order.
    """

    element_bytes: int
    offset: int
    steps: tuple[int, ...]
    order: tuple[int, ...]
    moves: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, element_bytes: int, offset: int, steps: Sequence[int]) -> Side:
        """Return the side with these strides (`steps`), with its dimensions sorted by stride."""
        moves = sorted([(abs(step), axis) for axis, step in enumerate(steps) if step])
        order = tuple([axis for _, axis in moves])
        return cls(element_bytes, offset, tuple(steps), order, tuple([(axis, step) for step, axis in moves]))

    def run(self, sizes: Sizes) -> tuple[int, tuple[int, ...]]:
        """Return the bytes of each run of a box with these sizes, and the dimensions along which a run extends."""
        length = self.element_bytes
        for count, (axis, step) in enumerate(self.moves):
            if step != length:
                return length, self.order[:count]
            length *= sizes[axis]
        return length, self.order

    def spread(self, sizes: Sizes, apart: int = -1) -> tuple[int, float]:
        """Return the bytes of a run, and how often each byte is moved on average.

        Unlike in `run`, a run may contain elements that overlap, as in sliding windows. No run extends along dimension `apart`.
        """
        length = moved = self.element_bytes
        for axis, step in self.moves:
            if step > length or axis == apart:
                break
            moved *= sizes[axis]
            length += step * (sizes[axis] - 1)
        return length, moved / length

    def growing(self, sizes: Sequence[int], whole: Sizes) -> tuple[int, int]:
        """Return the bytes of a box's run, and the dimension to enlarge for longer runs. The dimension is -1 if there is none.

        Unlike in `run`, a run may have gaps, each smaller than a sector.
        `sizes`: the sizes of the box. `whole`: the sizes of the work.
        """
        length = self.element_bytes
        gap = SECTOR - length
        for axis, step in self.moves:
            if step > length + gap:
                break
            size = sizes[axis]
            length = step * size
            if size < whole[axis]:
                return length, axis
        return length, -1

    def start(self, sizes: Sizes) -> int:
        """Return the distance in bytes from a box's first element to its lowest address: 0 or negative."""
        return sum([(size - 1) * step for size, step in zip(sizes, self.steps, strict=True) if step < 0])

    def extent(self, sizes: Sizes) -> int:
        """Return the distance in bytes from the lowest to the highest address of a box's elements."""
        return sum([(sizes[axis] - 1) * step for axis, step in self.moves])

    def aligned(self, forms: Sequence[Sizes], cut: Sequence[int], starts: bool) -> int:
        """Return the largest number of bytes that divides the lengths and addresses of all runs of all boxes.

        `forms`: the different sizes of boxes, whole boxes first. `cut`: the dimensions along which there are several boxes.
        `starts`: True to include the lowest address of each box, not only the address of the first element.
        """
        length, along = self.run(forms[0])
        numbers = [self.offset, length, *[self.run(sizes)[0] for sizes in forms[1:]]]
        if starts and min(self.steps) < 0:
            numbers += map(self.start, forms)
        for axis, step in enumerate(self.steps):
            if axis not in along:
                numbers.append(step)
            elif axis in cut:
                numbers.append(step * forms[0][axis])
        return gcd(*numbers)

    def needed(self, unit: int, whole: Sizes) -> dict[int, int] | None:
        """Return the smallest box whose runs begin and end at multiples of `unit` bytes, as sizes by dimension.

        Returns None if there is no such box. `whole`: the sizes of the work.
        """
        if unit == self.element_bytes:
            return {}
        order, steps = self.order, [step for _, step in self.moves]
        last = max([number for number, step in enumerate(steps) if step % unit], default=-1)
        if self.offset % unit or last < 0 or steps[0] != self.element_bytes or steps[last] * whole[order[last]] % unit:
            return None
        sizes = {axis: outer // step for axis, step, outer in zip(order[:last], steps, steps[1:], strict=False)}
        return sizes | {order[last]: unit // gcd(unit, steps[last])}


def fit(sides: tuple[Side, Side], units: tuple[int, int], whole: Sizes, most: int) -> bool:
    """Return False if no box of at most `most` elements has runs that begin and end at multiples of `units` bytes.

    If True, some box may have such runs.

    `sides`, `units`: an item for the input, then one for the output. `whole`: the sizes of the work.
    """
    one, other = sides[0].needed(units[0], whole), sides[1].needed(units[1], whole)
    if one is None or other is None:
        return False
    return prod([max(one.get(axis, 1), other.get(axis, 1)) for axis in one.keys() | other]) <= most


def boxes(whole: Sizes, sides: tuple[Side, Side], most: int) -> Iterable[Sizes]:
    """Return the sizes of boxes of at most `most` elements, to choose from.

    `whole`: the sizes of the work. `sides`: the strides of the input, then the strides of the output.
    """
    # By dimension: the number of elements that fill whole sectors; 0 forbids a cut, if only one side moves along the dimension.
    pairs = zip(sides[0].steps, sides[1].steps, strict=True)
    sectors = [SECTOR // gcd(SECTOR, *pair) if all(pair) else 0 for pair in pairs]
    return dict.fromkeys(
        (_even_box(whole, (sides[1], sides[0]), sectors, most), *[_box(whole, sides, sectors, run, most) for run in RUNS])
    )


def _even_box(whole: Sizes, sides: tuple[Side, Side], sectors: Sequence[int], most: int) -> Sizes:
    """Return a box that has runs of about the same length in the input and in the output.

    `sectors`: for each dimension, the number of elements that fill whole sectors in input and output; 0 for no cut.
    `most`: the largest number of elements of the box.
    """
    sizes, elements = [1] * len(whole), 1
    one, other = sides
    end, other_end = one.growing(sizes, whole), other.growing(sizes, whole)
    while True:
        for _, axis in (end, other_end) if end[0] <= other_end[0] else (other_end, end):
            if axis < 0 or not sectors[axis]:
                continue
            old = sizes[axis]
            size = min(whole[axis], 2 * old)
            if old < size <= most // (elements // old) and (old > 1 or _can_grow(sizes)):
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
    """Return a box with runs of about `run` bytes in the output, and the longest possible runs in the input."""
    sizes, elements, gap = [1] * len(whole), 1, SECTOR - sides[0].element_bytes
    for side, goal in ((sides[1], run), (sides[0], inf), (sides[1], inf)):
        length = side.element_bytes
        for axis, step in side.moves:
            if step > length + gap:
                break
            size, every = sizes[axis], whole[axis]
            if size < every:
                if step * size >= goal or not sectors[axis] or (size == 1 and not _can_grow(sizes)):
                    break
                rest = elements // size
                larger = min(every, most // rest)
                if goal < inf:
                    larger = min(larger, max(size, -(-run // step)))
                if larger < every:
                    larger = _cut(every, larger, sectors[axis])
                if larger <= size:
                    break
                sizes[axis], elements = larger, rest * larger
                if larger < every:
                    break
            length = step * every
    return tuple(sizes)


def _can_grow(sizes: Sequence[int]) -> bool:
    return len(sizes) <= MAX_TILED or len(sizes) - sizes.count(1) < MAX_TILED


def _cut(whole: int, most: int, sector: int) -> int:
    """Divide a dimension into nearly equal pieces of at most `most` elements, and return the size of the pieces.

    The size is a multiple of `sector` if possible. Example: `whole` = 100 and `most` = 40 give three pieces. Equal pieces have
    34 elements; with `sector` = 8, the size is 40.
    """
    most = most - most % sector if most > sector else most
    if most >= whole:
        return whole
    even = -(-whole // -(-whole // most))
    return min(most, -(-even // sector) * sector)
