"""The layers that move elements, numbers and names alike. Source: the operations' pages in OpenVINO's documentation."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dmlgather.dialects.problem import TensorType, check_axes, check_axis
from dmlgather.dialects.size_arrays import KEPT_ELEMENTS, Array, has_names
from dmlgather.dialects.windows import WindowProblem
from dmlgather.openvino.model.layer_operations import MOST_DIMENSIONS, Computed, Operation
from dmlgather.openvino.model.layer_reading import attributes_of, version_of
from dmlgather.openvino.problems.layer_problems import problem_of
from dmlgather.wording import counted


def _gather(operation: Operation) -> list[Array]:
    if operation.layer.data.get("batch_dims", "0").strip() not in ("0", ""):
        raise operation.unknown("batch_dims")
    data, (axis,) = operation.input(0), operation.integers(2)
    axis = check_axis("axis", axis, data.ndim, "data")
    indices, count = np.array(operation.integers(1), np.int64), data.shape[axis]
    wraps = operation.layer.opset not in ("opset1", "opset2", "opset3", "opset4", "opset5", "opset6", "opset7")
    if ((indices < (-count if wraps else 0)) | (indices >= count)).any():
        raise operation.unknown("an index out of range")
    return [np.take(data, indices.reshape(operation.input(1).shape), axis)]


def _sliced(operation: Operation) -> list[Array]:
    data, version = operation.input(0), version_of(operation.layer)
    bounds = {
        name: np.array(operation.integers(at), np.int64) for at, name in enumerate(version.inputs[: len(operation.inputs)]) if at
    }
    problem = problem_of(
        version, {"data": TensorType(data.shape, np.dtype(np.int64))}, bounds, attributes_of(operation.layer, version)
    )
    assert isinstance(problem, WindowProblem)
    windows = [window.start + window.step * np.arange(window.count) for window in problem.windows]
    return [data[np.ix_(*windows)].reshape(problem.output.shape)]


def _concat(operation: Operation) -> list[Array]:
    arrays = operation.inputs
    if any(map(has_names, arrays)):
        arrays = [each.astype(object) for each in arrays]
    return [np.concatenate(arrays, operation.number("axis"))]


def _squeeze(operation: Operation) -> list[Array]:
    data = operation.input(0)
    if len(operation.inputs) == 1:
        return [data.reshape([size for size in data.shape if size != 1])]
    axes = check_axes("axes", operation.integers(1), data.ndim, "data")
    return [np.squeeze(data, axes)]


def _unsqueeze(operation: Operation) -> list[Array]:
    data, axes = operation.input(0), operation.integers(1)
    if data.ndim + len(axes) > MOST_DIMENSIONS:
        raise operation.unknown(f"{data.ndim + len(axes)} dimensions")
    return [np.expand_dims(data, check_axes("axes", axes, data.ndim + len(axes), "the result"))]


def _reshape(operation: Operation) -> list[Array]:
    data, sizes = operation.input(0), operation.integers(1)
    if len(sizes) > MOST_DIMENSIONS:
        raise operation.unknown(f"{len(sizes)} dimensions")
    if operation.flag("special_zero", False):
        sizes = [data.shape[at] if size == 0 else size for at, size in enumerate(sizes)]
    return [data.reshape(sizes)]


def _transpose(operation: Operation) -> list[Array]:
    return [operation.input(0).transpose(operation.integers(1) or None)]


def _split(operation: Operation) -> list[Array]:
    parts, outputs = operation.number("num_splits"), len(operation.layer.outputs)
    if parts != outputs or not parts:  # so that a file cannot ask for 2^40 empty parts
        raise ValueError(f"num_splits is {parts}, but it has {counted(outputs, 'output')}")
    return list(np.split(operation.input(0), parts, *operation.integers(1)))


def _variadic_split(operation: Operation) -> list[Array]:
    data, (axis,), lengths = operation.input(0), operation.integers(1), operation.integers(2)
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = data.shape[axis] - sum(length for length in lengths if length != -1)
    if min(lengths, default=0) < 0 or sum(lengths) != data.shape[axis]:
        raise ValueError(f"split_lengths is {lengths}, but data has size {data.shape[axis]} in dimension {axis}")
    return list(np.split(data, np.cumsum(lengths)[:-1], axis))


def _broadcast_to(operation: Operation) -> list[Array]:
    sizes = operation.integers(1)
    mode = operation.layer.data.get("mode", "numpy").strip().lower()
    if mode not in ("numpy", "bidirectional") or len(sizes) > MOST_DIMENSIONS or math.prod(sizes) > KEPT_ELEMENTS:
        raise operation.unknown(f"mode {mode!r} to {sizes[:8]}")
    target = sizes if mode == "numpy" else np.broadcast_shapes(operation.input(0).shape, tuple(sizes))
    return [np.broadcast_to(operation.input(0), target)]


MOVING: Mapping[str, Computed] = {
    "Broadcast": _broadcast_to,
    "Concat": _concat,
    "Gather": _gather,
    "Reshape": _reshape,
    "Slice": _sliced,
    "Split": _split,
    "Squeeze": _squeeze,
    "StridedSlice": _sliced,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "VariadicSplit": _variadic_split,
}
"""By the layer's type."""
