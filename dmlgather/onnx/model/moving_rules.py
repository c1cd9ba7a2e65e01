"""What moves elements: from the parsed node and arrays to the output, or to a list of several.

Stand-ins that have shapes alone may take the place of the arrays whose elements are moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.problem import TensorType, check_axis
from dmlgather.dialects.sizes import KEPT_ELEMENTS, Array
from dmlgather.dialects.windows import integers
from dmlgather.onnx.model.shape_arrays import expanded, joined, parts
from dmlgather.onnx.problems.export import index_out_of_range
from dmlgather.onnx.problems.node_reading import StatedNode, problem_of
from dmlgather.onnx.problems.slice import Slice

MOST_DIMENSIONS = 64
"""Dimensions that an array of NumPy can have."""


class LargeResultError(Exception):
    """An array would have more elements than are kept of a value."""


def _repeated(data: Any, shape: Sequence[int]) -> Any:
    """Data broadcast to a shape. LargeResultError for an array that becomes large."""
    if isinstance(data, np.ndarray) and prod(shape) > KEPT_ELEMENTS:
        raise LargeResultError(f"{prod(shape)} elements")
    return expanded(data, shape)


def gather(call: StatedNode, data: Array, indices: Array) -> Array:
    """Gather, of which an index out of range is an error."""
    problem = _problem(call, data, indices)
    if problem.output.rank > MOST_DIMENSIONS:  # NumPy's take crashes
        raise ValueError(f"the output has {problem.output.rank} dimensions, and NumPy has at most {MOST_DIMENSIONS}")
    wrong = index_out_of_range(problem, indices)
    if wrong is not None:
        raise ValueError(f"{wrong.path} is {wrong.got}, expected {wrong.expected}")
    return np.asarray(np.take(data, indices, problem.lookup_axes[0]), data.dtype)


def sliced(call: StatedNode, *inputs: Any) -> Array:
    """Slice."""
    problem = _problem(call, *inputs)
    assert isinstance(problem, Slice)
    windows = [window.start + window.step * np.arange(window.count) for window in problem.windows]
    return np.asarray(inputs[0][np.ix_(*windows)])


def _problem(call: StatedNode, *inputs: Any) -> Any:
    types = [None if one is None else TensorType(one.shape, one.dtype) for one in inputs]
    return problem_of(call.node, call.opset, types, inputs)


def flatten(call: StatedNode, data: Any) -> Any:
    """The dimensions before an axis as one, and those from it on."""
    shape, axis = data.shape, call.attributes.get("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise ValueError(f"axis is {axis}, but data has rank {len(shape)}: expected {-len(shape)} … {len(shape)}")
    axis += len(shape) if axis < 0 else 0
    return data.reshape((prod(shape[:axis]), prod(shape[axis:])))


def expand(_: StatedNode, data: Any, shape: Any) -> Any:
    """Broadcast to a shape and its own."""
    return _repeated(data, np.broadcast_shapes(data.shape, integers("Expand", "shape", shape)))


def tile(_: StatedNode, data: Any, repeats: Any) -> Any:
    """Each dimension of a size behind a new one along which the elements are repeated."""
    counts, sizes = integers("Tile", "repeats", repeats), data.shape
    if len(counts) != len(sizes) or min(counts, default=0) < 0:
        raise ValueError(f"repeats is {list(counts)}, but data has rank {len(sizes)}: expected {len(sizes)} counts of 0 or more")
    single = [part for size in sizes for part in (1, size)]
    repeated = [part for size, count in zip(sizes, counts, strict=True) for part in (count, size)]
    shape = [size * count for size, count in zip(sizes, counts, strict=True)]
    return _repeated(data.reshape(single), repeated).reshape(shape)


def concat(call: StatedNode, *values: Any) -> Any:
    """One after the other along an axis, which is required from version 4 on."""
    axis = call.attributes.get("axis", 1 if call.opset < 4 else None)
    if axis is None:
        raise ValueError("attribute axis is missing: Concat requires it")
    return joined([value for value in values if value is not None], axis)


def split(call: StatedNode, data: Any, split: Any = None) -> list[Any]:
    """Parts along an axis: of stated sizes, or of equal ones, of which the last one may be smaller from version 18 on."""
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
    return parts(data, axis, sizes)
