"""The search for inputs for which two programs differ."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_arithmetic import whole_range
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph, Opaque
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.equivalence.evaluation import Evaluation, OpaqueOutputs, Origins, evaluate, random_elements
from dmlgather.equivalence.results import Counterexample
from dmlgather.plan import unravel
from dmlgather.wording import counted


@dataclass(frozen=True, slots=True)
class Matched:
    """The inputs of both programs.

    names, types: as the first program has them, where it has them; of integers of different types, the type whose values both
    hold. first, second: for each input of the program, its number among these. remarks: what is not equal and compared still.
    """

    names: tuple[str, ...]
    types: tuple[TensorType, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    remarks: tuple[str, ...]


def matched(first: IndexGraph, second: IndexGraph, *, flat: bool) -> Matched | str:
    """The inputs, or in what the programs differ. flat: elements are compared in row-major order, whatever the shapes are.

    Inputs are matched by name where the names of one program are among those of the other, else by position.
    """
    ones, others = first.inputs, second.inputs
    by_name = set(ones) <= set(others) or set(others) <= set(ones)
    if not by_name and len(ones) != len(others):
        return f"the first program has {counted(len(ones), 'input')}, the second {len(others)}, and their names differ"
    if len(first.outputs) != len(second.outputs):
        return f"the first program has {counted(len(first.outputs), 'output')}, the second {len(second.outputs)}"
    names = [*ones, *(name for name in others if name not in ones)] if by_name else [*ones]
    positions = tuple(names.index(name) for name in others) if by_name else tuple(range(len(others)))
    types = [first.types[name] for name in ones] + [second.types[name] for name in names[len(ones) :]]
    remarks = []
    for number, other in zip(positions, (second.types[name] for name in others), strict=True):
        both = _common(types[number], other, flat)
        what = f"input {names[number]!r} is {types[number]} in the first program and {other} in the second"
        if both is None:
            return what
        if both.dtype != other.dtype or both.dtype != types[number].dtype:
            remarks.append(f"{what}: compared for the values of {both.dtype}")
        types[number] = both
    for one, two in zip(first.outputs, second.outputs, strict=True):
        own, other = first.types[one], second.types[two]
        if own.dtype != other.dtype or _common(own, other, flat) is None:
            return f"output {first.label(one)!r} is {own} in the first program and {other} in the second"
    labels = [first.label(name) for name in ones] + [second.label(name) for name in names[len(ones) :]]
    return Matched(tuple(labels), tuple(types), tuple(range(len(ones))), positions, tuple(remarks))


def _common(one: TensorType, other: TensorType, flat: bool) -> TensorType | None:
    """The type whose elements both types hold; None where they do not fit."""
    if one.shape != other.shape and not (flat and one.layout.extent == other.layout.extent):
        return None
    if one.dtype == other.dtype:
        return one
    if one.dtype.kind not in "iu" or other.dtype.kind not in "iu":
        return None
    (low, high), (least, most) = whole_range(one.dtype), whole_range(other.dtype)
    if least <= low and high <= most:
        return one
    return replace(one, dtype=other.dtype) if low <= least and most <= high else None


# The search for inputs for which two programs differ.


MOST_PLACES = 48
"""Positions of an index tensor that are tried one at a time."""

MOST_EDGES = 64
"""Values that are tried for an index."""

RANDOM_ROUNDS = 100
"""Random inputs that are tried."""


@dataclass(frozen=True, slots=True)
class Indices:
    """What is tried for an input whose elements are looked up. below: 0 … below - 1 are in range wherever they are looked up.
    edges: the values at which something may change, those nearest to 0 first, then those near the ends of the type.
    """

    below: int
    edges: tuple[int, ...]


def limits(graph: IndexGraph) -> dict[str, set[int]]:
    """For each value whose elements are looked up somewhere, also after arithmetic and moves: the limits of these lookups."""
    found: dict[str, set[int]] = {}
    for step in reversed(graph.steps):
        if isinstance(step.work, Problem):
            lookups = step.work.plan().lookups
            if lookups:
                found.setdefault(step.inputs[1], set()).update(lookup.limit for lookup in lookups)
        passed = found.get(step.outputs[0])
        if passed and isinstance(step.work, Problem | Concatenation | Elementwise):
            for name in step.inputs[:1] if isinstance(step.work, Problem) else step.inputs:
                found.setdefault(name, set()).update(passed)
    return found


def indices_of(dtype: np.dtype[Any], own: set[int], others: set[int]) -> Indices:
    """What is tried for one input. own: the limits of its lookups. others: further numbers at which something may change."""
    least, most = whole_range(dtype)
    below = max(min((limit for limit in own if limit), default=1), 1)
    if dtype.itemsize == 1:
        return Indices(below, tuple(sorted(range(least, most + 1), key=lambda value: (abs(value), value))))
    near = {sign * number + move for number in own | others for sign in (1, -1) for move in (-1, 0, 1)} | {-1, 0, 1}
    edges = sorted((value for value in near if least <= value <= most), key=lambda value: (abs(value), value))
    moves = sorted({0, 1, *map(abs, own | others)})[: MOST_EDGES // 8]
    ends = {end for move in moves for end in (least + move, most - move) if least <= end <= most}.difference(edges)
    return Indices(below, (*edges[: MOST_EDGES - len(ends)], *sorted(ends)))


def arithmetic_constants(graph: IndexGraph) -> set[int]:
    """The numbers that a program's arithmetic uses, where they are few."""
    names = {name for step in graph.steps if isinstance(step.work, Elementwise) for name in step.inputs}
    arrays = [array for name, array in graph.constants.items() if name in names and array.size <= 16 and array.dtype.kind in "iu"]
    return {int(value) for array in arrays for value in array.flat}


class TrialInputs:
    """Draws the inputs.

    types: of each input. indices: for those that are looked up, what is tried. opaque: types of what else is drawn beside them.
    """

    def __init__(
        self, types: Sequence[TensorType], indices: Sequence[Indices | None], seed: int, opaque: Sequence[TensorType] = ()
    ) -> None:
        self.types, self.indices, self.opaque = types, indices, opaque
        self.chance = np.random.default_rng(seed)

    def __iter__(self) -> Iterator[list[NDArray[Any]]]:
        """Inputs with valid indices; then all indices at one edge; then random ones; then single indices at an edge."""
        for run in range(self._runs()):
            yield self._inputs(self._data(run), [self._valid(k) for k in range(len(self.types))])
        looked_up = [number for number, each in enumerate(self.indices) if each is not None and self.types[number].layout.extent]
        for number in looked_up:
            for edge in self._edges(number):
                chosen = [self._valid(k) for k in range(len(self.types))]
                chosen[number] = np.full(self.types[number].shape, edge, self.types[number].dtype)
                yield self._inputs(self._data(0), chosen)
        for run in range(RANDOM_ROUNDS if looked_up else 0):
            yield self._inputs(self._data(run), [self._mixed(k, run) for k in range(len(self.types))])
        for number in looked_up:
            for place in self._places(prod(self.types[number].shape)):
                for edge in self._edges(number):
                    chosen = [self._valid(k) for k in range(len(self.types))]
                    array = np.array(chosen[number])
                    array.flat[place] = edge
                    chosen[number] = array
                    yield self._inputs(self._data(0), chosen)

    def _inputs(self, data: list[NDArray[Any]], indices: list[NDArray[Any] | None]) -> list[NDArray[Any]]:
        return [one if other is None else other for one, other in zip(data, indices, strict=True)]

    def _runs(self) -> int:
        """How many draws of the data tell elements apart, where a type has few values."""
        sizes = [(1 if kind.dtype.kind == "b" else 8 * kind.dtype.itemsize) for kind in (*self.types, *self.opaque)]
        return max([1 if bits > 16 else 4 if bits == 16 else 8 if bits > 1 else 24 for bits in sizes], default=1)

    def _data(self, run: int) -> list[NDArray[Any]]:
        """Elements that differ from all others; where a type has too few values for that, others in each run."""
        if run == 0 or self._runs() == 1:
            return self.counted()
        return [random_elements(self.chance, kind.shape, kind.dtype) for kind in self.types]

    def counted(self) -> list[NDArray[Any]]:
        """Elements counted through all inputs; random ones where a type does not hold these numbers."""
        starts = accumulate((prod(kind.shape) for kind in self.types), initial=0)
        return [self._counted(kind, start) for kind, start in zip(self.types, starts, strict=False)]

    def _counted(self, kind: TensorType, start: int) -> NDArray[Any]:
        numbers = np.arange(start, start + prod(kind.shape), dtype=np.int64).reshape(kind.shape)
        if kind.dtype.hasobject:
            return numbers.astype(str).astype(object)
        with np.errstate(all="ignore"):
            counted = numbers.astype(kind.dtype)
            exact = kind.dtype.kind != "b" and bool((counted.astype(np.complex128) == numbers).all())
        return counted if exact else random_elements(self.chance, kind.shape, kind.dtype)

    def _valid(self, number: int) -> NDArray[Any] | None:
        """Random indices in range; None for data."""
        tried, kind = self.indices[number], self.types[number]
        if tried is None:
            return None
        return self.chance.integers(0, min(tried.below, whole_range(kind.dtype)[1] + 1), kind.shape).astype(kind.dtype)

    def _mixed(self, number: int, run: int) -> NDArray[Any] | None:
        """Indices in range, and more or fewer at the edges."""
        valid, tried = self._valid(number), self.indices[number]
        if valid is None or tried is None:
            return None
        edges = np.array(tried.edges, self.types[number].dtype)
        chosen = edges[self.chance.integers(0, len(edges) // (1 + run % 3) or 1, valid.shape)]
        return np.where(self.chance.random(valid.shape) < (run % 5) / 4, chosen, valid)

    def _edges(self, number: int) -> tuple[int, ...]:
        tried = self.indices[number]
        return () if tried is None else tried.edges

    def _places(self, count: int) -> Sequence[int]:
        if count <= MOST_PLACES:
            return range(count)
        return sorted({0, count - 1, *self.chance.choice(count, MOST_PLACES - 2, replace=False).tolist()})


MOST_WORK = 2**27
"""Elements that all runs of a search write, where a step counts as STEP_WORK at least."""

STEP_WORK = 2**14

LARGEST = 2**28
"""Elements that both programs may write together, and that an input may have: programs with more are not run."""

MOST_DOUBTS = 8
"""Differences that depend on opaque steps after which no certain one is searched any more."""


@dataclass(frozen=True, slots=True)
class Found:
    """Inputs for which two programs differ. doubt: the opaque step on which that depends, in words; "" where it is certain."""

    counterexample: Counterexample
    doubt: str = ""


class Search:
    """Runs both programs on many inputs and compares the bits of their outputs.

    valid: only inputs count for which no index of the first program is out of range.
    """

    def __init__(self, first: IndexGraph, second: IndexGraph, inputs: Matched, *, valid: bool, seed: int) -> None:
        self.first, self.second, self.inputs, self.valid, self.seed = first, second, inputs, valid, seed
        own = [limits(first), limits(second)]
        everywhere = {limit for each in own for found in each.values() for limit in found}
        others = everywhere | arithmetic_constants(first) | arithmetic_constants(second)
        looked_up: list[set[int]] = [set() for _ in inputs.names]
        for graph, numbers, found in ((first, inputs.first, own[0]), (second, inputs.second, own[1])):
            for number, name in zip(numbers, graph.inputs, strict=True):
                looked_up[number] |= found.get(name, set())
        indices = [
            indices_of(kind.dtype, limits_, others) if limits_ and kind.dtype.kind in "iu" else None
            for kind, limits_ in zip(inputs.types, looked_up, strict=True)
        ]
        graphs = (first, second)
        self.writes = [prod(graph.types[name].shape) for graph in graphs for step in graph.steps for name in step.outputs]
        opaque = [
            graph.types[name]
            for graph in graphs
            for step in graph.steps
            if isinstance(step.work, Opaque)
            for name in step.outputs
        ]
        self.trials = TrialInputs(inputs.types, indices, seed, opaque)
        self.opaque_indices, self.simplify = _opaque_indices(graphs, own), not opaque

    def run(self) -> Found | None:
        """The first inputs for which the programs certainly differ, else those for which they may; None where none are found, and
        where the programs are too large to be run.
        """
        doubtful: list[Found] = []
        for arrays in self._trials():
            self.seed += 1  # what stands for opaque outputs is drawn anew
            found = self._compared(arrays)
            if found is not None and not found.doubt:
                return self._simpler(arrays, found) if self.simplify else found
            doubtful += [] if found is None else [found]
            if len(doubtful) == MOST_DOUBTS:
                break
        return doubtful[0] if doubtful else None

    def _simpler(self, arrays: list[NDArray[Any]], found: Found) -> Found:
        """The same kind of difference for simpler inputs: counted data, and as many indices 0 as can be."""
        counted, raises = self.trials.counted(), found.counterexample.output is None
        for number, tried in enumerate(self.trials.indices):
            places = range(min(arrays[number].size, MOST_PLACES)) if tried is not None else [slice(None)]
            for place in places:
                changed = np.array(arrays[number])
                changed.reshape(-1)[place] = 0 if tried is not None else counted[number].reshape(-1)
                others = [*arrays[:number], changed, *arrays[number + 1 :]]
                other = self._compared(others)
                if other is not None and not other.doubt and (other.counterexample.output is None) == raises:
                    arrays, found = others, other
        return found

    def _trials(self) -> Iterator[list[NDArray[Any]]]:
        """As many inputs as the work allows, one at least unless the programs are too large."""
        cost = sum(max(each, STEP_WORK) for each in self.writes)
        return islice(self.trials, 0 if self.too_large else max(1, MOST_WORK // max(cost, STEP_WORK)))

    @property
    def too_large(self) -> bool:
        """Whether the programs are not run."""
        return max([sum(self.writes), *(prod(kind.shape) for kind in self.inputs.types)]) > LARGEST

    def _given(self, number: int, arrays: Sequence[NDArray[Any]]) -> tuple[IndexGraph, Sequence[int], list[NDArray[Any]]]:
        """The first program, or the second; its inputs' numbers, and its inputs."""
        graph, numbers = ((self.first, self.inputs.first), (self.second, self.inputs.second))[number]
        pairs = zip(numbers, (graph.types[name] for name in graph.inputs), strict=True)
        return graph, numbers, [arrays[each].reshape(kind.shape).astype(kind.dtype, copy=False) for each, kind in pairs]

    def _both(
        self, arrays: Sequence[NDArray[Any]], opaque: OpaqueOutputs, origins: Origins | None = None
    ) -> tuple[Evaluation, Evaluation]:
        """Both programs on the same inputs. The second one is not run where the first one's inputs do not count."""
        runs = []
        for number in range(2):
            graph, numbers, given = self._given(number, arrays)
            valid = self.valid and not number
            runs.append(evaluate(graph, given, opaque, valid=valid, origins=origins, numbers=numbers))
            if valid and runs[0].error is not None:
                runs.append(runs[0])
                break
        one, two = runs
        return one, two

    def _compared(self, arrays: Sequence[NDArray[Any]]) -> Found | None:
        """What differs for these inputs, or None."""
        opaque = OpaqueOutputs(self.seed, self.opaque_indices)
        runs = one, two = self._both(arrays, opaque)
        if one.error is not None or two.error is not None:
            if one.error is not None and two.error is not None:
                return None
            errors = [None if run.error is None else str(run.error) for run in runs]
            counterexample = Counterexample(self._named(arrays), None, errors=(errors[0], errors[1]))
            return Found(counterexample, self._doubt_of_raising(arrays, runs, opaque))
        places = {}
        for number, (a, b) in enumerate(zip(self.first.outputs, self.second.outputs, strict=True)):
            differing = np.flatnonzero(_differ(one.values[a].reshape(-1), two.values[b].reshape(-1)))
            if differing.size:
                places[number] = differing
        return self._differing(arrays, places, opaque) if places else None

    def _doubt_of_raising(self, arrays: Sequence[NDArray[Any]], runs: Sequence[Evaluation], opaque: OpaqueOutputs) -> str:
        """Why it is not certain of both programs whether they raise; "" where it is: then no opaque step decides it."""
        for run in runs:
            deciding = run.checked if run.error is None else run.by([run.error.indices])
            if deciding:
                return (
                    f"whether a program raises follows from the output of {opaque.names[min(deciding)]}, which is not looked into"
                )
        takers = [name for run in runs if run.error is None for name in run.takers]
        if takers and not all(self._in_range(number, arrays, opaque) for number in range(2)):
            return f"an index is out of range, and {takers[0]}, which is not looked into, takes integers and may raise as well"
        return ""

    def _in_range(self, number: int, arrays: Sequence[NDArray[Any]], opaque: OpaqueOutputs) -> bool:
        """Whether every index of the first or the second program is in range, by the rules of its own operators."""
        graph, _, given = self._given(number, arrays)
        return evaluate(graph, given, opaque, valid=True).error is None

    def _differing(self, arrays: Sequence[NDArray[Any]], places: Mapping[int, NDArray[np.intp]], opaque: OpaqueOutputs) -> Found:
        """Elements of outputs differ, at these places, by the output's number: one that certainly does, if there is one."""
        origins = Origins()
        runs = self._both(arrays, opaque, origins)
        raising, found = self._doubt_of_raising(arrays, runs, opaque), []
        for number, differing in places.items():
            names = self.first.outputs[number], self.second.outputs[number]
            tags = [run.tags[name].reshape(-1)[differing] for run, name in zip(runs, names, strict=True)]
            certain = np.flatnonzero(~(origins.opaque(tags[0]) | origins.opaque(tags[1])))
            at = int(certain[0]) if certain.size else 0
            values = [run.values[name].reshape(-1)[differing[at]] for run, name in zip(runs, names, strict=True)]
            sources = [origins.of(int(each[at])) for each in tags]
            chosen = sorted({k for run, name in zip(runs, names, strict=True) for k in run.chosen[name]})
            if raising:
                doubt = raising
            elif chosen:
                doubt = f"they differ for some outputs of {opaque.names[chosen[0]]}, which is not looked into"
            else:
                unless = (
                    f"they differ unless {sources[0]} of the first program equals {sources[1]} of the second, which is not known"
                )
                doubt = "" if certain.size else unless
            counterexample = Counterexample(
                inputs=self._named(arrays),
                output=self.first.label(names[0]),
                position=unravel(int(differing[at]), self.first.types[names[0]].shape),
                values=(values[0], values[1]),
                sources=(sources[0], sources[1]),
            )
            found.append(Found(counterexample, doubt))
        return next((each for each in found if not each.doubt), found[0])

    def _named(self, arrays: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return dict(zip(self.inputs.names, arrays, strict=True))


def _opaque_indices(graphs: Sequence[IndexGraph], looked_up: Sequence[Mapping[str, set[int]]]) -> dict[Hashable, int]:
    """For outputs of opaque steps that are looked up, by operator, attributes and number: below what they are in range."""
    found: dict[Hashable, int] = {}
    for graph, limits_ in zip(graphs, looked_up, strict=True):
        for step in graph.steps:
            for number, name in enumerate(step.outputs if isinstance(step.work, Opaque) else ()):
                if isinstance(step.work, Opaque) and name in limits_:
                    key = (step.work.operator, step.work.attributes, number)
                    below = min((limit for limit in limits_[name] if limit), default=1)
                    found[key] = min(below, found.get(key, below))
    return found


def _differ(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Where the bits of two arrays of one dimension differ."""
    if one.dtype.hasobject:
        return np.asarray(one != other, bool)
    size = one.dtype.itemsize
    bits = [np.ascontiguousarray(each).view(np.uint8).reshape(-1, size) for each in (one, other)]
    return np.asarray((bits[0] != bits[1]).any(axis=1), bool)
