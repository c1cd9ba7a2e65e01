"""Strided copies in a target's operators: reshape, slice, transpose, expand; or a gather by constant positions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.windows import Window
from dmlgather.translation.axes import AxisWalk, Steps, axis_walk
from dmlgather.translation.targets import Target, UntranslatableError

MOST_POSITIONS = 2**24
"""Constant positions that a translated program holds at most, for a copy that has no other form."""


def strided(target: Target, value: str, steps: Steps) -> str:
    """The copy of a value that the steps make, of shape `steps.sizes`; there are no lookups."""
    walk = axis_walk(target.type_of(value).shape, steps)
    if walk is None:
        found = by_positions(target, value, target.graph.constant(positions(target, value, steps)))
        return target.graph.expanded("expand", found, steps.sizes)
    taken = taken_of(target, value, walk)
    return arranged(target, taken, [walk.walked.index(axis) for axis in walk.kept], steps.sizes)


def taken_of(target: Target, value: str, walk: AxisWalk) -> str:
    """What is taken of a value: a window of each kept axis; the other axes are dropped."""
    tensor = target.type_of(value)
    count = prod(walk.shape)
    if count < prod(tensor.shape):
        value = windows_of(target, target.reshaped(value, (prod(tensor.shape),)), [Window(0, count, 1)])
    value = windows_of(target, target.reshaped(value, walk.shape), walk.windows)
    return target.reshaped(value, [walk.windows[axis].count for axis in walk.kept])


def windows_of(target: Target, value: str, windows: Sequence[Window]) -> str:
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


def arranged(target: Target, value: str, dims: Sequence[int], sizes: Sequence[int]) -> str:
    """A value whose dimensions are these of `sizes`, as the dimensions of `sizes` in order, repeated where it lacks one."""
    order = sorted(range(len(dims)), key=lambda place: dims[place])
    value = target.transposed(value, order)
    value = target.reshaped(value, [size if dim in dims else 1 for dim, size in enumerate(sizes)])
    return target.graph.expanded("expand", value, sizes)


def positions(target: Target, value: str, steps: Steps) -> NDArray[Any]:
    """Where the steps lead in a packed value, in elements; of size 1 where a dimension does not move."""
    sizes = [size if stride else 1 for size, stride in zip(steps.sizes, steps.strides, strict=True)]
    if prod(sizes) > MOST_POSITIONS:
        raise UntranslatableError(
            f"the copy has no form as slices and transpositions, and a table of its {prod(sizes)} positions is more than "
            f"{MOST_POSITIONS} numbers: split it"
        )
    found = np.full(sizes, steps.offset, target.position_type(prod(target.type_of(value).shape)))
    for dim, (size, stride) in enumerate(zip(sizes, steps.strides, strict=True)):
        along = [1] * len(sizes)
        along[dim] = size
        found += (np.arange(size) * stride).astype(found.dtype).reshape(along)
    return found


def by_positions(target: Target, value: str, places: str) -> str:
    """The elements of a packed value at these positions, of their shape."""
    shape = target.type_of(value).shape
    return target.along_axis(target.reshaped(value, (prod(shape),)), places, 0)
