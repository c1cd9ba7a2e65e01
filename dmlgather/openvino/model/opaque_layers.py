"""Layers outside the family: what identifies them, and the types of their outputs.

An operator that all dialects have is spelled as the graphs of all dialects spell it: by NumPy's name where NumPy has the
function, else by ONNX's; attributes are pairs of name and value, and axes count from the front. So equal programs have equal
steps.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from dmlgather.dialects.problem import TensorType, check_axes
from dmlgather.openvino.model.translated_layer import TranslatedLayer
from dmlgather.openvino.problems.data_types import TYPES

ONE_INPUT: Mapping[str, str] = {
    "Abs": "abs",
    "Ceiling": "ceil",
    "Cos": "cos",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Negative": "negative",
    "ReLU": "relu",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Sqrt": "sqrt",
    "Tanh": "tanh",
}
"""Layers of one float input without attributes, by the name that all dialects have for them."""

TWO_INPUTS: Mapping[str, str] = {
    "Add": "add",
    "Divide": "divide",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterEqual": "greater_equal",
    "Less": "less",
    "LessEqual": "less_equal",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "Multiply": "multiply",
    "Power": "power",
    "Subtract": "subtract",
}
"""Likewise of two float inputs, which are broadcast as NumPy does it."""

REDUCTIONS: Mapping[str, str] = {f"Reduce{name}": f"reduce_{name.lower()}" for name in ("Sum", "Mean", "Max", "Min", "Prod")}
"""Likewise reductions along known axes."""

SAME_SHAPE = (
    *ONE_INPUT,
    "Clamp",
    "Convert",
    "Elu",
    "Gelu",
    "HardSigmoid",
    "HSwish",
    "LogSoftmax",
    "MVN",
    "Round",
    "Softmax",
    "Swish",
)
"""Layers whose output has the shape of their first input."""

BROADCAST = (*TWO_INPUTS, "FloorMod", "Mod", "NotEqual", "PReLU", "Select", "SquaredDifference")
"""Layers whose output has the shape of all their inputs together."""

CHANGING = ("Assign", "Multinomial", "RandomUniform", "ReadValue")
"""Layers whose results are not decided by their inputs."""

Identity = tuple[str, Sequence[str], Hashable]
"""Operator, inputs and attributes."""


def identity(call: TranslatedLayer) -> Identity:
    """What an opaque step of the layer has: two that are equal compute the same. Views of inputs may be added to the graph."""
    layer, kind = call.layer, call.layer.type
    if not layer.opset.lower().startswith("opset"):
        return f"openvino.{layer.opset}.{kind}".lower(), call.inputs, tuple(sorted(layer.data.items()))
    shared = _shared(call)
    if shared is not None:
        return shared
    attributes: tuple[Hashable, ...] = (("opset", layer.opset), *sorted(layer.data.items()))
    if layer.bodies or kind in CHANGING:
        attributes = (*attributes, ("its own", object()))
    return f"openvino.{kind}".lower(), call.inputs, attributes


def _shared(call: TranslatedLayer) -> Identity | None:
    """A layer as all dialects spell it; None for one that is OpenVINO's alone, and where an axis is not known."""
    kind, floats = call.layer.type, all(tensor.dtype.kind not in "biu" for tensor in call.types)
    if kind in ONE_INPUT and floats:
        return ONE_INPUT[kind], call.inputs, ()
    if kind in TWO_INPUTS and floats and call.broadcasts:
        return TWO_INPUTS[kind], call.inputs, ()
    if kind == "MatMul":
        return "matmul", [_turned(call, number, name) for number, name in enumerate("ab")], ()
    if kind == "Convert" and call.text("destination_type") in TYPES.names:
        return "cast", call.inputs, (("to", TYPES.dtype_of(call.text("destination_type")).name),)
    if kind == "SoftMax":
        return "softmax", call.inputs, (("axis", call.axis(int(call.layer.data.get("axis", "1")))),)
    if kind in REDUCTIONS and (axes := call.numbers(1)):
        chosen = tuple(sorted(check_axes("axes", axes, call.tensor.rank, "data")))
        return REDUCTIONS[kind], [call.data], (("axes", chosen), ("keepdims", call.flag("keep_dims", False)))
    return None


def _turned(call: TranslatedLayer, number: int, name: str) -> str:
    """An operand of a MatMul, its last two dimensions exchanged where the layer says so; one of a single dimension has none."""
    value = call.input(number)
    rank = call.graph.types[value].rank
    if rank < 2 or not call.flag(f"transpose_{name}", False):
        return value
    return call.graph.transposed(f"{call.name}: transpose_{name}", value, (*range(rank - 2), rank - 1, rank - 2))


def shape_of_output(call: TranslatedLayer) -> tuple[int, ...] | None:
    """The shape of the output of a layer that follows from its inputs; None where it is not known here."""
    kind, types = call.layer.type, call.types
    if not types or not call.layer.opset.lower().startswith("opset"):
        return None
    if kind in SAME_SHAPE:
        return types[0].shape
    if kind in BROADCAST and call.broadcasts:
        return call.broadcast_shape
    if kind in REDUCTIONS and (axes := call.numbers(1)):
        dropped, keeps = check_axes("axes", axes, types[0].rank, "data"), call.flag("keep_dims", False)
        sizes = ((1 if axis in dropped else size) for axis, size in enumerate(types[0].shape) if keeps or axis not in dropped)
        return tuple(sizes)
    if kind == "MatMul" and all(tensor.rank >= 2 for tensor in types):
        return _product(call, *types)
    return None


def _product(call: TranslatedLayer, left: TensorType, right: TensorType) -> tuple[int, ...]:
    rows = left.shape[-1 if call.flag("transpose_a", False) else -2]
    columns = right.shape[-2 if call.flag("transpose_b", False) else -1]
    return (*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), rows, columns)
