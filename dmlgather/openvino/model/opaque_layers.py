"""Layers outside the family: what identifies them, and the shapes of their outputs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from dmlgather.dialects.problem import TensorType, check_axes
from dmlgather.openvino.model.translated_layer import TranslatedLayer

SAME_SHAPE = (
    *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BatchNormInference", "Ceiling", "Clamp", "Convert"),
    *("ConvertLike", "Cos", "Cosh", "CumSum", "Elu", "Erf", "Exp", "FakeQuantize", "Floor", "GRN", "Gelu", "GroupNormalization"),
    *("HSigmoid", "HSwish", "HardSigmoid", "IsFinite", "IsInf", "IsNaN", "LRN", "Log", "LogSoftmax", "MVN", "Mish", "Negative"),
    *("NormalizeL2", "PReLU", "ReLU", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "SoftMax", "SoftPlus", "SoftSign"),
    *("Sqrt", "Swish", "Tan", "Tanh"),
)
"""Layers whose output has the shape of their first input. The names are those of files: "ReLU" where Python has "Relu"."""

BROADCAST = (
    *("Add", "Divide", "Equal", "FloorMod", "Greater", "GreaterEqual", "Less", "LessEqual", "Maximum", "Minimum", "Mod"),
    *("Multiply", "NotEqual", "Power", "Select", "SquaredDifference", "Subtract"),
)
"""Layers whose output has the shape of all their inputs together."""

REDUCTIONS = tuple(f"Reduce{name}" for name in ("L1", "L2", "LogicalAnd", "LogicalOr", "Max", "Mean", "Min", "Prod", "Sum"))
"""Layers that reduce along the axes of their second input."""

CHANGING = ("Assign", "Multinomial", "RandomUniform", "ReadValue")
"""Layers whose results are not decided by their inputs."""

Identity = tuple[str, Sequence[str], Hashable]
"""Operator, inputs and attributes."""


def identity(call: TranslatedLayer) -> Identity:
    """What an opaque step of the layer has: two that are equal compute the same."""
    layer, kind = call.layer, call.layer.type
    if not layer.opset.lower().startswith("opset"):
        return f"openvino.{layer.opset}.{kind}".lower(), call.inputs, tuple(sorted(layer.data.items()))
    attributes: tuple[Hashable, ...] = (("opset", layer.opset), *sorted(layer.data.items()))
    if layer.bodies or kind in CHANGING:
        attributes = (*attributes, ("its own", object()))
    return f"openvino.{kind}".lower(), call.inputs, attributes


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
