"""Inputs with which a counterexample is searched: data whose elements differ, and indices at the edges of what is valid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_arithmetic import whole_range
from dmlgather.dialects.index_graph import Concatenation, Elementwise, IndexGraph
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.equivalence.evaluation import random_elements

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
