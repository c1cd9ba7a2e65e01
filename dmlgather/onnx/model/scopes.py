"""What is known of the names in a graph: their types, and the values of constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.onnx.model.folding import KEPT_ELEMENTS, Value, folded, folds, shape_of
from dmlgather.onnx.model.nesting import element_count, operator_name
from dmlgather.onnx.problems.operators import type_name
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, type_of_sparse, type_of_tensor, type_of_value

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

NOWHERE = "defined nowhere"
"""Why a name that no graph has is not known."""


class Scope:
    """The names of a graph, which hide those of the graphs around it. Values become known as nodes are folded, in order."""

    def __init__(self, graph: GraphProto, outer: Scope | None = None, overridable: bool = False) -> None:
        """overridable: whether a caller may replace an initializer that is also an input, as from IR version 4 on."""
        self.outer = outer
        stated = (*graph.value_info, *graph.output, *graph.input)
        self.types = {value.name: type_of_value(value) for value in stated}
        self.values: dict[str, Value] = {
            name: Unknown(f"computed when the model runs, by {operator_name(node)}")
            for node in graph.node
            for name in node.output
        }
        self.pending = set(self.values)
        """Outputs of nodes that have not been walked yet."""
        inputs = {value.name for value in graph.input}
        self.values |= dict.fromkeys(inputs, Unknown("an input of the graph"))
        for sparse in graph.sparse_initializer:
            self.types[sparse.values.name] = type_of_sparse(sparse)
            self.values[sparse.values.name] = Unknown("a sparse constant")
        for tensor in graph.initializer:
            replaceable = overridable and tensor.name in inputs
            self.types[tensor.name] = type_of_tensor(tensor)
            self.values[tensor.name] = Unknown("a default that callers may replace") if replaceable else constant(tensor)

    def type(self, name: str) -> PartialType:
        """What is known of the type of a name."""
        if name in self.types or name in self.values or self.outer is None:
            return self.types.get(name, NOTHING)
        return self.outer.type(name)

    def value(self, name: str) -> Value:
        """The value of a name, or why it is not known."""
        if name in self.values or self.outer is None:
            return self.values.get(name, Unknown(NOWHERE))
        return self.outer.value(name)

    def absent(self, name: str) -> str | None:
        """Why a node that is walked now cannot read a name; None where it can."""
        if name in self.values and name not in self.pending:
            return None
        outer = NOWHERE if self.outer is None else self.outer.absent(name)
        if outer is None or name not in self.values:
            return outer
        return "defined only by a later node"

    def passed(self, node: NodeProto) -> None:
        """Say that later nodes can read the outputs of a node."""
        self.pending.difference_update(node.output)

    def define(self, name: str, value: Value) -> None:
        """Say what a name stands for; the type of a known value is the value's own."""
        self.values[name] = value
        if isinstance(value, np.ndarray):
            self.types[name] = PartialType(value.dtype, type_name(value.dtype), value.shape)

    def fold(self, node: NodeProto, opset: int) -> None:
        """Keep the result of a node that makes or moves constants, such as Constant, Concat or Cast, where it is known."""
        if folds(node):
            inputs = [self._known(node, name) if name else None for name in node.input]
            self.define(node.output[0], folded(node, opset, inputs, _attributes(node)))

    def _known(self, node: NodeProto, name: str) -> Value:
        return shape_of(name, self.type(name)) if node.op_type == "Shape" else self.value(name)


def _attributes(node: NodeProto) -> Iterator[Value]:
    """The values of attributes that are tensors, or refer to a function's attributes."""
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            yield Unknown(f"attribute {attribute.ref_attr_name!r} of the function, which its calls do not all give alike")
        elif attribute.HasField("t"):
            yield constant(attribute.t)


def constant(tensor: TensorProto) -> Value:
    """The elements of a TensorProto, where the model itself holds them."""
    from onnx import TensorProto, numpy_helper

    if tensor.data_location == TensorProto.EXTERNAL:
        where = next((entry.value for entry in tensor.external_data if entry.key == "location"), "another file")
        return Unknown(f"stored outside the model, in {where}")
    if element_count(tensor) > KEPT_ELEMENTS:
        return Unknown(f"a constant of {element_count(tensor)} elements")
    try:
        return numpy_helper.to_array(tensor)
    except (TypeError, ValueError, KeyError) as error:
        return Unknown(f"a damaged constant: {error}")
