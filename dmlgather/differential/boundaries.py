"""Boundary values of indices, for each element of a program's index inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import reference
from dmlgather.dialects.index_graph import Bitcast, Concatenation, IndexGraph, Step
from dmlgather.dialects.problem import Problem
from dmlgather.plan import IndexPlan, Lookup, OutOfBounds

_NO_INPUT = -1
"""Replaces the number of an input element if an element is not copied from an input."""

_WIDTHS = (8, 16, 32, 64)
"""Widths in bits to which a wrong program may truncate an index."""


@dataclass(frozen=True, slots=True, order=True)
class Bounds:
    """The valid indices of a lookup: from -wrap to limit - 1.

    `raises`: True if any other index raises an error.
    """

    limit: int
    wrap: int
    raises: bool

    def edges(self, dtype: np.dtype[Any]) -> list[int]:
        """Return index values of type `dtype` that expose mistakes. The values that expose most mistakes come first.

        They are values at the edges of the valid range and of `dtype`, and values such as 2**31 and 2**32 + 1, which change if
        a program truncates or reinterprets them.
        """
        limit, wrap = self.limit, self.wrap
        smallest, largest = integer_range(dtype)
        values = [limit, -wrap - 1, limit - 1, -wrap, -1, 0, smallest, largest, -limit - 1, -limit, 1, limit + 1]
        values += [value for bits in _WIDTHS for value in (2 ** (bits - 1), 2**bits, 2**bits + 1, 1 - 2**bits)]
        return [value for value in dict.fromkeys(values) if smallest <= value <= largest]


def integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type."""
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


@dataclass(frozen=True, slots=True)
class IndexClass:
    """All indices of one index input that are read by the same lookups.

    `elements`: the positions of the indices in the flattened input. `bounds`: the valid indices of each lookup.
    """

    elements: NDArray[np.int64]
    bounds: frozenset[Bounds]


def index_classes(graph: IndexGraph) -> dict[str, list[IndexClass]]:
    """Group the indices of each index input by the lookups that read them. Each index is in one group.

    To find out which lookups read an index, the elements of all inputs are numbered. The program then runs on these numbers,
    with every index 0. So each lookup gets the numbers of the elements that it reads. An index that no lookup gets has the
    bounds of all lookups of its input.
    """
    starts = [0, *accumulate(prod(graph.types[name].shape) for name in graph.inputs)]
    reads: dict[str, list[tuple[Bounds, NDArray[np.int64]]]] = {}
    for bounds, numbers in _lookup_reads(graph, starts):
        cuts = np.searchsorted(numbers, starts)
        for name, start, first, last in zip(graph.inputs, starts, cuts, cuts[1:], strict=False):
            if first < last and graph.types[name].dtype.kind in "iu":
                reads.setdefault(name, []).append((bounds, numbers[first:last] - start))
    return {name: [*_classes(input_reads, prod(graph.types[name].shape))] for name, input_reads in reads.items()}


def _classes(reads: Sequence[tuple[Bounds, NDArray[np.int64]]], count: int) -> Iterator[IndexClass]:
    """Group the `count` indices of an input by the lookups that read them.

    `reads`: for each lookup, its bounds and the positions of the indices that it reads.
    """
    class_of = np.zeros(count, np.int64)
    for number, (_, elements) in enumerate(reads):  # split each class: elements that this lookup reads, and others
        is_read = np.zeros(count, np.int64)
        is_read[elements] = 1
        class_of = np.unique(2 * class_of + is_read, return_inverse=True)[1].reshape(-1) if number else is_read
    for number in np.unique(class_of):
        elements = np.flatnonzero(class_of == number)
        bounds = [lookup for lookup, read in reads if elements[0] in read] or [lookup for lookup, _ in reads]
        yield IndexClass(elements, frozenset(bounds))


def _lookup_reads(graph: IndexGraph, starts: list[int]) -> Iterator[tuple[Bounds, NDArray[np.int64]]]:
    """Yield the bounds of each lookup, and the numbers of the input elements that it reads as indices, in ascending order.

    The elements of all inputs are numbered consecutively. `starts`: the number of the first element of each input.
    """
    numbers: dict[str, NDArray[np.int64]] = {}
    for name, start in zip(graph.inputs, starts, strict=False):
        numbers[name] = np.arange(start, start + prod(graph.types[name].shape), dtype=np.int64)
    for name in graph.constants:
        numbers[name] = np.full(prod(graph.types[name].shape), _NO_INPUT, np.int64)
    for step in graph.steps:
        if isinstance(step.work, Problem):
            plan = step.work.plan()
            for lookup in plan.lookups:
                read = numbers[step.inputs[1]][_index_addresses(plan, lookup)]
                raises = plan.out_of_bounds is OutOfBounds.RAISE
                yield Bounds(lookup.limit, lookup.wrap, raises), np.unique(read[read != _NO_INPUT])
        numbers[step.outputs[0]] = _output_numbers(graph, step, numbers)


def _index_addresses(plan: IndexPlan, lookup: Lookup) -> NDArray[np.int64]:
    """Return the positions in the flattened index tensor of all indices that a lookup reads."""
    addresses = np.array([lookup.index_offset], np.int64)
    if plan.index_reach is None:
        return addresses[:0]
    for size, step in zip(plan.shape, lookup.index_strides, strict=True):
        if step:
            addresses = (addresses[:, None] + step * np.arange(size)).reshape(-1)
    return addresses


def _output_numbers(graph: IndexGraph, step: Step, numbers: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return, for each output element of a step, the number of the input element that it is a copy of.

    Every index counts as 0. An element that is no copy has the number -1. `numbers`: the element numbers of each earlier value.
    """
    inputs = [numbers[name] for name in step.inputs]
    count = prod(graph.types[step.outputs[0]].shape)
    match step.work:
        case Problem():
            plan = replace(step.work.plan(), element_bytes=8, out_of_bounds=OutOfBounds.CLAMP, fill=b"")
            if plan.lookups:
                plan = replace(plan, out_of_bounds=OutOfBounds.FILL, fill=np.int64(_NO_INPUT).tobytes())
            out = np.full(plan.out_extent, _NO_INPUT, np.int64)
            indices = np.zeros(plan.index_extent, graph.types[step.inputs[1]].dtype) if plan.lookups else None
            reference.run(plan, inputs[0], indices, out)
            return out
        case Concatenation(axis):
            parts = [flat.reshape(graph.types[name].shape) for flat, name in zip(inputs, step.inputs, strict=True)]
            return np.concatenate(parts, axis).reshape(-1)
        case Bitcast() if inputs[0].size == count:
            return inputs[0]
    return np.full(count, _NO_INPUT, np.int64)
