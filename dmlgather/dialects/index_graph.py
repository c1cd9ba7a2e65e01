"""Programs as steps between values: problems in a row, descriptors, DxDispatch models, and what they become in ONNX."""

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
"""What `Elementwise` may do, by NumPy's names, with the function that says what it means; "cast" besides."""


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Arithmetic on indices, element by element; inputs are broadcast as NumPy does it, results wrap around.

    operator: a key of ELEMENTWISE, or "cast". dtype: of the output: integers or bools, or any type for "where", which moves bits.
    """

    operator: str
    dtype: np.dtype[Any]

    def compute(self, inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """The output of these arrays."""
        if self.operator == "cast":
            return inputs[0].astype(self.dtype)
        with np.errstate(all="ignore"):
            found = ELEMENTWISE[self.operator](*inputs)
        array: NDArray[Any] = np.asarray(found) if isinstance(found, np.generic) else found  # of arrays without dimensions
        return array.astype(self.dtype)


@dataclass(frozen=True, slots=True)
class Concatenation:
    """The inputs one after the other along `axis`, counted from the front."""

    axis: int


@dataclass(frozen=True, slots=True)
class Bitcast:
    """The bytes of a value, in row-major order, read as elements of another type under a shape of as many bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


Work = Problem | Elementwise | Concatenation | Bitcast


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a graph.

    name: for messages, unique in the graph: "Gather node 'rows'". inputs, outputs: names of values; a problem has its data, then
    its indices where it has any, and one output.
    """

    name: str
    work: Work
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexGraph:
    """A program as steps between values. All sizes are known.

    inputs, outputs: names of values, in the program's order; an output may be an input or a constant, and may be named twice.
    steps: each behind those whose outputs it reads. types: of every value. constants: the values that are known, which no step
    writes. labels: how users know a value, where that is not its name.

    ValueError where a value is read before it is written, is written twice or has no type, and where a problem's tensors differ
    from the types of its values.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known: set[str] = set()
        for name in (*self.inputs, *self.constants):
            self._check_new("an input or constant", name, known)
        for step in self.steps:
            for name in step.inputs:
                if name not in known:
                    raise ValueError(f"{step.name} reads {name!r}, which nothing before it writes")
            for name in step.outputs:
                self._check_new(step.name, name, known)
            if isinstance(step.work, Problem):
                self._check_problem(step, step.work)
        for name in self.outputs:
            if name not in known:
                raise ValueError(f"output {name!r} is no value of the graph")
        for name, array in self.constants.items():
            if (array.shape, array.dtype) != (self.types[name].shape, self.types[name].dtype):
                raise ValueError(f"constant {name!r} is {array.dtype} {list(array.shape)}, but its type is {self.types[name]}")

    def _check_new(self, writer: str, name: str, known: set[str]) -> None:
        if name in known:
            raise ValueError(f"{writer} writes {name!r}, which exists before: a value is written once")
        if name not in self.types:
            raise ValueError(f"value {name!r} of {writer} has no type")
        known.add(name)

    def _check_problem(self, step: Step, problem: Problem) -> None:
        values = (*step.inputs, *step.outputs)
        if len(values) != len(problem.tensors) or len(step.outputs) != 1:
            raise ValueError(f"{step.name} has {counted(len(values), 'value')}, but its problem {len(problem.tensors)} tensors")
        for name, tensor in zip(values, problem.tensors, strict=True):
            if self.types[name] != tensor:
                raise ValueError(f"{step.name} takes {tensor} as {name!r}, whose type is {self.types[name]}")

    @property
    def makers(self) -> dict[str, Step]:
        """The step that writes each value, by the value's name."""
        return {name: step for step in self.steps for name in step.outputs}

    def label(self, name: str) -> str:
        """How users know a value."""
        return self.labels.get(name, name)

    def renamed(self, names: Mapping[str, str], of_step: Callable[[str], str] = str) -> IndexGraph:
        """The graph with other names of values, where `names` has them, and of steps."""

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
        """The graph without steps and constants that neither an output nor a step that can raise needs.

        A gather under RAISE raises for a bad index, whether its elements are read or not. So it is a part of the program, with
        all that its indices and its data follow from, unless it cannot raise, or a step that is kept holds it and raises in its
        place.
        """
        wanted, kept, held = set(self.outputs), [], set[str]()
        for step in reversed(self.steps):
            if wanted.intersection(step.outputs) or (step.name not in held and self.can_raise(step)):
                kept.append(step)
                wanted.update(step.inputs)
                held.update(step.work.holds if isinstance(step.work, Problem) else ())
        constants = {name: array for name, array in self.constants.items() if name in wanted}
        known = wanted.union(self.inputs, *(step.outputs for step in kept))
        types = {name: tensor for name, tensor in self.types.items() if name in known}
        return replace(self, steps=tuple(reversed(kept)), constants=constants, types=types)

    def can_raise(self, step: Step) -> bool:
        """Whether a step raises for some indices. No: where it looks up none, or no value of their type, and no element of a
        constant, is out of range.
        """
        if not isinstance(step.work, Problem) or step.work.out_of_bounds is not OutOfBounds.RAISE:
            return False
        plan = step.work.plan()
        if plan.index_reach is None:
            return False
        indices, known = self.types[step.inputs[1]], self.constants.get(step.inputs[1])
        limits = np.iinfo(indices.dtype)
        low, high = (limits.min, limits.max) if known is None else (int(known.min()), int(known.max()))
        return not all(_in_range(lookup, low, high) for lookup in plan.lookups)


def _in_range(lookup: Lookup, low: int, high: int) -> bool:
    """Whether a lookup finds every index from low … high."""
    wrapped = low >= 0 or (low >= -lookup.wrap and min(high, -1) + lookup.wrap < lookup.limit)
    return wrapped and high < lookup.limit


def chain(problems: Sequence[Problem]) -> IndexGraph:
    """The graph of problems of which each reads what the one before it wrote: its data. Indices are inputs, in order, behind the
    first one's data.

    ValueError where there is no problem, or a problem's data differs from the output before it.
    """
    if not problems:
        raise ValueError("a chain has at least one problem")
    inputs, types, steps = ["data"], {"data": problems[0].data}, []
    before = "data"
    for number, problem in enumerate(problems):
        if problem.data != types[before]:
            raise ValueError(
                f"problem {number} ({problem.name}) takes data of {problem.data}, but the one before it gives {types[before]}: "
                "expected the same shape and type"
            )
        values = [before]
        for role, tensor in zip(problem.inputs[1:], problem.tensors[1:-1], strict=True):
            values.append(f"{role}{number}")
            inputs.append(values[-1])
            types[values[-1]] = tensor
        before = f"result{number}"
        types[before] = problem.output
        steps.append(Step(f"step {number} ({problem.name})", problem, tuple(values), (before,)))
    return IndexGraph(tuple(inputs), (before,), tuple(steps), types)
