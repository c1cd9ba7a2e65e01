"""Folding: the values of nodes that follow from constants and from shapes, of which some sizes may not be known."""

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
from dmlgather.onnx.problems.constant_indices import outside
from dmlgather.onnx.problems.nodes import problem_of
from dmlgather.onnx.problems.operators import DOMAINS
from dmlgather.onnx.problems.partial_types import PartialType
from dmlgather.onnx.problems.slice import Slice
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import NodeProto

    Array = np.ndarray[Any, Any]

KEPT_ELEMENTS = 1024
"""Elements of the largest constants whose values are kept: no bounds of a slice, no shape and no axes are longer."""


@dataclass(frozen=True, slots=True, eq=False)
class PartlyUnknown(Unknown):
    """An array of which some elements are known. values: all of them, 0 where they are not. gaps: 1 where they are not."""

    values: Array
    gaps: Array


Value = np.ndarray[Any, Any] | Unknown
"""A constant's elements, or why they are not known."""


def folds(node: NodeProto) -> bool:
    """Whether `folded` knows the operator."""
    return node.domain in DOMAINS and (node.op_type in AUXILIARY or node.op_type in _MOVES) and len(node.output) == 1


def folded(node: NodeProto, opset: int, inputs: Sequence[Value | None], attributes: Iterable[Value]) -> Value:
    """The output of a node that makes or moves elements, where its inputs and attributes are known.

    inputs: one per node.input, None for those that are left out; that of Shape as `shape_of` gives it. Where some elements are
    not known, the node is applied to all of them, and once more to the gaps.
    """
    run = _MOVES.get(node.op_type, _carry)
    moved = range(len(inputs)) if node.op_type == "Concat" else range(1)  # other inputs say what is taken
    known = [value for at, value in enumerate(inputs) if not (at in moved and isinstance(value, PartlyUnknown))]
    unknown = next((value for value in (*known, *attributes) if isinstance(value, Unknown)), None)
    if unknown is not None:
        return _because(node, inputs, unknown)
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
    """An array of that type's shape, which takes no memory."""
    if known.shape is None:
        return Unknown(f"the shape of {name!r}, which is not known")
    gaps = [int(not isinstance(size, int)) for size in known.shape]
    values = [size if isinstance(size, int) else 0 for size in known.shape]
    if math.prod(values) > sys.maxsize:
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


def _because(node: NodeProto, inputs: Sequence[Value | None], unknown: Unknown) -> Unknown:
    """Why the output is not known: where the input comes from that is not."""
    name = next((name for name, value in zip(node.input, inputs, strict=True) if value is unknown), None)
    if name is None or unknown.reason.startswith(("computed", "the shape of")):
        return Unknown(unknown.reason)
    return Unknown(f"computed from {printable(name)!r}, {unknown.reason}")


def _carry(node: NodeProto, opset: int, inputs: Sequence[Any]) -> Any:
    """Constants were of integers long before version 9 listed their type."""
    return compute(node, max(opset, 9) if node.op_type == "Constant" else opset, inputs)


def _gather(node: NodeProto, opset: int, inputs: Sequence[Any]) -> Array:
    problem = _problem(node, opset, inputs)
    data, indices = inputs
    wrong = outside(problem, indices)
    if wrong is not None:
        raise ValueError(f"{wrong.path} is {wrong.got}, expected {wrong.expected}")
    found: Array = np.take(data, indices, problem.lookup_axes[0])
    return found


def _slice(node: NodeProto, opset: int, inputs: Sequence[Any]) -> Array:
    problem = _problem(node, opset, inputs)
    assert isinstance(problem, Slice)
    windows = [window.start + window.step * np.arange(window.count) for window in problem.windows]
    found: Array = inputs[0][np.ix_(*windows)]
    return found


def _problem(node: NodeProto, opset: int, inputs: Sequence[Any]) -> Any:
    types = [None if one is None else TensorType(one.shape, one.dtype) for one in inputs]
    return problem_of(node, opset, types, inputs)


def _concat(node: NodeProto, opset: int, inputs: Sequence[Any]) -> Array:
    """Concat has had its axis stated since version 4; before, it was 1 by default."""
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1 if opset < 4 else None)
    if axis is None or any(one is None for one in inputs) or len({one.dtype for one in inputs}) != 1:
        raise ValueError("expected an axis and inputs of one type")
    found: Array = np.concatenate(inputs, axis)
    return found


_MOVES: Mapping[str, Callable[[NodeProto, int, Sequence[Any]], Any]] = {"Gather": _gather, "Slice": _slice, "Concat": _concat}
"""What moves elements, besides the auxiliary operators."""
