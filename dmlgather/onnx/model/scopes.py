"""Scopes: the types of the names in a graph, and the values of constants, as far as they are known."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.onnx.auxiliary.value_operators import EXTERNAL, location
from dmlgather.onnx.model.constant_folding import KEPT_ELEMENTS, Value, can_fold, fold, shape_of
from dmlgather.onnx.model.partial_types import MOST_DIMENSIONS, NOTHING, PartialType, type_of_tensor, type_of_value
from dmlgather.onnx.model.subgraphs import element_count, operator_name

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

NOWHERE = "defined nowhere"
"""Why a name that no graph defines has no value."""


class Scope:
    """The names of a graph, which hide those of the graphs around it. Nodes are visited in order and folded where possible."""

    def __init__(self, graph: GraphProto, outer: Scope | None = None, overridable: bool = False) -> None:
        """overridable: whether a caller may replace an initializer that is also an input, as from IR version 4 on."""
        self.outer = outer
        self.types = {value.name: type_of_value(value) for value in (*graph.value_info, *graph.output, *graph.input)}
        self.values: dict[str, Value] = {
            name: Unknown(f"computed when the model runs, by {operator_name(node)}")
            for node in graph.node
            for name in node.output
        }
        self.pending = set(self.values)
        """Outputs of nodes that have not been visited yet."""
        inputs = {value.name for value in graph.input}
        self.values |= dict.fromkeys(inputs, Unknown("an input of the graph"))
        for sparse in graph.sparse_initializer:
            self.types[sparse.values.name] = type_of_tensor(sparse)
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

    def undefined(self, name: str) -> str | None:
        """Why the node that is visited now cannot read a name; None where it can."""
        if name in self.values and name not in self.pending:
            return None
        outer = NOWHERE if self.outer is None else self.outer.undefined(name)
        if outer is None or name not in self.values:
            return outer
        return "defined only by a later node"

    def visited(self, node: NodeProto) -> None:
        """Mark the outputs of a node as defined."""
        self.pending.difference_update(node.output)

    def fold(self, node: NodeProto, opset: int) -> None:
        """Keep the output of a node whose inputs are constants, as far as it is known."""
        if not can_fold(node):
            return
        inputs: list[Value | None] = [self.value(name) if name else None for name in node.input]
        if node.op_type == "Shape":
            inputs = [shape_of(name, self.type(name)) for name in node.input]
        value = self.values[node.output[0]] = fold(node, opset, inputs, _attributes(node))
        if isinstance(value, np.ndarray):
            self.types[node.output[0]] = PartialType(value.dtype, value.shape)


def _attributes(node: NodeProto) -> Iterator[Value]:
    """The values of attributes that are tensors, or refer to a function's attributes."""
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            yield Unknown(f"attribute {attribute.ref_attr_name!r} of the function, which its calls do not all give alike")
        elif attribute.HasField("t"):
            yield constant(attribute.t)


def constant(tensor: TensorProto) -> Value:
    """The elements of a TensorProto, where the model itself holds them and they are few."""
    from onnx import numpy_helper

    missing = left_out(tensor)
    if missing is not None:
        return missing
    try:
        return numpy_helper.to_array(tensor)
    except (TypeError, ValueError, KeyError) as error:
        return Unknown(f"a damaged constant: {error}")


def left_out(tensor: TensorProto) -> Unknown | None:
    """Why the elements of a TensorProto are not looked at, whatever they are; None where they are."""
    if tensor.data_location == EXTERNAL:
        return Unknown(f"stored outside the model, in {location(tensor)}")
    if len(tensor.dims) > MOST_DIMENSIONS:
        return Unknown(f"a constant of {len(tensor.dims)} dimensions")
    if min(tensor.dims, default=0) < 0 or math.prod(size or 1 for size in tensor.dims) > sys.maxsize:
        return Unknown(
            "a damaged constant: no array has its shape"
        )  # NumPy replaces a size of -1, and runs out of memory at others
    if element_count(tensor) > KEPT_ELEMENTS:
        return Unknown(f"a constant of {element_count(tensor)} elements")
    return None
