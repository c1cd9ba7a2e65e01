"""A program's graph run step by step, each problem by itself: what fused runs are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgather.calls.eager import execute
from dmlgather.dialects.index_graph import Concatenation, Elementwise
from dmlgather.dialects.problem import Problem
from dmlgather.lax.tracing import jaxprs
from dmlgather.lax.tracing.index_graph import ProgramGraph


def stepped(program: ProgramGraph, arrays: Sequence[Any]) -> list[Any]:
    """The outputs for these arrays. Opaque steps are evaluated by JAX; PRNG keys are no inputs of those."""
    graph = program.graph
    values = {**graph.constants, **dict(zip(graph.inputs, map(np.asarray, arrays), strict=True))}
    for step in graph.steps:
        inputs = [values[name] for name in step.inputs]
        match step.work:
            case Problem():
                results = [execute(step.work, inputs)]
            case Elementwise():
                results = [step.work.compute(inputs)]
            case Concatenation(axis):
                results = [np.concatenate(inputs, axis)]
            case _:
                jaxpr, eqn = program.opaque[step.name]
                results = [np.asarray(result) for result in jaxprs.bind(jaxpr, eqn, inputs)]
        for name, result in zip(step.outputs, results, strict=True):
            assert (result.shape, result.dtype) == (graph.types[name].shape, graph.types[name].dtype), step
            values[name] = result
    return [values[name] for name in graph.outputs]
