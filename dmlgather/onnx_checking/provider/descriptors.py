"""The DirectML descriptor that onnxruntime's provider builds for a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgather.dialects.problem import TensorType
from dmlgather.directml import (
    DepthToSpace1OperatorDesc,
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
    SpaceToDepth1OperatorDesc,
)
from dmlgather.directml.types import ONNX_ORDERS
from dmlgather.onnx_checking.provider.sizes import HIGHEST, LOWEST, SliceWindow, window

_Tensor = tuple[tuple[int, ...], str]
"""Sizes and DirectML data type: ((2, 3), "FLOAT32")."""


def _tensor(tensor: TensorType) -> _Tensor:
    """Describe a tensor as the provider does: bool as UINT8."""
    return tensor.shape, "UINT8" if tensor.dtype == np.bool_ else tensor.dtype.name.upper()


def descriptor(problem: Any) -> OperatorDesc:
    """Return the DirectML descriptor that the provider builds. The provider must have a kernel, and no tensor may be empty."""
    return _DESCRIPTORS[problem.name](problem, *(_tensor(getattr(problem, role)) for role in problem.inputs))


def _slice(problem: Any, data: _Tensor) -> OperatorDesc:
    sizes, data_type = data
    windows, strides = [SliceWindow(0, size, size) for size in sizes], [1] * len(sizes)
    for axis, start, end, step in zip(problem.axes, problem.starts, problem.ends, problem.steps, strict=True):
        windows[axis], strides[axis] = window(sizes[axis], start, end, step), min(max(step, LOWEST), HIGHEST)
    output = (tuple(each.size for each in windows), data_type)
    offsets, window_sizes = [each.offset for each in windows], [each.window for each in windows]
    return Slice1OperatorDesc.of(data, offsets, window_sizes, strides, output=output)


_DESCRIPTORS: Mapping[str, Callable[..., OperatorDesc]] = {
    "Gather": lambda problem, data, indices: GatherOperatorDesc.of(data, indices, problem.axis),
    "GatherElements": lambda problem, data, indices: GatherElementsOperatorDesc.of(data, indices, problem.axis),
    "GatherND": lambda problem, data, indices: GatherND1OperatorDesc.of(data, indices, batch_dimension_count=problem.batch_dims),
    "Slice": _slice,
    "DepthToSpace": lambda problem, data: DepthToSpace1OperatorDesc.of(data, problem.blocksize, ONNX_ORDERS[problem.mode]),
    "SpaceToDepth": lambda problem, data: SpaceToDepth1OperatorDesc.of(data, problem.blocksize, ONNX_ORDERS[problem.mode]),
}
"""Functions that build a descriptor from the problem and its inputs."""
