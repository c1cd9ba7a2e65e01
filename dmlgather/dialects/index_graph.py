"""Graphs of gathers, slices and index arithmetic, for chains of calls, chains of descriptors, and DxDispatch models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.plan import Lookup, OutOfBounds
from dmlgather.wording import counted

ELEMENTWISE: Mapping[str, Any] = {
    "add": np.add,
    "multiply": np.multiply,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "remainder": np.remainder,
    "less": np.less,
    "equal": np.equal,
    "and": np.logical_and,
    "where": np.where,
}


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Elementwise arithmetic on indices, with NumPy's broadcasting. Integers wrap around on overflow.

    `operator`: a key of ELEMENTWISE, or "cast".
    """

    operator: str
    dtype: np.dtype[Any]

    def compute(self, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return the result of the arithmetic."""
        if self.operator == "cast":
            return inputs[0].astype(self.dtype)
        with np.errstate(all="ignore"):
            result = ELEMENTWISE[self.operator](*inputs)
        # NumPy's functions return scalars for arrays of rank 0.
        array: NDArray[Any] = np.asarray(result) if isinstance(result, np.generic) else result
        return array.astype(self.dtype)


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Concatenation along `axis`, counted from the front."""

    axis: int


@dataclass(frozen=True, slots=True)
class Bitcast:
    """Reinterpretation of a value's bytes, in row-major order, as an array of another type and shape."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


Work = Problem | Elementwise | Concatenation | Bitcast


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a graph. `name`: a unique name, which messages show, such as "Gather node 'rows'"."""

    name: str
    work: Work
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexGraph:
    """A graph of operations (steps, in topological order) on named arrays (values) with static shapes.

    `outputs`: the names of the output values. They may be inputs or constants, and may occur twice.
    `labels`: the names that messages show for some values, instead of the names in the graph.

    Raises ValueError if these fields contradict each other.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        defined: set[str] = set()
        for name in (*self.inputs, *self.constants):
            self._check_new("an input or constant", name, defined)
        for step in self.steps:
            for name in step.inputs:
                if name not in defined:
                    raise ValueError(f"{step.name} reads {name!r}, which nothing before it writes")
            for name in step.outputs:
                self._check_new(step.name, name, defined)
            if isinstance(step.work, Problem):
                self._check_problem(step, step.work)
        for name in self.outputs:
            if name not in defined:
                raise ValueError(f"output {name!r} is no value of the graph")
        for name, array in self.constants.items():
            if (array.shape, array.dtype) != (self.types[name].shape, self.types[name].dtype):
                raise ValueError(
                    f"constant {name!r} has the type {array.dtype} {list(array.shape)}, but {self.types[name]} is declared"
                )

    def _check_new(self, writer: str, name: str, defined: set[str]) -> None:
        if name in defined:
            raise ValueError(f"{writer} writes {name!r}, which already exists: a value can be written only once")
        if name not in self.types:
            raise ValueError(f"value {name!r} of {writer} has no type")
        defined.add(name)

    def _check_problem(self, step: Step, problem: Problem) -> None:
        values = (*step.inputs, *step.outputs)
        if len(values) != len(problem.tensors) or len(step.outputs) != 1:
            raise ValueError(
                f"{step.name} has {counted(len(values), 'value')}, but its problem has {len(problem.tensors)} tensors"
            )
        for name, tensor in zip(values, problem.tensors, strict=True):
            if self.types[name] != tensor:
                raise ValueError(f"{step.name} takes {tensor} as {name!r}, but the type of {name!r} is {self.types[name]}")

    @property
    def makers(self) -> dict[str, Step]:
        """The step that writes each value."""
        return {name: step for step in self.steps for name in step.outputs}

    def label(self, name: str) -> str:
        """Return the name that messages show for a value."""
        return self.labels.get(name, name)

    def renamed(self, names: Mapping[str, str], of_step: Callable[[str], str] = str) -> IndexGraph:
        """Return an equal graph with new names.

        `names`: the new names of values. Other values keep the old names.
        `of_step`: a function that returns the new name of a step.
        """

        def new(values: Sequence[str]) -> tuple[str, ...]:
            return tuple(names.get(value, value) for value in values)

        return IndexGraph(
            new(self.inputs),
            new(self.outputs),
            tuple(Step(of_step(step.name), step.work, new(step.inputs), new(step.outputs)) for step in self.steps),
            dict(zip(new([*self.types]), self.types.values(), strict=True)),
            dict(zip(new([*self.constants]), self.constants.values(), strict=True)),
            dict(zip(new([*self.labels]), self.labels.values(), strict=True)),
        )

    def needed(self) -> IndexGraph:
        """Return the graph without steps and constants that no output needs.

        A gather that can raise IndexError is kept even if no step reads its elements. It is dropped only if a kept step
        contains it (`Problem.holds`), because that step raises the error.
        """
        read, live, held = set(self.outputs), [], set[str]()
        for step in reversed(self.steps):
            if read.intersection(step.outputs) or (step.name not in held and self.can_raise(step)):
                live.append(step)
                read.update(step.inputs)
                held.update(step.work.holds if isinstance(step.work, Problem) else ())
        constants = {name: array for name, array in self.constants.items() if name in read}
        values = read.union(self.inputs, *(step.outputs for step in live))
        types = {name: tensor for name, tensor in self.types.items() if name in values}
        return replace(self, steps=tuple(reversed(live)), constants=constants, types=types)

    def can_raise(self, step: Step) -> bool:
        """Return True if a step raises IndexError for some values of its indices."""
        if not isinstance(step.work, Problem) or step.work.out_of_bounds is not OutOfBounds.RAISE:
            return False
        plan = step.work.plan()
        if plan.index_reach is None:
            return False
        indices, constant = self.types[step.inputs[1]], self.constants.get(step.inputs[1])
        limits = np.iinfo(indices.dtype)
        low, high = (limits.min, limits.max) if constant is None else (int(constant.min()), int(constant.max()))
        return not all(_in_range(lookup, low, high) for lookup in plan.lookups)


def _in_range(lookup: Lookup, low: int, high: int) -> bool:
    """Return True if all indices low … high are in range for a lookup."""
    negatives = low >= 0 or (low >= -lookup.wrap and min(high, -1) + lookup.wrap < lookup.limit)
    return negatives and high < lookup.limit


def chain(problems: Sequence[Problem]) -> IndexGraph:
    """Return the graph of a chain of problems. The output of each problem is the data of the next one.

    The inputs are the first data, then all indices. Raises ValueError if the chain is empty or types differ.
    """
    if not problems:
        raise ValueError("a chain has at least one problem")
    inputs, types, steps = ["data"], {"data": problems[0].data}, []
    previous = "data"
    for number, problem in enumerate(problems):
        if problem.data != types[previous]:
            raise ValueError(
                f"problem {number} ({problem.name}) takes data of {problem.data}, but the problem before it gives "
                f"{types[previous]}: expected equal shapes and types"
            )
        values = [previous]
        for role, tensor in zip(problem.inputs[1:], problem.tensors[1:-1], strict=True):
            values.append(f"{role}{number}")
            inputs.append(values[-1])
            types[values[-1]] = tensor
        previous = f"result{number}"
        types[previous] = problem.output
        steps.append(Step(f"step {number} ({problem.name})", problem, tuple(values), (previous,)))
    return IndexGraph(tuple(inputs), (previous,), tuple(steps), types)
