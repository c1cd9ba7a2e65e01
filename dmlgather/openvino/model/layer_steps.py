"""Layers as steps of an `IndexGraph`: those of the family, and those of the rows that graphs have."""

from __future__ import annotations

from typing import Any

from dmlgather.dialects.graph_arrays import GraphArithmetic, GraphArray, OpaqueError
from dmlgather.dialects.sizes import Sizes
from dmlgather.openvino.model.layer_calls import LayerCall, UnknownResultError
from dmlgather.openvino.model.layer_reading import attributes_of, ports_of, version_of
from dmlgather.openvino.model.layer_table import LayerRow, row_of
from dmlgather.openvino.model.translated_layer import TranslatedLayer
from dmlgather.openvino.problems.layer_problems import FAMILY, problem_of


def steps_of(call: TranslatedLayer) -> tuple[str, ...] | None:
    """Add the steps of a layer to its graph: the names of the values that its outputs are; None, with nothing added, for a layer
    of another operator, and where what decides the shape of its result is not known.

    Raises TypeError and ValueError for a layer that breaks a rule of its operator.
    """
    if not call.layer.opset.lower().startswith("opset"):  # an extension's operator
        return None
    if call.layer.type in FAMILY:
        return _family(call)
    row = row_of(call.layer)
    if not row.steps:
        return None
    if row.step is not None:
        return row.step(call)
    return _computed(call, row) if row.moves == () else _moved(call, row)


def _family(call: TranslatedLayer) -> tuple[str, ...] | None:
    version = version_of(call.layer)
    roles = dict(zip(ports_of(call.layer, version)[0], range(len(call.inputs)), strict=True))
    bounds = {role: call.known(number) for role, number in roles.items() if role in version.bounds}
    if any(value is None for value in bounds.values()):
        return None
    types = {role: call.types[roles[role]] for role in version.arrays}
    problem = problem_of(version, types, bounds, attributes_of(call.layer, version))
    inputs = [call.inputs[roles[role]] for role in version.arrays]
    return (call.graph.problem(call.name, problem, *inputs, output=call.output),)


def _moved(call: TranslatedLayer, row: LayerRow) -> tuple[str, ...] | None:
    """The row on values of the graph; None where another input is not known."""
    assert row.run is not None, "it moves elements"
    inputs: list[Any] = []
    for number, name in enumerate(call.inputs):
        known = None if row.moves is None or number in row.moves else call.graph.known(name)
        inputs.append(GraphArray.of(call.graph, name) if known is None else known)
    try:
        found = row.run(LayerCall(call.layer, inputs, Sizes()))
    except UnknownResultError:
        return None
    if not isinstance(found, list):
        return (found.written(call.name, call.output),)
    return tuple(each.written(f"{call.name}: {name!r}", name) for name, each in zip(call.outputs, found, strict=True))


def _computed(call: TranslatedLayer, row: LayerRow) -> tuple[str, ...] | None:
    """The row on values of the graph; None for floating-point numbers, which a graph does not compute with."""
    if row.elements is None or not (call.broadcasts and (call.integers or row.any_type)):
        return None
    arithmetic = GraphArithmetic(call.graph, call.name, call.output, attributes=call.flags)
    try:
        return (arithmetic.written(row.elements(arithmetic, *call.inputs)),)
    except OpaqueError:
        return None
