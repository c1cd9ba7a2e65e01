"""A model all of whose values onnxruntime can show: calls are inlined, and an If whose condition is known is its branch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from onnx import ModelProto, NodeProto, helper, numpy_helper

from dmlgather.onnx.model.index_graph import InnerGraphs
from dmlgather.onnx.model.scopes import Scope
from dmlgather.onnx.model.sized_model import SizedModel


def flattened(model: ModelProto, feeds: Mapping[str, Any]) -> ModelProto:
    """The model for inputs of these shapes: what runs once in each run, in one graph."""
    sized = SizedModel(model, feeds)
    scopes: dict[Scope, int] = {}
    numbers = count()

    def name(scope: Scope, own: str) -> str:
        place = sized.place(scope, own)
        if place.scope is sized.main:
            return place.name
        if place.scope not in scopes:
            scopes[place.scope] = next(numbers)
        return f"branch {scopes[place.scope]}: {place.name}"

    flat = ModelProto()
    flat.CopyFrom(model)
    del flat.functions[:]
    del flat.graph.node[:]
    constants = {}
    for placed in sized.nodes:
        node = NodeProto()
        node.CopyFrom(placed.node)
        for read in placed.node.input:
            place = sized.place(placed.scope, read)
            known = sized.known(place) if read and place.scope is not sized.main else None
            if known is not None:
                constants[name(placed.scope, read)] = known
        node.input[:] = [name(placed.scope, read) if read else "" for read in placed.node.input]
        node.output[:] = [name(placed.scope, written) if written else "" for written in placed.node.output]
        assert all(name(placed.scope, read) == read for read in InnerGraphs(placed.node).outside), "a branch in a branch"
        flat.graph.node.append(node)
    written = {each for node in flat.graph.node for each in node.output}
    flat.graph.initializer.extend(numpy_helper.from_array(array, own) for own, array in constants.items() if own not in written)
    for value in flat.graph.output:
        own = name(sized.main, value.name)
        if own != value.name:
            flat.graph.node.append(helper.make_node("Identity", [own], [value.name]))
    return flat
