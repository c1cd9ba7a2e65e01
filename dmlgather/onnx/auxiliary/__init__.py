"""Auxiliary operators, which prepare the inputs of gathers and slices in models and pass their outputs on: Identity, Constant,
Shape, Squeeze, Unsqueeze, Reshape, Transpose and Cast, in every version that ONNX has of them, on NumPy and CuPy arrays.

Only Cast changes the bits of a tensor. Results are views where they can be; arrays stay on their device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dmlgather.onnx.auxiliary import shape_operators as shapes
from dmlgather.onnx.auxiliary import value_operators as values
from dmlgather.onnx.problems.data_types import check_type
from dmlgather.onnx.problems.node_reading import ParsedNode, parse_node
from dmlgather.onnx.problems.operator_versions import DOMAINS

AUXILIARY: Mapping[str, Callable[..., Any]] = {
    "Identity": values.identity,
    "Constant": values.constant,
    "Shape": shapes.shape,
    "Squeeze": shapes.squeeze,
    "Unsqueeze": shapes.unsqueeze,
    "Reshape": shapes.reshape,
    "Transpose": shapes.transpose,
    "Cast": values.cast,
}
"""From a parsed node and its input arrays to the output array."""

WITHOUT_ARRAYS: Mapping[str, Callable[[ParsedNode], object]] = {"Constant": values.constant, "Cast": values.target}
"""What refuses a node before there are arrays, besides `parse_node`."""


def is_auxiliary(node: Any) -> bool:
    """Whether a NodeProto is one of ONNX's own operators in AUXILIARY."""
    return node.op_type in AUXILIARY and node.domain in DOMAINS


def check(node: Any, opset: int) -> None:
    """Refuse what can be refused before there are arrays; TypeError and ValueError as `compute`."""
    parsed = parse_node(node, opset)
    if node.op_type in WITHOUT_ARRAYS:
        WITHOUT_ARRAYS[node.op_type](parsed)


def compute(node: Any, opset: int, inputs: Sequence[Any]) -> Any:
    """The output of an auxiliary operator's NodeProto under an opset.

    inputs: one per node.input, None for those left out. The first is an array, which the result shares memory with where it can
    (Shape needs only its shape and dtype); the others, axes or shape, are int64 arrays in host memory.

    Raises TypeError for a data type that the version does not list, ValueError for any other broken rule of the version.
    """
    parsed = parse_node(node, opset)
    if parsed.version.inputs:
        check_type(parsed.version, "data", inputs[0].dtype, parsed.version.types)
    return AUXILIARY[node.op_type](parsed, *inputs)
