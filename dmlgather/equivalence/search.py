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

    def _both(
        self, arrays: Sequence[NDArray[Any]], opaque: OpaqueOutputs, origins: Origins | None = None
    ) -> tuple[Evaluation, Evaluation]:
        """Both programs on the same inputs. The second one is not run where the first one's inputs do not count."""
        runs = []
        for graph, numbers, valid in ((self.first, self.inputs.first, self.valid), (self.second, self.inputs.second, False)):
            given = [
                arrays[number].reshape(graph.types[name].shape).astype(graph.types[name].dtype, copy=False)
                for number, name in zip(numbers, graph.inputs, strict=True)
            ]
            runs.append(evaluate(graph, given, opaque, valid=valid, origins=origins, numbers=numbers))
            if valid and runs[0].error is not None:
                runs.append(runs[0])
                break
        one, two = runs
        return one, two

    def _compared(self, arrays: Sequence[NDArray[Any]]) -> Found | None:
        """What differs for these inputs, or None."""
        one, two = self._both(arrays, OpaqueOutputs(self.seed, self.opaque_indices))
        if one.error is not None or two.error is not None:
            return None if one.error is not None and two.error is not None else self._raised(arrays, one, two)
        for number, (a, b) in enumerate(zip(self.first.outputs, self.second.outputs, strict=True)):
            differing = np.flatnonzero(_differ(one.values[a].reshape(-1), two.values[b].reshape(-1)))
            if differing.size:
                return self._differing(arrays, number, int(differing[0]))
        return None

    def _raised(self, arrays: Sequence[NDArray[Any]], one: Evaluation, two: Evaluation) -> Found:
        """One program raises and the other one does not."""
        opaque = OpaqueOutputs(self.seed, self.opaque_indices)
        self._both(arrays, opaque)
        errors = tuple(None if run.error is None else str(run.error) for run in (one, two))
        names = [
            name
            for run in (one, two)
            if run.error is not None
            for name in sorted(opaque.names[k] for k in run.by([run.error.indices]))
        ]
        counterexample = Counterexample(self._named(arrays), None, errors=(errors[0], errors[1]))
        return Found(counterexample, f"they differ where {names[0]} writes some indices" if names else "")

    def _differing(self, arrays: Sequence[NDArray[Any]], number: int, place: int) -> Found:
        """An element of an output differs."""
        opaque, origins = OpaqueOutputs(self.seed, self.opaque_indices), Origins()
        runs = self._both(arrays, opaque, origins)
        names = self.first.outputs[number], self.second.outputs[number]
        values = tuple(run.values[name].reshape(-1)[place] for run, name in zip(runs, names, strict=True))
        found = [origins.of(int(run.tags[name].reshape(-1)[place])) for run, name in zip(runs, names, strict=True)]
        shape = self.first.types[names[0]].shape
        counterexample = Counterexample(
            inputs=self._named(arrays),
            output=self.first.label(names[0]),
            position=unravel(place, shape),
            values=(values[0], values[1]),
            sources=(found[0][0], found[1][0]),
        )
        chosen = sorted({k for run, name in zip(runs, names, strict=True) for k in run.chosen[name]})
        if chosen:
            return Found(counterexample, f"they differ for some outputs of {opaque.names[chosen[0]]}, which is not looked into")
        alone = runs[0].applied ^ runs[1].applied
        written = [application for _, application in found if application in alone]
        if written:
            return Found(counterexample, f"only one program does {opaque.names[written[0]]} with these inputs")
        applications = [application for _, application in found]
        if applications[0] != applications[1]:
            name = next(opaque.names[each] for each in applications if each is not None)
            return Found(
                counterexample, f"only one program reads the output of {name} there, which may equal what the other reads"
            )
        return Found(counterexample)

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
