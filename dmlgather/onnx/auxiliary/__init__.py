"""The operators that feed and carry what the family gathers: Identity, Constant, Shape, Squeeze, Unsqueeze, Reshape, Transpose
and Cast, as ONNX's versions have them, on NumPy and CuPy arrays.

No bit of a tensor changes, except through Cast. Nothing is copied that can be a view; arrays stay on their device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dmlgather.onnx.auxiliary import shape_operators as shapes
from dmlgather.onnx.auxiliary import value_operators as values
from dmlgather.onnx.auxiliary.node_call import Call, read
from dmlgather.onnx.auxiliary.versions import TYPES
from dmlgather.onnx.problems.operators import DOMAINS

__all__ = ["CARRIERS", "Carrier", "carry", "check", "is_carrier"]


@dataclass(frozen=True, slots=True)
class Carrier:
    """One operator.

    run: from the call and the input arrays to the output. check: what can be refused before there are arrays.
    """

    run: Callable[..., Any]
    check: Callable[[Call], object] = lambda _: None


CARRIERS: Mapping[str, Carrier] = {
    "Identity": Carrier(values.identity),
    "Constant": Carrier(values.constant, values.constant),
    "Shape": Carrier(shapes.shape),
    "Squeeze": Carrier(shapes.squeeze),
    "Unsqueeze": Carrier(shapes.unsqueeze),
    "Reshape": Carrier(shapes.reshape),
    "Transpose": Carrier(shapes.transpose),
    "Cast": Carrier(values.cast, values.target),
}


def is_carrier(node: Any) -> bool:
    """Whether a NodeProto is one of ONNX's own operators in CARRIERS."""
    return node.op_type in CARRIERS and node.domain in DOMAINS


def check(node: Any, opset: int) -> None:
    """Refuse what can be refused before there are arrays; TypeError and ValueError as `carry`."""
    CARRIERS[node.op_type].check(read(node, opset))


def carry(node: Any, opset: int, inputs: Sequence[Any]) -> Any:
    """The output of a carrier's NodeProto under an opset.

    inputs: one per node.input, None for those left out. The first is an array, which the result shares memory with where it can
    (Shape needs only its shape and dtype); the others, axes or shape, are int64 arrays in host memory.

    Raises TypeError for a data type that the version does not list, ValueError for whatever else breaks one of its rules.
    """
    call = read(node, opset)
    if call.version.inputs:
        TYPES.check(call.version, "data", inputs[0].dtype, call.version.types)
    return CARRIERS[node.op_type].run(call, *inputs)
