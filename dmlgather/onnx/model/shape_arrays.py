"""Stand-ins for arrays that have a shape and a type alone: a row that moves elements does with them what it does with arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlgather.dialects.problem import TensorType, check_axis


@dataclass(frozen=True)
class ShapeArray:
    """An array without elements. A size that is not known takes part in no arithmetic."""

    shape: tuple[Any, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def reshape(self, shape: Sequence[Any]) -> ShapeArray:
        """The elements in row-major order under another shape."""
        return ShapeArray(tuple(shape), self.dtype)

    def transpose(self, order: Sequence[int]) -> ShapeArray:
        """Dimension i of the result is dimension order[i] of this one."""
        return self.reshape([self.shape[axis] for axis in order])

    def __getitem__(self, slices: tuple[slice, ...]) -> ShapeArray:
        """A part: slices of the first dimensions. TypeError where a size is not known."""
        taken = [range(size) for size in self.shape]
        for axis, each in enumerate(slices):
            taken[axis] = taken[axis][each]
        return self.reshape([len(each) for each in taken])


def expanded(data: Any, shape: Sequence[int]) -> Any:
    """An array or its stand-in, broadcast to a shape. ValueError where it does not fit."""
    return data.reshape(np.broadcast_shapes(shape, data.shape)) if isinstance(data, ShapeArray) else np.broadcast_to(data, shape)


def joined(values: Sequence[Any], axis: int) -> Any:
    """Arrays or their stand-ins, one after the other along an axis. ValueError where they do not fit."""
    types = [TensorType(value.shape, value.dtype) for value in values]
    first, axis = types[0], check_axis("axis", axis, types[0].rank, "the first input")
    for number, other in enumerate(types):
        off = [(*tensor.shape[:axis], *tensor.shape[axis + 1 :]) for tensor in (other, first)]
        if other.rank != first.rank or other.dtype != first.dtype or off[0] != off[1]:
            raise ValueError(
                f"input {number} is {other} and input 0 is {first}: expected one type, and equal sizes off axis {axis}"
            )
    if not isinstance(values[0], ShapeArray):
        return np.concatenate(values, axis)
    size = sum(tensor.shape[axis] for tensor in types)
    return values[0] if len(values) == 1 else values[0].reshape((*first.shape[:axis], size, *first.shape[axis + 1 :]))


def parts(data: Any, axis: int, sizes: Sequence[int]) -> list[Any]:
    """The parts of an array or its stand-in that have these sizes along an axis, counted from the front."""
    ends = [sum(sizes[:number]) for number in range(1, len(sizes) + 1)]
    before = (slice(None),) * axis
    return [data[(*before, slice(end - size, end))] for size, end in zip(sizes, ends, strict=True)]
