"""How strides walk a packed tensor, in the terms that ONNX has: axes and windows of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.windows import Window
from dmlgather.plan import dot, packed_strides, unravel
from dmlgather.translation.onnx_operators import OnnxProgram, UntranslatableError


@dataclass(frozen=True, slots=True)
class AxisWalk:
    """Steps of dimensions, and of lookups, along the axes of a tensor.

    shape: under which the tensor's first elements are seen. windows: what is taken of each axis; of an axis that is looked up,
    all that an index can lead to. walked: the axis along which each dimension moves, None for one that repeats. looked_up: the
    axis of each lookup.
    """

    shape: tuple[int, ...]
    windows: tuple[Window, ...]
    walked: tuple[int | None, ...]
    looked_up: tuple[int, ...]

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes along which something moves; of each other axis, one element is taken."""
        return tuple(axis for axis in range(len(self.shape)) if axis in self.walked or axis in self.looked_up)


@dataclass(frozen=True, slots=True)
class Steps:
    """What walks a tensor. sizes, strides: of the dimensions. offset: of the first element. lookups: limit and stride of each.
    Strides and offset in elements.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    lookups: tuple[tuple[int, int], ...] = ()


def axis_walk(shape: tuple[int, ...], steps: Steps) -> AxisWalk | None:
    """How the steps walk a packed tensor of a shape, under that shape, under one that the steps themselves show, or flattened.

    None where no shape has an axis for each step: overlapping windows, rows that end between two others.
    """
    shapes = (shape, *_shown_shape(prod(shape), steps), (prod(shape),))
    return next((found for each in shapes if (found := _Assignment(each, steps).walk()) is not None), None)


def _shown_shape(elements: int, steps: Steps) -> Iterator[tuple[int, ...]]:
    """The shape whose strides are those of the steps, of so many elements at most; nothing where there is none."""
    pairs = [*zip(steps.sizes, steps.strides, strict=True), *steps.lookups]
    if any(size == 0 for size, _ in pairs):
        return
    strides = sorted({abs(stride) for size, stride in pairs if size > 1 and stride} | {1}, reverse=True)
    if any(outer % inner for outer, inner in pairwise(strides)):
        return
    reached = steps.offset + sum((size - 1) * max(stride, 0) for size, stride in pairs)
    outermost = -(-(reached + 1) // strides[0])
    shape = (outermost, *(outer // inner for outer, inner in pairwise(strides)))
    if prod(shape) <= elements:
        yield shape


@dataclass(slots=True)
class _Assignment:
    """The search for an axis of each step. starts: of the windows, by axis."""

    shape: tuple[int, ...]
    steps: Steps
    strides: tuple[int, ...] = field(init=False)
    starts: tuple[int, ...] = field(init=False)
    windows: dict[int, Window] = field(default_factory=dict)
    walked: dict[int, int] = field(default_factory=dict)
    """By dimension."""
    looked_up: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.strides = packed_strides(self.shape)
        self.starts = (0,) * len(self.shape) if 0 in self.shape else unravel(self.steps.offset, self.shape)

    def walk(self) -> AxisWalk | None:
        """None where a step has no axis."""
        if 0 not in self.shape and dot(self.starts, self.strides) != self.steps.offset:
            return None
        sizes = self.steps.sizes
        moving = [dim for dim, size in enumerate(sizes) if size != 1 and self.steps.strides[dim]]
        if not all(map(self._assign, moving)) or not all(self._look_up(*lookup) for lookup in self.steps.lookups):
            return None
        for dim in range(len(sizes)):
            if sizes[dim] == 1 and self.steps.strides[dim]:
                self._assign(dim)  # where it finds no axis, it is a new dimension
        fixed = [Window(start, 1, 1) for start in self.starts]
        windows = [self.windows.get(axis, window) for axis, window in enumerate(fixed)]
        if any(not size and window.count for size, window in zip(self.shape, windows, strict=True)):
            return None
        walked = tuple(self.walked.get(dim) for dim in range(len(sizes)))
        return AxisWalk(self.shape, tuple(windows), walked, tuple(self.looked_up))

    def _assign(self, dim: int) -> bool:
        """Find the axis that a dimension walks."""
        size, stride = self.steps.sizes[dim], self.steps.strides[dim]
        for axis, (own, length) in enumerate(zip(self.strides, self.shape, strict=True)):
            if axis in self.windows or stride % own or (size == 1 and stride != own):
                continue
            step = stride // own
            last = self.starts[axis] + step * (size - 1)
            if (0 <= last < length) if size else (length == 0 or stride == own):
                self.windows[axis] = Window(self.starts[axis], size, step)
                self.walked[dim] = axis
                return True
        return False

    def _look_up(self, limit: int, stride: int) -> bool:
        """Find the axis of a lookup: one that no dimension walks, of just that size, else the first that is large enough."""
        fitting = []
        for axis, (own, length) in enumerate(zip(self.strides, self.shape, strict=True)):
            window = self.windows.get(axis, Window(self.starts[axis], 1, 1))
            reached = window.start + (limit + window.count - 1 if limit else 0)
            if axis not in self.looked_up and own == stride and window.step == 1 and window.count and reached <= length:
                fitting.append((axis in self.windows, reached != length, axis))
        if not fitting:
            return False
        axis = min(fitting)[-1]
        window = self.windows.get(axis, Window(self.starts[axis], 1, 1))
        self.windows[axis] = Window(window.start, limit + window.count - 1 if limit else 0, 1)
        self.looked_up.append(axis)
        return True


# Strided copies in ONNX's operators: reshape, slice, transpose, expand; or a gather by constant positions.


MOST_POSITIONS = 2**24
"""Constant positions that a translated program holds at most, for a copy that has no other form."""


def strided(target: OnnxProgram, value: str, steps: Steps) -> str:
    """The copy of a value that the steps make, of shape `steps.sizes`; there are no lookups."""
    walk = axis_walk(target.type_of(value).shape, steps)
    if walk is None:
        found = by_positions(target, value, target.graph.constant(positions(steps)))
        return target.graph.expanded("expand", found, steps.sizes)
    taken = taken_of(target, value, walk)
    return arranged(target, taken, [walk.walked.index(axis) for axis in walk.kept], steps.sizes)


def taken_of(target: OnnxProgram, value: str, walk: AxisWalk) -> str:
    """What is taken of a value: a window of each kept axis; the other axes are dropped."""
    tensor = target.type_of(value)
    count = prod(walk.shape)
    if count < prod(tensor.shape):
        value = windows_of(target, target.reshaped(value, (prod(tensor.shape),)), [Window(0, count, 1)])
    value = windows_of(target, target.reshaped(value, walk.shape), walk.windows)
    return target.reshaped(value, [walk.windows[axis].count for axis in walk.kept])


def windows_of(target: OnnxProgram, value: str, windows: Sequence[Window]) -> str:
    """A window of each dimension of a value; no step where all are whole."""
    shape = target.type_of(value).shape
    windows = [window if window.count > 1 else Window(window.start * window.count, window.count, 1) for window in windows]
    if all(window == Window.whole(size) for size, window in zip(shape, windows, strict=True)):
        return value
    known = target.graph.known(value)
    if known is not None:
        places = [window.start + window.step * np.arange(window.count) for window in windows]
        return target.graph.constant(known[np.ix_(*places)])
    return target.sliced(value, windows)


def arranged(target: OnnxProgram, value: str, dims: Sequence[int], sizes: Sequence[int]) -> str:
    """A value whose dimensions are these of `sizes`, as the dimensions of `sizes` in order, repeated where it lacks one."""
    order = sorted(range(len(dims)), key=lambda place: dims[place])
    value = target.transposed(value, order)
    value = target.reshaped(value, [size if dim in dims else 1 for dim, size in enumerate(sizes)])
    return target.graph.expanded("expand", value, sizes)


def positions(steps: Steps) -> NDArray[Any]:
    """Where the steps lead in a packed value, in elements; of size 1 where a dimension does not move."""
    sizes = [size if stride else 1 for size, stride in zip(steps.sizes, steps.strides, strict=True)]
    if prod(sizes) > MOST_POSITIONS:
        raise UntranslatableError(
            f"the copy has no form as slices and transpositions, and a table of its {prod(sizes)} positions is more than "
            f"{MOST_POSITIONS} numbers: split it"
        )
    found = np.full(sizes, steps.offset, np.int64)
    for dim, (size, stride) in enumerate(zip(sizes, steps.strides, strict=True)):
        along = [1] * len(sizes)
        along[dim] = size
        found += (np.arange(size) * stride).reshape(along)
    return found


def by_positions(target: OnnxProgram, value: str, places: str) -> str:
    """The elements of a packed value at these positions, of their shape."""
    shape = target.type_of(value).shape
    return target.along_axis(target.reshaped(value, (prod(shape),)), places, 0)
