"""Constant folding: values that follow from constants and shapes, even with symbolic sizes.

If all inputs are numbers, the operator entry's `run` function computes the outputs. Without one, ONNX's reference evaluator
does, which is slower. With symbolic sizes, an operator that moves elements runs on the elements' positions. An operator that
computes elements has a rule in its entry.
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
from dmlgather.onnx_checking.following.element_arithmetic import Element, array_of
from dmlgather.onnx_checking.following.moving_rules import LargeResultError, ShapeArray
from dmlgather.onnx_checking.following.operator_entries import KnownNode, Shape
from dmlgather.onnx_checking.following.operators import compute, entry_of
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS, Unknown, Value, all_or_unknown, first_unknown, is_known, is_partly
from dmlgather.wording import printable, shortened

if TYPE_CHECKING:
    from onnx import NodeProto


def fold(call: KnownNode) -> list[Value]:
    """Compute the outputs of a node as far as they are known before the run."""
    node = call.node
    try:
        outputs = _folded(call)
    except LargeResultError:
        outputs = computed_when_run(node, call.values)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        outputs = Unknown(f"computed by {node.op_type}, which is ill-formed: {shortened(str(error), 200)}", computed=True)
    if isinstance(outputs, Unknown):
        return [outputs] * len(node.output)
    return [_kept(value) for value in outputs]


def _folded(call: KnownNode) -> list[Value] | Unknown:
    entry, inputs = entry_of(call.node), [value for value in call.values if value is not None]
    if 0 in entry.unread and entry.computes is not None:
        return _by_entry(call)
    if all(map(is_known, inputs)):
        return _computed(call, call.values)
    if not any(is_partly(value) for value in inputs) and not _may_be_partly(call):
        return _why(call)
    if entry.moves != ():
        return _moved(call)
    return _why(call) if any(isinstance(value, Unknown) for value in inputs) else _by_entry(call)


def _by_entry(call: KnownNode) -> list[Value] | Unknown:
    output = entry_of(call.node).computed(call)
    if output is None:
        return _why(call)
    return output if isinstance(output, Unknown) else [output]


def _kept(value: Value) -> Value:
    if isinstance(value, np.ndarray) and value.size > KEPT_ELEMENTS:
        return Unknown(f"a constant of {value.size} elements")
    if isinstance(value, np.ndarray) and value.size and all(isinstance(element, Unknown) for element in value.reshape(-1)):
        return all_or_unknown(value)
    return value


def _why(call: KnownNode) -> Unknown:
    return computed_when_run(call.node, call.values, entry_of(call.node).passes_on)


def computed_when_run(node: NodeProto, values: Sequence[Value | None], passes_on: bool = False) -> Unknown:
    """Return the reason why a node's outputs are unknown. `passes_on`: True if an unknown input may be the reason."""
    unknowns = [(name, why) for name, value in zip(node.input, values, strict=True) if (why := first_unknown(value)) is not None]
    decided_by = next((why.decided_by for _, why in unknowns if why.decided_by), None)
    of_sizes = bool(unknowns) and all(why.of_sizes for _, why in unknowns)
    if not passes_on or not unknowns:
        reason = f"computed when the model runs, by {operator_name(node)}"
        return Unknown(reason, decided_by, computed=True, of_sizes=of_sizes)
    name, why = unknowns[0]
    return replace(why.computed_from(printable(name), decided_by), of_sizes=of_sizes)


def _may_be_partly(call: KnownNode) -> bool:
    """Return True for a Concat with a partly known output."""
    if call.node.op_type != "Concat" or not any(map(is_known, call.values)):
        return False
    pairs = zip(call.types, call.values, strict=True)
    return all(not isinstance(value, Unknown) or _small(type_) is not None for type_, value in pairs)


def _small(type_: PartialType) -> tuple[int, ...] | None:
    """Return the shape of a tensor with at most KEPT_ELEMENTS elements, or None."""
    return None if type_.numbers is None or math.prod(type_.numbers) > KEPT_ELEMENTS else type_.numbers


def _moved(call: KnownNode) -> list[Value] | Unknown:
    """Run the operator on positions in a list of all input elements. Position 0 holds the 0 with which Pad fills."""
    inputs = entry_of(call.node).moves
    # Example: Concat of [N, 3] and [7] has the pool [0, N, 3, 7]. Joining positions [1, 2] and [3] gives [N, 3, 7].
    pool: list[Element] = [0]
    positions: list[Value | None] = []
    for number, (type_, value) in enumerate(zip(call.types, call.values, strict=True)):
        if value is None or (inputs is not None and number not in inputs):
            if not (value is None or is_known(value)):
                return _why(call)
            positions.append(value)
            continue
        shape = _small(type_) if isinstance(value, Unknown) else value.shape
        if shape is None:
            return _why(call)
        count = math.prod(shape)
        positions.append(np.arange(len(pool), len(pool) + count).reshape(shape))
        pool += [value] * count if isinstance(value, Unknown) else value.reshape(-1).tolist()
    outputs = _computed(call, positions)
    if isinstance(outputs, Unknown):
        return outputs
    return [
        output if isinstance(output, Unknown) else array_of([pool[at] for at in output.flat], output.shape, call.data)
        for output in map(_kept, outputs)
    ]


def _computed(call: KnownNode, values: Sequence[Value | None]) -> list[Value] | Unknown:
    node, entry = call.node, entry_of(call.node)
    if entry.run is not None:
        opset = max(call.opset, 9) if node.op_type == "Constant" else call.opset  # models use integer constants before 9, too
        outputs = compute(node, opset, values)
        outputs = outputs if isinstance(outputs, list) else [outputs]
        if len(outputs) == len(node.output):
            return [np.asarray(output) for output in outputs]
    answer = call.ask(values)
    if not answer.values and values is call.values and (entry.elements or entry.computes):
        return _by_entry(call)  # some versions of ONNX's evaluator lack operators
    missing = computed_when_run(node, call.values)
    return [answer.values.get(name, missing) for name in node.output]


@dataclass(frozen=True, eq=False)
class _OpenSize:
    """A stand-in for an unknown size. It can be copied, but comparing it raises TypeError."""

    size: Size

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise TypeError(f"{self.size} is not known")


def moved_shapes(call: KnownNode) -> list[Shape | None] | None:
    """Compute the output shapes of an operator that moves elements, by running it on ShapeArrays."""
    entry = entry_of(call.node)
    if entry.moves == () or entry.run is None or in_family(call.node):
        return None
    inputs: list[Any] = []
    for number, (type_, value) in enumerate(zip(call.types, call.values, strict=True)):
        moved = call.has(number) and (entry.moves is None or number in entry.moves)
        if moved and (type_.shape is None or type_.dtype is None):
            return None
        shape: Any = tuple(size if isinstance(size, int) else _OpenSize(size) for size in type_.shape or ())
        inputs.append(ShapeArray(shape, call.data) if moved else value)
        if call.has(number) and not moved and not is_known(value):
            return None
    outputs = compute(call.node, call.opset, inputs)
    shapes = [output.shape for output in outputs] if isinstance(outputs, list) else [outputs.shape]
    return [[size.size if isinstance(size, _OpenSize) else size for size in shape] for shape in shapes]
