"""Constant folding: the values that follow from constants and from shapes, of which some sizes may not be known."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.dialects.problem import TensorType
from dmlgather.onnx.auxiliary import AUXILIARY, compute
from dmlgather.onnx.model.partial_types import PartialType
from dmlgather.onnx.problems.constant_indices import index_out_of_range
from dmlgather.onnx.problems.node_reading import problem_of
from dmlgather.onnx.problems.operator_versions import DOMAINS
from dmlgather.onnx.problems.slice import Slice
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import NodeProto

    Array = np.ndarray[Any, Any]

KEPT_ELEMENTS = 1024
"""The most elements of a constant whose values are kept: bounds of slices, shapes and axes have fewer."""


@dataclass(frozen=True, slots=True, eq=False)
class PartlyUnknown(Unknown):
    """An array of which some elements are known. values: the elements, 0 where they are not known. gaps: 1 there, else 0."""

    values: Array
    gaps: Array


Value = np.ndarray[Any, Any] | Unknown
"""Elements, or why they are not known."""


def can_fold(node: NodeProto) -> bool:
    """Whether `fold` knows the operator."""
    return node.domain in DOMAINS and (node.op_type in AUXILIARY or node.op_type in _MOVING) and len(node.output) == 1


def fold(node: NodeProto, opset: int, inputs: Sequence[Value | None], attributes: Iterable[Value]) -> Value:
    """The output of a node, where its inputs and attributes are known.

    inputs: one per node.input, None for those that are left out; that of Shape as `shape_of` returns it. Where some elements are
    not known, the operator is applied to the values and once more to the gaps.
    """
    run = _MOVING.get(node.op_type, _auxiliary)
    moved = range(len(inputs)) if node.op_type == "Concat" else range(1)  # the others are indices, bounds, axes and shapes
    known = [value for at, value in enumerate(inputs) if not (at in moved and isinstance(value, PartlyUnknown))]
    unknown = next((value for value in (*known, *attributes) if isinstance(value, Unknown)), None)
    if unknown is not None:
        return _reason(node, inputs, unknown)
    partly = next((value for value in inputs if isinstance(value, PartlyUnknown)), None)
    try:
        values = np.asarray(run(node, opset, [one.values if isinstance(one, PartlyUnknown) else one for one in inputs]))
        if values.size > KEPT_ELEMENTS:
            return Unknown(f"a constant of {values.size} elements")
        if partly is None:
            return values
        gaps = np.asarray(run(node, opset, [_gaps(one) if at in moved else one for at, one in enumerate(inputs)]))
    except (TypeError, ValueError) as error:
        return Unknown(f"computed by {node.op_type}, which is ill-formed: {error}")
    return PartlyUnknown(partly.reason, values, gaps) if gaps.any() else values


def shape_of(name: str, known: PartialType) -> Value:
    """An array of that shape that takes no memory, as the input of Shape."""
    if known.shape is None:
        return Unknown(f"the shape of {name!r}, which is not known")
    gaps = [int(not isinstance(size, int)) for size in known.shape]
    values = [size if isinstance(size, int) else 0 for size in known.shape]
    if math.prod(size or 1 for size in values) > sys.maxsize:  # NumPy refuses it beside a size of 0 as well
        return Unknown(f"the shape of {name!r}, which no array can have")
    if not any(gaps):
        return _empty(values)
    where = ", ".join(str(axis) for axis, gap in enumerate(gaps) if gap)
    return PartlyUnknown(f"the shape of {name!r}, which is not known in dimension {where}", _empty(values), _empty(gaps))


def _empty(shape: Sequence[int]) -> Array:
    return np.broadcast_to(np.zeros((), np.int8), shape)


def _gaps(value: Value | None) -> Array | None:
    if isinstance(value, PartlyUnknown):
        return value.gaps
    return value if not isinstance(value, np.ndarray) else np.zeros_like(value)  # type: ignore[return-value]


def _reason(node: NodeProto, inputs: Sequence[Value | None], unknown: Unknown) -> Unknown:
    """Why the output is not known: which input is not, and why."""
    name = next((name for name, value in zip(node.input, inputs, strict=True) if value is unknown), None)
    if name is None or unknown.reason.startswith(("computed", "the shape of")):
        return Unknown(unknown.reason)
    return Unknown(f"computed from {printable(name)!r}, {unknown.reason}")


def _auxiliary(node: NodeProto, opset: int, inputs: Sequence[Any]) -> Any:
    """Constant has version 9 before opset 9 as well: models had integer constants before the operator's types listed them."""
    return compute(node, max(opset, 9) if node.op_type == "Constant" else opset, inputs)


MOST_DIMENSIONS = 64
"""Dimensions that an array of NumPy can have."""


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


_MOVING: Mapping[str, Callable[[NodeProto, int, Sequence[Any]], Any]] = {"Gather": _gather, "Slice": _slice, "Concat": _concat}
"""The operators that are folded, besides the auxiliary ones."""
