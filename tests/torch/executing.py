"""Traced programs run by PyTorch, and the results of their nodes compared with those of their plans, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.fusion import Fused
from dmlgather.torch.tracing.exported import ExportedGraph
from dmlgather.torch.tracing.node_calls import host_array
from dmlgather.torch.tracing.nodes import graph_place, is_tensor
from dmlgather.torch.tracing.trace import FusedTorchProgram, trace
from tests.executed_traces import Executed, ExecutedEntry, Runs


def executed(source: Any, /, *example: Any, dynamic_shapes: Any = None) -> Executed:
    """The trace of a program, executed: whether every value that a node's plans make of PyTorch's own values is PyTorch's.

    What is random is drawn twice from one seed.
    """
    traced = trace(source, *example, dynamic_shapes=dynamic_shapes)
    program: Any = traced.program
    compared = [node for node, call in program.read.calls for _ in call.indexing]
    wanted = [name for node in compared for name in program.read.results[node]]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = _observed(program.program, example)
        torch.manual_seed(0)
        found = _values(program, example, wanted)
    runs = (_compared(expected[node], [found[name] for name in program.read.results[node]]) for node in compared)
    return Executed(traced, tuple(ExecutedEntry.of(entry, each) for entry, each in zip(traced, runs, strict=True)))


def _observed(exported: ExportedGraph, args: Sequence[Any]) -> dict[Any, tuple[Any, ...]]:
    """The tensors that each node gives when PyTorch runs the program on these arguments."""
    found: dict[Any, tuple[Any, ...]] = {}

    class Observer(torch.fx.Interpreter):  # type: ignore[misc] # PyTorch is not installed where types are checked
        def run_node(self, node: Any) -> Any:
            place = graph_place(node)
            if place is None:
                result = super().run_node(node)
            else:
                args, _ = self.fetch_args_kwargs_from_env(node)
                result = Observer(args[place]).run(*args[place + 1 :])
            values = result if isinstance(result, tuple | list) else (result,)
            # What is written later must not change what is compared.
            found[node] = tuple(value.detach().clone() for value in values if is_tensor(value))
            return result

    leaves = iter(exported.leaves(args, {}))
    placed = [
        exported.constants[node.name] if node.name in exported.constants else next(leaves)
        for node in exported.program.graph.nodes
        if node.op == "placeholder"
    ]
    with torch.no_grad():
        Observer(exported.program.graph_module).run(*placed)
    return found


def _values(program: FusedTorchProgram, args: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """Values of the graph, by name, when each step runs by itself."""
    leaves = program.program.leaves(args, {})
    graph = replace(program.read.graph, outputs=tuple(dict.fromkeys(names)))
    with arrays.in_order(leaves):
        values, home = program._inputs(leaves)
        return Fused(graph, graph, ()).run(values, compute=program._computing(home))


def _compared(expected: Sequence[Any], found: Sequence[Any]) -> Runs:
    for number, (tensor, array) in enumerate(zip(expected, found, strict=True)):
        own, other = _bytes(host_array(tensor)), _bytes(np.asarray(array))
        unequal = (own != other).any(axis=1) if own.shape == other.shape else np.array([True])
        if unequal.any():
            first = int(unequal.argmax())
            position = [int(place) for place in np.unravel_index(first, tuple(tensor.shape))]
            by_plan, by_torch = (f"0x{each[first][::-1].tobytes().hex()}" for each in (other, own))
            result = f"result {number}" if len(expected) > 1 else "result"
            return Runs(1, False, f"{result}{position} is {by_plan} by the plan and {by_torch} in PyTorch")
    return Runs(1, True)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of each element, shape [elements, bytes]."""
    packed = np.ascontiguousarray(array)
    return packed.reshape(-1).view(np.uint8).reshape(array.size, array.dtype.itemsize)
