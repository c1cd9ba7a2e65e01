"""Where the results of a model's nodes end up, found by tracing runs: a judge of the host's arithmetic that knows no fixed point.

A run here moves no elements. Each branch of an If runs, each Loop runs 0 to 4 times, and each call runs its function anew. So a
trace has no circles, and all paths from a node to the ends of the trace can be followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

MANY = 1025
"""Elements that are too many to be the host's."""

FIELDS = {"Reshape": (1,), "If": (0,), "Loop": (0, 1)}
"""The numbers of the inputs that DirectML's caller has to know, of the operators of these models."""

ITERATIONS = range(5)
"""How often each loop runs."""

Size = int | str | None
"""The number of elements of a value that has one dimension; "N" where it is not known, None where the rank is not known."""


@dataclass(eq=False)
class TracedValue:
    """A value of a run. bulk: whether it has MANY elements, or perhaps, and they come from outside. ends: where it is used."""

    size: Size = None
    bulk: bool = False
    ends: set[str] = field(default_factory=set)
    uses: list[TracedUse] = field(default_factory=list)


@dataclass(eq=False)
class TracedUse:
    """What a run of a node makes of a value. node: its name; none where a value only passes."""

    node: str | None
    made: list[TracedValue]


class FlowTrace:
    """All runs of a model. host: the names of the nodes whose results reach what DirectML's caller has to know, and no more.
    device: of those whose results reach an output, or that are the device's work.
    """

    def __init__(self, model: ModelProto) -> None:
        self._ends = cache(self._followed)
        self._functions = {(each.domain, each.name): each for each in model.functions}
        self._made: dict[str, list[TracedValue]] = {}
        self._bulk: set[str] = set()
        inputs = {name: _new(size, outside=True) for name, size in _declared(model.graph.input).items()}
        for value in self._run(model.graph, inputs):
            value.ends.add("device")
        reached = {name: {end for value in made for end in self._ends(value)} for name, made in self._made.items()}
        self.host = {name for name, found in reached.items() if found == {"host"} and name not in self._bulk}
        self.device = {name for name, found in reached.items() if "device" in found or (found and name in self._bulk)}

    def _followed(self, value: TracedValue) -> set[str]:
        """The ends of all paths that elements take."""
        found = set(value.ends)
        for use in value.uses:
            reached = {end for made in use.made for end in self._ends(made)}
            found |= {"device"} if reached and use.node in self._bulk else reached
        return found

    def _run(self, graph: GraphProto, names: dict[str, TracedValue]) -> list[TracedValue]:
        names |= {each.name: _new(each.dims[0]) for each in graph.initializer}
        declared = _declared(graph.value_info)
        for node in graph.node:
            names |= zip(node.output, self._node(node, names, declared), strict=True)
        return [names[each.name] for each in graph.output]

    def _node(self, node: NodeProto, names: dict[str, TracedValue], declared: Mapping[str, Size]) -> list[TracedValue]:
        inputs = [names[name] for name in node.input]
        bodies = {each.name: each.g for each in node.attribute if each.HasField("g")}
        fields = FIELDS.get(node.op_type, ())
        for at in fields:
            inputs[at].ends.add("host")
        if node.op_type == "If":
            return _merged([self._run(body, dict(names)) for body in bodies.values()])
        if node.op_type == "Loop":
            return _merged([self._loop(bodies["body"], names, inputs[2:], times) for times in ITERATIONS])
        function = self._functions.get((node.domain, node.op_type))
        if function is not None:
            outputs = [ValueInfoProto(name=name) for name in function.output]
            body = GraphProto(node=function.node, output=outputs, value_info=function.value_info)
            return self._run(body, dict(zip(function.input, inputs, strict=True)))
        unread = fields if node.op_type != "Shape" else (0,)
        read = [value for at, value in enumerate(inputs) if at not in unread]
        made = [_new(size, any(value.bulk for value in read)) for size in _sizes(node, inputs, declared)]
        self._made.setdefault(node.name, []).extend(made)
        if any(value.bulk for value in (*read, *made)):
            self._bulk.add(node.name)
        for value in read:
            value.uses.append(TracedUse(node.name, made))
        return made

    def _loop(self, body: GraphProto, names: dict[str, TracedValue], states: list[TracedValue], times: int) -> list[TracedValue]:
        scans = len(body.output) - 1 - len(states)
        stacked: list[list[TracedValue]] = [[] for _ in range(scans)]
        for _ in range(times):
            taken = [TracedValue(), TracedValue(), *_merged([states])]
            given = self._run(body, names | dict(zip((each.name for each in body.input), taken, strict=True)))
            given[0].ends.add("host")
            states = given[1 : 1 + len(states)]
            for scan, value in zip(stacked, given[1 + len(states) :], strict=True):
                scan.append(value)
        return [*states, *(_one_of(values) for values in stacked)]


def _sizes(node: NodeProto, inputs: list[TracedValue], declared: Mapping[str, Size]) -> list[Size]:
    """The sizes of a node's outputs. Each Gather has four indices."""
    match node.op_type:
        case "Gather":
            return [4 if inputs[0].size is not None else None]
        case "Shape":
            return [1 if inputs[0].size is not None else "N"]
        case "Constant":
            return [4]
        case _:
            return [declared.get(name) for name in node.output]


def _new(size: Size, outside: bool = False) -> TracedValue:
    """outside: whether elements come from values that are bulk, or from no node."""
    return TracedValue(size, size >= MANY if isinstance(size, int) else outside)


def _merged(alternatives: list[list[TracedValue]]) -> list[TracedValue]:
    """Values that are one of several each."""
    return [_one_of(list(values)) for values in zip(*alternatives, strict=True)]


def _one_of(values: list[TracedValue]) -> TracedValue:
    """A value of unknown size that any of these may pass to."""
    merged = TracedValue(None, any(value.bulk for value in values))
    for value in values:
        value.uses.append(TracedUse(None, [merged]))
    return merged


def _declared(values: list[ValueInfoProto]) -> dict[str, Size]:
    dims = {value.name: list(value.type.tensor_type.shape.dim) for value in values}
    return {name: (sizes[0].dim_value or "N") if sizes else None for name, sizes in dims.items()}
