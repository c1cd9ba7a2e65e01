"""Nodes as steps of an `IndexGraph` where another rule is needed than the one for arrays: from a node that is translated to the
values that its outputs are, or None for what is no step of a graph.
"""

from __future__ import annotations

from math import ceil, floor
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.dialects.windows import integers
from dmlgather.onnx.auxiliary.value_operators import tensor
from dmlgather.onnx.problems.data_types import data_type

if TYPE_CHECKING:
    from dmlgather.onnx.model.translated_node import TranslatedNode

MOST_COUNTED = 2**20
"""The largest number in a Range that becomes a constant: even float32 holds every integer up to there."""


def cast(call: TranslatedNode) -> tuple[str, ...] | None:
    """Between integers and bools, and what changes nothing."""
    to = call.attribute("to")
    return _as_type(call, data_type(to.decode() if isinstance(to, bytes) else to))


def cast_like(call: TranslatedNode) -> tuple[str, ...] | None:
    """To the type of the second input."""
    like = call.types[1]
    return None if like is None else _as_type(call, like.dtype)


def _as_type(call: TranslatedNode, dtype: np.dtype[Any] | None) -> tuple[str, ...] | None:
    if dtype == call.tensor.dtype:
        return (call.data,)
    if dtype is None or dtype.kind not in "biu" or not call.integers:
        return None
    return (call.graph.elementwise(call.name, "cast", dtype, call.data, output=call.output),)


def constant_of_shape(call: TranslatedNode) -> tuple[str, ...] | None:
    """One element, expanded."""
    if call.values[0] is None:
        return None
    value = call.attribute("value")
    element = np.zeros((), np.float32) if value is None else tensor(value).reshape(())
    sizes = integers("ConstantOfShape", "shape", call.values[0])
    return (call.graph.expanded(call.name, call.graph.constant(element), sizes, output=call.output),)


def counted(call: TranslatedNode) -> tuple[str, ...] | None:
    """A constant, where start and step are integers of at most 2^20: then every runtime computes the same elements."""
    values = [float(np.asarray(value).reshape(())) for value in call.values if value is not None]
    if len(values) != 3 or not all(np.isfinite(values)):
        return None
    start, limit, step = values
    if not step or not (start.is_integer() and step.is_integer()) or max(map(abs, values)) > MOST_COUNTED:
        return None
    elements = range(int(start), ceil(limit) if step > 0 else floor(limit), int(step))
    return (call.graph.constant(np.array(elements, call.tensor.dtype), call.output),)


def dropout(call: TranslatedNode) -> tuple[str, ...] | None:
    """The data themselves where the model is not trained, and nobody reads the mask."""
    if any(call.node.output[1:]):
        return None
    if call.opset < 7:
        return (call.data,) if call.attribute("is_test") else None
    trained = call.given(2) and (call.values[2] is None or bool(np.any(call.values[2])))
    return None if call.opset >= 12 and trained else (call.data,)
