"""The inputs of a differential check: data whose elements say where they stand, and indices at every boundary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.differential.boundaries import Bounds, IndexClass, integer_range, looked_up
from dmlgather.differential.positions import Positions, random_elements

RANDOM_DRAWS = 8
"""Index arrays that mix edges with random indices, for each check."""

MOST_WORK = 2**28
"""Elements that all runs of a check read and write."""

LEAST_DRAWS = 3
"""Index arrays that are tried whatever that takes."""

MOST_KEPT = 2**29
"""Bytes of data that are kept for all runs of a program; more are made anew."""

PLACES = 3
"""Elements of a class at which indices that raise are tried."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class IndexRange:
    """What is tried for the elements of one class. edges: at which something may change. low … high: in range for every lookup;
    edges outside that some lookup raises for are in `raising`.
    """

    elements: NDArray[np.int64]
    edges: tuple[int, ...]
    raising: tuple[int, ...]
    low: int
    high: int

    @classmethod
    def of(cls, found: IndexClass, types: Sequence[np.dtype[Any]], most_index: int | None) -> IndexRange:
        """Return it for a class of an input that has one of the types on each side. most_index: of either sign, if any."""
        far = 2**64 if most_index is None else most_index
        least = max(-far, *(integer_range(dtype)[0] for dtype in types))
        most = min(far, *(integer_range(dtype)[1] for dtype in types))
        low, high = (max(-min(each.wrap for each in found.bounds), least), min(each.limit for each in found.bounds) - 1)
        every = [each.edges(dtype) for each in sorted(found.bounds) for dtype in types]
        edges = dict.fromkeys(edge for rank in zip_longest(*every) for edge in rank if edge is not None)
        inside = [edge for edge in edges if least <= edge <= most]
        raising = tuple(edge for edge in inside if any(_raises(each, edge) for each in found.bounds))
        return cls(found.elements, tuple(edge for edge in inside if edge not in raising), raising, low, max(min(high, most), low))


def _raises(bounds: Bounds, index: int) -> bool:
    return bounds.raises and not -bounds.wrap <= index < bounds.limit


class Trials:
    """Draws the inputs of a check.

    graph: the program. types: of each input that is fed, as both sides hold it. known: values of inputs that do not change.
    most_index: as of `Judge`.
    """

    def __init__(
        self,
        graph: IndexGraph,
        types: Mapping[str, Sequence[np.dtype[Any]]],
        known: Mapping[str, NDArray[Any]],
        seed: int,
        most_index: int | None = None,
    ) -> None:
        self.graph, self.known = graph, known
        self._chance = np.random.default_rng(seed)
        self._kept: dict[int, Arrays] = {}
        fed = [name for name in graph.inputs if name not in known]
        classes = {name: found for name, found in looked_up(graph).items() if name in fed}
        self.ranges = {
            name: [IndexRange.of(each, types.get(name) or [graph.types[name].dtype], most_index) for each in found]
            for name, found in classes.items()
        }
        self.positions = Positions({name: graph.types[name] for name in fed if name not in classes})

    @cached_property
    def work(self) -> int:
        """Elements that one run reads and writes."""
        names = {*self.graph.inputs, *self.graph.outputs}
        return max(sum(prod(self.graph.types[name].shape) for name in names), 1)

    @cached_property
    def most_draws(self) -> int:
        """Index arrays that are tried at most."""
        return max(MOST_WORK // (self.work * (self.positions.digits + 1)), LEAST_DRAWS)

    def data(self) -> Iterator[Arrays]:
        """Yield the data for one draw of indices: each digit of the positions, then random bits."""
        for number in range(self.positions.digits + 1):
            if number not in self._kept:
                made = self.positions.elements(number) if number < self.positions.digits else self._random_data()
                if sum(array.nbytes for array in made.values()) * (self.positions.digits + 1) > MOST_KEPT:
                    yield made
                    continue
                self._kept[number] = made
            yield self._kept[number]

    def _random_data(self) -> Arrays:
        return {name: random_elements(self._chance, tensor) for name, tensor in self.positions.types.items()}

    def draws(self) -> Iterator[Arrays]:
        """Yield the indices of all inputs that are looked up, by name: in range; edges that raise nothing and edges that do, in
        turns; then random ones.
        """
        yield self.in_range()
        for pair in zip_longest(self._at_edges(), self._beyond()):
            yield from (each for each in pair if each is not None)
        for turn in range(RANDOM_DRAWS if self.ranges else 0):
            yield self._drawn(lambda one, turn=turn: self._mixed(one, (0.1, 0.5)[turn % 2]))

    def in_range(self) -> Arrays:
        """Return random indices in range, of all inputs that are looked up."""
        return self._drawn(self._inside)

    def are_in_range(self, draw: Arrays) -> bool:
        """Return True if each index of a draw is in range for every lookup."""
        pairs = ((draw[name].reshape(-1)[one.elements], one) for name, ranges in self.ranges.items() for one in ranges)
        return all(bool(((indices >= one.low) & (indices <= one.high)).all()) for indices, one in pairs)

    def _at_edges(self) -> Iterator[Arrays]:
        for turn in range(max((len(one.edges) for each in self.ranges.values() for one in each), default=0)):
            yield self._drawn(lambda one, turn=turn: _cycled(one, turn))

    def _beyond(self) -> Iterator[Arrays]:
        """Yield indices of which one raises: at the last element of each class, then at others."""
        every = [(name, one, self._places(one)) for name, ranges in self.ranges.items() for one in ranges]
        for turn in range(PLACES):
            for name, one, places in every:
                for edge in one.raising if turn < len(places) else ():
                    found = self._drawn(self._inside)
                    found[name].reshape(-1)[places[turn]] = edge
                    yield found

    def _drawn(self, values: Any) -> Arrays:
        found = {}
        for name, ranges in self.ranges.items():
            tensor = self.graph.types[name]
            array = np.zeros(prod(tensor.shape), tensor.dtype)
            for one in ranges:
                array[one.elements] = values(one)
            found[name] = array.reshape(tensor.shape)
        return found

    def _inside(self, one: IndexRange) -> NDArray[Any]:
        """Return random indices in range."""
        if one.high >= 2**63:
            return self._chance.integers(one.low, one.high, one.elements.size, dtype=np.uint64, endpoint=True)
        return self._chance.integers(one.low, one.high, one.elements.size, endpoint=True)

    def _mixed(self, one: IndexRange, share: float) -> Any:
        """Return indices in range, at edges, and anywhere in the type where that is no error."""
        found = self._inside(one).astype(object)
        if not one.edges:
            return found
        edges = np.array(one.edges, object)[self._chance.integers(0, len(one.edges), found.size)]
        least, most = (min(one.edges), max(one.edges)) if not one.raising else (one.low, one.high)
        anywhere = [least + int(part * (most - least)) for part in self._chance.random(found.size)]
        found = np.where(self._chance.random(found.size) < share, edges, found)
        return np.where(self._chance.random(found.size) < share / 4, np.array(anywhere, object), found)

    def _places(self, one: IndexRange) -> list[int]:
        """Return the last, the first and one more element of a class, as far as these differ."""
        size = one.elements.size
        return [int(one.elements[place]) for place in dict.fromkeys((size - 1, 0, int(self._chance.integers(0, size))))]


def _cycled(one: IndexRange, turn: int) -> Any:
    """Return each edge in turn, so that every element has every edge in one of the draws."""
    if not one.edges:
        return np.full(one.elements.size, one.low)
    return np.array(one.edges, object)[(np.arange(one.elements.size) + turn) % len(one.edges)]
