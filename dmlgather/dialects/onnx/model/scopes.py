"""What is known of the names in a graph: their types, and the values of constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.dialects.checking import Unknown
from dmlgather.dialects.onnx.model.nesting import element_count, operator_name
from dmlgather.dialects.onnx.operators import DOMAINS, type_name
from dmlgather.dialects.onnx.partial import NOTHING, PartialType, type_of_sparse, type_of_tensor, type_of_value

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

KEPT_ELEMENTS = 1024
"""Elements of the largest constants whose values are kept: no bounds of a slice, no shape and no axes are longer."""


Value = np.ndarray[Any, Any] | Unknown
"""A constant's elements, or why they are not known."""


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
            return self.values.get(name, Unknown("defined nowhere"))
        return self.outer.value(name)

    def define(self, name: str, value: Value) -> None:
        """Say what a name stands for; the type of a known value is the value's own."""
        self.values[name] = value
        if isinstance(value, np.ndarray):
            self.types[name] = PartialType(value.dtype, type_name(value.dtype), value.shape)

    def fold(self, node: NodeProto, opset: int) -> None:
        """Keep the result of a node that makes or carries constants, such as Constant, Unsqueeze or Cast, where it is known."""
        from dmlgather.dialects.onnx.carriers import CARRIERS, carry

        if node.op_type not in CARRIERS or node.domain not in DOMAINS or len(node.output) != 1:
            return
        known = self._shape_of if node.op_type == "Shape" else self.value
        try:
            inputs = [known(name) if name else None for name in node.input]
            unknown = next((value for value in (*inputs, *_attributes(node)) if isinstance(value, Unknown)), None)
            value = unknown or self._kept(carry(node, opset, inputs))
        except (TypeError, ValueError) as error:
            value = Unknown(f"computed by {node.op_type}, which is ill-formed: {error}")
        self.define(node.output[0], value)

    def _shape_of(self, name: str) -> Value:
        """An array of the name's shape, which takes no memory."""
        shape = self.type(name).shape
        if shape is None or not all(isinstance(size, int) for size in shape):
            return Unknown(f"the shape of {name!r}, which is not known")
        return np.broadcast_to(np.zeros((), np.int8), shape)  # type: ignore[arg-type] # integers, as just tested

    def _kept(self, value: Any) -> Value:
        array = np.asarray(value)
        return array if array.size <= KEPT_ELEMENTS else Unknown(f"a constant of {array.size} elements")


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
