"""From a PyTorch program to an `IndexGraph`: its gathers, slices and views, its arithmetic on integers, all the rest opaque."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.index_graph import IndexGraph, Opaque, Step
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.torch.tracing import nodes
from dmlgather.torch.tracing.exported import ExportedGraph
from dmlgather.torch.tracing.node_calls import NodeCall, Value, tensors_in
from dmlgather.torch.tracing.node_problems import PROBLEMS
from dmlgather.torch.tracing.node_steps import steps_of
from dmlgather.torch.tracing.nodes import Values
from dmlgather.torch.tracing.opaque_nodes import operator
from dmlgather.torch.tracing.tensors import host_array, with_tensors

ELEMENT_LIMIT = 2**16
"""Elements that a value may have that is computed while the program is read."""


def index_graph(source: Any, /, *example: Any, dynamic_shapes: Any = None) -> IndexGraph:
    """The graph of a module, a function or an ExportedProgram, at the sizes of `example`.

    example: tensors, or trees of them, as for torch.export.export; a program that holds its own needs none. Parameters, buffers
    and what follows from them alone are constants, up to 65,536 computed elements.

    Raises what torch.export raises; ValueError for sizes that depend on elements; TypeError for tensors of a type that NumPy and
    ml_dtypes lack.
    """
    program = ExportedGraph.of(source, example, dynamic_shapes)
    return read_program(program, program.values(example)).graph


@dataclass(frozen=True, slots=True)
class TorchGraph:
    """The graph of a program, and what its steps come from.

    opaque: of each opaque step, by its name: the node, and its arguments. calls: the nodes that index, with their calls.
    results: the values that each node gives. inputs: the number of the user's leaf that each input of the graph is. checks: a
    value for each check of elements, which says that it has happened.
    """

    graph: IndexGraph
    opaque: Mapping[str, tuple[Any, Mapping[str, Any]]]
    calls: Sequence[tuple[Any, NodeCall]]
    results: Mapping[Any, tuple[str, ...]]
    inputs: tuple[int, ...]
    checks: tuple[str, ...] = ()

    @property
    def reads_memory(self) -> bool:
        """Whether results depend on where the elements of inputs lie in memory."""
        return any(call.operator.startswith("as_strided") for _, call in self.calls)


def read_program(program: ExportedGraph, values: Values) -> TorchGraph:
    """The graph of an exported program for these values of its symbols. ValueError as `index_graph`."""
    reader = _NodeReader(values, dict(program.constants))
    leaves = [number for number, node in enumerate(program.inputs) if nodes.is_tensor(node.meta.get("val"))]
    for node in (program.inputs[number] for number in leaves):
        reader.results[node] = (reader.graph.input(node.name, nodes.tensor_type(node.meta["val"], values)),)
    for node in program.nodes:
        reader.read(node)
    outputs = [reader.value(node) for node in program.outputs if nodes.gives_tensor(node)]
    graph, checks = replace(reader.graph.build(outputs), unread=tuple(reader.unread)), tuple(reader.checks)
    return TorchGraph(graph, reader.opaque, reader.calls, reader.results, tuple(leaves), checks)


def problem_at(program: ExportedGraph, node: Any, values: Values, number: int) -> Problem | None:
    """The problem with that number among those of a node that indexes, for values of the program's symbols.

    None where there is no such problem at these values, and where it depends on elements of what the node reads.
    """
    reader = _NodeReader(values, program.constants)
    for each in nodes.read_by(node):
        if nodes.gives_tensor(each):
            reader.results[each] = (reader.graph.input(each.name, nodes.tensor_type(each.meta["val"], values)),)
    try:
        reader.read(node)
    except (ValueError, IndexError, RuntimeError):  # PyTorch's rules, which the values break
        return None
    steps = {step.name: step.work for step in reader.graph.steps}
    found = [steps[name] for _, call in reader.calls for name in call.indexing]
    work = found[number] if number < len(found) else None
    return work if isinstance(work, Problem) else None


CHECKS = ("_assert_async.", "_assert_scalar.", "sym_constrain_range")
"""How the names of operators begin that give nothing, and raise for some elements: of torch._check and torch._assert_async."""


_HAPPENED = TensorType((), np.dtype(bool))


@dataclass
class _NodeReader:
    """Adds the nodes of a program to a graph. weights: parameters and buffers, by name; those that are read become constants."""

    values: Values
    weights: Mapping[str, Any]
    graph: GraphBuilder = field(default_factory=GraphBuilder)
    opaque: dict[str, tuple[Any, Mapping[str, Any]]] = field(default_factory=dict)
    calls: list[tuple[Any, NodeCall]] = field(default_factory=list)
    results: dict[Any, tuple[str, ...]] = field(default_factory=dict)
    checks: list[str] = field(default_factory=list)
    unread: list[Step] = field(default_factory=list)

    def value(self, node: Any) -> str:
        """The name of the value that a node gives."""
        if node not in self.results:
            self.results[node] = (self.graph.constant(host_array(self.weights[node.name]), node.name),)
        return self.results[node][0]

    def read(self, node: Any) -> None:
        """Add the steps of a node."""
        tensors = [each for each in nodes.gives(node) if nodes.is_tensor(each)]
        if not tensors:  # a size, a graph, or a check
            if nodes.operator_name(node).startswith(CHECKS):
                self._check(node)
            return
        if (picked := nodes.item_of(node)) is not None:
            self.results[node] = (self.results[picked[0]][picked[1]],)
        elif (inner := nodes.inlined(node)) is not None:
            self.results[node] = self._inlined(*inner)
        else:

            def typed() -> tuple[TensorType, ...]:
                return tuple(nodes.tensor_type(each, self.values) for each in tensors)

            call = NodeCall(self.graph, node.name, nodes.operator_name(node), self._arguments(node), typed)
            found = self._known(node, call)
            self.results[node] = found or steps_of(call) or self._opaque(node, call)
            if call.operator in PROBLEMS:
                self.calls.append((node, call))

    def _inlined(self, graph: Any, operands: Sequence[Any]) -> tuple[str, ...]:
        """The values that a graph inside the program gives for these nodes."""
        given = iter(operands)
        for node in graph.nodes:
            if node.op == "placeholder":
                operand = next(given)
                if nodes.gives_tensor(operand):
                    self.results[node] = (self.value(operand),)
            elif node.op != "output":
                self.read(node)
        (returned,) = next(node for node in graph.nodes if node.op == "output").args
        return tuple(self.value(each) if nodes.gives_tensor(each) else "" for each in returned)

    def _arguments(self, node: Any) -> dict[str, Any]:
        given = nodes.arguments(node)
        if nodes.operator_name(node) == "select.int" and (element := nodes.element_of(given["index"])) is not None:
            given["index"] = element  # x[i] with a tensor i without dimensions
        return {name: self._argument(each) for name, each in given.items()}

    def _argument(self, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return [self._argument(each) for each in given]
        if nodes.gives_tensor(given):
            weight, value = self.weights.get(given.name), given.meta["val"]
            requires_grad = weight is not None and weight.requires_grad
            strides, offset = nodes.strides(value, self.values), nodes.offset(value, self.values)
            return Value(self.value(given), strides, requires_grad, offset)
        return nodes.plain(given, self.values)

    def _known(self, node: Any, call: NodeCall) -> tuple[str, ...] | None:
        """The results of a node that reads constants alone, as constants. None where they are too large, or random."""
        read = {value: self.graph.known(value) for value in tensors_in(call.given)}
        if nodes.is_single(node) or any(array is None for array in read.values()):
            return None
        sizes = [*call.results, *(self.graph.types[value] for value in read)]
        if any(prod(tensor.shape) > ELEMENT_LIMIT for tensor in sizes):
            return None
        results = nodes.run(node, with_tensors(call.given, read))
        return tuple(self.graph.constant(host_array(each)) for each in results)

    def _check(self, node: Any) -> None:
        """Add a check, which gives nothing; in the graph, it gives that it has happened."""
        call = NodeCall(self.graph, node.name, nodes.operator_name(node), self._arguments(node), lambda: (_HAPPENED,))
        if any(tensors_in(call.given)):
            self.checks += self._opaque(node, call)
        else:  # of a number that only a run tells, for which a graph has no value
            self.unread.append(Step(node.name, Opaque(f"torch.{call.operator}"), (), ()))

    def _opaque(self, node: Any, call: NodeCall) -> tuple[str, ...]:
        name, attributes, inputs = operator(call, single=nodes.is_single(node))
        results = self.graph.opaque(node.name, name, inputs, call.results, attributes=attributes)
        self.opaque[self.graph.steps[-1].name] = (node, call.given)
        return results
