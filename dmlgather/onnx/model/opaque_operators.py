"""What identifies an operator outside the family: its name, and all that decides what it computes of its inputs, in one form."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.element_types import exact_text
from dmlgather.onnx.model.local_functions import Functions
from dmlgather.onnx.model.node_requests import RANDOM
from dmlgather.onnx.model.subgraphs import all_nodes, operator_name, subgraphs
from dmlgather.onnx.model.translated_node import TranslatedNode
from dmlgather.onnx.problems.operator_versions import DOMAINS

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, NodeProto

UNCHANGED = frozenset(
    (
        *("Abs", "Add", "Ceil", "Conv", "ConvTranspose", "Cos", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gemm"),
        *("GlobalAveragePool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Less"),
        *("LessOrEqual", "Log", "MatMul", "Max", "Min", "Mish", "Mul", "Neg", "Pow", "Reciprocal", "Relu", "Round", "Sigmoid"),
        *("Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Tan", "Tanh"),
    )
)
"""The operators whose versions differ only in the types that they take and in attributes, which are compared. The version of any
other operator is part of what identifies it.
"""

EXACT: Mapping[str, Any] = {
    "Abs": np.abs,
    "Add": np.add,
    "Ceil": np.ceil,
    "Div": np.divide,
    "Floor": np.floor,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
}
"""The operators that IEEE 754 defines to the bit, with the functions of NumPy."""

MOST_ELEMENTS = 2**20
"""Elements of a constant that is computed, at most."""

_draws = count(1)


def opaque_attributes(node: NodeProto, opset: int, rank: int | None, functions: Functions) -> tuple[Hashable, ...]:
    """What decides the results of a node besides its operator and its inputs: equal for two nodes that compute the same.

    opset: of ONNX's own domain. rank: of the first input, None where it is not known. functions: which the graphs inside the node
    may call. Attributes with their default are left out; a graph is a digest that names of values do not change. A node that
    draws random numbers has something that no other one has.
    """
    defaults, version = _schema(node, opset)
    rank = None if node.op_type == "OneHot" else rank  # its axis is one of the output
    given = {each.name: _on_axis(each.name, _value(each), rank) for each in node.attribute}
    found = {name: value for name, value in given.items() if value != _on_axis(name, defaults.get(name), rank)}
    if version is not None and not (node.op_type in UNCHANGED and node.domain in DOMAINS):
        found["version"] = version
    if any(True for _ in subgraphs(node)):
        graphs = InnerGraphs(node)
        called = functions.reachable([node])
        found |= graphs.digests | {"opset": opset, "functions": tuple(map(_digest, called))}
    if "" in node.input[: last_named(node.input)] or len(node.output) > 1:
        found["present"] = (tuple(map(bool, node.input)), tuple(map(bool, node.output)))
    if any(inner.op_type in RANDOM and inner.domain in DOMAINS for inner in _all_run(node, functions)):
        found["draw"] = next(_draws)
    return tuple(sorted(found.items()))


def exact_result(call: TranslatedNode) -> NDArray[Any] | None:
    """What a node gives of known floating-point numbers; None where an input is not known, where runtimes may round the result
    differently, and where it is large.
    """
    node, inputs = call.node, [None if name is None else call.graph.known(name) for name in call.inputs]
    known = [array for array in inputs if array is not None and array.dtype in (np.float32, np.float64)]
    if node.op_type not in EXACT or node.domain not in DOMAINS or len(known) < len(inputs) or not call.broadcasts:
        return None
    if math.prod(np.broadcast_shapes(*(array.shape for array in known))) > MOST_ELEMENTS:
        return None
    with np.errstate(all="ignore"):
        result = np.asarray(EXACT[node.op_type](*known))
    return None if np.isnan(result).any() else result  # whose payload IEEE 754 leaves open


def opaque_name(node: NodeProto) -> str:
    """The name of an operator in lower case, with its domain: "onnx.conv", "com.example.attention"."""
    return f"onnx.{node.op_type}".lower() if node.domain in DOMAINS else operator_name(node).lower()


def last_named(names: Sequence[str]) -> int:
    """The number of values up to the last one that has a name."""
    return max((number for number, name in enumerate(names, 1) if name), default=0)


def _all_run(node: NodeProto, functions: Functions) -> Iterator[NodeProto]:
    """The node, all nodes inside it, and those of the functions that these call."""
    yield from all_nodes([node])
    for function in functions.reachable([node]):
        yield from all_nodes(function.node)


def _schema(node: NodeProto, opset: int) -> tuple[Mapping[str, Hashable], int | None]:
    """The defaults of a node's attributes, and the version of its operator; nothing where ONNX does not know it."""
    from onnx import defs

    domain = "" if node.domain in DOMAINS else node.domain
    try:
        schema = defs.get_schema(node.op_type, opset, domain) if not domain else defs.get_schema(node.op_type, domain)
    except defs.SchemaError:
        return {}, None
    values = ((name, each.default_value) for name, each in schema.attributes.items())
    return {name: _value(value) for name, value in values if value.type}, schema.since_version


def _value(attribute: AttributeProto) -> Hashable:
    """The value of an attribute that holds no graph, as something that can be compared by value."""
    from onnx import AttributeProto, helper

    if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return None
    value = helper.get_attribute_value(attribute)
    if attribute.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
        return tuple(map(_float, value)) if attribute.type == AttributeProto.FLOATS else _float(value)
    return tuple(map(_plain, value)) if isinstance(value, Sequence) and not isinstance(value, bytes) else _plain(value)


def _float(value: float) -> Hashable:
    """The number; a text for NaNs and -0.0, which == does not tell from themselves or from 0."""
    return exact_text(value) if math.isnan(value) or (value == 0 and math.copysign(1, value) < 0) else value


def _plain(value: Any) -> Hashable:
    from onnx import TensorProto

    from dmlgather.onnx.auxiliary.value_operators import tensor

    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, TensorProto):
        array = tensor(value)
        content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
        return str(array.dtype), array.shape, hashlib.sha256(content).hexdigest()
    if hasattr(value, "SerializeToString"):
        return _digest(value)
    return value  # type: ignore[no-any-return] # an integer


def _on_axis(name: str, value: Hashable, rank: int | None) -> Hashable:
    """An axis counted from the front; other values as they are."""
    return value + rank if name == "axis" and isinstance(value, int) and value < 0 and rank is not None else value


def _digest(message: Any) -> str:
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()


class InnerGraphs:
    """The graphs in the attributes of a node, under names that follow from their structure: equal for two nodes whose graphs
    differ in names and comments.

    outside: the names that they read from the graphs around the node, each with its number, in the order in which they read them
    first. digests: of each graph, by its label.
    """

    def __init__(self, node: NodeProto) -> None:
        from onnx import NodeProto

        self.outside: dict[str, int] = {}
        self._numbers = count()
        copy = NodeProto()
        copy.CopyFrom(node)
        self.digests: dict[str, Hashable] = {}
        for label, graph in subgraphs(copy):
            self._rename(graph, {})
            self.digests[label] = _digest(graph)

    def _rename(self, graph: GraphProto, names: Mapping[str, str]) -> None:
        own = dict(names)
        _without_comments(graph)
        for value in graph.input:
            value.name = self._new(value.name, own)
        for tensor in graph.initializer:
            tensor.name = own.get(tensor.name) or self._new(tensor.name, own)
        for sparse in graph.sparse_initializer:
            sparse.values.name = self._new(sparse.values.name, own)
        for node in graph.node:
            node.input[:] = [self._read(name, own) for name in node.input]
            for _, inner in subgraphs(node):
                self._rename(inner, own)
            node.output[:] = [self._new(name, own) if name else "" for name in node.output]
        for value in graph.output:
            value.name = self._read(value.name, own)

    def _new(self, name: str, own: dict[str, str]) -> str:
        own[name] = f"inner {next(self._numbers)}"
        return own[name]

    def _read(self, name: str, own: Mapping[str, str]) -> str:
        if not name or name in own:
            return own.get(name, "")
        return f"outer {self.outside.setdefault(name, len(self.outside))}"


def _without_comments(graph: GraphProto) -> None:
    """Drop what says nothing about the results of a graph and its nodes."""
    graph.name = ""
    for field in ("value_info", "metadata_props", "quantization_annotation"):
        graph.ClearField(field)
    for message in (graph, *graph.input, *graph.initializer, *graph.output, *graph.node):
        message.doc_string = ""
    for node in graph.node:
        node.name = ""
        node.ClearField("metadata_props")
        attributes = sorted(node.attribute, key=lambda each: each.name)
        del node.attribute[:]
        node.attribute.extend(attributes)
