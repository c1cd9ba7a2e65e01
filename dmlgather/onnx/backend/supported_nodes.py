"""Which nodes the backend runs: models with others are refused, with everything that it does not run in one message."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx.checker
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper

from dmlgather.backends.devices import Device
from dmlgather.dialects.index_graph import IndexGraph, Opaque, Step
from dmlgather.files import FileError
from dmlgather.fusion.graph_routes import Compute
from dmlgather.onnx.auxiliary import CASTABLE, EXTERNAL, initializer, location
from dmlgather.onnx.model.local_functions import MOST_NODES, Functions
from dmlgather.onnx.model.operators import OPERATORS, check, row_of
from dmlgather.onnx.model.operators import compute as compute_node
from dmlgather.onnx.model.partial_types import type_of_value
from dmlgather.onnx.model.subgraphs import all_tensors, naming, operator_name
from dmlgather.onnx.problems.data_types import STRING, data_type, type_name
from dmlgather.onnx.problems.node_reading import FAMILY
from dmlgather.onnx.problems.operator_versions import DOMAINS, VERSIONS, own_opset

RUN = (*FAMILY, *(name for name, row in OPERATORS.items() if row.steps))
"""The operators that the backend runs; those that compute, on integers and bools alone."""

NAMED = 20
"""Nodes of one operator that a message names; the others are counted."""


def check_model(model: ModelProto) -> None:
    """Refuse a model that the backend does not run, or that is not valid.

    NotImplementedError lists the operators with their domains and nodes, and the inputs, outputs and initializers that are no
    tensors; ValueError lists inputs and outputs without a shape, and tensors whose data is not loaded, and says what ONNX's
    checker says. TypeError for anything but a ModelProto, and for a type that a node states and that is not supported.
    """
    if not isinstance(model, ModelProto):
        raise TypeError(f"model is of type {type(model).__name__}, expected an onnx.ModelProto, as onnx.load(path) gives")
    try:
        functions = Functions(model.functions)
    except FileError as error:
        raise ValueError(f"the model {error}") from None
    if functions.inlined_size(model.graph.node) > MOST_NODES:
        raise ValueError(f"the model has more than {MOST_NODES} nodes when the functions that it calls are inlined")
    bodies = [node for function in functions.reachable(model.graph.node) for node in function.node]
    nodes = [node for node in (*model.graph.node, *bodies) if functions.called(node) is None]
    _refuse([*_listed(node for node in nodes if not _runs(node)), *_values(model.graph)])
    _check_shapes({"input": model.graph.input, "output": model.graph.output})
    external = [tensor for tensor in all_tensors(model.graph) if tensor.data_location == EXTERNAL]
    if external:
        shown = ", ".join(f"{tensor.name!r} ({location(tensor)})" for tensor in external)
        raise ValueError(f"data outside the model is not loaded: {shown}; onnx.load(path) loads it")
    for tensor in model.graph.initializer:
        initializer(tensor)
    _check(lambda: onnx.checker.check_model(model), "model")
    _refuse([*_listed(_on_floats(model, functions))])


def check_node(node: NodeProto, opset: int) -> None:
    """As `check_model`, for one node."""
    if not isinstance(node, NodeProto):
        raise TypeError(f"node is of type {type(node).__name__}, expected an onnx.NodeProto, as onnx.helper.make_node gives")
    _refuse([*_listed([node] if not _runs(node) else [])])
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = onnx.IR_VERSION, {"": opset}
    _check(lambda: onnx.checker.check_node(node, context), "node")
    _check_stated(node, opset)


def deciding(model: ModelProto) -> frozenset[str]:
    """The names of all values whose elements decide the shape of a result, directly or by what is computed of them."""
    found: set[str] = set()
    for node, _ in reversed([*Functions(model.functions).inlined(model.graph, own_opset(model.opset_import))]):
        if not row_of(node).from_types and not found.isdisjoint(node.output):
            found.update(node.input)
        elif node.op_type != "Clip":
            found.update(name for number, name in enumerate(node.input) if number in row_of(node).host)
    return frozenset(filter(None, found))


def compute(graph: IndexGraph) -> Compute:
    """What does the opaque steps of a graph: a Cast to or from floating point. NotImplementedError for another operator."""

    def computed(step: Step, inputs: Sequence[Any]) -> list[Any]:
        assert isinstance(step.work, Opaque)
        dtype = graph.types[step.outputs[0]].dtype
        if step.work.operator not in ("onnx.cast", "onnx.castlike"):
            _refuse([f"the {step.name} on {', '.join(str(graph.types[name]) for name in step.inputs)}"])
        for direction, name in (("from", type_name(inputs[0].dtype)), ("to", type_name(dtype))):
            if name not in CASTABLE:
                known = ", ".join(CASTABLE)
                raise TypeError(f"{step.name}: Cast {direction} {name} is not supported; it converts between {known}")
        with np.errstate(all="ignore"):  # of values that do not fit, which ONNX leaves undefined
            return [inputs[0].astype(dtype)]

    return computed


def check_types(model: ModelProto, device: Device) -> None:
    """TypeError for inputs and constants that a GPU does not take."""
    inputs = ((f"input {value.name!r}", type_of_value(value).dtype) for value in model.graph.input)
    constants = ((f"constant {tensor.name!r}", initializer(tensor).dtype) for tensor in model.graph.initializer)
    check_on(device, (*inputs, *constants))


def check_on(device: Device, types: Iterable[tuple[str, Any]]) -> None:
    """TypeError for data that a GPU does not take: strings, and types that no operator of the family has."""
    for what, dtype in types if device.on_gpu else ():
        if dtype is not None and (dtype == STRING or type_name(dtype) not in VERSIONS["Gather"][-1].types):
            raise TypeError(f"{what} has type {type_name(dtype)}, which does not run on {device}: prepare the model for the CPU")


def _refuse(unsupported: list[str]) -> None:
    if unsupported:
        raise NotImplementedError(
            f"this backend does not run: {'; '.join(unsupported)}. It runs ONNX's own {', '.join(RUN)} on tensors, and "
            "computes with integers and bools alone"
        )


def _runs(node: NodeProto) -> bool:
    return operator_name(node) in RUN


def _on_floats(model: ModelProto, functions: Functions) -> Iterator[NodeProto]:
    """The nodes that compute with floating-point numbers. TypeError and ValueError as `_check_stated`."""
    graph = model.graph
    types = {value.name: type_of_value(value).dtype for value in graph.input}
    types |= {tensor.name: data_type(tensor.data_type) for tensor in graph.initializer}
    for node, opset in functions.inlined(graph, own_opset(model.opset_import)):
        read = [types.get(name) for name in node.input if name]
        _check_stated(node, opset)
        row = row_of(node)
        if row.elements is not None and not row.any_type and any(dtype is not None and dtype.kind not in "biu" for dtype in read):
            yield node
        types |= dict.fromkeys(node.output, _result_type(node, opset, read))


def _result_type(node: NodeProto, opset: int, read: Sequence[np.dtype[Any] | None]) -> np.dtype[Any] | None:
    """The type of the outputs of a node that reads values of these types."""
    stated = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    if row_of(node).from_types:
        return np.dtype(np.int64)
    if row_of(node).logical:
        return np.dtype(bool)
    if node.op_type == "Constant":
        found: np.dtype[Any] = compute_node(node, opset, ()).dtype
        return found
    if node.op_type == "ConstantOfShape":
        return data_type(stated["value"].data_type) if "value" in stated else np.dtype(np.float32)
    if node.op_type == "Cast":
        return data_type(stated["to"])
    return read[1 if node.op_type in ("Where", "CastLike") else 0]


def _check_stated(node: NodeProto, opset: int) -> None:
    """TypeError and ValueError, naming the node, for what it may not state."""
    with naming(node):
        check(node, opset)


def _listed(nodes: Iterable[NodeProto]) -> Iterator[str]:
    """Operators with their domains and nodes."""
    unsupported: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        domain = "ai.onnx" if node.domain in DOMAINS else node.domain
        name = repr(node.name) if node.name else f"that of {', '.join(node.output)!r}"
        unsupported.setdefault((node.op_type, domain), []).append(name)
    for (operator, domain), names in unsupported.items():
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        yield f"{operator} of {domain} ({'nodes' if len(names) > 1 else 'node'} {', '.join(names[:NAMED])}{more})"


def _values(graph: GraphProto) -> Iterator[str]:
    kinds: Mapping[str, Iterable[tuple[str, str]]] = {
        "input": [(value.name, value.type.WhichOneof("value") or "") for value in graph.input],
        "output": [(value.name, value.type.WhichOneof("value") or "") for value in graph.output],
        "initializer": [(sparse.values.name, "sparse_tensor_type") for sparse in graph.sparse_initializer],
    }
    for role, values in kinds.items():
        for name, kind in values:
            if kind not in ("tensor_type", ""):
                yield f"{role} {name!r} ({kind.removesuffix('_type').replace('_', ' ')})"


def _check_shapes(values: Mapping[str, Iterable[ValueInfoProto]]) -> None:
    """ValueError, listing all of them, for inputs and outputs without a rank, which ONNX requires."""
    shapeless = [
        f"{role} {value.name!r}"
        for role, entries in values.items()
        for value in entries
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
    ]
    if shapeless:
        raise ValueError(
            f"{', '.join(shapeless)} states no shape, not even a rank: onnx.shape_inference.infer_shapes(model) may know it"
        )


def _check(check: Callable[[], None], what: str) -> None:
    try:
        check()
    except onnx.checker.ValidationError as error:
        raise ValueError(f"the {what} is not valid: {' '.join(str(error).split())}") from None
