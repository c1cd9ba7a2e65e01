"""ONNX's shape inference of a graph, within limits of time and memory.

Shape inference also computes the values of one-dimensional tensors, because they may be shapes (data propagation). That takes
about 70 bytes for each element. No shape has thousands of elements. So if a limit is exceeded, the nodes that read longer
tensors are moved to an unknown domain, where ONNX skips them. Then inference runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.operator_versions import DOMAINS, own_opset
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, Size, type_of_value
from dmlgather.onnx.problems.subgraphs import subgraphs
from dmlgather.onnx_checking.reading.inference_process import InferenceFailedError, InferenceLimitError, InferenceLimits
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

Shape = Sequence[Size]

HIDDEN = "dmlgather.hidden"
"""The domain of nodes that shape inference should skip. ONNX knows no operators in it."""


def inferred(model: ModelProto, limits: InferenceLimits, strict: bool = False) -> tuple[GraphProto, str]:
    """Infer shapes. Return the graph, and the reason why shapes are missing, or "". May change `model`.
    ValueError if the model is too large. Other errors: as in `InferenceLimits.infer_shapes`.
    """
    graph, remark = _within_limits(model, limits, strict)
    if _hide_mistaken(model, graph):
        graph, remark = _within_limits(model, limits, strict)
        _show(graph)
    return graph, remark


def _slice_sizes(_node: NodeProto, _data: Shape, result: Shape) -> Mapping[int, Size]:
    """Return None for each named size of a Slice. Some versions of ONNX copy the input's name to a shorter slice."""
    return {axis: None for axis, size in enumerate(result) if isinstance(size, str)}


def _pooling_sizes(node: NodeProto, data: Shape, result: Shape) -> Mapping[int, Size]:
    """Return corrections for pooling with ceil_mode. ONNX may count a window that begins after the data."""
    ints = {attribute.name: list(attribute.ints) or [attribute.i] for attribute in node.attribute}
    rank = len(data) - 2
    steps, pads = ints.get("strides", [1] * rank), ints.get("pads", [0] * rank)
    if ints.get("ceil_mode") != [1] or len(result) != len(data) or len(steps) != rank or len(pads) < rank:
        return {}
    axes = zip(range(2, len(data)), data[2:], result[2:], steps, pads, strict=False)
    return {
        axis: count - 1 if isinstance(size, int) else None
        for axis, size, count, step, padding in axes
        if isinstance(count, int) and (not isinstance(size, int) or (count - 1) * step >= size + padding)
    }


MISTAKEN = {
    "Slice": (range(10, 11), _slice_sizes),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), (range(10, 100), _pooling_sizes)),
}
"""Operators with wrongly inferred sizes: the affected opsets, and a function that returns the right sizes by axis."""


def right_type(node: NodeProto, opset: int, data: PartialType, result: PartialType) -> PartialType:
    """Correct the type that ONNX inferred for an output. `data`: the type of the first input."""
    opsets, rule = MISTAKEN.get(node.op_type, ((), _slice_sizes))
    if opset not in opsets or node.domain not in DOMAINS or result.shape is None:
        return result
    right = rule(node, data.shape or (), result.shape)
    return result.sized([right.get(axis, size) for axis, size in enumerate(result.shape)]) if right else result


def _hide_mistaken(model: ModelProto, typed: GraphProto) -> bool:
    """Make shape inference skip nodes with wrongly inferred sizes, and declare the right sizes. Return True if it skips any."""
    opset, any_hidden = own_opset(model.opset_import), False
    for graph, typed_graph in zip(graphs_in(model.graph), graphs_in(typed), strict=True):
        nodes = [node for node in graph.node if node.op_type in MISTAKEN and node.input]
        types = {value.name: value for value in _values(typed_graph)} if nodes else {}
        for node in nodes:
            data = type_of_value(types[node.input[0]]) if node.input[0] in types else NOTHING
            values = [types[name] for name in node.output if name in types]
            right = [right_type(node, opset, data, type_of_value(value)).shape or () for value in values]
            wrong = [_clear_others(value, shape) for value, shape in zip(values, right, strict=True)]
            if any(wrong):
                node.domain, any_hidden = HIDDEN, True
                for value in values:
                    declared = [each for each in (*graph.output, *graph.value_info) if each.name == value.name]
                    for each in declared or [graph.value_info.add()]:
                        each.CopyFrom(value)
    if any_hidden:
        model.opset_import.add(domain=HIDDEN, version=1)
    return any_hidden


def _clear_others(value: ValueInfoProto, shape: Shape) -> bool:
    """Remove the sizes that differ from `shape`. Return True if there were any."""
    own = type_of_value(value).shape or ()
    wrong = [dim for dim, size, expected in zip(value.type.tensor_type.shape.dim, own, shape, strict=False) if size != expected]
    for dim in wrong:
        dim.Clear()
    return bool(wrong)


def _within_limits(model: ModelProto, limits: InferenceLimits, strict: bool) -> tuple[GraphProto, str]:
    try:
        return _inferred(model, limits, strict, True), ""
    except InferenceLimitError as error:
        reason = str(error)
    plain = _inferred(model, limits, strict, False)
    hidden = _hide(model, plain)
    if hidden:
        try:
            graph = _inferred(model, limits, strict, True)
        except InferenceFailedError as error:
            reason = str(error)
        else:
            _show(graph)
            return graph, ""
    return plain, f"{reason}; without values that shapes depend on it takes less, and these are not known"


def _inferred(model: ModelProto, limits: InferenceLimits, strict: bool, propagate: bool) -> GraphProto:
    from onnx import ModelProto

    answer = limits.infer_shapes(model.SerializeToString(), strict=strict, propagate=propagate)
    model_with_shapes: ModelProto = ModelProto.FromString(answer)
    return model_with_shapes.graph


def _hide(model: ModelProto, plain: GraphProto) -> bool:
    """Make shape inference skip nodes that propagate data and read too long a tensor. Return True if it skips any."""
    long = {value.name for graph in graphs_in(plain) for value in _values(graph) if _is_long(value)}
    tensors = [tensor for graph in graphs_in(plain) for tensor in graph.initializer]
    long.update(tensor.name for tensor in tensors if len(tensor.dims) == 1 and tensor.dims[0] > KEPT_ELEMENTS)
    opset, any_hidden = own_opset(model.opset_import), False
    for graph, typed in zip(graphs_in(model.graph), graphs_in(plain), strict=True):
        hidden_outputs: set[str] = set()
        for node in graph.node:
            if not long.isdisjoint(node.input) and _propagates(node, opset):
                node.domain, any_hidden = HIDDEN, True
                hidden_outputs.update(node.output)
        outputs = {value.name for value in graph.output}
        types = {value.name: value for value in _values(typed) if value.name in hidden_outputs}
        for value in (*graph.output, *graph.value_info):
            if value.name in types:
                value.CopyFrom(types.pop(value.name))
        graph.value_info.extend(value for name, value in types.items() if name not in outputs)
    if any_hidden:
        model.opset_import.add(domain=HIDDEN, version=1)
    return any_hidden


def _show(graph: GraphProto) -> None:
    for inner in graphs_in(graph):
        for node in inner.node:
            if node.domain == HIDDEN:
                node.domain = ""


def graphs_in(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and its subgraphs, at any depth."""
    yield graph
    for node in graph.node:
        for _, inner in subgraphs(node):
            yield from graphs_in(inner)


def _values(graph: GraphProto) -> Iterable[ValueInfoProto]:
    return (*graph.input, *graph.value_info, *graph.output)


def _is_long(value: ValueInfoProto) -> bool:
    dims = value.type.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].dim_value > KEPT_ELEMENTS


def _propagates(node: NodeProto, opset: int) -> bool:
    """Return True if ONNX can compute the node's outputs during shape inference."""
    from onnx import defs

    try:
        return node.domain in DOMAINS and defs.get_schema(node.op_type, opset, "").has_data_propagation_function
    except defs.SchemaError:
        return False
