"""A program on arrays, in plain NumPy: each problem by the reference backend. Shares nothing with the proofs."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Opaque, Step
from dmlgather.dialects.problem import Problem
from dmlgather.plan import IndexPlan, OutOfBounds, unravel

Tags = NDArray[np.int64]
"""Where each element of a value comes from: a number of an `Origins`."""


class BadIndexError(Exception):
    """A step raises for an index."""

    def __init__(self, step: Step, value: int, place: tuple[int, ...], indices: str) -> None:
        super().__init__(f"{step.name} raises for {value} at {list(place)} of its indices {indices!r}")
        self.step, self.value, self.place, self.indices = step, value, place, indices


class OpaqueOutputs:
    """Arrays that stand for what opaque steps write: equal inputs give equal outputs, and nothing else is known of them.

    indices: by operator, attributes and number of an output, those that are looked up, with a number below which they are in
    range wherever they are.
    """

    def __init__(self, seed: int, indices: Mapping[Hashable, int]) -> None:
        self.seed, self.indices = seed, indices
        self.applied: dict[Hashable, int] = {}
        """A number for each opaque operator with its inputs."""
        self.names: list[str] = []
        """The step that each number had first."""

    def number(self, step: Step, work: Opaque, inputs: Sequence[NDArray[Any]]) -> int:
        """The number of a step's operator with these inputs: equal for equal ones, of either program."""
        given = tuple((each.shape, str(each.dtype), _digest(each)) for each in inputs)
        key = (work.operator, work.attributes, repr(work.attributes), given)  # 0.0 and -0.0 are equal
        if key not in self.applied:
            self.applied[key] = len(self.applied)
            self.names.append(step.name)
        return self.applied[key]

    def output(self, work: Opaque, application: int, number: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """The output with a number of one application."""
        chance = np.random.default_rng([self.seed, application, number])
        below = self.indices.get((work.operator, work.attributes, number))
        if below is not None and dtype.kind in "iu":
            return chance.integers(0, min(below, int(np.iinfo(dtype).max) + 1), shape, dtype=np.int64).astype(dtype)
        return random_elements(chance, shape, dtype)


def random_elements(chance: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Random bits; of strings, random numbers."""
    if dtype.hasobject:
        found = np.empty(prod(shape), object)
        found[:] = [f"s{number}" for number in chance.integers(0, 2**40, prod(shape))]
        return found.reshape(shape)
    if dtype.kind == "b":
        return chance.integers(0, 2, shape).astype(bool)
    return np.frombuffer(chance.bytes(prod(shape) * dtype.itemsize), dtype).reshape(shape)


@dataclass(slots=True)
class Origins:
    """What the tags of two evaluations mean: each array that is not moved has a run of numbers.

    An opaque output has the same run in both, where its inputs are equal.
    """

    starts: dict[Hashable, int] = field(default_factory=dict)
    named: list[tuple[int, str, tuple[int, ...], bool]] = field(default_factory=list)
    """The first number of each run, what it is, its shape, and whether an opaque step wrote it."""
    end: int = 0

    def tags(self, key: Hashable, what: str, shape: tuple[int, ...], *, opaque: bool = False) -> Tags:
        """The tags of an array, new unless the key is known."""
        if key not in self.starts:
            self.starts[key] = self.end
            self.named.append((self.end, what, shape, opaque))
            self.end += max(prod(shape), 1)
        return np.arange(self.starts[key], self.starts[key] + prod(shape), dtype=np.int64).reshape(shape)

    def of(self, tag: int) -> str:
        """What an element is, in words: "x[3, 4]"."""
        start, what, shape, _ = next(each for each in reversed(self.named) if each[0] <= tag)
        place = unravel(tag - start, shape)
        return f"{what}[{', '.join(map(str, place))}]" if place else what

    def opaque(self, tags: Tags) -> NDArray[np.bool_]:
        """Which elements opaque steps have written."""
        starts, written = np.array([(start, opaque) for start, _, _, opaque in self.named]).reshape(-1, 2).T
        return np.asarray(written[np.searchsorted(starts, tags, "right") - 1], bool)


@dataclass(slots=True)
class Evaluation:
    """One run of a program.

    values: in the end, of the outputs. error: of the step that raised; then there are no outputs. tags: where the elements of
    values come from, if that was asked for. held: for each value, the applications of opaque steps that wrote some of its
    elements. chosen: those that wrote what was looked up, or computed with, for it. checked: those on which it depends that no
    step raises. given: the values that follow from inputs. takers: the opaque steps that take integers that follow from inputs.
    """

    values: dict[str, NDArray[Any]]
    error: BadIndexError | None = None
    tags: dict[str, Tags] = field(default_factory=dict)
    held: dict[str, frozenset[int]] = field(default_factory=dict)
    chosen: dict[str, frozenset[int]] = field(default_factory=dict)
    checked: set[int] = field(default_factory=set)
    given: set[str] = field(default_factory=set)
    takers: list[str] = field(default_factory=list)

    def by(self, names: Sequence[str]) -> frozenset[int]:
        """The applications that wrote or chose elements of these values."""
        return frozenset[int]().union(*(each[name] for name in names for each in (self.held, self.chosen)))


def evaluate(
    graph: IndexGraph,
    inputs: Sequence[NDArray[Any]],
    opaque: OpaqueOutputs,
    *,
    valid: bool = False,
    origins: Origins | None = None,
    numbers: Sequence[int] = (),
) -> Evaluation:
    """Run a program. inputs: of the graph's types. valid: every index out of range raises, whatever the step's own policy is.
    numbers: of each input among those of both programs, for the origins.
    """
    run = Evaluation(dict(zip(graph.inputs, inputs, strict=True)) | dict(graph.constants), given=set(graph.inputs))
    nothing = frozenset[int]()
    run.held, run.chosen = dict.fromkeys(run.values, nothing), dict.fromkeys(run.values, nothing)
    if origins is not None:
        for number, name in zip(numbers, graph.inputs, strict=True):
            run.tags[name] = origins.tags(("input", number), graph.label(name), graph.types[name].shape)
        for name, array in graph.constants.items():
            key = ("constant", str(array.dtype), array.shape, _digest(array))
            run.tags[name] = origins.tags(key, f"constant {name}", array.shape)
    for step, unneeded in zip(graph.steps, _last_read(graph), strict=True):
        try:
            _do(graph, step, run, opaque, valid=valid, origins=origins)
        except BadIndexError as error:
            run.error = error
            break
        for name in unneeded:
            del run.values[name]
            run.tags.pop(name, None)
    return run


def _last_read(graph: IndexGraph) -> list[list[str]]:
    """For each step, the values that no later one reads and that are no outputs: many steps would fill the memory with them."""
    needed, found = set(graph.outputs), []
    for step in reversed(graph.steps):
        found.append([name for name in {*step.inputs, *step.outputs} if name not in needed])
        needed.update(step.inputs)
    return found[::-1]


def _do(graph: IndexGraph, step: Step, run: Evaluation, opaque: OpaqueOutputs, *, valid: bool, origins: Origins | None) -> None:
    """One step. BadIndexError where it raises."""
    arrays = [run.values[name] for name in step.inputs]
    work, output = step.work, step.outputs[0]
    if not run.given.isdisjoint(step.inputs):
        run.given.update(step.outputs)
    if isinstance(work, Opaque):
        application = opaque.number(step, work, arrays)
        if any(name in run.given and graph.types[name].dtype.kind in "iu" for name in step.inputs):
            run.takers.append(step.name)
        for number, name in enumerate(step.outputs):
            kind = graph.types[name]
            run.values[name] = opaque.output(work, application, number, kind.shape, kind.dtype)
            run.held[name], run.chosen[name] = frozenset((application,)), frozenset()
            if origins is not None:
                what = f"the output of {step.name}"
                run.tags[name] = origins.tags(("opaque", application, number), what, kind.shape, opaque=True)
        return
    moved = _moved_inputs(step)
    run.held[output] = frozenset[int]().union(*(run.held[name] for name in moved))
    others = [name for name in step.inputs if name not in moved]
    run.chosen[output] = run.by(others).union(*(run.chosen[name] for name in moved))
    if isinstance(work, Problem):
        if valid or work.out_of_bounds is OutOfBounds.RAISE:
            run.checked |= run.by(others)
        run.values[output] = _moved(step, work, arrays, valid)
    elif isinstance(work, Concatenation):
        run.values[output] = np.concatenate(arrays, work.axis)
    else:
        run.values[output] = np.broadcast_to(work.compute(arrays), graph.types[output].shape)
    if origins is not None:
        run.tags[output] = _tags(graph, step, run, arrays, origins)


def _moved_inputs(step: Step) -> Sequence[str]:
    """The inputs whose elements a step moves, and does not compute or choose with."""
    match step.work:
        case Problem():
            return step.inputs[:1]
        case Concatenation():
            return step.inputs
        case Elementwise("where"):
            return step.inputs[1:]
    return ()


def _tags(graph: IndexGraph, step: Step, run: Evaluation, arrays: Sequence[NDArray[Any]], origins: Origins) -> Tags:
    """Where the elements that a step writes come from: arithmetic makes new ones, but a selection moves them."""
    tags = [run.tags[name] for name in step.inputs]
    shape = graph.types[step.outputs[0]].shape
    match step.work:
        case Problem():
            filled = origins.tags(("fill", step.name), f"the fill of {step.name}", ())
            return _moved_tags(step.work, tags[0], arrays, int(filled))
        case Concatenation(axis):
            return np.concatenate(tags, axis)
        case Elementwise("where"):
            return np.broadcast_to(np.where(arrays[0], tags[1], tags[2]), shape)
    return origins.tags(("computed", id(graph), step.name), f"the output of {step.name}", shape)


def _moved(step: Step, problem: Problem, arrays: Sequence[NDArray[Any]], valid: bool) -> NDArray[Any]:
    """The output of a problem. BadIndexError where it raises."""
    plan = _plan(problem)
    if valid and plan.lookups:
        _run(step, replace(plan, out_of_bounds=OutOfBounds.RAISE, fill=b""), arrays, problem.output.dtype)
    return _run(step, plan, arrays, problem.output.dtype).reshape(problem.output.shape)


def _run(step: Step, plan: IndexPlan, arrays: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    data, *indices = (np.ascontiguousarray(array).reshape(-1) for array in arrays)
    out = np.empty(plan.out_extent, dtype)
    bad = reference.run(plan, data, indices[0] if indices else None, out)
    if bad is not None:
        raise BadIndexError(step, int(indices[0][bad]), unravel(bad, arrays[1].shape), step.inputs[1])
    return out


@lru_cache(maxsize=4096)
def _plan(problem: Problem) -> IndexPlan:
    """The problem's plan over packed arrays: a search runs it many times."""
    return problem.plan()


def _moved_tags(problem: Problem, tags: Tags, arrays: Sequence[NDArray[Any]], filled: int) -> Tags:
    """What a problem makes of the tags of its data."""
    plan = _plan(problem)
    fill = np.int64(filled).tobytes() if plan.fill else b""
    out = np.empty(plan.out_extent, np.int64)
    indices = np.ascontiguousarray(arrays[1]).reshape(-1) if len(arrays) > 1 else None
    reference.run(replace(plan, element_bytes=8, fill=fill), np.ascontiguousarray(tags).reshape(-1), indices, out)
    return out.reshape(problem.output.shape)


def _digest(array: NDArray[Any]) -> Hashable:
    if array.dtype.hasobject:
        return tuple(array.reshape(-1).tolist())
    return hashlib.sha256(array.tobytes()).digest()
