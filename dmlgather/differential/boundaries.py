"""Which elements of a program's inputs are looked up, by which lookups, and at which values a lookup may change what it does."""

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

NOWHERE = -1
"""The number of an element that comes from no input."""

WIDTHS = (8, 16, 32, 64)
"""Widths of types to which a program may cut an index by mistake, or whose other sign it may take, in bits."""


@dataclass(frozen=True, slots=True, order=True)
class Bounds:
    """What a lookup takes: 0 … limit - 1, and -wrap … -1, which count from the end. raises: for all other indices."""

    limit: int
    wrap: int
    raises: bool

    def edges(self, dtype: np.dtype[Any]) -> list[int]:
        """Return the indices of a type at which something changes: one past each end, first and last, both ends of what wraps,
        -1, both extremes of the type, and those that another type takes for small or negative ones. What most programs that are
        wrong get wrong comes first.
        """
        limit, wrap = self.limit, self.wrap
        least, most = integer_range(dtype)
        found = [limit, -wrap - 1, limit - 1, -wrap, -1, 0, least, most, -limit - 1, -limit, 1, limit + 1]
        found += [value for bits in WIDTHS for value in (2 ** (bits - 1), 2**bits, 2**bits + 1, 1 - 2**bits)]
        return [value for value in dict.fromkeys(found) if least <= value <= most]


def integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type."""
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


@dataclass(frozen=True, slots=True)
class IndexClass:
    """Elements of one input that the same lookups read. elements: their numbers in row-major order."""

    elements: NDArray[np.int64]
    bounds: frozenset[Bounds]


def looked_up(graph: IndexGraph) -> dict[str, list[IndexClass]]:
    """Return the looked-up elements of each input that has any, in classes. Each element of such an input is in one class.

    Indices are followed through the program by numbers that its steps move, with each index 0. An element that this does not
    reach is taken to be looked up by every lookup that the others have.
    """
    starts = [0, *accumulate(prod(graph.types[name].shape) for name in graph.inputs)]
    found: dict[str, list[tuple[Bounds, NDArray[np.int64]]]] = {}
    for bounds, numbers in _reads(graph, starts):
        cuts = np.searchsorted(numbers, starts)
        for name, start, first, last in zip(graph.inputs, starts, cuts, cuts[1:], strict=False):
            if first < last and graph.types[name].dtype.kind in "iu":
                found.setdefault(name, []).append((bounds, numbers[first:last] - start))
    return {name: [*_classes(read, prod(graph.types[name].shape))] for name, read in found.items()}


def _classes(read: Sequence[tuple[Bounds, NDArray[np.int64]]], count: int) -> Iterator[IndexClass]:
    """Yield the classes of an input with so many elements. read: the bounds of each lookup, and the elements that it reads."""
    which = np.zeros(count, np.int64)
    for number, (_, elements) in enumerate(read):  # equal numbers are read by the same lookups
        there = np.zeros(count, np.int64)
        there[elements] = 1
        which = np.unique(2 * which + there, return_inverse=True)[1].reshape(-1) if number else there
    for number in np.unique(which):
        elements = np.flatnonzero(which == number)
        bounds = [each for each, own in read if elements[0] in own] or [each for each, _ in read]
        yield IndexClass(elements, frozenset(bounds))


def _reads(graph: IndexGraph, starts: list[int]) -> Iterator[tuple[Bounds, NDArray[np.int64]]]:
    """Yield for each lookup of a program the numbers of the input elements that it reads, in order."""
    moved: dict[str, NDArray[np.int64]] = {}
    for name, start in zip(graph.inputs, starts, strict=False):
        moved[name] = np.arange(start, start + prod(graph.types[name].shape), dtype=np.int64)
    for name in graph.constants:
        moved[name] = np.full(prod(graph.types[name].shape), NOWHERE, np.int64)
    for step in graph.steps:
        if isinstance(step.work, Problem):
            plan = step.work.plan()
            for lookup in plan.lookups:
                numbers = moved[step.inputs[1]][_addresses(plan, lookup)]
                raises = plan.out_of_bounds is OutOfBounds.RAISE
                yield Bounds(lookup.limit, lookup.wrap, raises), np.unique(numbers[numbers != NOWHERE])
        moved[step.outputs[0]] = _moved(graph, step, moved)


def _addresses(plan: IndexPlan, lookup: Lookup) -> NDArray[np.int64]:
    """Return the elements of the index tensor that a lookup reads."""
    found = np.array([lookup.index_offset], np.int64)
    if plan.index_reach is None:
        return found[:0]
    for size, step in zip(plan.shape, lookup.index_strides, strict=True):
        if step:
            found = (found[:, None] + step * np.arange(size)).reshape(-1)
    return found


def _moved(graph: IndexGraph, step: Step, moved: Mapping[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the numbers of the elements that a step writes, where each index is 0."""
    inputs = [moved[name] for name in step.inputs]
    count = prod(graph.types[step.outputs[0]].shape)
    match step.work:
        case Problem():
            plan = replace(step.work.plan(), element_bytes=8, out_of_bounds=OutOfBounds.CLAMP, fill=b"")
            if plan.lookups:
                plan = replace(plan, out_of_bounds=OutOfBounds.FILL, fill=np.int64(NOWHERE).tobytes())
            out = np.full(plan.out_extent, NOWHERE, np.int64)
            indices = np.zeros(plan.index_extent, graph.types[step.inputs[1]].dtype) if plan.lookups else None
            reference.run(plan, inputs[0], indices, out)
            return out
        case Concatenation(axis):
            shaped = [each.reshape(graph.types[name].shape) for each, name in zip(inputs, step.inputs, strict=True)]
            return np.concatenate(shaped, axis).reshape(-1)
        case Bitcast() if inputs[0].size == count:
            return inputs[0]
    return np.full(count, NOWHERE, np.int64)
