"""Runs an ONNX model node by node with onnxruntime, so that all values are visible, even in branches, loops and functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from dmlgather.onnx.problems.node_reading import in_family
from dmlgather.onnx.problems.subgraphs import subgraphs
from dmlgather.onnx_checking.reading.local_functions import function_name
from dmlgather.wording import printable

Array = NDArray[Any]
Value = Array | list[Array] | None
"""A tensor, a sequence of tensors, or an empty optional value."""

MOST_ITERATIONS = 10_000


@dataclass(frozen=True, eq=False)
class Activation:
    """A run of a graph with separate sizes: the main graph, a call of a function, an iteration of a loop."""

    parent: Activation | None = None


@dataclass(frozen=True, eq=False)
class SeenNode:
    """A node of the family that ran. graph, index: its place, as in `CheckedNode`. Attributes of a function have their values.
    activation: the run of the surrounding graph.
    """

    graph: str
    index: int
    node: NodeProto
    opset: int
    inputs: tuple[Array | None, ...]
    output: Array
    activation: Activation


class _Scope:
    """Values by name. Missing names belong to the surrounding graph."""

    def __init__(self, outer: _Scope | None, activation: Activation) -> None:
        self.outer, self.activation = outer, activation
        self.values: dict[str, Value] = {}
        self.constants: set[str] = set()

    def home(self, name: str) -> _Scope:
        """Return the scope of the name. KeyError if there is none."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope
            scope = scope.outer
        raise KeyError(name)


@dataclass(frozen=True)
class _Imports:
    """The operator sets in use, by domain."""

    versions: Mapping[str, int]

    @classmethod
    def of(cls, entries: Iterable[Any]) -> _Imports:
        return cls({"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in entries})

    @property
    def own(self) -> int:
        return self.versions.get("", 1)


@dataclass
class Stepper:
    """A runner of a model, node by node. watch: called with each node of the family after it ran.

    sizes: of all tensors, as "x[1]", by their graph's run.
    """

    model: ModelProto
    watch: Callable[[SeenNode], None]
    sizes: dict[Activation, dict[str, int]] = field(default_factory=dict)
    _sessions: dict[tuple[int, tuple[str, ...]], Any] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)
    """Nodes and graphs that serve as keys by identity, and so must stay alive."""
    _initializers: dict[int, dict[str, Array]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = {_key(function.domain, function.name, function): function for function in self.model.functions}
        self.imports = _Imports.of(self.model.opset_import)
        self.bodies: dict[tuple[Any, bytes], list[NodeProto]] = {}

    def run(self, feeds: Mapping[str, Array], activation: Activation) -> dict[str, Value]:
        """Return the outputs of the model. activation: of the main graph. Raises the errors of onnxruntime."""
        scope = _Scope(None, activation)
        scope.values |= feeds
        graph = self.model.graph
        self._graph(graph.node, graph, "", scope, self.imports)
        return {value.name: scope.values[value.name] for value in graph.output}

    def _graph(self, nodes: Sequence[NodeProto], graph: GraphProto | None, path: str, scope: _Scope, imports: _Imports) -> None:
        if graph is not None:
            if id(graph) not in self._initializers:
                self._kept.append(graph)
                self._initializers[id(graph)] = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
            for name, array in self._initializers[id(graph)].items():
                if name not in scope.values:  # callers may also replace an initializer that is an input
                    scope.values[name] = array
                    scope.constants.add(name)
        for index, node in enumerate(nodes):
            self._node(node, index, path, scope, imports)

    def _node(self, node: NodeProto, index: int, path: str, scope: _Scope, imports: _Imports) -> None:
        inputs = [scope.home(name).values[name] if name else None for name in node.input]
        label = printable(node.name) or f"{printable(node.op_type)}_{index}"
        place = f"{path}/{label}" if path else label
        function = self.functions.get(_key(node.domain, node.op_type, node))
        if function is not None:
            outputs = self._call(function, node, inputs, scope)
        elif node.domain == "" and node.op_type == "If":
            outputs = self._if(node, inputs, place, scope, imports)
        elif node.domain == "" and node.op_type == "Loop":
            outputs = self._loop(node, inputs, place, scope, imports)
        else:
            outputs = self._operator(node, inputs, scope, imports)
        scope.values.update((name, value) for name, value in zip(node.output, outputs, strict=False) if name)
        sizes = self.sizes.setdefault(scope.activation, {})
        for name, value in zip(node.output, outputs, strict=False):
            if isinstance(value, np.ndarray):
                sizes.update((f"{name}[{axis}]", size) for axis, size in enumerate(value.shape))
        if node.op_type == "Constant":
            scope.constants.update(node.output)
        if function is None and in_family(node):
            self.watch(SeenNode(path, index, node, imports.own, tuple(inputs), outputs[0], scope.activation))  # type: ignore[arg-type]

    def _call(self, function: FunctionProto, node: NodeProto, inputs: Sequence[Value], scope: _Scope) -> list[Value]:
        key = _key(function.domain, function.name, function)
        given = {each.name: each for each in (*function.attribute_proto, *node.attribute)}
        cache = key, b"".join(name.encode() + each.SerializeToString(deterministic=True) for name, each in sorted(given.items()))
        if cache not in self.bodies:
            self.bodies[cache] = _with_attributes(function.node, given)
        inner = _Scope(None, Activation(scope.activation))
        inner.values = dict.fromkeys(function.input) | dict(zip(function.input, inputs, strict=False))
        self._graph(self.bodies[cache], None, function_name(key), inner, _Imports.of(function.opset_import))
        return [inner.values.get(name) for name in function.output]

    def _if(self, node: NodeProto, inputs: Sequence[Any], place: str, scope: _Scope, imports: _Imports) -> list[Value]:
        name = "then_branch" if inputs[0].item() else "else_branch"
        branch = next(each.g for each in node.attribute if each.name == name)
        inner = _Scope(scope, scope.activation)
        self._graph(branch.node, branch, f"{place}.{name}", inner, imports)
        return [inner.home(value.name).values[value.name] for value in branch.output]

    def _loop(self, node: NodeProto, inputs: Sequence[Any], place: str, scope: _Scope, imports: _Imports) -> list[Value]:
        body = next(each.g for each in node.attribute if each.name == "body")
        most, condition, *carried = [*inputs, None, None][: max(2, len(inputs))]
        going, limit = condition is None or bool(condition.item()), MOST_ITERATIONS if most is None else int(most.item())
        scanned: list[list[Any]] = [[] for _ in body.output[1 + len(carried) :]]
        iteration = 0
        while going and iteration < limit:
            inner = _Scope(scope, Activation(scope.activation))
            given = np.array(iteration, np.int64), np.array(going), *carried
            inner.values = {value.name: each for value, each in zip(body.input, given, strict=True)}
            self._graph(body.node, body, f"{place}.body", inner, imports)
            again, *results = [inner.home(value.name).values[value.name] for value in body.output]
            carried, each_scanned = results[: len(carried)], results[len(carried) :]
            for rows, row in zip(scanned, each_scanned, strict=True):
                rows.append(row)
            going, iteration = bool(again.item()), iteration + 1  # type: ignore[union-attr]
        if not iteration and scanned:
            raise NotImplementedError(f"{place}: the type of the outputs of a loop of no iteration")
        return [*carried, *(np.stack(rows) for rows in scanned)]

    def _operator(self, node: NodeProto, inputs: Sequence[Value], scope: _Scope, imports: _Imports) -> list[Value]:
        """Run an operator with onnxruntime. Outer values that its graphs read become inputs."""
        names = dict.fromkeys(filter(None, (*node.input, *_read_outside(node))))
        values = {name: scope.home(name).values[name] for name in names}
        constants = {name for name in names if name in scope.home(name).constants and isinstance(values[name], np.ndarray)}
        fed = {name: value for name, value in values.items() if name not in constants}
        key = id(node), tuple(_type_name(value) for value in fed.values())
        if key not in self._sessions:
            self._kept.append(node)
            fixed = {name: values[name] for name in constants}
            self._sessions[key] = _session(node, fed, fixed, imports, self.model)
        results: list[Value] = self._sessions[key].run(None, fed)
        found = iter(results)
        return [next(found) if name else None for name in node.output]


def _session(node: NodeProto, fed: Mapping[str, Value], fixed: Mapping[str, Any], imports: _Imports, model: ModelProto) -> Any:
    """Return a session of a one-node model. The model's constants stay constant, as some operators need it."""
    graph = GraphProto(name="one_node", node=[node])
    graph.input.extend(ValueInfoProto(name=name, type=_type(value)) for name, value in fed.items())
    graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(each).reshape(each.shape), name) for name, each in fixed.items()
    )
    graph.output.extend(ValueInfoProto(name=name) for name in node.output if name)
    opsets = [helper.make_opsetid(domain, version) for domain, version in imports.versions.items()]
    alone = helper.make_model(graph, opset_imports=opsets, ir_version=max(7, min(model.ir_version, 10)))
    return session(alone.SerializeToString())


def session(model: bytes | str) -> Any:
    """Return onnxruntime's session of a model or a file, with one thread and without optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _type(value: Value) -> Any:
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type(value[0] if value else np.zeros((), np.float32)))
    assert value is not None, "an optional value that has none is left out"
    return helper.make_tensor_type_proto(_number(value), None)


def _number(array: Array) -> int:
    return TensorProto.STRING if array.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(array.dtype)


def _type_name(value: Value) -> str:
    return (
        "none" if value is None else f"[{_type_name(value[0]) if value else ''}]" if isinstance(value, list) else value.dtype.name
    )


def _read_outside(node: NodeProto) -> Iterator[str]:
    """Yield the outer names that graphs in a node's attributes read."""
    for _, graph in subgraphs(node):
        own = {each.name for each in (*graph.input, *graph.initializer)}
        own.update(name for inner in graph.node for name in inner.output)
        read = (name for inner in graph.node for name in (*inner.input, *_read_outside(inner)))
        yield from (name for name in (*read, *(value.name for value in graph.output)) if name not in own)


def _with_attributes(nodes: Iterable[NodeProto], given: Mapping[str, AttributeProto]) -> list[NodeProto]:
    """Return copies of a function's nodes with the values of referenced attributes. References to missing ones are left out."""
    copies = list(GraphProto(node=nodes).node)
    for node in copies:
        for number in reversed(range(len(node.attribute))):
            attribute = node.attribute[number]
            if attribute.ref_attr_name:
                name = attribute.name
                if attribute.ref_attr_name in given:
                    attribute.CopyFrom(given[attribute.ref_attr_name])
                    attribute.name = name
                else:
                    del node.attribute[number]
            elif attribute.HasField("g"):
                inner = _with_attributes(attribute.g.node, given)
                del attribute.g.node[:]
                attribute.g.node.extend(inner)
    return copies


def _key(domain: str, name: str, proto: Any) -> tuple[str, str, str]:
    return "" if domain == "ai.onnx" else domain, name, getattr(proto, "overload", "")
