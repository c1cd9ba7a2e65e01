"""The descriptor that onnxruntime's DirectML provider builds for a node."""

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


def _tensor(tensor: TensorType) -> tuple[tuple[int, ...], str]:
    """Return the sizes and DirectML's data type in the provider's descriptors. A bool is UINT8."""
    return tensor.shape, "UINT8" if tensor.dtype == np.bool_ else tensor.dtype.name.upper()


def descriptor(problem: Any) -> OperatorDesc:
    """Return the provider's descriptor for a problem. The provider must have kernels for its types. No tensor may be empty."""
    return _DESCRIPTORS[problem.name](problem)


def _windows(problem: Any) -> OperatorDesc:
    data = problem.data.shape
    windows = [SliceWindow(0, size, size) for size in data]
    strides = [1] * len(data)
    for axis, start, end, step in zip(problem.axes, problem.starts, problem.ends, problem.steps, strict=True):
        windows[axis], strides[axis] = window(data[axis], start, end, step), min(max(step, LOWEST), HIGHEST)
    output = (tuple(each.size for each in windows), _tensor(problem.data)[1])
    offsets, window_sizes = [each.offset for each in windows], [each.window for each in windows]
    return Slice1OperatorDesc.of(_tensor(problem.data), offsets, window_sizes, strides, output=output)


_DESCRIPTORS: Mapping[str, Callable[[Any], OperatorDesc]] = {
    "Gather": lambda problem: GatherOperatorDesc.of(_tensor(problem.data), _tensor(problem.indices), problem.axis),
    "GatherElements": lambda problem: GatherElementsOperatorDesc.of(
        _tensor(problem.data), _tensor(problem.indices), problem.axis
    ),
    "GatherND": lambda problem: GatherND1OperatorDesc.of(
        _tensor(problem.data), _tensor(problem.indices), batch_dimension_count=problem.batch_dims
    ),
    "Slice": _windows,
    "DepthToSpace": lambda problem: DepthToSpace1OperatorDesc.of(
        _tensor(problem.data), problem.blocksize, ONNX_ORDERS[problem.mode]
    ),
    "SpaceToDepth": lambda problem: SpaceToDepth1OperatorDesc.of(
        _tensor(problem.data), problem.blocksize, ONNX_ORDERS[problem.mode]
    ),
}
