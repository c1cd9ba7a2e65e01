"""Functions that execute operators which move elements, such as Concat or Slice.

With a ShapeArray in place of an array, they compute only output shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.problem import TensorType, check_axis
from dmlgather.dialects.windows import integers
from dmlgather.onnx.problems.export import index_out_of_range
from dmlgather.onnx.problems.node_reading import StatedNode, problem_of
from dmlgather.onnx.problems.slice import Slice
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS, Array


@dataclass(frozen=True)
class ShapeArray:
    """An array without elements. An unknown size is an object that can be copied, but not compared."""

    shape: tuple[Any, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    def reshape(self, shape: Sequence[Any]) -> ShapeArray:
        """Return a ShapeArray with another shape."""
        return ShapeArray(tuple(shape), self.dtype)

    def transpose(self, order: Sequence[int]) -> ShapeArray:
        """Return a ShapeArray with permuted dimensions, as `numpy.transpose`."""
        return self.reshape([self.shape[axis] for axis in order])

    def __getitem__(self, slices: tuple[slice, ...]) -> ShapeArray:
        """Slice the first dimensions. Raise TypeError if any size of the array is not a number."""
        indices = [range(size) for size in self.shape]
        for axis, slice_ in enumerate(slices):
            indices[axis] = indices[axis][slice_]
        return self.reshape([len(kept) for kept in indices])


def _concatenated(values: Sequence[Any], axis: int) -> Any:
    types = [TensorType(value.shape, value.dtype) for value in values]
    first, axis = types[0], check_axis("axis", axis, types[0].rank, "the first input")
    for number, other in enumerate(types):
        off = [(*tensor.shape[:axis], *tensor.shape[axis + 1 :]) for tensor in (other, first)]
        if other.rank != first.rank or other.dtype != first.dtype or off[0] != off[1]:
            raise ValueError(
                f"input {number} is {other} and input 0 is {first}: expected equal types, and equal sizes but for axis {axis}"
            )
    if not isinstance(values[0], ShapeArray):
        return np.concatenate(values, axis)
    size = sum(tensor.shape[axis] for tensor in types)
    return values[0] if len(values) == 1 else values[0].reshape((*first.shape[:axis], size, *first.shape[axis + 1 :]))


MOST_DIMENSIONS = 64


class LargeResultError(Exception):
    """Raised if an output would have more than KEPT_ELEMENTS elements."""


def _repeated(data: Any, shape: Sequence[int]) -> Any:
    if isinstance(data, ShapeArray):
        return data.reshape(np.broadcast_shapes(shape, data.shape))
    if prod(shape) > KEPT_ELEMENTS:
        raise LargeResultError(f"{prod(shape)} elements")
    return np.broadcast_to(data, shape)


def gather(call: StatedNode, data: Array, indices: Array) -> Array:
    """Execute ONNX's Gather. Raise ValueError for an index out of range."""
    problem = _problem(call, data, indices)
    if problem.output.rank > MOST_DIMENSIONS:  # NumPy's take would crash
        raise ValueError(f"the output has {problem.output.rank} dimensions, and NumPy has at most {MOST_DIMENSIONS}")
    wrong = index_out_of_range(problem, indices)
    if wrong is not None:
        raise ValueError(f"{wrong.path} is {wrong.got}, expected {wrong.expected}")
    return np.asarray(np.take(data, indices, problem.lookup_axes[0]), data.dtype)


def sliced(call: StatedNode, *inputs: Any) -> Array:
    """Execute ONNX's Slice."""
    problem = _problem(call, *inputs)
    assert isinstance(problem, Slice)
    windows = [window.start + window.step * np.arange(window.count) for window in problem.windows]
    return np.asarray(inputs[0][np.ix_(*windows)])


def _problem(call: StatedNode, *inputs: Any) -> Any:
    types = [None if value is None else TensorType(value.shape, value.dtype) for value in inputs]
    return problem_of(call.node, call.opset, types, inputs)


def flatten(call: StatedNode, data: Any) -> Any:
    """Execute ONNX's Flatten."""
    shape, axis = data.shape, call.attributes.get("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise ValueError(f"axis is {axis}, but data has rank {len(shape)}: expected {-len(shape)} … {len(shape)}")
    axis += len(shape) if axis < 0 else 0
    return data.reshape((prod(shape[:axis]), prod(shape[axis:])))


def expand(_: StatedNode, data: Any, shape: Any) -> Any:
    """Execute ONNX's Expand. A size of 1 in `shape` keeps the size of the data."""
    return _repeated(data, np.broadcast_shapes(data.shape, integers("Expand", "shape", shape)))


def tile(call: StatedNode, data: Any, repeats: Any, axis: Any = None) -> Any:
    """Execute ONNX's Tile. Before version 6, it repeats along one axis only."""
    sizes = data.shape
    if call.opset < 6:
        repeats = [np.asarray(repeats).item() if dimension == np.asarray(axis).item() else 1 for dimension in range(len(sizes))]
    counts = integers("Tile", "repeats", repeats)
    if len(counts) != len(sizes) or min(counts, default=0) < 0:
        raise ValueError(f"repeats is {list(counts)}, but data has rank {len(sizes)}: expected {len(sizes)} counts of 0 or more")
    # Sizes (3, 4) with repeats (2, 5): reshape to (1, 3, 1, 4), broadcast to (2, 3, 5, 4), reshape to (6, 20).
    single = [part for size in sizes for part in (1, size)]
    repeated = [part for size, count in zip(sizes, counts, strict=True) for part in (count, size)]
    shape = [size * count for size, count in zip(sizes, counts, strict=True)]
    return _repeated(data.reshape(single), repeated).reshape(shape)


def concat(call: StatedNode, *values: Any) -> Any:
    """Execute ONNX's Concat. From version 4 on, `axis` is required."""
    axis = call.attributes.get("axis", 1 if call.opset < 4 else None)
    if axis is None:
        raise ValueError("attribute axis is missing: Concat requires it")
    return _concatenated([value for value in values if value is not None], axis)


def split(call: StatedNode, data: Any, split: Any = None) -> list[Any]:
    """Execute ONNX's Split. From version 18 on, the last of equal parts may be smaller."""
    axis = check_axis("axis", call.attributes.get("axis", 0), len(data.shape), "the first input")
    size, outputs = data.shape[axis], len(call.node.output)
    sizes: Sequence[int] | None = call.attributes.get("split")
    if sizes is None and split is not None:
        sizes = integers("Split", "split", split)
    if sizes is None:
        part = -(-size // outputs) if call.opset >= 18 else size // outputs
        sizes = [max(0, min(part, size - part * number)) for number in range(outputs)]
    if len(sizes) != outputs or sum(sizes) != size or min(sizes) < 0:
        raise ValueError(
            f"split is {list(sizes)} for {outputs} outputs, but data has size {size} along axis {axis}: expected a size for "
            "each output, which add up to it"
        )
    before = (slice(None),) * axis
    return [data[(*before, slice(end - part, end))] for part, end in zip(sizes, accumulate(sizes), strict=True)]
