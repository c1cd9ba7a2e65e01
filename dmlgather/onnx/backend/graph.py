"""An ONNX model as the backend runs it: checked, functions inlined, constants read, each value's last use known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import onnx.checker
import onnx.inliner
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto

from dmlgather.onnx import auxiliary
from dmlgather.onnx.auxiliary.value_operators import tensor
from dmlgather.onnx.backend.unsupported import check_operators, check_supported
from dmlgather.onnx.model.function_defaults import with_stated_attributes
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND
from dmlgather.onnx.problems.operators import DOMAINS
from dmlgather.onnx.problems.partial_types import NOTHING, PartialType, type_of_value
from dmlgather.onnx.problems.slice import Slice

_ARRAYS = {problem.name: len(problem.inputs) for problem in (Gather, GatherElements, GatherND, Slice)}


@dataclass(frozen=True, slots=True)
class PreparedNode:
    """One node to run. opset: in force for it. last: the values that no later step and no output needs."""

    node: NodeProto
    opset: int
    last: tuple[str, ...]

    @property
    def arrays(self) -> int:
        """How many of the first inputs are arrays where the model runs; the values of the others decide the result's shape."""
        return _ARRAYS.get(self.node.op_type, 1)

    def __str__(self) -> str:
        return label(self.node)


@dataclass(frozen=True, slots=True)
class NodeGraph:
    """inputs, outputs: names in order, and what the model states of their types. constants: initializers, which are defaults
    where they are inputs too, and the values of Constant nodes.
    """

    inputs: Mapping[str, PartialType]
    constants: Mapping[str, NDArray[Any]]
    steps: tuple[PreparedNode, ...]
    outputs: tuple[tuple[str, PartialType], ...]


def label(node: NodeProto) -> str:
    """A node as messages name it."""
    return f"{node.op_type} node {node.name!r}" if node.name else f"{node.op_type} node that gives {', '.join(node.output)!r}"


@contextmanager
def naming(node: NodeProto) -> Iterator[None]:
    """Puts the node before the message of an IndexError, TypeError or ValueError."""
    try:
        yield
    except (IndexError, TypeError, ValueError) as error:
        kind = next(kind for kind in (IndexError, TypeError, ValueError) if isinstance(error, kind))
        raise kind(f"{label(node)}: {error}") from error


def read_model(model: ModelProto) -> NodeGraph:
    """The graph of a model.

    Raises NotImplementedError, naming every one, for operators, types and tensors that the backend does not take; ValueError for
    a model that is not valid, or whose external data is not loaded; TypeError for anything but a ModelProto.
    """
    if not isinstance(model, ModelProto):
        raise TypeError(f"model is of type {type(model).__name__}, expected an onnx.ModelProto, as onnx.load(path) gives")
    check_supported(model)
    constants = {proto.name: _constant(f"initializer {proto.name!r}", proto) for proto in model.graph.initializer}
    _check(lambda: onnx.checker.check_model(model), "model")
    if model.functions:
        model = _inlined(model)
    opset = next((entry.version for entry in model.opset_import if entry.domain in DOMAINS), 1)
    return build(
        {value.name: type_of_value(value) for value in model.graph.input},
        constants,
        model.graph.node,
        opset,
        [(value.name, type_of_value(value)) for value in model.graph.output],
    )


def read_node(node: NodeProto, opset: int) -> NodeGraph:
    """The graph of one node, of whose inputs nothing is stated. Raises as `read_model`."""
    if not isinstance(node, NodeProto):
        raise TypeError(f"node is of type {type(node).__name__}, expected an onnx.NodeProto, as onnx.helper.make_node gives")
    check_operators([node])
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = onnx.IR_VERSION, {"": opset}
    _check(lambda: onnx.checker.check_node(node, context), "node")
    inputs = dict.fromkeys(filter(None, node.input), NOTHING)
    return build(inputs, {}, [node], opset, [(name, NOTHING) for name in node.output])


def build(
    inputs: Mapping[str, PartialType],
    constants: Mapping[str, NDArray[Any]],
    nodes: Sequence[NodeProto],
    opset: int,
    outputs: Sequence[tuple[str, PartialType]],
) -> NodeGraph:
    """The graph of checked nodes, in order. TypeError and ValueError, naming the node, for what cannot be run with any inputs."""
    known, running = dict(constants), []
    for node in nodes:
        if auxiliary.is_auxiliary(node):
            with naming(node):
                auxiliary.check(node, opset)
                if node.op_type == "Constant":
                    known[node.output[0]] = auxiliary.compute(node, opset, ())
                    continue
        running.append(node)
    needed: set[str] = {name for name, _ in outputs}
    steps: list[PreparedNode] = []
    for node in reversed(running):
        last = tuple(dict.fromkeys(name for name in (*node.input, *node.output) if name and name not in needed))
        needed.update(node.input)
        steps.append(PreparedNode(node, opset, last))
    needed.update(inputs)
    kept = {name: value for name, value in known.items() if name in needed}
    return NodeGraph(inputs, kept, tuple(reversed(steps)), tuple(outputs))


def _constant(what: str, proto: TensorProto) -> NDArray[Any]:
    try:
        found: NDArray[Any] = tensor(proto)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what}: {error}") from None
    return found


def _check(check: Callable[[], None], what: str) -> None:
    try:
        check()
    except onnx.checker.ValidationError as error:
        raise ValueError(f"the {what} is not valid: {' '.join(str(error).split())}") from None


def _inlined(model: ModelProto) -> ModelProto:
    """The model without local functions."""
    try:
        # The inliner knows nothing of defaults.
        inlined = onnx.inliner.inline_local_functions(with_stated_attributes(model), convert_version=True)
    except RuntimeError as error:
        raise ValueError(f"the model's functions cannot be inlined: {' '.join(str(error).split())}") from None
    check_operators(inlined.graph.node)
    return inlined
