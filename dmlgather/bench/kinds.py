"""The four kinds of workload. Each is the sizes of one problem and says what it reads as a DirectML descriptor.

Sizes are in elements. `axis` of `halved` is an axis of the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from dmlgather.bench.draws import UNIFORM, Draw, Indices
from dmlgather.directml import (
    BufferTensorDesc,
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
)
from dmlgather.plan import packed_strides

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Take:
    """out = x with `count` positions along `axis`, one index vector for all of x: GATHER. shape: of x."""

    shape: Shape
    count: int
    axis: int = 0
    draw: Draw = UNIFORM
    strides: ClassVar[Shape | None] = None

    @property
    def index_shape(self) -> Shape:
        """[count]."""
        return (self.count,)

    @property
    def out_shape(self) -> Shape:
        """x's, with `count` along the axis."""
        return (*self.shape[: self.axis], self.count, *self.shape[self.axis + 1 :])

    def indices(self, random: np.random.Generator) -> Indices:
        """Positions along the axis."""
        return self.draw(random, self.shape[self.axis], self.count)

    def descriptor(self, dtype: str) -> OperatorDesc:
        """GATHER, the indices with leading ones."""
        return GatherOperatorDesc(
            input_tensor=_tensor(dtype, self.shape),
            indices_tensor=_tensor("int64", _padded(self.index_shape, len(self.shape))),
            output_tensor=_tensor(dtype, self.out_shape),
            axis=self.axis,
            index_dimensions=1,
        )

    def halved(self, axis: int) -> Take:
        """Half as much output: fewer indices, or another size of x."""
        if axis == self.axis:
            return replace(self, count=_half(self.count))
        return replace(self, shape=_halved(self.shape, axis))

    def with_less_source(self) -> Take:
        """Half as many positions to choose from."""
        return replace(self, shape=_halved(self.shape, self.axis))


@dataclass(frozen=True, slots=True)
class Along:
    """Every element of the output has an index of its own along `axis`: GATHER_ELEMENTS. shape: of x, indices and output."""

    shape: Shape
    axis: int
    draw: Draw = UNIFORM
    strides: ClassVar[Shape | None] = None

    @property
    def index_shape(self) -> Shape:
        """X's."""
        return self.shape

    @property
    def out_shape(self) -> Shape:
        """X's."""
        return self.shape

    def indices(self, random: np.random.Generator) -> Indices:
        """Positions along the axis."""
        return self.draw(random, self.shape[self.axis], prod(self.shape)).reshape(self.shape)

    def descriptor(self, dtype: str) -> OperatorDesc:
        """GATHER_ELEMENTS."""
        return GatherElementsOperatorDesc(
            input_tensor=_tensor(dtype, self.shape),
            indices_tensor=_tensor("int64", self.shape),
            output_tensor=_tensor(dtype, self.shape),
            axis=self.axis,
        )

    def halved(self, axis: int) -> Along:
        """Half as much of everything."""
        return replace(self, shape=_halved(self.shape, axis))

    def with_less_source(self) -> Along:
        """Itself: x is as large as the output."""
        return self


@dataclass(frozen=True, slots=True)
class Tuples:
    """`count` tuples of `width` coordinates into the leading dimensions of x: GATHER_ND. shape: of x."""

    shape: Shape
    count: int
    width: int
    strides: ClassVar[Shape | None] = None

    @property
    def index_shape(self) -> Shape:
        """[count, width]."""
        return (self.count, self.width)

    @property
    def out_shape(self) -> Shape:
        """[count] and the dimensions of x that no coordinate chooses."""
        return (self.count, *self.shape[self.width :])

    def indices(self, random: np.random.Generator) -> Indices:
        """Uniform coordinates."""
        return random.integers(0, self.shape[: self.width], self.index_shape)

    def descriptor(self, dtype: str) -> OperatorDesc:
        """GATHER_ND1, every tensor with as many dimensions as x."""
        rank = len(self.shape)
        return GatherND1OperatorDesc(
            input_tensor=_tensor(dtype, self.shape),
            indices_tensor=_tensor("int64", _padded(self.index_shape, rank)),
            output_tensor=_tensor(dtype, _padded(self.out_shape, rank)),
            input_dimension_count=rank,
            indices_dimension_count=len(self.index_shape),
            batch_dimension_count=0,
        )

    def halved(self, axis: int) -> Tuples:  # noqa: ARG002 - the output shrinks with its tuples
        """Half as many tuples."""
        return replace(self, count=_half(self.count))

    def with_less_source(self) -> Tuples:
        """Half of x's first dimension."""
        return replace(self, shape=_halved(self.shape, 0))


@dataclass(frozen=True, slots=True)
class Window:
    """What a slice reads of one dimension: `size` elements from `offset` on (None: to the end), every |step|-th of them,
    from the end of the window when the step is negative.
    """

    offset: int = 0
    size: int | None = None
    step: int = 1

    def within(self, extent: int) -> tuple[int, int]:
        """Elements in the window, and those of them that are read."""
        size = extent - self.offset if self.size is None else self.size
        return size, -(-size // abs(self.step))

    def slice(self, extent: int) -> slice:
        """The same as Python says it."""
        low, high = self.offset, self.offset + self.within(extent)[0]
        if self.step > 0:
            return slice(low, high, self.step)
        return slice(high - 1, low - 1 if low else None, self.step)


ALL, BACK, EVERY_OTHER = Window(), Window(step=-1), Window(step=2)


@dataclass(frozen=True, slots=True)
class View:
    """A copy of a view of x: SLICE1. shape: of x; windows: one per dimension; strides: x's own, in elements, when not packed."""

    shape: Shape
    windows: tuple[Window, ...]
    strides: Shape | None = None
    index_shape: ClassVar[None] = None

    @property
    def out_shape(self) -> Shape:
        """What the windows read."""
        return tuple(window.within(size)[1] for window, size in zip(self.windows, self.shape, strict=True))

    @property
    def slices(self) -> tuple[slice, ...]:
        """The windows as Python says them."""
        return tuple(window.slice(size) for window, size in zip(self.windows, self.shape, strict=True))

    @property
    def order(self) -> tuple[int, ...] | None:
        """X's dimensions as they lie in memory; None when x is not just a packed array with its dimensions in another order."""
        strides = self.strides or packed_strides(self.shape)
        order = tuple(sorted(range(len(self.shape)), key=lambda axis: (-strides[axis], -self.shape[axis])))
        packed = packed_strides([self.shape[axis] for axis in order])
        return order if tuple(strides[axis] for axis in order) == tuple(packed) else None

    def descriptor(self, dtype: str) -> OperatorDesc:
        """SLICE1 over x's strides."""
        within = [window.within(size)[0] for window, size in zip(self.windows, self.shape, strict=True)]
        return Slice1OperatorDesc(
            input_tensor=_tensor(dtype, self.shape, self.strides),
            output_tensor=_tensor(dtype, self.out_shape),
            input_window_offsets=tuple(window.offset for window in self.windows),
            input_window_sizes=tuple(within),
            input_window_strides=tuple(window.step for window in self.windows),
        )

    def halved(self, axis: int) -> View:
        """Half of a dimension whose window is open; strides that count that dimension shrink with it."""
        smaller = replace(self, shape=_halved(self.shape, axis))
        if self.strides is None or self.order is None:
            return smaller
        packed = packed_strides([smaller.shape[place] for place in self.order])
        return replace(smaller, strides=tuple(packed[self.order.index(place)] for place in range(len(packed))))

    def with_less_source(self) -> View:
        """Itself: x shrinks with the output."""
        return self


Kind = Take | Along | Tuples | View


def fitted(kind: Kind, axis: int, itemsize: int, output_bytes: int, source_bytes: int) -> Kind:
    """`kind`, its output axis `axis` halved until the output has at most `output_bytes`, then its source until that has at
    most `source_bytes`, as far as halving goes.
    """
    while prod(kind.out_shape) * itemsize > output_bytes and kind.out_shape[axis] > 1:
        kind = kind.halved(axis)
    while prod(kind.shape) * itemsize > source_bytes and (smaller := kind.with_less_source()) != kind:
        kind = smaller
    return kind


def _tensor(dtype: str, sizes: Sequence[int], strides: Sequence[int] | None = None) -> BufferTensorDesc:
    stated = None if strides is None else tuple(strides)
    return BufferTensorDesc(data_type=dtype.upper(), sizes=tuple(sizes), strides=stated)


def _padded(sizes: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(sizes)) + sizes


def _half(size: int) -> int:
    return max(1, size // 2)


def _halved(sizes: Shape, axis: int) -> Shape:
    return tuple(_half(size) if place == axis else size for place, size in enumerate(sizes))
