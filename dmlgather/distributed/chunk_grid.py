"""The chunks of an array as a grid, and tuples with one entry per axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, count, product
from typing import NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

Chunks: TypeAlias = tuple[tuple[int, ...], ...]
"""Sizes of the chunks along each axis, in elements, as Dask has them."""

Place: TypeAlias = tuple[int, ...]
"""A chunk's number along each axis."""


FILE_TO_TABLE = "a file becomes a dask array by dask.array.from_array(numpy.load(file, 'r'), chunks=…)"
"""Part of a remedy: what to do with a path where other chunks are needed."""


class Cell(NamedTuple):
    """One chunk of a grid: its number, the coordinate of its first element and its size, along each axis."""

    place: Place
    first: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def empty(self) -> bool:
        """Whether it has no elements."""
        return 0 in self.shape

    @property
    def slices(self) -> tuple[slice, ...]:
        """Where its elements lie in the whole array."""
        return tuple(slice(first, first + size) for first, size in zip(self.first, self.shape, strict=True))


def cells(chunks: Chunks) -> Iterator[Cell]:
    """All chunks in row-major order."""
    for axes in product(*(zip(count(), accumulate(sizes, initial=0), sizes) for sizes in chunks)):
        yield Cell(*zip(*axes, strict=True)) if axes else Cell((), (), ())


def replace_axis(values: Sequence[T], axis: int, *new: T) -> tuple[T, ...]:
    """`values`, one per axis, with those of any number of new axes in the place of one."""
    return (*values[:axis], *new, *values[axis + 1 :])
