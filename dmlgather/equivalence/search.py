"""The search for inputs for which two programs differ."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_graph import IndexGraph, Opaque
from dmlgather.equivalence.evaluation import Evaluation, OpaqueOutputs, Origins, evaluate
from dmlgather.equivalence.matching import Matched
from dmlgather.equivalence.results import Counterexample
from dmlgather.equivalence.trial_inputs import MOST_PLACES, TrialInputs, arithmetic_constants, indices_of, limits
from dmlgather.plan import unravel

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
