"""Prepare an ONNX model for the backend: check it, inline its functions, read its constants, find the last use of each value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx.checker
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto

from dmlgather.files import FileError
from dmlgather.onnx import auxiliary
from dmlgather.onnx.auxiliary.value_operators import initializer
from dmlgather.onnx.backend.unsupported import check_operators, check_supported
from dmlgather.onnx.model.local_functions import Functions
from dmlgather.onnx.model.node_labels import naming
from dmlgather.onnx.model.partial_types import NOTHING, PartialType, type_of_value
from dmlgather.onnx.problems.node_reading import ARRAYS
from dmlgather.onnx.problems.operator_versions import own_opset


@dataclass(frozen=True, slots=True)
class PreparedNode:
    """One node to run. opset: in force for it. last: the values that no later node and no output needs."""

    node: NodeProto
    opset: int
    last: tuple[str, ...]

    @property
    def arrays(self) -> int:
        """How many of the first inputs are arrays on the model's device; the values of the others decide the result's shape."""
        return len(ARRAYS.get(self.node.op_type, ("data",)))


@dataclass(frozen=True, slots=True)
class NodeGraph:
    """inputs, outputs: names in order, with their declared types. constants: the values of Constant nodes and initializers; those
    that are inputs too are the inputs' defaults.
    """

    inputs: Mapping[str, PartialType]
    constants: Mapping[str, NDArray[Any]]
    nodes: tuple[PreparedNode, ...]
    outputs: tuple[tuple[str, PartialType], ...]


def read_model(model: ModelProto) -> NodeGraph:
    """The graph of a model.

    Raises NotImplementedError, naming every one, for operators, types and tensors that the backend does not take; ValueError for
    a model that is not valid, or whose external data is not loaded; TypeError for anything but a ModelProto.
    """
    if not isinstance(model, ModelProto):
        raise TypeError(f"model is of type {type(model).__name__}, expected an onnx.ModelProto, as onnx.load(path) gives")
    try:
        functions = Functions(model.functions)
    except FileError as error:
        raise ValueError(f"the model {error}") from None
    check_supported(model, functions)
    constants = {proto.name: initializer(proto) for proto in model.graph.initializer}
    _check(lambda: onnx.checker.check_model(model), "model")
    opset = own_opset(model.opset_import)
    return build(
        {value.name: type_of_value(value) for value in model.graph.input},
        constants,
        functions.inlined(model.graph, opset),
        [(value.name, type_of_value(value)) for value in model.graph.output],
    )


def read_node(node: NodeProto, opset: int) -> NodeGraph:
    """The graph of one node, whose inputs have no declared types. Raises as `read_model`."""
    if not isinstance(node, NodeProto):
        raise TypeError(f"node is of type {type(node).__name__}, expected an onnx.NodeProto, as onnx.helper.make_node gives")
    check_operators([node])
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = onnx.IR_VERSION, {"": opset}
    _check(lambda: onnx.checker.check_node(node, context), "node")
    inputs = dict.fromkeys(filter(None, node.input), NOTHING)
    return build(inputs, {}, [(node, opset)], [(name, NOTHING) for name in node.output])


def build(
    inputs: Mapping[str, PartialType],
    constants: Mapping[str, NDArray[Any]],
    nodes: Iterable[tuple[NodeProto, int]],
    outputs: Sequence[tuple[str, PartialType]],
) -> NodeGraph:
    """The graph of checked nodes, in order, with their opsets. TypeError and ValueError, naming the node, for what cannot be run
    with any inputs.
    """
    known, running = dict(constants), []
    for node, opset in nodes:
        if auxiliary.is_auxiliary(node):
            with naming(node):
                auxiliary.check(node, opset)
                if node.op_type == "Constant":
                    known[node.output[0]] = auxiliary.compute(node, opset, ())
                    continue
        running.append((node, opset))
    needed: set[str] = {name for name, _ in outputs}
    prepared: list[PreparedNode] = []
    for node, opset in reversed(running):
        last = tuple(dict.fromkeys(name for name in (*node.input, *node.output) if name and name not in needed))
        needed.update(node.input)
        prepared.append(PreparedNode(node, opset, last))
    needed.update(inputs)
    kept = {name: value for name, value in known.items() if name in needed}
    return NodeGraph(inputs, kept, tuple(reversed(prepared)), tuple(outputs))


def _check(check: Callable[[], None], what: str) -> None:
    try:
        check()
    except onnx.checker.ValidationError as error:
        raise ValueError(f"the {what} is not valid: {' '.join(str(error).split())}") from None
