"""Running a graph on arrays: problems by their plans, arithmetic and concatenations by NumPy or CuPy, the rest by the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from dmlgather import eager
from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.footprints import signature_on
from dmlgather.dialects.index_graph import ELEMENTWISE, Concatenation, Elementwise, IndexGraph, Step
from dmlgather.dialects.problem import Problem
from dmlgather.plan import OutOfBounds

Compute = Callable[[Step, Sequence[Any]], Sequence[Any]]
"""Does an opaque step: from the step and its arrays to the arrays that it writes."""


def run(graph: IndexGraph, given: Mapping[str, Any], compute: Compute | None, device: str | None) -> dict[str, Any]:
    """The outputs by name."""
    taken = eager.take({name: given[name] for name in graph.inputs}, device)
    for item in taken:
        expected = graph.types[item.name]
        if item.type != expected:
            error = TypeError if item.type.dtype != expected.dtype else ValueError
            raise error(f"{item.name} is {item.type}, but the graph was stated for {expected}")
    first = taken[0] if taken else None
    runs = first.runs if first else Device.parse(device or "cpu")
    values = {item.name: item.array for item in taken}
    values |= {name: arrays.move(array, CPU, runs.memory) for name, array in graph.constants.items()}
    last_use = {name: step for step in graph.steps for name in step.inputs}
    for step in graph.steps:
        inputs = [values[name] for name in step.inputs]
        values |= zip(step.outputs, _done(step, inputs, runs, compute), strict=True)
        for name in dict.fromkeys((*step.inputs, *step.outputs)):
            if last_use.get(name) in (step, None) and name not in graph.outputs:
                del values[name]
    found = {}
    for name in graph.outputs:
        result = values[name]
        if name in graph.inputs or name in graph.constants:
            result = result.copy()
        if first is not None:
            result = arrays.hand_back(arrays.move(result, runs.memory, first.home), first.given)
        found[name] = result
    return found


def _done(step: Step, inputs: Sequence[Any], runs: Device, compute: Compute | None) -> Sequence[Any]:
    work = step.work
    if isinstance(work, Problem):
        return [_launched(work, inputs, runs)]
    xp: Any = import_module("cupy" if runs.on_gpu else "numpy")
    if isinstance(work, Concatenation):
        return [xp.concatenate(inputs, work.axis)]
    if isinstance(work, Elementwise):
        if work.operator == "cast":
            return [inputs[0].astype(work.dtype)]
        function = getattr(xp, ELEMENTWISE[work.operator].__name__)
        with np.errstate(all="ignore"):
            return [xp.asarray(function(*inputs)).astype(work.dtype)]
    if compute is None:
        raise ValueError(f"{step.name} is an operator that only its dialect can run: say compute=")
    return compute(step, inputs)


def _launched(problem: Problem, inputs: Sequence[Any], runs: Device) -> Any:
    data = inputs[0]
    if problem.out_of_bounds is OutOfBounds.FILL and data.dtype.hasobject:
        return eager.execute(problem, inputs)
    result = arrays.allocate(runs.memory, problem.output.shape, data.dtype)
    signatures = [signature_on(runs.memory, array) for array in (*inputs, result)]
    ready = None
    with suppress(ValueError):  # strides that a plan cannot say
        ready = eager.prepare(problem, problem.out_of_bounds, problem.fill, runs, signatures)
    if ready is None:
        inputs = [array.copy(order="C") for array in inputs]
        signatures = [signature_on(runs.memory, array) for array in (*inputs, result)]
        ready = eager.prepare(problem, problem.out_of_bounds, problem.fill, runs, signatures)
    ready.write(inputs, result)
    return result
