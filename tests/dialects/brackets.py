"""Index expressions of the kinds that libraries test their own brackets with, and what NumPy makes of them.

Positions stand in order, with steps or in groups, out of order, or out of range.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.dialects import drafting

Array = NDArray[Any]

FAR = (2**40, -(2**40), 2**31 - 1, -(2**31), 100, -100)
"""Positions that are out of range of every size here."""

COUNTS = (1, 2, 3, 4, 4, 6)
"""Sizes of index arrays, of which some have room for groups."""


@dataclass(frozen=True)
class Spelling:
    """What a library takes in brackets. types: of index arrays; backwards: slices with a negative step."""

    types: tuple[str, ...] = ("int64", "int32", "int16", "int8")
    backwards: bool = True


class KeyDrawing:
    """Draws entries for data of one shape. far: how likely an index array has positions out of range."""

    def __init__(self, rng: random.Random, shape: Sequence[int], spelling: Spelling, far: float) -> None:
        self.rng, self.shape, self.spelling, self.far = rng, shape, spelling, far
        first = (rng.choice(COUNTS),) if rng.random() < 0.4 else ()
        self.places = (*first, 0 if 0 in shape else rng.choice(COUNTS))
        """The shape to which index arrays are broadcast."""

    def axes(self, least: int) -> list[int]:
        """Some of the axes, in order; at least so many, where there are."""
        count = self.rng.randint(min(least, len(self.shape)), len(self.shape))
        return sorted(self.rng.sample(range(len(self.shape)), count))

    def array(self, axis: int, shape: Sequence[int] | None = None) -> Array:
        """An index array for an axis, of a shape that is broadcast with those of others."""
        shape = self.spread(self.places) if shape is None else tuple(shape)
        size = self.shape[axis]
        if not size and 0 not in shape:
            shape = self.places
        found = self._walk(size, shape)
        kind = np.dtype(self.rng.choice([name for name in self.spelling.types if np.iinfo(name).max >= size]))
        if found.size and self.rng.random() < self.far:
            info = np.iinfo(kind)
            outside = [place for place in (size, size + 2, -size - 1, *FAR) if info.min <= place <= info.max]
            found.reshape(-1)[self.rng.randrange(found.size)] = self.rng.choice(outside)
        return found.astype(kind)

    def spread(self, places: Sequence[int]) -> tuple[int, ...]:
        """Sizes of an index array that is broadcast to these."""
        ones = [size if self.rng.random() < 0.7 else 1 for size in places]
        fewer = self.rng.random() < 0.25
        return tuple(ones[fewer:])

    def _walk(self, size: int, shape: tuple[int, ...]) -> Array:
        """Positions from -size to size - 1: a sum of walks along each dimension, or in any order."""
        found = np.zeros(shape, np.int64)
        if not found.size:
            return found
        for dim, count in enumerate(shape):
            step, group = self.rng.choice((0, 1, 1, 2, 3, -1, -2)), self.rng.choice((count, 2, 2, 1))
            inside, outside = np.arange(count) % group, np.arange(count) // group
            along = step * inside + self.rng.choice((1, 2, 3)) * outside * bool(count > group)
            found += along.reshape([-1 if dim == other else 1 for other in range(len(shape))])
        found -= found.min()
        if found.max() < size:
            found += self.rng.randint(0, size - 1 - int(found.max()))
        else:
            found %= size
        if self.rng.random() < 0.25:
            flat = found.reshape(-1).tolist()
            self.rng.shuffle(flat)
            found = np.array(flat, np.int64).reshape(shape)
        negative = self.rng.choice((0.0, 0.0, 0.5, 1.0))
        behind = np.array([self.rng.random() < negative for _ in range(found.size)], bool).reshape(shape)
        return np.where(behind, found - size, found)

    def place(self, axis: int) -> Any:
        """An integer, or an index array without dimensions."""
        size = self.shape[axis]
        if not size:
            return self.window(axis)
        place = self.rng.randrange(-size, size)
        return np.array(place) if self.rng.random() < 0.2 else place

    def window(self, axis: int) -> slice:
        """A slice, whose bounds may lie outside."""
        size, steps = self.shape[axis], (None, None, 1, 2, 3, *((-1, -2, -3) if self.spelling.backwards else ()))
        start, stop = (self.rng.choice((None, None, self.rng.randint(-size - 2, size + 2))) for _ in range(2))
        return slice(start, stop, self.rng.choice(steps)) if self.rng.random() < 0.6 else slice(None)

    def mask(self, sizes: Sequence[int], count: int | None = None) -> Array:
        """A mask; count: how many are true, where that matters."""
        total = prod(sizes)
        if count is None:
            chosen = [self.rng.random() < 0.5 for _ in range(total)]
            if self.rng.random() < 0.3:  # rows that are true as a whole
                rows = [self.rng.random() < 0.5 for _ in range(sizes[0] if sizes else 1)]
                chosen = [rows[number // max(total // max(len(rows), 1), 1)] for number in range(total)]
        else:
            picked = self.rng.sample(range(total), count)
            chosen = [number in picked for number in range(total)]
        return np.array(chosen, bool).reshape(sizes)


Key = tuple[Any, ...]


def _static(draw: KeyDrawing) -> Key:
    return tuple(draw.place(axis) if draw.rng.random() < 0.4 else draw.window(axis) for axis in range(len(draw.shape)))


def _one_array(draw: KeyDrawing) -> Key:
    axis = draw.rng.randrange(len(draw.shape))
    return (*(slice(None),) * axis, draw.array(axis, draw.places))


def _neighbours(draw: KeyDrawing) -> Key:
    first = draw.rng.randrange(len(draw.shape))
    last = draw.rng.randint(first, len(draw.shape) - 1)
    return (*(slice(None),) * first, *(draw.array(axis) for axis in range(first, last + 1)))


def _apart(draw: KeyDrawing) -> Key:
    chosen = draw.axes(2)
    return tuple(draw.array(axis) if axis in chosen else _beside(draw, axis) for axis in range(len(draw.shape)))


def _grid(draw: KeyDrawing) -> Key:
    """A grid of positions: one dimension for each axis; at times each array is written out."""
    chosen = draw.axes(1)
    sizes = [draw.rng.choice((1, 2, 2, 3, 4)) if draw.shape[axis] else 0 for axis in chosen]
    arrays = []
    for number, axis in enumerate(chosen):
        shape = [size if number == other else 1 for other, size in enumerate(sizes)]
        arrays.append(draw.array(axis, shape))
    if draw.rng.random() < 0.5:
        arrays = [np.array(array) for array in np.broadcast_arrays(*arrays)]
    found = iter(arrays)
    return tuple(next(found) if axis in chosen else slice(None) for axis in range(len(draw.shape)))


def _mask(draw: KeyDrawing) -> Key:
    first = draw.rng.randrange(len(draw.shape))
    last = draw.rng.randint(first, len(draw.shape) - 1)
    return (*(slice(None),) * first, draw.mask(draw.shape[first : last + 1]))


def _mask_and_arrays(draw: KeyDrawing) -> Key:
    first = draw.rng.randrange(len(draw.shape))
    sizes = draw.shape[first : first + draw.rng.randint(1, 2)]
    draw.places = (0 if 0 in draw.shape else draw.rng.randint(0, min(3, prod(sizes))),)
    entries: list[Any] = [draw.array(axis) if draw.rng.random() < 0.5 else _beside(draw, axis) for axis in range(first)]
    entries.append(draw.mask(sizes, *draw.places))
    behind = range(first + len(sizes), len(draw.shape))
    return (*entries, *(draw.array(axis) if draw.rng.random() < 0.5 else slice(None) for axis in behind))


def _mixed(draw: KeyDrawing) -> Key:
    """Any entries, with new dimensions and an ellipsis."""
    others = (_static, _one_array, _neighbours, _apart, _apart, _grid, _mask_and_arrays)
    entries = list(draw.rng.choice(others)(draw))
    taken = sum(entry.ndim if isinstance(entry, np.ndarray) and entry.dtype == bool else 1 for entry in entries)
    whole = [place for place, entry in enumerate(entries) if isinstance(entry, slice) and entry == slice(None)]
    if whole and taken == len(draw.shape) and draw.rng.random() < 0.5:  # it stands for one dimension
        entries[draw.rng.choice(whole)] = ...
    elif draw.rng.random() < 0.5:
        entries.append(...)
    for _ in range(draw.rng.choice((0, 1, 1, 2))):
        entries.insert(draw.rng.randint(0, len(entries)), None)
    return tuple(entries)


def _beside(draw: KeyDrawing, axis: int) -> Any:
    return draw.place(axis) if draw.rng.random() < 0.3 else draw.window(axis)


KINDS: Mapping[str, Callable[[KeyDrawing], Key]] = {
    "static": _static,
    "one array": _one_array,
    "arrays side by side": _neighbours,
    "arrays apart": _apart,
    "a grid": _grid,
    "a mask": _mask,
    "a mask and arrays": _mask_and_arrays,
    "mixed": _mixed,
}


def some_key(rng: random.Random, shape: Sequence[int], spelling: Spelling, *, far: float = 0.0, kind: str = "") -> Key:
    """An expression for data of a shape, of any kind or of one. far: how likely an index array has a position out of range."""
    if not shape:
        return (..., None)[: rng.randint(0, 2)]
    return KINDS[kind or rng.choice(list(KINDS))](KeyDrawing(rng, shape, spelling, far))


def random_bits(rng: random.Random, dtype: str) -> Array:
    """Data of 1 to 4 dimensions, whose elements have any bits."""
    shape = [0 if rng.random() < 0.02 else rng.choice((1, 2, 3, 4, 4, 5, 6)) for _ in range(rng.randint(1, 4))]
    return drafting.random_bits(rng, np.dtype(dtype), shape)


def is_array(entry: Any) -> bool:
    """Whether an entry is an index array of integers."""
    return isinstance(entry, np.ndarray) and entry.dtype != bool
