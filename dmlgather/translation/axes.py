"""Strided copies in ONNX's operators. Strides are first turned into axes: a reshape and a slice that read the same elements."""

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
class AccessPattern:
    """The addresses that an operator reads, in elements: offset + sum of coordinate * stride + sum of index * lookup stride.

    `lookups`: for each lookup, the number of valid indices and the lookup stride.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    lookups: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class AxisMap:
    """A reshape of a tensor, followed by a slice along each axis. The result has the elements of an access pattern.

    `shape`: the new shape. It may leave out elements at the tensor's end.
    `windows`: for each axis, the positions that are read or that indices can select.
    `dim_axes`: for each dimension of the pattern, the axis along which it moves; None for a stride of 0. A dimension of size 1
    may also have None.
    `lookup_axes`: for each lookup, the axis that it indexes.
    """

    shape: tuple[int, ...]
    windows: tuple[Window, ...]
    dim_axes: tuple[int | None, ...]
    lookup_axes: tuple[int, ...]

    @property
    def used_axes(self) -> tuple[int, ...]:
        """Axes along which a dimension or a lookup moves."""
        return tuple(axis for axis in range(len(self.shape)) if axis in self.dim_axes or axis in self.lookup_axes)


def map_to_axes(shape: tuple[int, ...], access: AccessPattern) -> AxisMap | None:
    """Express an access pattern as a reshape and slices of a packed tensor with this shape.

    Try the tensor's own shape, then the shape that follows from the pattern's strides, then one dimension. Return None if all
    fail, for example because windows overlap.
    """
    shapes = (shape, *_shape_of_strides(prod(shape), access), (prod(shape),))
    maps = (_AxisAssignment(candidate, access).axis_map() for candidate in shapes)
    return next((axis_map for axis_map in maps if axis_map is not None), None)


def _shape_of_strides(elements: int, access: AccessPattern) -> Iterator[tuple[int, ...]]:
    """Yield the shape of a packed tensor that has the pattern's strides, if there is one.

    Example: for strides 12, 3 and 1, the shape is (n, 4, 3). n is just large enough for the last element that is read.
    """
    pairs = [*zip(access.sizes, access.strides, strict=True), *access.lookups]
    if any(size == 0 for size, _ in pairs):
        return
    strides = sorted({abs(stride) for size, stride in pairs if size > 1 and stride} | {1}, reverse=True)
    if any(outer % inner for outer, inner in pairwise(strides)):
        return
    last = access.offset + sum((size - 1) * max(stride, 0) for size, stride in pairs)
    outermost = -(-(last + 1) // strides[0])
    shape = (outermost, *(outer // inner for outer, inner in pairwise(strides)))
    if prod(shape) <= elements:
        yield shape


@dataclass(slots=True)
class _AxisAssignment:
    """A search that assigns an axis to each dimension and each lookup. `starts`: the first position along each axis."""

    shape: tuple[int, ...]
    access: AccessPattern
    strides: tuple[int, ...] = field(init=False)
    starts: tuple[int, ...] = field(init=False)
    windows: dict[int, Window] = field(default_factory=dict)
    dim_axes: dict[int, int] = field(default_factory=dict)
    lookup_axes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.strides = packed_strides(self.shape)
        self.starts = (0,) * len(self.shape) if 0 in self.shape else unravel(self.access.offset, self.shape)

    def axis_map(self) -> AxisMap | None:
        if 0 not in self.shape and dot(self.starts, self.strides) != self.access.offset:
            return None
        sizes = self.access.sizes
        moving = [dim for dim, size in enumerate(sizes) if size != 1 and self.access.strides[dim]]
        if not all(map(self._assign_dim, moving)) or not all(self._assign_lookup(*lookup) for lookup in self.access.lookups):
            return None
        for dim in range(len(sizes)):
            if sizes[dim] == 1 and self.access.strides[dim]:
                self._assign_dim(dim)  # may fail: a reshape adds dimensions of size 1 without an axis
        fixed = [Window(start, 1, 1) for start in self.starts]
        windows = [self.windows.get(axis, window) for axis, window in enumerate(fixed)]
        if any(not size and window.count for size, window in zip(self.shape, windows, strict=True)):
            return None
        dim_axes = tuple(self.dim_axes.get(dim) for dim in range(len(sizes)))
        return AxisMap(self.shape, tuple(windows), dim_axes, tuple(self.lookup_axes))

    def _assign_dim(self, dim: int) -> bool:
        """Choose the first free axis for a dimension. Return False if there is none."""
        size, stride = self.access.sizes[dim], self.access.strides[dim]
        for axis, (axis_stride, length) in enumerate(zip(self.strides, self.shape, strict=True)):
            if axis in self.windows or stride % axis_stride or (size == 1 and stride != axis_stride):
                continue
            step = stride // axis_stride
            last = self.starts[axis] + step * (size - 1)
            if (0 <= last < length) if size else (length == 0 or stride == axis_stride):
                self.windows[axis] = Window(self.starts[axis], size, step)
                self.dim_axes[dim] = axis
                return True
        return False

    def _assign_lookup(self, limit: int, stride: int) -> bool:
        """Choose an axis for a lookup. Prefer axes along which no dimension moves, then axes with exactly `limit` positions."""
        candidates = []
        for axis, (axis_stride, length) in enumerate(zip(self.strides, self.shape, strict=True)):
            window = self.windows.get(axis, Window(self.starts[axis], 1, 1))
            end = window.start + (limit + window.count - 1 if limit else 0)
            if axis not in self.lookup_axes and axis_stride == stride and window.step == 1 and window.count and end <= length:
                candidates.append((axis in self.windows, end != length, axis))
        if not candidates:
            return False
        axis = min(candidates)[-1]
        window = self.windows.get(axis, Window(self.starts[axis], 1, 1))
        self.windows[axis] = Window(window.start, limit + window.count - 1 if limit else 0, 1)
        self.lookup_axes.append(axis)
        return True


# Strided copies in ONNX's operators: reshape, slice, transpose, expand; or a gather with constant positions.


_MAX_POSITIONS = 2**24
"""Limit for the constant indices of a Gather that replaces a copy without slices and transpositions."""


def strided_copy(target: OnnxProgram, value: str, access: AccessPattern) -> str:
    """Copy the elements of an access pattern without lookups. The copy has the shape `access.sizes`."""
    axis_map = map_to_axes(target.type_of(value).shape, access)
    if axis_map is None:
        copy = gather_flat(target, value, target.graph.constant(positions(access)))
        return target.graph.expanded("expand", copy, access.sizes)
    window = read_window(target, value, axis_map)
    return arranged(target, window, [axis_map.dim_axes.index(axis) for axis in axis_map.used_axes], access.sizes)


def read_window(target: OnnxProgram, value: str, axis_map: AxisMap) -> str:
    """Add a reshape and a slice that copy the elements of an `AxisMap`. The result has only the `used_axes`."""
    tensor = target.type_of(value)
    count = prod(axis_map.shape)
    if count < prod(tensor.shape):
        value = sliced(target, target.reshaped(value, (prod(tensor.shape),)), [Window(0, count, 1)])
    value = sliced(target, target.reshaped(value, axis_map.shape), axis_map.windows)
    return target.reshaped(value, [axis_map.windows[axis].count for axis in axis_map.used_axes])


def sliced(target: OnnxProgram, value: str, windows: Sequence[Window]) -> str:
    """Add a slice, unless the windows cover the whole value."""
    shape = target.type_of(value).shape
    windows = [window if window.count > 1 else Window(window.start * window.count, window.count, 1) for window in windows]
    if all(window == Window.whole(size) for size, window in zip(shape, windows, strict=True)):
        return value
    constant = target.graph.known(value)
    if constant is not None:
        places = [window.start + window.step * np.arange(window.count) for window in windows]
        return target.graph.constant(constant[np.ix_(*places)])
    return target.sliced(value, windows)


def arranged(target: OnnxProgram, value: str, dims: Sequence[int], sizes: Sequence[int]) -> str:
    """Transpose a value and broadcast it to `sizes`. `dims`: the dimension of the result for each dimension of the value."""
    order = sorted(range(len(dims)), key=lambda dim: dims[dim])
    value = target.transposed(value, order)
    value = target.reshaped(value, [size if dim in dims else 1 for dim, size in enumerate(sizes)])
    return target.graph.expanded("expand", value, sizes)


def positions(access: AccessPattern) -> NDArray[Any]:
    """Return the positions that a pattern reads in the flattened tensor, as an array that broadcasts to the pattern's sizes."""
    sizes = [size if stride else 1 for size, stride in zip(access.sizes, access.strides, strict=True)]
    if prod(sizes) > _MAX_POSITIONS:
        raise UntranslatableError(
            f"the copy has no form as slices and transpositions, and a table of its {prod(sizes)} positions is more than "
            f"{_MAX_POSITIONS} numbers: split it"
        )
    table = np.full(sizes, access.offset, np.int64)
    for dim, (size, stride) in enumerate(zip(sizes, access.strides, strict=True)):
        shape = [1] * len(sizes)
        shape[dim] = size
        table += (np.arange(size) * stride).reshape(shape)
    return table


def gather_flat(target: OnnxProgram, value: str, places: str) -> str:
    """Add a Gather from the flattened value. The result has the shape of `places`."""
    shape = target.type_of(value).shape
    return target.gather(target.reshaped(value, (prod(shape),)), places, 0)
