"""Constant folding: the values that follow from constants and from shapes, of which some sizes may not be known.

What has only known inputs is computed by the operator's row, which is faster, or by ONNX's reference evaluator. Where some
elements are no numbers, an operator that moves elements moves their positions, and one that computes does so with names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.onnx.problems.node_reading import in_family
from dmlgather.onnx.problems.partial_types import PartialType, Size
from dmlgather.onnx.problems.subgraphs import operator_name
from dmlgather.onnx_checking.following.element_arithmetic import Element, array_of, objects
from dmlgather.onnx_checking.following.moving_rules import LargeResultError, ShapeArray
from dmlgather.onnx_checking.following.operator_rows import KnownNode, Shape
from dmlgather.onnx_checking.following.operators import compute, row_of
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS, Unknown, Value, first_unknown, is_known, is_partly
from dmlgather.wording import printable, shortened

if TYPE_CHECKING:
    from onnx import NodeProto


def fold(call: KnownNode) -> list[Value]:
    """The outputs of a node of ONNX's own domain, as far as they are known."""
    node = call.node
    try:
        found = _folded(call)
    except LargeResultError:
        found = computed_when_run(node, call.values)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        found = Unknown(f"computed by {node.op_type}, which is ill-formed: {shortened(str(error), 200)}", computed=True)
    if isinstance(found, Unknown):
        return [found] * len(node.output)
    return [_kept(value) for value in found]


def _folded(call: KnownNode) -> list[Value] | Unknown:
    row, given = row_of(call.node), [value for value in call.values if value is not None]
    if 0 in row.unread and row.computes is not None:
        return _by_row(call)
    if all(map(is_known, given)):
        return _computed(call, call.values)
    if not any(is_partly(value) for value in given) and not _may_be_partly(call):
        return _why(call)
    if row.moves != ():
        return _moved(call)
    return _why(call) if any(isinstance(value, Unknown) for value in given) else _by_row(call)


def _by_row(call: KnownNode) -> list[Value] | Unknown:
    """The output by the row's rule for inputs with names."""
    found = row_of(call.node).computed(call)
    return _why(call) if found is None else found if isinstance(found, Unknown) else [found]


def _kept(value: Value) -> Value:
    if isinstance(value, np.ndarray) and value.size > KEPT_ELEMENTS:
        return Unknown(f"a constant of {value.size} elements")
    if isinstance(value, np.ndarray) and value.size and all(isinstance(element, Unknown) for element in value.reshape(-1)):
        return first_unknown(value) or value
    return value


def _why(call: KnownNode) -> Unknown:
    """Why the outputs are not known: which input is not, and why."""
    return computed_when_run(call.node, call.values, row_of(call.node).passes_on)


def computed_when_run(node: NodeProto, values: Sequence[Value | None], passes_on: bool = False) -> Unknown:
    """Why the outputs of a node are not known. passes_on: whether it would be known if its inputs were."""
    found = [(name, why) for name, value in zip(node.input, values, strict=True) if (why := first_unknown(value)) is not None]
    decided_by = next((why.decided_by for _, why in found if why.decided_by), None)
    of_sizes = bool(found) and all(why.of_sizes for _, why in found)
    if not passes_on or not found:
        reason = f"computed when the model runs, by {operator_name(node)}"
        return Unknown(reason, decided_by, computed=True, of_sizes=of_sizes)
    name, why = found[0]
    return replace(why.computed_from(printable(name), decided_by), of_sizes=of_sizes)


def _may_be_partly(call: KnownNode) -> bool:
    """Whether elements of the output may be known although an input is not known at all."""
    if call.node.op_type != "Concat" or not any(map(is_known, call.values)):
        return False
    return all(
        not isinstance(value, Unknown) or _small(known) is not None for known, value in zip(call.types, call.values, strict=True)
    )


def _small(known: PartialType) -> tuple[int, ...] | None:
    """The shape of a tensor with few elements; None where it is not known, or there are many."""
    return None if known.numbers is None or math.prod(known.numbers) > KEPT_ELEMENTS else known.numbers


def _moved(call: KnownNode) -> list[Value] | Unknown:
    """The outputs of an operator that moves elements: it moves their positions, of which 0 stands for the number 0."""
    inputs = row_of(call.node).moves
    pool: list[Element] = [0]
    values: list[Value | None] = []
    for at, (known, value) in enumerate(zip(call.types, call.values, strict=True)):
        if value is None or (inputs is not None and at not in inputs):
            if not (value is None or is_known(value)):
                return _why(call)
            values.append(value)
            continue
        shape = _small(known) if isinstance(value, Unknown) else value.shape
        if shape is None:
            return _why(call)
        number = math.prod(shape)
        values.append(np.arange(len(pool), len(pool) + number).reshape(shape))
        pool += [value] * number if isinstance(value, Unknown) else objects(value).reshape(-1).tolist()
    found = _computed(call, values)
    if isinstance(found, Unknown):
        return found
    dtype, kept = call.data, map(_kept, found)
    return [one if isinstance(one, Unknown) else array_of([pool[at] for at in one.reshape(-1)], one.shape, dtype) for one in kept]


def _computed(call: KnownNode, values: Sequence[Value | None]) -> list[Value] | Unknown:
    """The outputs of a node for known inputs."""
    node, row = call.node, row_of(call.node)
    if row.run is not None:
        opset = max(call.opset, 9) if node.op_type == "Constant" else call.opset  # models had integer constants before 9 as well
        found = compute(node, opset, values)
        found = found if isinstance(found, list) else [found]
        if len(found) == len(node.output):
            return [np.asarray(each) for each in found]
    answer = call.ask(values)
    if not answer.values and values is call.values and (row.elements or row.computes):
        return _by_row(call)  # some versions of ONNX's evaluator lack operators
    missing = computed_when_run(node, call.values)
    return [answer.values.get(name, missing) for name in node.output]


@dataclass(frozen=True, eq=False)
class _OpenSize:
    """A size in a rule that only hands sizes on: it takes part in no arithmetic, and equals nothing."""

    size: Size

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise TypeError(f"{self.size} is not known")


def moved_shapes(call: KnownNode) -> list[Shape | None] | None:
    """The shapes of the outputs of an operator that moves elements, by its rule on arrays that have shapes alone; None where it
    has no such rule, or needs more.
    """
    row = row_of(call.node)
    if row.moves == () or row.run is None or in_family(call.node):
        return None
    inputs: list[Any] = []
    for at, (known, value) in enumerate(zip(call.types, call.values, strict=True)):
        moved = call.has(at) and (row.moves is None or at in row.moves)
        if moved and (known.shape is None or known.dtype is None):
            return None
        shape: Any = tuple(size if isinstance(size, int) else _OpenSize(size) for size in known.shape or ())
        inputs.append(ShapeArray(shape, call.data) if moved else value)
        if call.has(at) and not moved and not is_known(value):
            return None
    found = compute(call.node, call.opset, inputs)
    shapes = [each.shape for each in found] if isinstance(found, list) else [found.shape]
    return [[size.size if isinstance(size, _OpenSize) else size for size in shape] for shape in shapes]
