"""Inputs of a differential check: data that contain positions, and indices that take all boundary values.

A draw is one set of index arrays, by input name. Each draw runs with several sets of data.
"""

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
"""Draws of random indices per check."""

_MAX_WORK = 2**28
"""The runs of one check may read and write this many elements together. This limits the number of draws."""

_MIN_DRAWS = 3
"""Least limit for the draws of a check, even if they exceed _MAX_WORK."""

_MAX_KEPT_BYTES = 2**29
"""Larger data are computed again for each draw."""

_RAISING_PLACES = 3
"""Each index that raises an error is tried at this many elements of a class."""

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class IndexRange:
    """The values to try for the indices of one `IndexClass`.

    `elements`: the positions of the indices in the flattened index input. `edges`: boundary values that raise no error.
    `raising`: boundary values that raise an error. `low`, `high`: the smallest and the largest index that all lookups allow.
    """

    elements: NDArray[np.int64]
    edges: tuple[int, ...]
    raising: tuple[int, ...]
    low: int
    high: int

    @classmethod
    def of(cls, index_class: IndexClass, types: Sequence[np.dtype[Any]], max_index: int | None) -> IndexRange:
        """Return the values to try for the indices of a class.

        All values fit the data types `types`. `max_index`: the largest absolute value; None for no limit.
        """
        magnitude = 2**64 if max_index is None else max_index
        smallest = max(-magnitude, *(integer_range(dtype)[0] for dtype in types))
        largest = min(magnitude, *(integer_range(dtype)[1] for dtype in types))
        low = max(-min(bounds.wrap for bounds in index_class.bounds), smallest)
        high = max(min(min(bounds.limit for bounds in index_class.bounds) - 1, largest), low)
        edges_by_lookup = [bounds.edges(dtype) for bounds in sorted(index_class.bounds) for dtype in types]
        # First take each lookup's first edge, then each second edge, … because first edges expose most faults.
        edges = dict.fromkeys(edge for rank in zip_longest(*edges_by_lookup) for edge in rank if edge is not None)
        in_types = [edge for edge in edges if smallest <= edge <= largest]
        raising = tuple(edge for edge in in_types if any(_raises(bounds, edge) for bounds in index_class.bounds))
        return cls(index_class.elements, tuple(edge for edge in in_types if edge not in raising), raising, low, high)


def _raises(bounds: Bounds, index: int) -> bool:
    return bounds.raises and not -bounds.wrap <= index < bounds.limit


class Trials:
    """The inputs of a differential check: *draws* (sets of index arrays), and several sets of data arrays for each draw.

    `types`: the data types of each input, in the program and in the model. `constants`: the inputs with fixed values.
    `max_index`: the largest absolute value of an index; None for no limit.
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
        self.positions = Positions({name: graph.types[name] for name in drawn if name not in classes})

    @cached_property
    def work(self) -> int:
        """The number of elements that one run of the program reads and writes, at least 1."""
        names = {*self.graph.inputs, *self.graph.outputs}
        return max(sum(prod(self.graph.types[name].shape) for name in names), 1)

    @cached_property
    def max_draws(self) -> int:
        """The largest number of draws (sets of index arrays) that one check may try."""
        return max(_MAX_WORK // (self.work * (self.positions.digits + 1)), _MIN_DRAWS)

    def data(self) -> Iterator[Arrays]:
        """Yield the sets of data arrays. The check runs each draw once with each set.

        In the first sets, each element contains one digit of its position. The last set has random bits.
        """
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
        """Yield sets of index arrays, by input name.

        In the first set, all indices are in range. Then sets with boundary values alternate with sets in which exactly one
        index raises an error. The last sets are random.
        """
        yield self.draw_in_range()
        for pair in zip_longest(self._edge_draws(), self._raising_draws()):
            yield from (draw for draw in pair if draw is not None)
        for number in range(RANDOM_DRAWS if self.ranges else 0):
            yield self._draw(partial(self._mixed, share=(0.1, 0.5)[number % 2]))

    def draw_in_range(self) -> Arrays:
        """Return a set of index arrays with random indices, all of which are in range."""
        return self._draw(self._in_range)

    def all_in_range(self, draw: Arrays) -> bool:
        """Return True if each index of a draw is in range for all lookups that read it."""
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
        """Yield sets of index arrays in which exactly one index raises an error.

        The index is first tried at the last element of each class of indices.
        """
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
        """Return a set of index arrays. `values`: function that returns the values for the indices of one class."""
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
        """Return random indices in range, some of which are replaced by boundary values and arbitrary values.

        The fraction of boundary values is about `share`, the fraction of arbitrary values `share / 4`. If an index of the class
        can raise an error, the arbitrary values are in range.
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
        """Return the elements at which to try an index that raises an error: the last, the first and a random one."""
        size = index_range.elements.size
        return [int(index_range.elements[place]) for place in dict.fromkeys((size - 1, 0, int(self._rng.integers(0, size))))]


def _cycled_edges(index_range: IndexRange, shift: int) -> Any:
    """Return one boundary value for each index: index i gets value number i + `shift`. After the last value, the first follows.

    A caller that passes every `shift` in turn tries each boundary value at each index.
    """
    if not index_range.edges:
        return np.full(index_range.elements.size, index_range.low)
    return np.array(index_range.edges, object)[(np.arange(index_range.elements.size) + shift) % len(index_range.edges)]
