"""Nodes as steps of an `IndexGraph`: those of the family, and those of the rows that graphs have."""

from __future__ import annotations

from typing import Any

from dmlgather.dialects.graph_arrays import GraphArithmetic, GraphArray, OpaqueError
from dmlgather.onnx.model.operator_rows import OperatorRow
from dmlgather.onnx.model.operators import compute, row_of
from dmlgather.onnx.model.translated_node import TranslatedNode
from dmlgather.onnx.problems.node_reading import ARRAYS, in_family, problem_of


def steps_of(call: TranslatedNode) -> tuple[str, ...] | None:
    """Add the steps of a node to its graph: the names of the values that its outputs are; None, with nothing added, for a node of
    another operator, and where what decides the shape of its result is not known.

    Raises TypeError and ValueError for a node that breaks a rule of its operator's version.
    """
    if in_family(call.node):
        return _family(call)
    row = row_of(call.node)
    if not row.steps or call.opset < row.since:
        return None
    if row.step is not None:
        return row.step(call)
    return _computed(call, row) if row.moves == () else _moved(call, row)


def _family(call: TranslatedNode) -> tuple[str, ...] | None:
    """A gather, a slice, or a block permutation; None where bounds of a slice are not known."""
    arrays = len(ARRAYS[call.node.op_type])
    values = [None, *call.values[1:]] if call.node.op_type == "Slice" else [None] * len(call.inputs)
    if any(call.given(number) and value is None for number, value in enumerate(values[arrays:], arrays)):
        return None
    problem = problem_of(call.node, call.opset, call.types, values)
    inputs = [name for name in call.inputs[:arrays] if name is not None]
    return (call.graph.problem(call.name, problem, *inputs, output=call.output),)


def _moved(call: TranslatedNode, row: OperatorRow) -> tuple[str, ...] | None:
    """The row on values of the graph; None where another input is not known."""
    inputs: list[Any] = []
    for number, name in enumerate(call.inputs):
        moved = row.moves is None or number in row.moves
        inputs.append(call.values[number] if name is None or not moved else GraphArray.of(call.graph, name))
        if name is not None and inputs[-1] is None:
            return None
    found = compute(call.node, call.opset, inputs)
    if not isinstance(found, list):
        return (found.written(call.name, call.output),)
    written = zip(call.node.output, found, strict=True)
    return tuple(each.written(f"{call.name}: {name!r}", name) if name else "" for name, each in written)


def _computed(call: TranslatedNode, row: OperatorRow) -> tuple[str, ...] | None:
    """The row on values of the graph; None for floating-point numbers, which a graph does not compute with."""
    if row.elements is None or not (row.any_type or (call.integers and call.broadcasts)):
        return None
    attributes = {each.name: each.i for each in call.node.attribute if each.HasField("i")}
    arithmetic = GraphArithmetic(call.graph, call.name, call.output, attributes=attributes)
    try:
        return (arithmetic.written(row.elements(arithmetic, *call.inputs)),)
    except OpaqueError:
        return None
