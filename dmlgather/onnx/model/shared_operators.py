"""Operators outside the family that other dialects have as well, as the graphs of all dialects spell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.problem import check_axes
from dmlgather.dialects.shared_operators import SharedOperator, shared
from dmlgather.dialects.windows import integers
from dmlgather.onnx.model.fused_layers import fused_layer
from dmlgather.onnx.model.shared_layers import shared_layer
from dmlgather.onnx.model.translated_node import TranslatedNode
from dmlgather.onnx.problems.data_types import data_type
from dmlgather.onnx.problems.operator_versions import DOMAINS

_PLAIN: Mapping[str, tuple[str, str]] = {
    "Add": ("add", "biufc"),
    "Sub": ("subtract", "biufc"),
    "Mul": ("multiply", "biufc"),
    "Div": ("divide", "f"),
    "Pow": ("power", "f"),
    "Max": ("maximum", "f"),
    "Min": ("minimum", "f"),
    "Neg": ("negative", "f"),
    "Abs": ("abs", "f"),
    "Ceil": ("ceil", "f"),
    "Cos": ("cos", "f"),
    "Erf": ("erf", "f"),
    "Exp": ("exp", "f"),
    **{name: (name.lower(), "f") for name in ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan")},
    "IsNaN": ("isnan", "f"),
    "Mish": ("mish", "f"),
    "PRelu": ("prelu", "f"),
    "Reciprocal": ("reciprocal", "f"),
    "Round": ("round", "f"),
    "Sign": ("sign", "f"),
    "Softplus": ("softplus", "f"),
    "Softsign": ("softsign", "f"),
    "Floor": ("floor", "f"),
    "Log": ("log", "f"),
    "Relu": ("relu", "f"),
    "Sigmoid": ("sigmoid", "f"),
    "Sin": ("sin", "f"),
    "Sqrt": ("sqrt", "f"),
    "Tanh": ("tanh", "f"),
    "Less": ("less", "f"),
    "LessOrEqual": ("less_equal", "f"),
    "Greater": ("greater", "f"),
    "GreaterOrEqual": ("greater_equal", "f"),
    "Equal": ("equal", "f"),
    "MatMul": ("matmul", "iuf"),
}
"""The shared name of an operator without attributes, and the kinds of types for which all dialects mean the same by it."""

_EXACT: Mapping[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negative": np.negative,
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "sqrt": np.sqrt,
}
"""The shared operators that IEEE 754 defines to the bit, with the functions of NumPy."""

MOST_ELEMENTS = 2**20
"""Elements of a constant that is computed, at most."""

_REDUCTIONS: Mapping[str, str] = {
    "ReduceSum": "reduce_sum",
    "ReduceMean": "reduce_mean",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceL1": "reduce_l1",
    "ReduceL2": "reduce_l2",
    "ReduceLogSumExp": "reduce_log_sum_exp",
}


def shared_operator(call: TranslatedNode) -> SharedOperator | None:
    """A node as all dialects spell it; None for an operator that is ONNX's alone, and where a value that decides is not known."""
    if call.node.domain not in DOMAINS:
        return fused_layer(call)
    layer = shared_layer(call)
    if layer is not None or any(name is None for name in call.inputs) or len(call.node.output) != 1:
        return layer
    inputs, operator = tuple(name for name in call.inputs if name is not None), call.node.op_type
    if operator in _PLAIN:
        name, kinds = _PLAIN[operator]
        same = all(tensor is not None and tensor.dtype.kind in kinds for tensor in call.types)
        binary = operator not in ("Max", "Min") or len(inputs) == 2
        return SharedOperator(name, (), inputs) if same and binary and call.broadcasts else None
    if operator == "Cast" and not any(call.attribute(name) is not None for name in ("saturate", "round_mode")):
        to = call.attribute("to")
        dtype = data_type(to.decode() if isinstance(to, bytes) else to)
        return None if dtype is None else SharedOperator("cast", (("to", dtype.name),), inputs)
    if operator == "BitCast":
        dtype = data_type(call.attribute("to"))
        return None if dtype is None else SharedOperator("bitcast", (("to", dtype.name),), inputs)
    return _reduction(call, _REDUCTIONS[operator]) if operator in _REDUCTIONS else None


def exact_result(operator: str, inputs: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
    """The result of a shared operator on floating-point numbers; None where an input is not known, where runtimes may round it
    differently, and where it is large.
    """
    known = [array for array in inputs if array is not None and array.dtype in (np.float32, np.float64)]
    if operator not in _EXACT or len(known) < len(inputs):
        return None
    if prod(np.broadcast_shapes(*(array.shape for array in known))) > MOST_ELEMENTS:
        return None
    with np.errstate(all="ignore"):
        result = np.asarray(_EXACT[operator](*known))
    return None if np.isnan(result).any() else result  # whose payload IEEE 754 leaves open


def _reduction(call: TranslatedNode, name: str) -> SharedOperator | None:
    axes = call.attribute("axes")
    if call.given(1):
        if call.values[1] is None:
            return None
        axes = integers(call.node.op_type, "axes", call.values[1])
    if not axes and call.attribute("noop_with_empty_axes"):
        return None
    rank, keeps = call.tensor.rank, call.attribute("keepdims")
    chosen = sorted(check_axes("axes", axes, rank, "data")) if axes else range(rank)
    return shared(name, (call.data,), axes=tuple(chosen), keepdims=keeps is None or bool(keeps))
