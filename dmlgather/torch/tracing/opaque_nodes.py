"""What identifies an opaque node: its operator, and its other arguments as hashable values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from dmlgather.dialects.shared_operators import SharedOperator, shared
from dmlgather.torch.tracing.function_nodes import FUNCTIONS
from dmlgather.torch.tracing.layer_nodes import LAYERS
from dmlgather.torch.tracing.node_calls import NodeCall, Value, tensors_in

PLAIN: Mapping[str, str] = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "pow": "power",
    "maximum": "maximum",
    "minimum": "minimum",
    "neg": "negative",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "matmul": "matmul",
    "mm": "matmul",
    "bmm": "matmul",
    "ne": "not_equal",
    **{
        name: name
        for name in ("abs", "ceil", "erf", "exp", "floor", "isnan", "log", "reciprocal", "relu", "round", "sign", "sqrt")
    },
    **{
        name: name
        for name in ("cos", "sin", "tan", "acos", "asin", "atan", "cosh", "sinh", "tanh", "acosh", "asinh", "atanh", "sigmoid")
    },
}
"""What all dialects call an operator of floats without attributes, broadcast as NumPy does it."""

CASTS = ("to.dtype", "to.dtype_layout", "_to_copy.default", "to.other", "type_as.default")
"""The operators that convert elements, and do no more on one device."""


def operator(call: NodeCall, *, single: bool) -> tuple[str, Hashable, tuple[str, ...]]:
    """What a node computes: the operator's name, its attributes, and the tensors that it reads. single: whether it equals no
    other node.

    A number beside a tensor is a tensor of the same type, as other dialects have it.
    """
    known = _shared(call)
    if known is not None:
        return known
    inputs: list[str] = []
    attributes: tuple[Hashable, ...] = tuple((key, _canonical(value, inputs)) for key, value in call.given.items())
    return f"torch.{call.operator}", (*attributes, object()) if single else attributes, tuple(inputs)


def _shared(call: NodeCall) -> SharedOperator | None:
    """A node as all dialects spell it; None for an operator that is PyTorch's alone, and for several types of elements."""
    name, defaults = call.operator.partition(".")[0], {"alpha": 1, "rounding_mode": None, "dtype": None, "half_to_float": False}
    given = {key: value for key, value in call.given.items() if key not in defaults or value != defaults[key]}
    types = {call.graph.types[value].dtype for value in tensors_in(given)}
    if call.operator in CASTS and len(types) == 1:
        return shared("cast", [call.value()], to=call.result.dtype.name)
    if len(types) != 1 or {dtype.kind for dtype in types} != {"f"}:
        return None
    (dtype,) = types
    row = LAYERS.get(call.operator) or FUNCTIONS.get(call.operator)
    found = None if row is None else row(call)
    if found is not None:
        return found
    if (
        name not in PLAIN
        or "alpha" in given
        or any(not isinstance(value, Value | bool | int | float) for value in given.values())
    ):
        return None
    numbers = (
        value if isinstance(value, Value) else Value(call.graph.constant(np.array(value, dtype))) for value in given.values()
    )
    return shared(PLAIN[name], [value.name for value in numbers])


def _canonical(value: Any, inputs: list[str]) -> Hashable:
    """A value with the place of each tensor in it, which is added to `inputs`."""
    if isinstance(value, Value):
        inputs.append(value.name)
        return "tensor"
    if isinstance(value, tuple | list):
        return tuple(_canonical(each, inputs) for each in value)
    if isinstance(value, bool | int | float | complex | str | None):
        return type(value).__name__, repr(value)
    try:
        hash(value)
    except TypeError:
        return object()
    return type(value).__name__, value
