"""OpenVINO's operations as their pages state them, position by position in Python integers. Knows no plan and no backend.

Where the pages are silent, or contradict themselves or OpenVINO: Gather takes batch_dims down to minus the rank of indices, a
negative index is out of range in versions 1 and 7, and what is out of range is zero in every version; in the other gathers,
indices from -size to -1 count from the end, and others out of range are an IndexError; a slice whose bounds meet is empty; a
masked end of a slice backwards takes the first element in too; a shrunk dimension has begin's element whatever begin_mask says;
of several masks at one place, ellipsis, new axis and shrink count in this order; masks may have any lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from tests.dialects.outcomes import Array
from tests.dialects.positions import counted, elements, taken, tuples, walk
from tests.openvino.runtime import openvino

NAMES = {
    np.dtype(bool): "boolean",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(ml_dtypes.float8_e4m3fn): "f8e4m3",
    np.dtype(ml_dtypes.float8_e5m2): "f8e5m2",
    np.dtype(ml_dtypes.float8_e8m0fnu): "f8e8m0",
    **{np.dtype(f"{kind}{width}"): f"{kind}{8 * width}" for kind in "iuf" for width in (1, 2, 4, 8) if f"{kind}{width}" != "f1"},
}
"""NumPy's type -> OpenVINO's name of it."""

INTEGERS = tuple(dtype for dtype in NAMES if dtype.kind in "iu")
"""What indices and the axis may be."""


def whole_byte_types() -> set[str]:
    """OpenVINO's own names of its types with a fixed number of whole bytes."""
    kinds = {name: kind for name, kind in vars(openvino.Type).items() if isinstance(kind, openvino.Type)}
    return {name for name, kind in kinds.items() if name not in ("dynamic", "string") and kind.bitwidth % 8 == 0}


VERSIONS = {"Gather": (1, 7, 8), "GatherElements": (6,), "GatherND": (5, 8), "Slice": (8,), "StridedSlice": (1,)}
"""Every version of each operation."""

INDICES = {"Gather": INTEGERS, "GatherElements": (np.dtype("int32"), np.dtype("int64")), "GatherND": INTEGERS}
"""What indices may be."""


@dataclass(frozen=True)
class Call:
    """One call.

    arrays: data, and indices of the gathers. more: the other arguments, by the functions' names for them. fault: the one thing
    that is wrong with it, "" for nothing. seed: what it was made from.
    """

    operation: str
    version: Any
    arrays: tuple[Array, ...] = field(repr=False)
    more: Mapping[str, Any]
    fault: str = ""
    seed: int | None = None

    @property
    def data(self) -> Array:
        return self.arrays[0]

    @property
    def indices(self) -> Array:
        return self.arrays[1]

    @property
    def named(self) -> dict[str, Any]:
        """`more` as the function takes it."""
        return {**self.more, "version": self.version} if self.operation in ("Gather", "GatherND") else dict(self.more)

    def __str__(self) -> str:
        shown = ", ".join(f"{array.dtype}{list(array.shape)} strides {array.strides}" for array in self.arrays)
        return f"{self.operation}-{self.version} of {shown}, {self.more}, fault {self.fault!r}, seed {self.seed}"


def gather(version: Any, data: Array, indices: Array, axis: Any, batch_dims: Any = 0) -> Call:
    """A call of Gather."""
    return Call("Gather", version, (data, indices), {"axis": axis, "batch_dims": batch_dims})


def expected(call: Call) -> Array:
    """What the page says about a call. TypeError for a type that it does not know, IndexError for an index out of range,
    ValueError for anything else.
    """
    data, *indices = call.arrays
    if call.version not in VERSIONS[call.operation]:
        raise ValueError(f"no version {call.version}")
    if data.dtype.kind not in "OSTU" and data.dtype.newbyteorder("=") not in NAMES:
        raise TypeError(f"data of {data.dtype}")
    if indices and indices[0].dtype not in INDICES[call.operation]:
        raise TypeError(f"indices of {indices[0].dtype}")
    return _BY_NAME[call.operation](call, *call.arrays, **call.more)


def _gather(call: Call, data: Array, indices: Array, axis: Any, batch_dims: Any) -> Array:
    """output[p…, i…, t…] = data[p…, indices[p[:batch_dims], i…], t…], the i in the place of the axis; zero where out of range."""
    axis = _axis(_one_integer(axis), data.ndim)
    batch = _batch_dims(batch_dims, call.version, axis, data.shape, indices.shape)
    count = indices.ndim - batch
    output = np.zeros(data.shape[:axis] + indices.shape[batch:] + data.shape[axis + 1 :], data.dtype)
    size = data.shape[axis]
    source, target = _opaque(data), _opaque(output)
    for place in np.ndindex(output.shape):
        lead, moved, trail = place[:axis], place[axis : axis + count], place[axis + count :]
        value = int(indices[lead[:batch] + moved])
        if value < 0 and call.version == 8:
            value += size
        if 0 <= value < size:
            target[place] = source[(*lead, value, *trail)]
    return output


def _one_integer(axis: Any) -> Any:
    """The axis of Gather, which may be an array of one integer."""
    if isinstance(axis, int):  # NumPy's numbers have types, and are scalars
        return int(axis)
    given = np.asarray(axis)
    if given.dtype.newbyteorder("=") not in INTEGERS or not hasattr(axis, "dtype"):
        raise TypeError(f"axis of {given.dtype}")
    if given.shape not in ((), (1,)):
        raise ValueError(f"axis of shape {given.shape}")
    return int(given.item())


def _batch_dims(given: Any, version: int, axis: int, sizes: tuple[int, ...], index_sizes: tuple[int, ...]) -> int:
    if not isinstance(given, (int, np.integer)):
        raise TypeError(f"batch_dims {given!r}")
    if version == 1 and given:
        raise ValueError("batch_dims came with version 7")
    rank = len(index_sizes)
    if not -rank <= given <= min(len(sizes), rank):
        raise ValueError(f"batch_dims {given} for ranks {len(sizes)} and {rank}")
    batch = int(given) + rank if given < 0 else int(given)
    if batch > axis:
        raise ValueError(f"batch_dims {batch} beyond axis {axis}")
    if sizes[:batch] != index_sizes[:batch]:
        raise ValueError(f"batches {sizes[:batch]} and {index_sizes[:batch]}")
    return batch


def _gather_elements(_: Call, data: Array, indices: Array, axis: Any) -> Array:
    axis = _axis(axis, data.ndim)
    if data.ndim != indices.ndim:
        raise ValueError("ranks differ")
    if np.delete(data.shape, axis).tolist() != np.delete(indices.shape, axis).tolist():
        raise ValueError("sizes differ off the axis")
    return elements(data, indices, axis)


def _gather_nd(call: Call, data: Array, indices: Array, batch_dims: Any = 0) -> Array:
    if isinstance(batch_dims, bool) or not isinstance(batch_dims, int):
        raise TypeError(f"batch_dims {batch_dims!r}")
    if not data.ndim or not indices.ndim or not 0 <= batch_dims < min(data.ndim, indices.ndim):
        raise ValueError(f"batch_dims {batch_dims}")
    if data.shape[:batch_dims] != indices.shape[:batch_dims] or indices.shape[-1] > data.ndim - batch_dims:
        raise ValueError("batches or tuples do not fit")
    output = tuples(data, indices, batch_dims)
    if call.version == 5 and batch_dims > 1:
        output = output.reshape(prod(output.shape[:batch_dims]), *output.shape[batch_dims:])
    return output


def _slice(_: Call, data: Array, start: Any, stop: Any, step: Any, axes: Any = None) -> Array:
    start, stop, step = map(_integers, (start, stop, step))
    axes = range(len(start)) if axes is None else _integers(axes)
    if not data.ndim or not len(start) == len(stop) == len(step) == len(axes) <= data.ndim:
        raise ValueError("lengths")
    axes = [_axis(axis, data.ndim) for axis in axes]
    if len(set(axes)) < len(axes):
        raise ValueError("axes are named twice")
    walks = [range(size) for size in data.shape]
    for axis, *bounds in zip(axes, start, stop, step, strict=True):
        walks[axis] = walk(data.shape[axis], *bounds)
    return taken(data, product(*walks), tuple(map(len, walks)))


def _strided_slice(_: Call, data: Array, begin: Any, end: Any, strides: Any = None, **masks: Any) -> Array:
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
    walks: list[Sequence[int]] = []
    shape: list[int] = []
    for k in range(len(begin)):
        if marked("ellipsis_mask", k):
            for size in data.shape[len(walks) : len(walks) + data.ndim - len(plain)]:
                walks.append(range(size))
                shape.append(size)
        elif marked("new_axis_mask", k):
            shape.append(1)
        elif marked("shrink_axis_mask", k):
            size = data.shape[len(walks)]
            if not -size <= begin[k] < size:
                raise ValueError(f"no element {begin[k]}")
            walks.append([begin[k] % size])
        else:
            size, bounds = data.shape[len(walks)], [begin[k], end[k], strides[k]]
            if marked("begin_mask", k):
                bounds[0] = 0 if strides[k] > 0 else size - 1
            if marked("end_mask", k):
                bounds[1] = size if strides[k] > 0 else -(2**64)
            walks.append(walk(size, *bounds))
            shape.append(len(walks[-1]))
    for size in data.shape[len(walks) :]:
        walks.append(range(size))
        shape.append(size)
    return taken(data, product(*walks), shape)


_BY_NAME: Mapping[str, Callable[..., Array]] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
}


def _opaque(array: Array) -> Array:
    """The same elements, of which NumPy looks at no bit."""
    return array if array.dtype.kind in "OSTU" else np.ascontiguousarray(array).reshape(array.shape).view(f"V{array.itemsize}")


def _axis(axis: Any, rank: int) -> int:
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise TypeError(f"axis {axis!r}")
    return counted(int(axis), rank)


def _integers(values: Any) -> list[int]:
    if hasattr(values, "dtype"):
        if values.dtype not in INTEGERS:
            raise TypeError(f"bounds of {values.dtype}")
        if values.ndim != 1:
            raise ValueError("bounds of another number of dimensions")
    if any(isinstance(value, bool) or not isinstance(value, (int, np.integer)) for value in values):
        raise TypeError("bounds that are no integers")
    return [int(value) for value in values]
