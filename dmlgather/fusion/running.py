"""Running a graph on arrays: problems by their plans, arithmetic and concatenations by NumPy or CuPy, the rest by the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from dmlgather import eager
from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU, Device
from dmlgather.dialects.element_types import STRING_KINDS
from dmlgather.dialects.index_graph import ELEMENTWISE, Concatenation, Elementwise, IndexGraph, Opaque, Step
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.fusion.launchers import Launcher, unlaunched
from dmlgather.fusion.targets import Targets, check_type, overlap
from dmlgather.plan import OutOfBounds

Compute = Callable[[Step, Sequence[Any]], Sequence[Any]]
"""Does an opaque step: from the step and its arrays, NumPy's or CuPy's, to the arrays that it writes."""


class GraphRunner:
    """Runs one graph. Its programs are prepared once for each device and layouts, and kept; so are constants on a GPU."""

    def __init__(self, graph: IndexGraph) -> None:
        self.graph, self.unlaunched = graph, unlaunched(graph)
        self.launchers = {step.name: Launcher(step.work) for step in graph.steps if isinstance(step.work, Problem)}
        self.has_opaque = any(isinstance(step.work, Opaque) for step in graph.steps)
        self.last_readers = {name: step.name for step in graph.steps for name in step.inputs}
        self._constants = lru_cache(maxsize=None)(partial(_constants, graph))

    def run(
        self,
        given: Mapping[str, Any],
        out: Sequence[Any],
        *,
        compute: Compute | None = None,
        device: str | None = None,
        stream: Any = None,
    ) -> list[Any]:
        """The graph's outputs, in order. given: arrays by the names of the inputs. out: for each output, an array or None."""
        with _on(stream, device, [given[name] for name in self.graph.inputs]):
            taken = eager.take({name: given[name] for name in self.graph.inputs}, device)
            for item in taken:
                check_type(item.name, item.type, self.graph.types[item.name])
            runs = taken[0].runs if taken else Device.parse(device or CPU)
            inputs = {item.name: item.array for item in taken}
            targets = Targets(self.graph, out, runs.memory, inputs)
            like = taken[0].given if taken else None
            given_values = inputs | self._constants(runs.memory)
            values = _Values(self, runs, targets, compute, like, given_values, dict(given_values))
            with runs.current():
                for step in self.graph.steps:
                    values.add(step)
            home = taken[0].home if taken else runs.memory
            results = values.results()
            found = []
            for number, result in enumerate(results):
                written = targets.returned(number, result)
                found.append(written if written is not None else _handed_back(result, runs.memory, home, taken))
            return found


@dataclass(slots=True)
class _Values:
    """The values of one run. like: the kind of array that is returned. given: inputs and constants, by name. now: those that
    exist, by name.
    """

    runner: GraphRunner
    runs: Device
    targets: Targets
    compute: Compute | None
    like: Any
    given: Mapping[str, Any]
    now: dict[str, Any]

    def add(self, step: Step) -> None:
        """Do a step, and drop what nothing needs behind it."""
        inputs = [self.now[name] for name in step.inputs]
        if isinstance(step.work, Problem):
            self.now[step.outputs[0]] = self._moved(step, step.work, inputs)
        else:
            self.now |= self._computed(step, inputs)
        for name in {*step.inputs, *step.outputs}.difference(self.runner.graph.outputs):
            if self.runner.last_readers.get(name, step.name) == step.name:
                del self.now[name]

    def results(self) -> list[Any]:
        """The graph's outputs, none of them memory of an input, of a constant, or of another output."""
        taken, found = {*self.given}, list[Any]()
        for name in self.runner.graph.outputs:
            array = self.now[name]
            found.append(self._copied(array) if name in taken or self._shared(array, found) else array)
            taken.add(name)
        return found

    def _shared(self, array: Any, found: Sequence[Any]) -> bool:
        """Whether an array may be memory of an input, of a constant, or of what was found before: opaque steps may give views."""
        return self.runner.has_opaque and any(overlap(self.runs.memory, array, each) for each in (*self.given.values(), *found))

    def _copied(self, array: Any) -> Any:
        copy = arrays.allocate(self.runs.memory, array.shape, array.dtype, like=self.like)
        arrays.fill_from(copy, self.runs.memory, array)
        return copy

    def _moved(self, step: Step, problem: Problem, inputs: Sequence[Any]) -> Any:
        (name,), data = step.outputs, inputs[0]
        if step.name in self.runner.unlaunched:
            return data.reshape(problem.output.shape)
        if problem.out_of_bounds is OutOfBounds.FILL and data.dtype.hasobject:
            return eager.execute(problem, inputs, device=str(self.runs))  # which knows what strings are filled with
        result = self.targets.direct.get(name)
        if result is None:
            like = self.like if name in self.runner.graph.outputs else None
            result = arrays.allocate(self.runs.memory, problem.output.shape, data.dtype, like=like)
        self.runner.launchers[step.name].launch(inputs, result, self.runs)
        return result

    def _computed(self, step: Step, inputs: Sequence[Any]) -> dict[str, Any]:
        """What a step without a plan writes, by name."""
        if isinstance(step.work, Elementwise | Concatenation):
            results: Sequence[Any] = [_arithmetic(step.work, inputs, self.runs.on_gpu)]
        elif self.compute is None:
            raise ValueError(f"{step.name} is an operator that only its dialect can run: call run with compute=")
        else:
            results = [self._adopted(each) for each in self.compute(step, inputs)]
        if len(results) != len(step.outputs):
            raise ValueError(f"{step.name} gave {len(results)} arrays, expected {len(step.outputs)}: {list(step.outputs)}")
        for name, array in zip(step.outputs, results, strict=True):
            check_type(f"{name!r} of {step.name}", TensorType(tuple(array.shape), array.dtype), self.runner.graph.types[name])
        return dict(zip(step.outputs, results, strict=True))

    def _adopted(self, array: Any) -> Any:
        """What an opaque step gave, in the memory where the graph runs; strings as objects."""
        found, home = arrays.adopt(array)
        if found.dtype.kind in STRING_KINDS:
            found = found.astype(object)
        return arrays.move(found, home, self.runs.memory)


def _arithmetic(work: Elementwise | Concatenation, inputs: Sequence[Any], on_gpu: bool) -> Any:
    if not on_gpu:
        return work.compute(inputs) if isinstance(work, Elementwise) else np.concatenate(inputs, work.axis)
    import cupy

    if isinstance(work, Concatenation):
        return cupy.concatenate(inputs, work.axis)
    if work.operator == "cast":
        return inputs[0].astype(work.dtype)
    return getattr(cupy, ELEMENTWISE[work.operator].__name__)(*inputs).astype(work.dtype)


def _constants(graph: IndexGraph, memory: Device) -> dict[str, Any]:
    return {name: arrays.move(np.asarray(array, order="C"), CPU, memory) for name, array in graph.constants.items()}


def _handed_back(result: Any, memory: Device, home: Device, taken: Sequence[eager.Taken]) -> Any:
    """A result as the kind of array that the first input is; strings of the type that all inputs have."""
    found = arrays.move(result, memory, home)
    if not found.dtype.hasobject:
        return arrays.hand_back(found, taken[0].given) if taken else found
    types = {item.given.dtype for item in taken if item.array.dtype.hasobject}
    return found.astype(types.pop()) if len(types) == 1 else found


def _on(stream: Any, device: str | None, given: Sequence[Any]) -> AbstractContextManager[None]:
    """A context in which a stream that was given is the current one."""
    if stream is None:
        return nullcontext()
    if device is None and given:
        return arrays.on_stream(stream, arrays.home_of(given[0]))
    return arrays.on_stream(stream, Device.parse(device or CPU))
