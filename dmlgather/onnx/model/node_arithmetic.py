"""Arithmetic on integers and bools as steps of an `IndexGraph`: a row for each of ONNX's operators that NumPy has as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dmlgather.onnx.model.translated_node import TranslatedNode
from dmlgather.onnx.problems.data_types import data_type

Row = Callable[[TranslatedNode], tuple[str, ...] | None]
"""Adds the steps of a node: the values that its outputs are, or None for what is not integer arithmetic."""


def _cast(call: TranslatedNode) -> tuple[str, ...] | None:
    to = call.attribute("to")
    return _as_type(call, data_type(to.decode() if isinstance(to, bytes) else to))


def _cast_like(call: TranslatedNode) -> tuple[str, ...] | None:
    like = call.types[1]
    return None if like is None else _as_type(call, like.dtype)


def _as_type(call: TranslatedNode, dtype: np.dtype[Any] | None) -> tuple[str, ...] | None:
    if dtype == call.tensor.dtype:
        return (call.data,)
    if dtype is None or dtype.kind not in "biu" or not call.integers:
        return None
    return (call.graph.elementwise(call.name, "cast", dtype, call.data, output=call.output),)


def _elementwise(operator: str) -> Row:
    """The operator of NumPy on all inputs."""

    def row(call: TranslatedNode) -> tuple[str, ...] | None:
        return _computed(call, operator) if call.integers and call.broadcasts else None

    return row


def _computed(call: TranslatedNode, operator: str) -> tuple[str, ...]:
    inputs = [name for name in call.inputs if name is not None]
    dtype = np.dtype(bool) if operator in _LOGICAL else call.graph.types[inputs[-1]].dtype
    return (call.graph.elementwise(call.name, operator, dtype, *inputs, output=call.output),)


def _where(call: TranslatedNode) -> tuple[str, ...]:
    """A selection moves elements of every type."""
    return _computed(call, "where")


def _modulo(call: TranslatedNode) -> tuple[str, ...] | None:
    """NumPy's remainder has ONNX's sign. onnxruntime refuses a divisor of 0, so the divisor has to be known."""
    divisor = call.graph.known(call.inputs[1] or "")
    if call.attribute("fmod") or not call.integers or divisor is None or not divisor.all():
        return None
    return _computed(call, "remainder")


def _extremum(operator: str) -> Row:
    """Min or Max of any number of inputs, two by two."""

    def row(call: TranslatedNode) -> tuple[str, ...] | None:
        if not call.integers or not call.broadcasts:
            return None
        value, *others = [name for name in call.inputs if name is not None]
        for number, other in enumerate(others, 1):
            output = call.output if number == len(others) else f"{call.output}: of {number + 1} inputs"
            value = call.graph.elementwise(call.name, operator, call.tensor.dtype, value, other, output=output)
        return (value,)

    return row


def _clip(call: TranslatedNode) -> tuple[str, ...] | None:
    """At least min, then at most max: where min is greater than max, every element becomes max."""
    if not call.integers or call.opset < 12:
        return None
    value = call.data
    bounds = [("maximum", call.inputs[1] if call.given(1) else None), ("minimum", call.inputs[2] if call.given(2) else None)]
    given = [(operator, bound) for operator, bound in bounds if bound is not None]
    for number, (operator, bound) in enumerate(given, 1):
        output = call.output if number == len(given) else f"{call.output}: {operator}"
        value = call.graph.elementwise(call.name, operator, call.tensor.dtype, value, bound, output=output)
    return (value,)


_LOGICAL = frozenset(("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "and", "or", "not"))

ARITHMETIC: Mapping[str, Row] = {
    "Add": _elementwise("add"),
    "Sub": _elementwise("subtract"),
    "Mul": _elementwise("multiply"),
    "Neg": _elementwise("negative"),
    "Mod": _modulo,
    "Min": _extremum("minimum"),
    "Max": _extremum("maximum"),
    "Clip": _clip,
    "Less": _elementwise("less"),
    "LessOrEqual": _elementwise("less_equal"),
    "Greater": _elementwise("greater"),
    "GreaterOrEqual": _elementwise("greater_equal"),
    "Equal": _elementwise("equal"),
    "And": _elementwise("and"),
    "Or": _elementwise("or"),
    "Xor": _elementwise("not_equal"),
    "Not": _elementwise("not"),
    "Where": _where,
    "Cast": _cast,
    "CastLike": _cast_like,
}
