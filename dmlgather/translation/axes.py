"""How strides walk a packed tensor, in the terms that every library has: axes and windows of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from dmlgather.dialects.windows import Window
from dmlgather.plan import dot, packed_strides, unravel


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
