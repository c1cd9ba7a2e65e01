"""What a graph computes, step by step: by the reference backend and by NumPy, on arrays of host memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.dialects.index_graph import Bitcast, Concatenation, Elementwise, IndexGraph
from dmlgather.dialects.problem import Problem

Arrays = Mapping[str, NDArray[Any]]


def outputs_of(graph: IndexGraph, inputs: Arrays) -> list[NDArray[Any]]:
    """The outputs of a graph, in order. inputs: by name."""
    values: dict[str, NDArray[Any]] = {name: np.asarray(array) for name, array in (*inputs.items(), *graph.constants.items())}
    for step in graph.steps:
        given = [values[name] for name in step.inputs]
        match step.work:
            case Problem():
                found = solved(step.work, given)
            case Elementwise():
                found = step.work.compute(given)
            case Concatenation():
                found = np.concatenate(given, step.work.axis)
            case Bitcast(dtype, shape):
                found = np.frombuffer(given[0].tobytes(), dtype).reshape(shape)
        (name,) = step.outputs
        assert (found.shape, found.dtype) == (graph.types[name].shape, graph.types[name].dtype), step
        values[name] = found
    return [values[name] for name in graph.outputs]


def solved(problem: Problem, inputs: list[NDArray[Any]]) -> NDArray[Any]:
    """The output of a problem, by the reference backend, under the dialect's policy."""
    data, *indices = (np.ascontiguousarray(array) for array in inputs)
    out = np.zeros(problem.output.shape, data.dtype)
    width = f"V{data.dtype.itemsize}"
    flats = [array.reshape(-1) for array in (data, *indices, out)]
    reference.run(problem.plan(), flats[0].view(width), flats[1] if indices else None, flats[-1].view(width))
    return out
