"""The host's arithmetic: the nodes of a model whose results reach only shapes, bounds, axes, repeats, sizes and conditions.

DirectML has these as fields of its descriptors, so that its caller computes them on the CPU.
"""

from __future__ import annotations

import math
from collections import ChainMap, deque
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.partial_types import type_of_value
from dmlgather.onnx.problems.subgraphs import element_count, integers_of, operator_name, subgraphs
from dmlgather.onnx_checking.following.operators import row_of
from dmlgather.onnx_checking.reading.local_functions import Functions, Key
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


class _Reach(IntEnum):
    """Where the elements of a value end up; the greatest, where they end up in several places."""

    NOWHERE = 0
    HOST = 1
    """In what DirectML's caller has to know: shapes, bounds, axes, repeats, sizes and conditions."""
    DEVICE = 2
    """In outputs of the model, or in the device's work."""


class _FlowValue:
    """A value of the model. few: whether it is known to have at most KEPT_ELEMENTS. bulk: whether it has more, or comes from the
    device and has perhaps more.
    """

    __slots__ = ("bulk", "few", "makers", "reach", "readers")

    def __init__(self, elements: int | None = None, outside: bool = False) -> None:
        """elements: their number, where it is known. outside: whether no node makes them."""
        self.few = elements is not None and elements <= KEPT_ELEMENTS
        self.bulk = outside if elements is None else not self.few
        self.reach = _Reach.NOWHERE
        self.makers: list[_Step] = []
        self.readers: list[_Step] = []

    def reaches(self, end: _Reach) -> bool:
        """Note where elements end up. Whether it was not known."""
        news = end > self.reach
        self.reach = max(end, self.reach)
        return news


class _Step:
    """The elements of values go into others: through a node, or, where that is None, into a graph or out of one.

    bulk: whether some that are read are bulk. reach: where the results end up.
    """

    __slots__ = ("bulk", "made", "node", "reach", "read")

    def __init__(self, node: NodeProto | None, read: Sequence[_FlowValue], made: Sequence[_FlowValue]) -> None:
        self.node, self.read, self.made = node, read, made
        self.bulk = False
        self.reach = _Reach.NOWHERE
        for value in read:
            value.readers.append(self)
        for value in made:
            value.makers.append(self)


_Values = Sequence[_FlowValue | None]
"""Inputs or outputs, None for one that is left out or not defined."""

_Names = ChainMap[str, _FlowValue]
"""The names of a graph, which hide those of the graphs around it."""


class DataFlow:
    """Which elements of a model go where. Its graphs are added one by one: the main graph, and each local function."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._values: list[_FlowValue] = []
        self._steps: list[_Step] = []
        self._inputs = {key: [self._value() for _ in function.input] for key, function in functions.items()}
        self._outputs = {key: [self._value() for _ in function.output] for key, function in functions.items()}

    def add_main(self, graph: GraphProto) -> None:
        """Add the main graph, with inferred types."""
        sizes = _sizes(graph)
        names = {each.name: self._value(sizes.get(each.name), outside=True) for each in graph.input}
        self._end(self._graph(graph, _Names(names), sizes), _Reach.DEVICE)

    def add_function(self, key: Key, graph: GraphProto) -> None:
        """Add a local function: the graph of its nodes, with what all its calls have in common."""
        names = dict(zip(self._functions[key].input, self._inputs[key], strict=True))
        self._pass(self._graph(graph, _Names(names), _sizes(graph)), self._outputs[key])

    def host_nodes(self) -> list[NodeProto]:
        """The nodes that are the host's arithmetic. Control flow and calls of functions are not listed: they only pass values."""
        self._find_bulk()
        self._follow_back()
        return [step.node for step in self._steps if step.node is not None and step.reach is _Reach.HOST]

    def _find_bulk(self) -> None:
        """What is made of bulk is bulk as well, where it is not known to be little."""
        waiting = deque(value for value in self._values if value.bulk)
        while waiting:
            for step in waiting.popleft().readers:
                if not step.bulk:
                    step.bulk = True
                    fresh = [value for value in step.made if not (value.bulk or value.few)]
                    for value in fresh:
                        value.bulk = True
                    waiting += fresh

    def _follow_back(self) -> None:
        """Where a result ends up, what it is made of ends up as well. A node that reads or makes bulk is the device's work."""
        for step in self._steps:
            step.bulk = step.node is not None and (step.bulk or any(value.bulk for value in step.made))
        waiting = deque(value for value in self._values if value.reach)
        while waiting:
            value = waiting.popleft()
            for step in value.makers:
                reach = _Reach.DEVICE if step.bulk else value.reach
                if reach > step.reach:
                    step.reach = reach
                    waiting += [source for source in step.read if source.reaches(reach)]

    def _value(self, elements: int | None = None, outside: bool = False) -> _FlowValue:
        self._values.append(_FlowValue(elements, outside))
        return self._values[-1]

    def _graph(self, graph: GraphProto, names: _Names, sizes: Mapping[str, int]) -> _Values:
        """The outputs of a graph. names: those of its inputs; those that it defines are added. sizes: as of `_sizes`."""
        own = names.maps[0]
        for tensor in graph.initializer:
            own.setdefault(tensor.name, self._value(element_count(tensor)))
        for sparse in graph.sparse_initializer:
            own.setdefault(sparse.values.name, self._value(math.prod(sparse.dims)))
        for node in graph.node:
            inputs = [names.get(name) if name else None for name in node.input]
            outputs = [self._value(sizes.get(name)) if name else None for name in node.output]
            bodies = [self._body(body, names) for _, body in subgraphs(node)]
            self._node(node, inputs, outputs, bodies)
            own.update((name, value) for name, value in zip(node.output, outputs, strict=True) if value is not None)
        return [names.get(value.name) for value in graph.output]

    def _body(self, graph: GraphProto, names: _Names) -> tuple[_Values, _Values]:
        """The inputs and outputs of a graph inside a node."""
        sizes = _sizes(graph)
        inputs = {value.name: self._value(sizes.get(value.name)) for value in graph.input}
        outputs = self._graph(graph, names.new_child(dict(inputs)), sizes)
        return list(inputs.values()), outputs

    def _node(self, node: NodeProto, inputs: _Values, outputs: _Values, bodies: Sequence[tuple[_Values, _Values]]) -> None:
        key, operator = self._functions.called(node), operator_name(node)
        if key is not None:
            self._pass(inputs, self._inputs[key])
            self._pass(self._outputs[key], outputs)
            self._unknown([], [], bodies)
            return
        row = row_of(node)
        self._end([value for at, value in enumerate(inputs) if at in row.host], _Reach.HOST)
        if operator == "If":
            for _, results in bodies:
                self._pass(results, outputs)
        elif operator == "Loop" and len(bodies) == 1:
            self._loop(inputs[2:], outputs, *bodies[0])
        elif operator == "Scan" and len(bodies) == 1 and len(bodies[0][0]) == len(inputs):
            scanned = integers_of(node).get("num_scan_inputs", 0)
            self._scan(len(inputs) - scanned, inputs, outputs, *bodies[0])
        elif operator == "SequenceMap" and len(bodies) == 1:
            self._pass(inputs, bodies[0][0])
            self._pass(bodies[0][1], outputs)
        elif bodies:
            self._unknown(inputs, outputs, bodies)
        else:
            other = (*row.host, *row.unread)
            self._step(node, [value for at, value in enumerate(inputs) if at not in other], outputs)

    def _loop(self, states: _Values, outputs: _Values, taken: _Values, given: _Values) -> None:
        """taken: what the body takes: the number of the iteration, a condition, states. given: what it gives: a condition,
        states, and parts of the other outputs of the node.
        """
        self._end(given[:1], _Reach.HOST)
        self._pass(states, taken[2:])
        self._pass(states, outputs)  # of no iteration
        self._pass(given[1 : 1 + len(states)], taken[2:])
        self._pass(given[1:], outputs)

    def _scan(self, states: int, inputs: _Values, outputs: _Values, taken: _Values, given: _Values) -> None:
        """states: the number of inputs, and of outputs, that are states."""
        self._pass(inputs, taken)
        self._pass(inputs[:states], outputs)
        self._pass(given[:states], taken)
        self._pass(given, outputs)

    def _unknown(self, inputs: _Values, outputs: _Values, bodies: Sequence[tuple[_Values, _Values]]) -> None:
        """A node does with its graphs what its operator alone knows."""
        made = [*outputs, *(value for taken, _ in bodies for value in taken)]
        for value in made:
            if value is not None:
                value.bulk = not value.few
        self._end([*inputs, *(value for _, given in bodies for value in given)], _Reach.DEVICE)

    def _end(self, values: _Values, reach: _Reach) -> None:
        for value in values:
            if value is not None:
                value.reaches(reach)

    def _step(self, node: NodeProto | None, read: _Values, made: _Values) -> None:
        step = _Step(node, [each for each in read if each is not None], [each for each in made if each is not None])
        self._steps.append(step)

    def _pass(self, values: _Values, others: _Values) -> None:
        """Values become others one by one, as far as there are both."""
        for one, other in zip(values, others, strict=False):
            self._step(None, [one], [other])


def _sizes(graph: GraphProto) -> dict[str, int]:
    """The numbers of elements that are known, by name."""
    types = {value.name: type_of_value(value) for value in (*graph.value_info, *graph.output, *graph.input)}
    return {name: math.prod(known.numbers) for name, known in types.items() if known.numbers is not None}
