"""Random models in which values go through nodes, branches, loops and functions to what the host has to know, or elsewhere."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import numpy as np
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

DOMAIN = "flow"
"""The domain of operators that no one knows, whose outputs have the types that the model declares, and of the functions."""

SIZES = (4, 2000, "N", None)
"""Elements of the inputs, and of what unknown operators make, in one dimension; None where the rank is not known."""


RECENT = 4
"""Values among which a node's inputs are chosen, the last ones: so that most are used."""


def random_flow(seed: int, calls: int) -> ModelProto:
    """A model. calls: how often each function is called, at most."""
    return _Flow(random.Random(seed), calls).model()


class _Flow:
    def __init__(self, rng: random.Random, calls: int) -> None:
        self.rng, self.numbers = rng, count()
        self.functions: list[FunctionProto] = []
        self.left: list[int] = []
        """How often each function may still be called."""
        for _ in range(rng.randrange(3)):
            function = self.function(len(self.functions))
            self.functions.append(function)
            self.left.append(calls)

    def model(self) -> ModelProto:
        inputs = [_declared(f"x{at}", size) for at, size in enumerate(self.rng.choices(SIZES[:3], (4, 1, 1), k=3))]
        graph = self.graph([value.name for value in inputs], 12, self.rng.randrange(1, 3), depth=2)
        graph.input.extend(inputs)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, functions=self.functions, ir_version=9)

    def function(self, number: int) -> FunctionProto:
        inputs = [self.name() for _ in range(self.rng.randrange(1, 3))]
        graph = self.graph(inputs, 4, self.rng.randrange(1, 3), depth=1)
        outputs = [value.name for value in graph.output]
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
        for tensor in graph.initializer:  # a function has none
            graph.node.insert(0, helper.make_node("Constant", [], [tensor.name], name=self.name(), value=tensor))
        return helper.make_function(DOMAIN, f"F{number}", inputs, outputs, graph.node, opsets, value_info=graph.value_info)

    def graph(self, names: list[str], nodes: int, outputs: int, depth: int) -> GraphProto:
        """A graph in which these names are known. Its outputs are made by unknown operators."""
        pool, zeros = list(names), self.name()
        graph = GraphProto(name="g", initializer=[numpy_helper.from_array(np.zeros(4, np.int64), zeros)])
        for _ in range(self.rng.randrange(1, nodes)):
            kind = self.kind(depth)
            if kind == "Loop":  # of unknown size, as inference would pass on a condition's that is no scalar
                graph.node.extend(self.op([self.rng.choice(pool[-RECENT:])]) for _ in range(2))
            node = self.node(kind, pool, zeros, depth, [each.output[0] for each in graph.node[-2:]])
            if kind == "Op":
                graph.value_info.extend(_declared(name, self.rng.choice(SIZES)) for name in node.output)
            graph.node.append(node)
            pool += node.output if kind != "Reshape" else ()
        for _ in range(outputs):
            graph.node.append(self.op([self.rng.choice(pool[-RECENT:])] if self.rng.random() < 0.8 else []))
            graph.output.append(_declared(graph.node[-1].output[0], None))
        return graph

    def kind(self, depth: int) -> str:
        kinds = ["Op", "Op", "Gather", "Gather", "Gather", "Shape", "Reshape", "Reshape", "Reshape"]
        return self.rng.choice([*kinds, *(["If", "Loop"] if depth else []), *(["Call"] if any(self.left) else [])])

    def node(self, kind: str, pool: list[str], zeros: str, depth: int, counters: list[str]) -> NodeProto:
        one, two = self.rng.choices(pool[-RECENT:], k=2)
        match kind:
            case "Op":
                return self.op([one, two][: self.rng.randrange(1, 3)], self.rng.randrange(1, 3))
            case "Gather":
                return self.made("Gather", [one, zeros], 1)
            case "If":
                outputs = self.rng.randrange(1, 3)
                branches = {f"{name}_branch": self.graph(pool, 4, outputs, depth - 1) for name in ("then", "else")}
                return self.made("If", [one], outputs, **branches)
            case "Loop":
                return self.loop(counters, pool, depth)
            case "Call":
                at = self.rng.choice([at for at, left in enumerate(self.left) if left])
                self.left[at] -= 1
                function = self.functions[at]
                arguments = self.rng.choices(pool[-RECENT:], k=len(function.input))
                return self.made(function.name, arguments, len(function.output), domain=DOMAIN)
            case _:
                return self.made(kind, [one, two] if kind == "Reshape" else [one], 1)

    def loop(self, counters: list[str], pool: list[str], depth: int) -> NodeProto:
        states, scans = self.rng.randrange(3), self.rng.randrange(2)
        scans = scans or not states
        taken = [self.name() for _ in range(2 + states)]
        body = self.graph([*pool, *taken], 5, 1 + states + scans, depth - 1)
        body.input.extend(_declared(name, None) for name in taken)
        return self.made("Loop", [*counters, *self.rng.choices(pool[-RECENT:], k=states)], states + scans, body=body)

    def op(self, inputs: list[str], outputs: int = 1) -> NodeProto:
        return self.made("Op", inputs, outputs, domain=DOMAIN)

    def made(self, operator: str, inputs: list[str], outputs: int, **more: Any) -> NodeProto:
        return helper.make_node(operator, inputs, [self.name() for _ in range(outputs)], self.name(), **more)

    def name(self) -> str:
        return f"n{next(self.numbers)}"


def _declared(name: str, size: int | str | None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.INT64, None if size is None else [size])
