"""Auxiliary operators, which models of the gather and slice family need around it: Identity, Constant, Shape, Squeeze, Unsqueeze,
Reshape, Transpose and Cast, as ONNX's versions have them, on NumPy and CuPy arrays.

No bit of a tensor changes, except through Cast. Nothing is copied that can be a view; arrays stay on their device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dmlgather.onnx.auxiliary import shape_operators as shapes
from dmlgather.onnx.auxiliary import value_operators as values
from dmlgather.onnx.auxiliary.node_call import NodeCall, read
from dmlgather.onnx.auxiliary.versions import TYPES
from dmlgather.onnx.problems.operators import DOMAINS

__all__ = ["AUXILIARY", "AuxiliaryOperator", "check", "compute", "is_auxiliary"]


@dataclass(frozen=True, slots=True)
class AuxiliaryOperator:
    """One operator.

    run: from the call and the input arrays to the output. check: what can be refused before there are arrays.
    """

    run: Callable[..., Any]
    check: Callable[[NodeCall], object] = lambda _: None


AUXILIARY: Mapping[str, AuxiliaryOperator] = {
    "Identity": AuxiliaryOperator(values.identity),
    "Constant": AuxiliaryOperator(values.constant, values.constant),
    "Shape": AuxiliaryOperator(shapes.shape),
    "Squeeze": AuxiliaryOperator(shapes.squeeze),
    "Unsqueeze": AuxiliaryOperator(shapes.unsqueeze),
    "Reshape": AuxiliaryOperator(shapes.reshape),
    "Transpose": AuxiliaryOperator(shapes.transpose),
    "Cast": AuxiliaryOperator(values.cast, values.target),
}


def is_auxiliary(node: Any) -> bool:
    """Whether a NodeProto is one of ONNX's own operators in AUXILIARY."""
    return node.op_type in AUXILIARY and node.domain in DOMAINS


def check(node: Any, opset: int) -> None:
    """Refuse what can be refused before there are arrays; TypeError and ValueError as `compute`."""
    AUXILIARY[node.op_type].check(read(node, opset))


def compute(node: Any, opset: int, inputs: Sequence[Any]) -> Any:
    """The output of an auxiliary operator's NodeProto under an opset.

    inputs: one per node.input, None for those left out. The first is an array, which the result shares memory with where it can
    (Shape needs only its shape and dtype); the others, axes or shape, are int64 arrays in host memory.

    Raises TypeError for a data type that the version does not list, ValueError for whatever else breaks one of its rules.
    """
    call = read(node, opset)
    if call.version.inputs:
        TYPES.check(call.version, "data", inputs[0].dtype, call.version.types)
    return AUXILIARY[node.op_type].run(call, *inputs)
