"""Run an ONNX model in onnxruntime and record the inputs and outputs of single nodes, also of nodes inside If branches.

onnxruntime returns only the outputs of a model. The model is therefore *opened* first: every wanted value becomes an output. A
value inside a branch is handed up through every If that encloses it; the other branch of that If returns an empty tensor of the
same element type instead. A flag that says whether the branch ran is handed up in the same way. Every recorded value comes from
the execution of the model itself.

A branch that no given input reaches is *lifted out*: it runs as a separate model. Its inputs are the values that it reads from
outside, as they were when the execution reached its If. Bodies of Loop and Scan, and local functions, are not entered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

Wanted = Callable[[NodeProto], bool]
"""Says which nodes to record."""

Feed = Mapping[str, NDArray[Any]]
"""An array for each input of a model."""

Scope = tuple[str, ...]
"""The place of a graph: the branches that lead to it, outermost first. The main graph is ()."""

STANDARD = ("", "ai.onnx")
"""The names of ONNX's own domain."""

REFUSALS = (state.Fail, state.InvalidArgument, state.InvalidGraph, state.NotImplemented, state.RuntimeException)
"""The exceptions that onnxruntime raises for a model or an input that it does not accept."""


@dataclass(frozen=True, slots=True)
class Site:
    """A node and its place. Its first result identifies it, because names of nodes may be missing or repeated."""

    scope: Scope
    result: str
    node: NodeProto = field(compare=False)

    def __str__(self) -> str:
        return " / ".join([*self.scope, f"{self.node.op_type} {self.node.name or self.result}"])


@dataclass(frozen=True, slots=True)
class Execution:
    """The inputs of one execution of a node (None for an omitted input) and its outputs."""

    site: Site
    inputs: tuple[NDArray[Any] | None, ...]
    outputs: tuple[NDArray[Any] | None, ...]


@dataclass(slots=True)
class Recording:
    """What was recorded in the runs of a model."""

    executions: list[Execution] = field(default_factory=list)
    lifted: list[Scope] = field(default_factory=list)
    """The branches that were lifted out."""
    refused: dict[Scope, str] = field(default_factory=dict)
    """The lifted branches that onnxruntime refused to run, each with the message."""


def sites(graph: GraphProto, wanted: Wanted, scope: Scope = ()) -> Iterator[Site]:
    """The wanted nodes of a graph and of all graphs inside it."""
    for node in graph.node:
        if wanted(node):
            yield Site(scope, _result(node), node)
        for body in _bodies(node):
            yield from sites(body.g, wanted, _inside(scope, node, body))


def record(model: ModelProto, feeds: Iterable[Feed], wanted: Wanted) -> Recording:
    """Run a model on each feed and record every execution of the wanted nodes."""
    recording = Recording()
    _record(model, feeds, _Opener(wanted), (), recording)
    return recording


def _record(model: ModelProto, feeds: Iterable[Feed], opener: _Opener, scope: Scope, into: Recording) -> None:
    """Record a model, then the branches that its runs did not reach. `scope`: the place of its graph in the original model."""
    opened, main = opener.model(model, scope)
    session = _session(opened)
    names = [output.name for output in opened.graph.output]
    reached: set[Scope] = set()
    passed: dict[Scope, tuple[Opened, list[Feed]]] = {}  # each branch whose If a run reached, and the branch's inputs
    for feed in feeds:
        run = _Run(dict(zip(names, session.run(names, dict(feed)), strict=True)))
        for graph in run.executed(main):
            reached.add(graph.scope)
            into.executions += [run.execution(graph, node) for node in graph.graph.node if opener.wanted(node)]
            for branch in graph.branches:
                passed.setdefault(branch.scope, (branch, []))[1].append(run.read_by(branch, graph))
    for branch, captured in passed.values():
        if branch.scope not in reached:
            into.lifted.append(branch.scope)
            try:
                _record(branch.lifted(model), captured, opener, branch.scope, into)
            except REFUSALS as refusal:
                into.refused[branch.scope] = str(refusal)


def _session(model: ModelProto) -> onnxruntime.InferenceSession:
    """A session without optimisations: every node is executed; none is folded, fused or removed."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3  # a warning says only that the branches of an If differ in shape
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@dataclass(frozen=True, slots=True)
class Opened:
    """A graph (the main graph or a branch), and the outputs of the opened model that show its execution."""

    scope: Scope
    graph: GraphProto
    """The original graph."""
    types: Mapping[str, int]
    """The element type of each value that is visible in the graph."""
    flag: str
    """The mark of the output that says whether the graph ran."""
    shown: Mapping[str, str]
    """For each value, the mark of the output that shows it."""
    branches: tuple[Opened, ...]
    """The branches inside it that hold wanted nodes."""

    @property
    def handed_up(self) -> dict[str, int]:
        """The marks of all outputs that the graph and its branches hand up, with their element types."""
        own = {self.flag: int(TensorProto.BOOL)} | {mark: self.types[name] for name, mark in self.shown.items()}
        return own | {mark: kind for branch in self.branches for mark, kind in branch.handed_up.items()}

    def lifted(self, model: ModelProto) -> ModelProto:
        """The branch as a model, whose inputs are the values that the branch reads from outside."""
        alone = _around(self.graph, model)
        alone.graph.input.extend(_described(name, self.types[name]) for name in _outer_values(self.graph))
        return alone


class _Run:
    """One run of an opened model."""

    def __init__(self, outputs: Mapping[str, NDArray[Any]]) -> None:
        self.outputs = outputs

    def executed(self, graph: Opened) -> Iterator[Opened]:
        """The graph and the branches inside it that ran."""
        if self.outputs[_at(graph.flag, 0)].any():
            yield graph
            for branch in graph.branches:
                yield from self.executed(branch)

    def execution(self, graph: Opened, node: NodeProto) -> Execution:
        read, wrote = (tuple(self.value(graph, name) if name else None for name in names) for names in (node.input, node.output))
        return Execution(Site(graph.scope, _result(node), node), read, wrote)

    def read_by(self, branch: Opened, graph: Opened) -> Feed:
        """The values that a branch of an executed graph reads from outside."""
        return {name: self.value(graph, name) for name in _outer_values(branch.graph)}

    def value(self, graph: Opened, name: str) -> NDArray[Any]:
        return self.outputs[_at(graph.shown[name], 0)]


class _Opener:
    """Rewrites models so that their outputs show the inputs and outputs of wanted nodes and what branches read from outside."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.marks = (f"captured.{number}" for number in itertools.count())

    def model(self, model: ModelProto, scope: Scope) -> tuple[ModelProto, Opened]:
        """The opened model and a description of its main graph. `scope`: the place of that graph in the original model."""
        graph, main = self.graph(onnx.shape_inference.infer_shapes(model).graph, scope, {}, 0)
        _hand_up(graph, main.handed_up, main.handed_up, 0)
        return _around(graph, model), main

    def graph(self, graph: GraphProto, scope: Scope, outer: Mapping[str, int], depth: int) -> tuple[GraphProto, Opened]:
        """A graph that computes all that it will hand up, not yet as outputs. `depth`: the number of enclosing branches."""
        types = {**outer, **_element_types(graph)}
        opened = GraphProto()
        opened.CopyFrom(graph)
        branches = [
            branch
            for node, twin in zip(graph.node, opened.node, strict=True)
            if node.op_type == "If" and node.domain in STANDARD
            for branch in self.branches(node, twin, scope, types, depth)
        ]
        used = [name for node in graph.node if self.wanted(node) for name in (*node.input, *node.output) if name]
        used += [name for branch in branches for name in _outer_values(branch.graph)]
        unknown = [name for name in used if not types.get(name)]
        if unknown:
            raise ValueError(f"shape inference does not tell the element type of {', '.join(unknown)}")
        shown = {name: next(self.marks) for name in dict.fromkeys(used)}
        flag = next(self.marks)
        opened.node.append(_constant(_at(flag, depth), TensorProto.BOOL, [True]))
        opened.node.extend(helper.make_node("Identity", [name], [_at(mark, depth)]) for name, mark in shown.items())
        return opened, Opened(scope, graph, types, flag, shown, tuple(branches))

    def branches(self, node: NodeProto, twin: NodeProto, scope: Scope, types: Mapping[str, int], depth: int) -> list[Opened]:
        """The branches of an If that contain wanted nodes. `twin`, a copy of the If, is changed to hand up their outputs."""
        found: dict[str, Opened] = {}
        for body, copy in zip(_bodies(node), _bodies(twin), strict=True):
            if any(sites(body.g, self.wanted)):
                graph, found[body.name] = self.graph(body.g, _inside(scope, node, body), types, depth + 1)
                copy.g.CopyFrom(graph)
        handed_up = {mark: kind for branch in found.values() for mark, kind in branch.handed_up.items()}
        for copy in _bodies(twin):
            own = found[copy.name].handed_up if copy.name in found else {}
            _hand_up(copy.g, own, handed_up, depth + 1)
        twin.output.extend(_at(mark, depth) for mark in handed_up)
        return list(found.values())


def _hand_up(graph: GraphProto, own: Mapping[str, int], everything: Mapping[str, int], depth: int) -> None:
    """Add outputs to a graph: its own, and an empty tensor for each output that only the other branch of its If has."""
    for mark, kind in everything.items():
        if mark not in own:
            graph.node.append(_constant(_at(mark, depth), kind, []))
        graph.output.append(_described(_at(mark, depth), kind))


def _around(graph: GraphProto, model: ModelProto) -> ModelProto:
    """The graph as a model, with the versions and functions of the model that it comes from."""
    terms = {"ir_version": model.ir_version, "opset_import": model.opset_import, "functions": model.functions}
    return ModelProto(graph=graph, **terms)


def _at(mark: str, depth: int) -> str:
    """The name of the output for a mark, `depth` branches down. A branch must not reuse a name of the graph that encloses it."""
    return f"{mark}@{depth}"


def _constant(name: str, kind: int, values: list[Any]) -> NodeProto:
    return helper.make_node("Constant", [], [name], value=helper.make_tensor("", kind, [len(values)], values))


def _described(name: str, kind: int) -> ValueInfoProto:
    """The description of a tensor of any shape."""
    return helper.make_tensor_value_info(name, kind, None)


def _result(node: NodeProto) -> str:
    """The name of the first result that is not omitted."""
    name: str = next(filter(None, node.output))
    return name


def _bodies(node: NodeProto) -> list[AttributeProto]:
    """The attributes of a node that are graphs."""
    return [attribute for attribute in node.attribute if attribute.type == AttributeProto.GRAPH]


def _inside(scope: Scope, node: NodeProto, body: AttributeProto) -> Scope:
    return (*scope, f"{_result(node)}.{body.name}")


def _element_types(graph: GraphProto) -> dict[str, int]:
    """The element types that a graph states; after shape inference, those of all its tensors."""
    described = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.output, *graph.value_info)}
    return described | {initializer.name: initializer.data_type for initializer in graph.initializer}


def _outer_values(graph: GraphProto) -> list[str]:
    """The names of the values that a graph reads from the graphs that enclose it."""
    used = [name for node in graph.node for name in node.input if name]
    used += [name for node in graph.node for body in _bodies(node) for name in _outer_values(body.g)]
    own = {value.name for value in (*graph.input, *graph.initializer)} | {name for node in graph.node for name in node.output}
    return list(dict.fromkeys(name for name in used if name not in own))
