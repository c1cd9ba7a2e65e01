"""The inputs of a differential check: data that contain positions, and indices at all boundaries of the lookups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import zip_longest
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.index_graph import IndexGraph
from dmlgather.differential.boundaries import Bounds, IndexClass, index_classes, integer_range
from dmlgather.differential.positions import Positions, random_elements

RANDOM_DRAWS = 8
"""The number of draws per check that mix edges with random indices."""

_MAX_WORK = 2**28
"""The largest number of elements that all runs of one check may read and write."""

_MIN_DRAWS = 3
"""The number of draws that every check makes, even if they exceed _MAX_WORK."""

_MAX_KEPT_BYTES = 2**29
"""The largest data, in bytes, that are kept between draws. Larger data are computed again for each draw."""

_RAISING_PLACES = 3
"""The largest number of elements per class at which each index that raises is tried."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class IndexRange:
    """The index values that are tried for the elements of one class.

    `elements`: row-major numbers in the input.
    `edges`: boundary values for which no lookup raises.
    `raising`: boundary values for which some lookup raises.
    `low`, `high`: the smallest and the largest value that are in range for all lookups of the class.
    """

    elements: NDArray[np.int64]
    edges: tuple[int, ...]
    raising: tuple[int, ...]
    low: int
    high: int

    @classmethod
    def of(cls, index_class: IndexClass, types: Sequence[np.dtype[Any]], max_index: int | None) -> IndexRange:
        """Return the range for a class.

        `types`: the data types of the input in the program and in the model. All values fit both.
        `max_index`: the largest magnitude of the values, or None for no limit.
        """
        magnitude = 2**64 if max_index is None else max_index
        smallest = max(-magnitude, *(integer_range(dtype)[0] for dtype in types))
        largest = min(magnitude, *(integer_range(dtype)[1] for dtype in types))
        low = max(-min(bounds.wrap for bounds in index_class.bounds), smallest)
        high = max(min(min(bounds.limit for bounds in index_class.bounds) - 1, largest), low)
        edges_by_lookup = [bounds.edges(dtype) for bounds in sorted(index_class.bounds) for dtype in types]
        # take the first edges of all lookups, then all second edges, … because the first edges expose most faults
        edges = dict.fromkeys(edge for rank in zip_longest(*edges_by_lookup) for edge in rank if edge is not None)
        in_types = [edge for edge in edges if smallest <= edge <= largest]
        raising = tuple(edge for edge in in_types if any(_raises(bounds, edge) for bounds in index_class.bounds))
        return cls(index_class.elements, tuple(edge for edge in in_types if edge not in raising), raising, low, high)


def _raises(bounds: Bounds, index: int) -> bool:
    return bounds.raises and not -bounds.wrap <= index < bounds.limit


class Trials:
    """The random inputs of a check.

    `types`: by input name, the data types of the input in the program and in the model.
    `constants`: by name, the values of inputs that are not drawn.
    `max_index`: the largest magnitude of indices, or None for no limit.
    """

    def __init__(
        self,
        graph: IndexGraph,
        types: Mapping[str, Sequence[np.dtype[Any]]],
        constants: Mapping[str, NDArray[Any]],
        seed: int,
        max_index: int | None = None,
    ) -> None:
        self.graph = graph
        self._rng = np.random.default_rng(seed)
        self._kept: dict[int, Arrays] = {}
        drawn = [name for name in graph.inputs if name not in constants]
        classes = {name: own_classes for name, own_classes in index_classes(graph).items() if name in drawn}
        self.ranges = {
            name: [
                IndexRange.of(index_class, types.get(name) or [graph.types[name].dtype], max_index) for index_class in own_classes
            ]
            for name, own_classes in classes.items()
        }
        """By name of an index input, the ranges of its classes."""
        self.positions = Positions({name: graph.types[name] for name in drawn if name not in classes})

    @cached_property
    def work(self) -> int:
        """Return the number of elements that one run reads and writes, at least 1."""
        names = {*self.graph.inputs, *self.graph.outputs}
        return max(sum(prod(self.graph.types[name].shape) for name in names), 1)

    @cached_property
    def max_draws(self) -> int:
        """Return the largest number of draws for a check."""
        return max(_MAX_WORK // (self.work * (self.positions.digits + 1)), _MIN_DRAWS)

    def data(self) -> Iterator[Arrays]:
        """Yield the data for each run of one draw: first each digit of the positions, then random bits."""
        for number in range(self.positions.digits + 1):
            if number not in self._kept:
                arrays = self.positions.elements(number) if number < self.positions.digits else self._random_data()
                if sum(array.nbytes for array in arrays.values()) * (self.positions.digits + 1) > _MAX_KEPT_BYTES:
                    yield arrays
                    continue
                self._kept[number] = arrays
            yield self._kept[number]

    def _random_data(self) -> Arrays:
        return {name: random_elements(self._rng, tensor) for name, tensor in self.positions.types.items()}

    def draws(self) -> Iterator[Arrays]:
        """Yield draws: an array for each index input, by name.

        The first draw is in range. Then draws with edges alternate with draws that contain one index that raises. The last draws
        are random.
        """
        yield self.draw_in_range()
        for pair in zip_longest(self._edge_draws(), self._raising_draws()):
            yield from (draw for draw in pair if draw is not None)
        for number in range(RANDOM_DRAWS if self.ranges else 0):
            yield self._draw(partial(self._mixed, share=(0.1, 0.5)[number % 2]))

    def draw_in_range(self) -> Arrays:
        """Return random indices in range for each index input."""
        return self._draw(self._in_range)

    def all_in_range(self, draw: Arrays) -> bool:
        """Return True if each index of a draw is in range for all its lookups."""
        for name, ranges in self.ranges.items():
            for index_range in ranges:
                indices = draw[name].reshape(-1)[index_range.elements]
                if ((indices < index_range.low) | (indices > index_range.high)).any():
                    return False
        return True

    def _edge_draws(self) -> Iterator[Arrays]:
        for shift in range(max((len(index_range.edges) for ranges in self.ranges.values() for index_range in ranges), default=0)):
            yield self._draw(partial(_cycled_edges, shift=shift))

    def _raising_draws(self) -> Iterator[Arrays]:
        """Yield draws with one index that raises: first at the last element of each class, then at other elements."""
        places = [
            (name, index_range, self._places(index_range)) for name, ranges in self.ranges.items() for index_range in ranges
        ]
        for number in range(_RAISING_PLACES):
            for name, index_range, elements in places:
                for edge in index_range.raising if number < len(elements) else ():
                    draw = self.draw_in_range()
                    draw[name].reshape(-1)[elements[number]] = edge
                    yield draw

    def _draw(self, values: Callable[[IndexRange], Any]) -> Arrays:
        """Return a draw. `values`: returns one value for each element of a range."""
        arrays = {}
        for name, ranges in self.ranges.items():
            tensor = self.graph.types[name]
            array = np.zeros(prod(tensor.shape), tensor.dtype)
            for index_range in ranges:
                array[index_range.elements] = values(index_range)
            arrays[name] = array.reshape(tensor.shape)
        return arrays

    def _in_range(self, index_range: IndexRange) -> NDArray[Any]:
        if index_range.high >= 2**63:
            return self._rng.integers(
                index_range.low, index_range.high, index_range.elements.size, dtype=np.uint64, endpoint=True
            )
        return self._rng.integers(index_range.low, index_range.high, index_range.elements.size, endpoint=True)

    def _mixed(self, index_range: IndexRange, share: float) -> Any:
        """Return random indices in range, with about a fraction `share` of edges and a fraction `share / 4` of arbitrary values.

        An arbitrary value lies between the smallest and the largest edge. If some lookup raises, it is in range.
        """
        indices = self._in_range(index_range).astype(object)
        if not index_range.edges:
            return indices
        edges = np.array(index_range.edges, object)[self._rng.integers(0, len(index_range.edges), indices.size)]
        smallest, largest = min(index_range.edges), max(index_range.edges)
        if index_range.raising:
            smallest, largest = index_range.low, index_range.high
        arbitrary = [smallest + int(part * (largest - smallest)) for part in self._rng.random(indices.size)]
        indices = np.where(self._rng.random(indices.size) < share, edges, indices)
        return np.where(self._rng.random(indices.size) < share / 4, np.array(arbitrary, object), indices)

    def _places(self, index_range: IndexRange) -> list[int]:
        """Return the last, the first and one random element of a class, without duplicates."""
        size = index_range.elements.size
        return [int(index_range.elements[place]) for place in dict.fromkeys((size - 1, 0, int(self._rng.integers(0, size))))]


def _cycled_edges(index_range: IndexRange, shift: int) -> Any:
    """Return the edges cyclically, starting with edge number `shift`. Over all shifts, each element gets each edge."""
    if not index_range.edges:
        return np.full(index_range.elements.size, index_range.low)
    return np.array(index_range.edges, object)[(np.arange(index_range.elements.size) + shift) % len(index_range.edges)]
