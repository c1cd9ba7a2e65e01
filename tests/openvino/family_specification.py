"""GatherElements, GatherND, Slice and StridedSlice as their pages state them, position by position. Knows no plan and no backend.

Where the pages are silent, or contradict themselves or OpenVINO: indices from -size to -1 count from the end, and others out of
range are an IndexError; a slice whose bounds meet is empty; a masked end of a slice backwards takes the first element in too; a
shrunk dimension has begin's element whatever begin_mask says; of several masks at one place, ellipsis, new axis and shrink count
in this order; masks may have any lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tests.openvino.specification import INTEGERS, NAMES, Array

DATA = (*NAMES, np.dtype(object))
INDICES = {"GatherElements": (np.dtype("int32"), np.dtype("int64")), "GatherND": INTEGERS}
VERSIONS = {"GatherElements": (6,), "GatherND": (5, 8), "Slice": (8,), "StridedSlice": (1,)}


@dataclass(frozen=True)
class FamilyCall:
    """One call. arrays: data, and indices of the gathers. more: the other arguments, by the functions' names for them."""

    operation: str
    version: int
    arrays: tuple[Array, ...] = field(repr=False)
    more: Mapping[str, Any]
    fault: str = ""
    seed: int | None = None

    @property
    def named(self) -> dict[str, Any]:
        """`more` as the function takes it."""
        return {**self.more, "version": self.version} if self.operation == "GatherND" else dict(self.more)

    def __str__(self) -> str:
        shown = ", ".join(f"{array.dtype}{list(array.shape)} strides {array.strides}" for array in self.arrays)
        return f"{self.operation}-{self.version} of {shown}, {self.more}, fault {self.fault!r}, seed {self.seed}"


def expected(call: FamilyCall) -> Array:
    """What the page says about a call. TypeError for a type that it does not know, IndexError for an index out of range,
    ValueError for anything else.
    """
    data, *indices = call.arrays
    if (np.dtype(object) if data.dtype.kind in "OSTU" else data.dtype.newbyteorder("=")) not in DATA:
        raise TypeError(f"data of {data.dtype}")
    if indices and indices[0].dtype not in INDICES[call.operation]:
        raise TypeError(f"indices of {indices[0].dtype}")
    return _BY_NAME[call.operation](call, *call.arrays, **call.more)


def _gather_elements(_: FamilyCall, data: Array, indices: Array, axis: Any) -> Array:
    axis = _axis(axis, data.ndim)
    if data.ndim != indices.ndim:
        raise ValueError("ranks differ")
    if np.delete(data.shape, axis).tolist() != np.delete(indices.shape, axis).tolist():
        raise ValueError("sizes differ off the axis")
    output = np.zeros(indices.shape, data.dtype)
    source, target = _opaque(data), _opaque(output)
    for place in np.ndindex(*indices.shape):
        target[place] = source[(*place[:axis], _position(indices[place], data.shape[axis]), *place[axis + 1 :])]
    return output


def _gather_nd(call: FamilyCall, data: Array, indices: Array, batch_dims: Any = 0) -> Array:
    if isinstance(batch_dims, bool) or not isinstance(batch_dims, int):
        raise TypeError(f"batch_dims {batch_dims!r}")
    if not data.ndim or not indices.ndim or not 0 <= batch_dims < min(data.ndim, indices.ndim):
        raise ValueError(f"batch_dims {batch_dims}")
    if data.shape[:batch_dims] != indices.shape[:batch_dims] or indices.shape[-1] > data.ndim - batch_dims:
        raise ValueError("batches or tuples do not fit")
    trail = data.shape[batch_dims + indices.shape[-1] :]
    output = np.zeros((*indices.shape[:-1], *trail), data.dtype)
    source, target = _opaque(data), _opaque(output)
    for place in np.ndindex(*indices.shape[:-1]):
        sizes = data.shape[batch_dims:]
        found = [_position(value, size) for value, size in zip(indices[place], sizes, strict=False)]
        for behind in np.ndindex(*trail):
            target[(*place, *behind)] = source[(*place[:batch_dims], *found, *behind)]
    if call.version == 5 and batch_dims > 1:
        output = output.reshape(prod(output.shape[:batch_dims]), *output.shape[batch_dims:])
    return output


def _slice(_: FamilyCall, data: Array, start: Any, stop: Any, step: Any, axes: Any = None) -> Array:
    start, stop, step = map(_integers, (start, stop, step))
    axes = range(len(start)) if axes is None else _integers(axes)
    if not data.ndim or not len(start) == len(stop) == len(step) == len(axes) <= data.ndim:
        raise ValueError("lengths")
    axes = [_axis(axis, data.ndim) for axis in axes]
    if len(set(axes)) < len(axes):
        raise ValueError("axes are named twice")
    taken = [list(range(size)) for size in data.shape]
    for axis, *bounds in zip(axes, start, stop, step, strict=True):
        taken[axis] = _walk(data.shape[axis], *bounds)
    return _selected(data, taken, list(range(data.ndim)))


def _strided_slice(_: FamilyCall, data: Array, begin: Any, end: Any, strides: Any = None, **masks: Any) -> Array:
    begin, end = _integers(begin), _integers(end)
    strides = [1] * len(begin) if strides is None else _integers(strides)
    if not len(begin) == len(end) == len(strides):
        raise ValueError("lengths")
    marks = {name: _integers(() if mask is None else mask) for name, mask in masks.items()}
    if any(set(mask) - {0, 1} for mask in marks.values()) or sum(marks.get("ellipsis_mask", ())) > 1:
        raise ValueError("masks")

    def marked(name: str, k: int) -> bool:
        return k < len(marks.get(name, ())) and marks[name][k] == 1

    plain = [k for k in range(len(begin)) if not (marked("ellipsis_mask", k) or marked("new_axis_mask", k))]
    if len(plain) > data.ndim:
        raise ValueError("more entries than dimensions")
    taken: list[list[int]] = []
    shape: list[int | None] = []
    for k in range(len(begin)):
        if marked("ellipsis_mask", k):
            for size in data.shape[len(taken) : len(taken) + data.ndim - len(plain)]:
                shape.append(len(taken))
                taken.append(list(range(size)))
        elif marked("new_axis_mask", k):
            shape.append(None)
        elif marked("shrink_axis_mask", k):
            size = data.shape[len(taken)]
            if not -size <= begin[k] < size:
                raise ValueError(f"no element {begin[k]}")
            taken.append([begin[k] % size])
        else:
            size, bounds = data.shape[len(taken)], [begin[k], end[k], strides[k]]
            if marked("begin_mask", k):
                bounds[0] = 0 if strides[k] > 0 else size - 1
            if marked("end_mask", k):
                bounds[1] = size if strides[k] > 0 else -(2**64)
            shape.append(len(taken))
            taken.append(_walk(size, *bounds))
    for size in data.shape[len(taken) :]:
        shape.append(len(taken))
        taken.append(list(range(size)))
    return _selected(data, taken, shape)


_BY_NAME: Mapping[str, Callable[..., Array]] = {
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
}


def _walk(size: int, start: int, stop: int, step: int) -> list[int]:
    """The positions of a slice, one step after the other."""
    if not step:
        raise ValueError("a step of 0")
    start, stop = (bound + size if bound < 0 else bound for bound in (start, stop))
    at = max(0, min(start, size if step > 0 else size - 1))
    found = []
    while at < min(stop, size) if step > 0 else at > max(stop, -1):
        if size:
            found.append(at)
        at += step
    return found


def _selected(data: Array, taken: Sequence[Sequence[int]], shape: Sequence[int | None]) -> Array:
    """The elements at these positions of each dimension. shape: the dimension that each of the output's walks, or None."""
    values = [data[place] for place in product(*taken)]
    output = np.zeros([1 if axis is None else len(taken[axis]) for axis in shape], data.dtype)
    flat = _opaque(output).reshape(-1)
    for number, value in enumerate(values):
        flat[number] = value if data.dtype.hasobject else np.asarray(value).view(flat.dtype)
    return output


def _opaque(array: Array) -> Array:
    """The same elements, of which NumPy looks at no bit."""
    return array if array.dtype.kind in "OSTU" else np.ascontiguousarray(array).reshape(array.shape).view(f"V{array.itemsize}")


def _position(value: Any, size: int) -> int:
    if not -size <= int(value) < size:
        raise IndexError(f"{value} for size {size}")
    return int(value) % size


def _axis(axis: Any, rank: int) -> int:
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise TypeError(f"axis {axis!r}")
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} for rank {rank}")
    return int(axis) % rank


def _integers(values: Any) -> list[int]:
    if hasattr(values, "dtype"):
        if values.dtype not in INTEGERS:
            raise TypeError(f"bounds of {values.dtype}")
        if values.ndim != 1:
            raise ValueError("bounds of another number of dimensions")
    if any(isinstance(value, bool) or not isinstance(value, (int, np.integer)) for value in values):
        raise TypeError("bounds that are no integers")
    return [int(value) for value in values]
