"""The operators that most models compute shapes with, on arrays of known elements: they move elements, or convert them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.dialects.problem import TensorType
from dmlgather.onnx.auxiliary import AUXILIARY, compute
from dmlgather.onnx.model.values import Array
from dmlgather.onnx.problems.constant_indices import index_out_of_range
from dmlgather.onnx.problems.node_reading import problem_of
from dmlgather.onnx.problems.slice import Slice

if TYPE_CHECKING:
    from onnx import NodeProto

MOVED: Mapping[str, tuple[int, ...] | None] = {
    "Identity": (0,),
    "Squeeze": (0,),
    "Unsqueeze": (0,),
    "Reshape": (0,),
    "Flatten": (0,),
    "Transpose": (0,),
    "Gather": (0,),
    "GatherElements": (0,),
    "GatherND": (0,),
    "Slice": (0,),
    "Split": (0,),
    "Concat": None,
    "Expand": (0,),
    "Tile": (0,),
    "Pad": (0, 2),
    "Compress": (0,),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
}
"""The operators that move elements, with the inputs that these come from; None for all inputs."""


MOST_DIMENSIONS = 64
"""Dimensions that an array of NumPy can have."""


def _auxiliary(node: NodeProto, opset: int, inputs: Sequence[Any]) -> Any:
    """Constant has version 9 before opset 9 as well: models had integer constants before the operator's types listed them."""
    return compute(node, max(opset, 9) if node.op_type == "Constant" else opset, inputs)


def _gather(node: NodeProto, opset: int, inputs: Sequence[Any]) -> Array:
    problem = _problem(node, opset, inputs)
    data, indices = inputs
    if problem.output.rank > MOST_DIMENSIONS:  # NumPy's take crashes
        raise ValueError(f"the output has {problem.output.rank} dimensions, and NumPy has at most {MOST_DIMENSIONS}")
    wrong = index_out_of_range(problem, indices)
    if wrong is not None:
        raise ValueError(f"{wrong.path} is {wrong.got}, expected {wrong.expected}")
    return np.asarray(np.take(data, indices, problem.lookup_axes[0]))


def _slice(node: NodeProto, opset: int, inputs: Sequence[Any]) -> Array:
    problem = _problem(node, opset, inputs)
    assert isinstance(problem, Slice)
    windows = [window.start + window.step * np.arange(window.count) for window in problem.windows]
    return np.asarray(inputs[0][np.ix_(*windows)])


def _problem(node: NodeProto, opset: int, inputs: Sequence[Any]) -> Any:
    types = [None if one is None else TensorType(one.shape, one.dtype) for one in inputs]
    return problem_of(node, opset, types, inputs)


def _concat(node: NodeProto, opset: int, inputs: Sequence[Any]) -> Array:
    """Concat requires its axis from version 4 on; before, 1 is the default."""
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1 if opset < 4 else None)
    if axis is None or any(one is None for one in inputs) or len({one.dtype for one in inputs}) != 1:
        raise ValueError("expected an axis and inputs of one type")
    return np.concatenate(inputs, axis)


COMPUTED_HERE: Mapping[str, Callable[[NodeProto, int, Sequence[Any]], Any]] = {
    **dict.fromkeys(AUXILIARY, _auxiliary),
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
}
"""The operators that are computed here. Of a model of any size, most nodes that compute shapes are these."""
