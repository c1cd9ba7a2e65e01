"""Execution of a program in the reference backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.calls.eager import execute
from dmlgather.dialects.index_graph import Bitcast, Concatenation, IndexGraph, Step
from dmlgather.dialects.problem import Problem
from dmlgather.plan import IndexPlan, OutOfBounds


class ReferenceRun:
    """Runs a program in the reference backend. It prepares the program only once."""

    def __init__(self, graph: IndexGraph) -> None:
        self.graph = graph
        self._plans: dict[str, IndexPlan] = {}
        self._last_use = {name: number for number, step in enumerate(graph.steps) for name in step.inputs}

    def __call__(self, inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]] | str:
        """Run the program, and return its outputs.

        Returns the error as text if an index is out of range and must raise an error.
        """
        graph = self.graph
        values = {**inputs, **graph.constants}
        for number, step in enumerate(graph.steps):
            arrays, (output,) = [values[name] for name in step.inputs], step.outputs
            match step.work:
                case Problem():
                    result = self._run_problem(step, step.work, arrays)
                    if isinstance(result, str):
                        return result
                    values[output] = result
                case Concatenation(axis):
                    values[output] = np.concatenate(arrays, axis)
                case Bitcast(dtype, shape):
                    values[output] = np.ascontiguousarray(arrays[0]).reshape(-1).view(dtype).reshape(shape)
                case work:
                    values[output] = np.broadcast_to(work.compute(arrays), graph.types[output].shape)
            for name in step.inputs:
                if self._last_use[name] == number and name not in graph.outputs:
                    values.pop(name, None)
        return [np.asarray(values[name]) for name in graph.outputs]

    def _run_problem(self, step: Step, problem: Problem, arrays: Sequence[NDArray[Any]]) -> NDArray[Any] | str:
        if step.name not in self._plans:
            self._plans[step.name] = problem.plan()
        plan, tensor = self._plans[step.name], problem.output
        if plan.out_of_bounds is OutOfBounds.FILL and tensor.dtype.hasobject:  # a plan fills bytes, which cannot be a str
            return np.asarray(execute(problem, arrays, device="reference"))
        out = np.empty(tensor.shape, tensor.dtype)
        data, *indices = (np.ascontiguousarray(array).reshape(-1) for array in arrays)
        bad = reference.run(plan, data, indices[0] if indices else None, out.reshape(-1))
        return out if bad is None else f"index {indices[0][bad]} in {self.graph.label(step.inputs[1])!r} is out of range"
