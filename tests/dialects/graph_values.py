"""What a graph computes, step by step: by the reference backend and by NumPy, on arrays of host memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Opaque
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
            case Opaque():
                found = _opaque(step.work, given)
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


def _opaque(work: Opaque, inputs: list[NDArray[Any]]) -> NDArray[Any]:
    facts = dict(work.attributes)  # type: ignore[call-overload] # pairs, in the steps that these tests make
    if work.operator == "bitcast":
        elements = np.ascontiguousarray(inputs[0]).reshape(-1).view(facts["to"])
        return np.asarray(elements.reshape(facts.get("shape", inputs[0].shape)))
    assert work.operator == "overwrite"
    written, before = inputs
    after = before.copy()
    for place in np.ndindex(written.shape):
        after[sum(step * at for step, at in zip(facts["strides"], place, strict=True))] = written[place]
    return after
