"""Shape computations: nodes that compute only shapes, bounds, axes, repeats, sizes and conditions.

DirectML's caller computes them on the CPU, because they are fields of descriptors.
"""

from __future__ import annotations

import math
from collections import ChainMap, deque
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from dmlgather.onnx.problems.partial_types import type_of_value
from dmlgather.onnx.problems.subgraphs import element_count, integers_of, operator_name, subgraphs
from dmlgather.onnx_checking.following.operators import entry_of
from dmlgather.onnx_checking.reading.local_functions import Functions, Key
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


class _Use(IntEnum):
    """Who needs the elements of a value. If there are several uses, the largest number counts."""

    NONE = 0
    HOST = 1
    """DirectML's caller must know the elements: they are shapes, bounds, sizes or conditions."""
    DEVICE = 2
    """The elements are outputs of the model, or nodes on the device read them."""


class _FlowValue:
    """A tensor in a model.
    `few`: True if the tensor certainly has at most KEPT_ELEMENTS elements.
    `bulk`: True for a tensor that is too large for a shape. Inputs of the model with an unknown number of elements count, too.
    """

    __slots__ = ("bulk", "few", "makers", "readers", "use")

    def __init__(self, elements: int | None = None, outside: bool = False) -> None:
        """Make a value. `elements`: None if the number is unknown. `outside`: True for an input of the model."""
        self.few = elements is not None and elements <= KEPT_ELEMENTS
        self.bulk = outside if elements is None else not self.few
        self.use = _Use.NONE
        self.makers: list[_Step] = []
        self.readers: list[_Step] = []

    def add_use(self, use: _Use) -> bool:
        """Record who needs the elements. Return True if this changes `use`."""
        is_larger = use > self.use
        self.use = max(use, self.use)
        return is_larger


class _Step:
    """A flow of elements from `inputs` to `outputs`: through `node`, or into or out of a graph (`node` is None)."""

    __slots__ = ("bulk", "inputs", "node", "outputs", "use")

    def __init__(self, node: NodeProto | None, inputs: Sequence[_FlowValue], outputs: Sequence[_FlowValue]) -> None:
        self.node, self.inputs, self.outputs = node, inputs, outputs
        self.bulk = False
        self.use = _Use.NONE
        for value in inputs:
            value.readers.append(self)
        for value in outputs:
            value.makers.append(self)


_Values = Sequence[_FlowValue | None]
"""Inputs or outputs. None stands for one that is left out or undefined."""

_Names = ChainMap[str, _FlowValue]
"""The values that a graph can read. Inner names hide outer ones."""


class DataFlow:
    """The flow of elements through a model. The caller adds the main graph and each local function."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._values: list[_FlowValue] = []
        self._steps: list[_Step] = []
        self._inputs = {key: [self._value() for _ in function.input] for key, function in functions.items()}
        self._outputs = {key: [self._value() for _ in function.output] for key, function in functions.items()}

    def add_main(self, graph: GraphProto) -> None:
        """Add the main graph, which must have inferred types."""
        sizes = _sizes(graph)
        names = {value.name: self._value(sizes.get(value.name), outside=True) for value in graph.input}
        self._add_uses(self._graph(graph, _Names(names), sizes), _Use.DEVICE)

    def add_function(self, key: Key, graph: GraphProto) -> None:
        """Add a local function. Types in `graph` must hold for all calls."""
        names = dict(zip(self._functions[key].input, self._inputs[key], strict=True))
        self._pass(self._graph(graph, _Names(names), _sizes(graph)), self._outputs[key])

    def shape_computations(self) -> list[NodeProto]:
        """Return the shape computations, without control flow and function calls."""
        self._find_bulk()
        self._follow_back()
        return [step.node for step in self._steps if step.node is not None and step.use is _Use.HOST]

    def _find_bulk(self) -> None:
        """Mark values as `bulk` if they are computed from a `bulk` value and may be large."""
        waiting = deque(value for value in self._values if value.bulk)
        while waiting:
            for step in waiting.popleft().readers:
                if not step.bulk:
                    step.bulk = True
                    new_bulk = [value for value in step.outputs if not (value.bulk or value.few)]
                    for value in new_bulk:
                        value.bulk = True
                    waiting += new_bulk

    def _follow_back(self) -> None:
        """Propagate uses from outputs to inputs. A node that reads or computes a `bulk` value runs on the device."""
        for step in self._steps:
            step.bulk = step.node is not None and (step.bulk or any(value.bulk for value in step.outputs))
        waiting = deque(value for value in self._values if value.use)
        while waiting:
            value = waiting.popleft()
            for step in value.makers:
                use = _Use.DEVICE if step.bulk else value.use
                if use > step.use:
                    step.use = use
                    waiting += [source for source in step.inputs if source.add_use(use)]

    def _value(self, elements: int | None = None, outside: bool = False) -> _FlowValue:
        self._values.append(_FlowValue(elements, outside))
        return self._values[-1]

    def _graph(self, graph: GraphProto, names: _Names, sizes: Mapping[str, int]) -> _Values:
        """Add the nodes of a graph, and return the graph's outputs. The graph's values are added to `names`."""
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
        entry = entry_of(node)
        self._add_uses([value for number, value in enumerate(inputs) if number in entry.host], _Use.HOST)
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
            not_data = (*entry.host, *entry.unread)
            self._step(node, [value for number, value in enumerate(inputs) if number not in not_data], outputs)

    def _loop(self, states: _Values, outputs: _Values, body_inputs: _Values, body_outputs: _Values) -> None:
        """Add the flow through a Loop.
        `body_inputs`: iteration number, condition, state variables.
        `body_outputs`: condition, state variables, scan outputs.
        """
        self._add_uses(body_outputs[:1], _Use.HOST)
        self._pass(states, body_inputs[2:])
        self._pass(states, outputs)  # for zero iterations
        self._pass(body_outputs[1 : 1 + len(states)], body_inputs[2:])
        self._pass(body_outputs[1:], outputs)

    def _scan(self, states: int, inputs: _Values, outputs: _Values, body_inputs: _Values, body_outputs: _Values) -> None:
        """Add the flow through a Scan. The first `states` inputs and outputs are state variables."""
        self._pass(inputs, body_inputs)
        self._pass(inputs[:states], outputs)
        self._pass(body_outputs[:states], body_inputs)
        self._pass(body_outputs, outputs)

    def _unknown(self, inputs: _Values, outputs: _Values, bodies: Sequence[tuple[_Values, _Values]]) -> None:
        """Add a node that uses values in an unknown way. All values that it reads count as used on the device."""
        unknown = [*outputs, *(value for body_inputs, _ in bodies for value in body_inputs)]
        for value in unknown:
            if value is not None:
                value.bulk = not value.few
        self._add_uses([*inputs, *(value for _, body_outputs in bodies for value in body_outputs)], _Use.DEVICE)

    def _add_uses(self, values: _Values, use: _Use) -> None:
        for value in values:
            if value is not None:
                value.add_use(use)

    def _step(self, node: NodeProto | None, inputs: _Values, outputs: _Values) -> None:
        step = _Step(node, [value for value in inputs if value is not None], [value for value in outputs if value is not None])
        self._steps.append(step)

    def _pass(self, sources: _Values, targets: _Values) -> None:
        for source, target in zip(sources, targets, strict=False):
            self._step(None, [source], [target])


def _sizes(graph: GraphProto) -> dict[str, int]:
    types = {value.name: type_of_value(value) for value in (*graph.value_info, *graph.output, *graph.input)}
    return {name: math.prod(type_.numbers) for name, type_ in types.items() if type_.numbers is not None}
