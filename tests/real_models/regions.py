"""The parts of a graph that only move elements and compute with integers: each as a graph of its own."""

from __future__ import annotations

from collections.abc import Iterator

from dmlgather.dialects.index_graph import IndexGraph, Opaque, Step
from dmlgather.dialects.problem import Problem


def regions(graph: IndexGraph) -> Iterator[IndexGraph]:
    """The largest parts without opaque steps, connected by the values that one step writes and another reads. What the rest of
    the graph reads of a part is its outputs; those that only read constants are no parts.
    """
    steps = [step for step in graph.steps if not isinstance(step.work, Opaque)]
    home = {name: number for number, step in enumerate(steps) for name in step.outputs}
    groups = list(range(len(steps)))

    def group(number: int) -> int:
        while groups[number] != number:
            number = groups[number]
        return number

    for number, step in enumerate(steps):
        for name in step.inputs:
            if name in home:
                groups[group(number)] = group(home[name])
    parts: dict[int, list[Step]] = {}
    for number, step in enumerate(steps):
        parts.setdefault(group(number), []).append(step)
    for part in parts.values():
        found = _part(graph, part)
        if found.inputs and any(isinstance(step.work, Problem) for step in part):
            yield found


def _part(graph: IndexGraph, steps: list[Step]) -> IndexGraph:
    written = [name for step in steps for name in step.outputs]
    read = dict.fromkeys(name for step in steps for name in step.inputs)
    others = {name for step in graph.steps if step not in steps for name in step.inputs} | {*graph.outputs}
    constants = {name: graph.constants[name] for name in read if name in graph.constants}
    inputs = tuple(name for name in read if name not in constants and name not in written)
    outputs = tuple(name for name in written if name in others)
    types = {name: graph.types[name] for name in (*read, *written)}
    return IndexGraph(inputs, outputs, tuple(steps), types, constants)
