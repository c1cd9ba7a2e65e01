"""Indices that are clamped from both sides: two steps of a graph, and one thought."""

from __future__ import annotations

from collections import Counter

from dmlgather.dialects.index_graph import Elementwise, IndexGraph, Step


def clamps(graph: IndexGraph) -> dict[str, Step]:
    """The steps "maximum with a number" before a "minimum with a number" that alone reads them, by the latter's output."""
    read = Counter([*(name for step in graph.steps for name in step.inputs), *graph.outputs])
    makers, found = graph.makers, {}
    for step in graph.steps:
        first = makers.get(step.inputs[0]) if is_bound(graph, step, "minimum") else None
        if first is not None and is_bound(graph, first, "maximum") and read[step.inputs[0]] == 1:
            found[step.outputs[0]] = first
    return found


def is_bound(graph: IndexGraph, step: Step, *operators: str) -> bool:
    """Whether a step is one of these operators with a number as its second input."""
    work = step.work
    if not isinstance(work, Elementwise) or work.operator not in operators:
        return False
    return step.inputs[1] in graph.constants and graph.constants[step.inputs[1]].shape == ()
