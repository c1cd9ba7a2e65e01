"""A shape cut into blocks that fit the cache, numbered so that threads can share them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

Box = tuple[slice, ...]
"""One block: a slice with explicit ends per dimension."""


@dataclass(frozen=True)
class Blocks:
    """`shape` cut into blocks of `sizes` (smaller at the ends), walked in `order`, slowest dimension first."""

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]

    @cached_property
    def count(self) -> int:
        """The number of blocks."""
        return prod(-(-size // step) for size, step in zip(self.shape, self.sizes, strict=True))

    def boxes(self, first: int, last: int) -> Iterator[Box]:
        """Blocks number `first` … `last` - 1."""
        for walked in itertools.islice(itertools.product(*self._cuts), first, last):
            yield tuple([walked[place] for place in self._places])

    @cached_property
    def _cuts(self) -> list[list[slice]]:
        """The slices of each dimension, in the order of the walk."""
        dims = [(self.shape[axis], self.sizes[axis]) for axis in self.order]
        return [[slice(at, min(at + step, size)) for at in range(0, size, step)] for size, step in dims]

    @cached_property
    def _places(self) -> list[int]:
        """The position of each dimension in the walk."""
        return [self.order.index(axis) for axis in range(len(self.shape))]


def extent(box: Box) -> tuple[int, ...]:
    """The sizes of a block."""
    return tuple([span.stop - span.start for span in box])


def fit(shape: Sequence[int], units: int, first: Mapping[int, int] | None = None) -> tuple[int, ...]:
    """Sizes of a block of at most `units` units, but at least one: the dimensions named by `first`, in its order and each up to
    the size it states, then whole dimensions from the innermost outward. A dimension that does not fit is cut evenly.
    """
    first = first or {}
    sizes = [1] * len(shape)
    room = max(units, 1)
    for axis in (*first, *(axis for axis in reversed(range(len(shape))) if axis not in first)):
        size = max(shape[axis], 1)
        parts = -(-size // min(room, max(first.get(axis, room), 1)))
        sizes[axis] = -(-size // parts)
        room //= sizes[axis]
    return tuple(sizes)
