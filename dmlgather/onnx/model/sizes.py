"""Sizes to judge a node with where its model states none: what the bounds of a slice ask of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.unknown_sizes import Named, Range, concrete
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.onnx.problems.slice import Slice

FAR = 1 << 16
"""Elements: bounds of a slice beyond this mean "to the end", and sizes are not made larger than them."""


def filled(problem: Slice, shape: Named) -> dict[str, Range]:
    """The sizes under which a slice of data of that shape takes something; empty ranges where it never does."""
    ranges = {size: Range(1) for size in shape if isinstance(size, str)}
    for axis, name in _sliced(problem, shape):
        ranges[name] = ranges[name].both(_filled(problem, axis))
    return ranges


def _filled(problem: Slice, axis: int) -> Range:
    """The sizes of one axis for which its window is not empty. They are one range, and it ends where a bound, or the
    difference of two, passes the size. Sizes that DirectML cannot describe do not count.
    """
    sizes = _turns(*_bounds(problem, axis))
    full = [size for size in sizes if _count(problem, axis, size)]
    if not full or full[0] > ELEMENT_LIMIT:
        return Range(1, 0)
    return Range(full[0], None if full[-1] == sizes[-1] or full[-1] >= ELEMENT_LIMIT else full[-1])


def wanted_sizes(names: Iterable[str], problem: Problem, data: Named) -> tuple[dict[str, Range], list[dict[str, int]]]:
    """The ranges in which no tensor is empty, and sizes in them under which a problem may differ: ordinary ones, the smallest,
    and for a slice those of which it takes most, and the smallest of which it takes more than one element, so that its steps
    matter. No sizes where a tensor is always empty. data: the shape of its data.
    """
    ranges = dict.fromkeys(names, Range(1))
    if not isinstance(problem, Slice):
        return ranges, [dict.fromkeys(ranges, 2), dict.fromkeys(ranges, 1)]
    ranges |= filled(problem, data)
    if any(known.empty for known in ranges.values()):
        return ranges, []
    beyond = dict.fromkeys(ranges, 2)
    most: list[tuple[str, int]] = []
    several: dict[str, int] = {}
    for axis, name in _sliced(problem, data):
        bounds = [abs(bound) for bound in _bounds(problem, axis) if abs(bound) < FAR]
        beyond[name] = max(beyond[name], sum(bounds) + 2)
        turns = sorted({ranges[name].within(turn) for turn in _turns(*_bounds(problem, axis)) if turn <= ELEMENT_LIMIT})
        most.append((name, max((turn for turn in turns if turn < FAR), key=partial(_count, problem, axis), default=turns[0])))
        if more := [turn for turn in turns if _count(problem, axis, turn) > 1]:
            several[name] = max(several.get(name, 1), more[0])
    ordinary = {name: known.within(beyond[name]) for name, known in ranges.items()}
    smallest = {name: known.low for name, known in ranges.items()}
    alone = [smallest | {name: size} for name, size in several.items()]
    possible = [sizes for sizes in (smallest | several, *alone) if math.prod(concrete(data, sizes)) <= ELEMENT_LIMIT]
    return ranges, [ordinary, smallest, *(ordinary | {name: size} for name, size in most), *possible]


def _turns(start: int, end: int, step: int) -> list[int]:
    """The sizes of an axis around which the bounds of its window start or cease to matter, or a second element is taken."""
    near = {sign * value for value in (start, end, start - end) for sign in (1, -1)}
    near |= {value + abs(step) for value in near}
    return sorted({1} | {value + more for value in near for more in (-1, 0, 1, 2) if value + more >= 1})


def _sliced(problem: Slice, shape: Named) -> Iterator[tuple[int, str]]:
    """The axes of unknown size that have bounds, with their names."""
    return ((axis, size) for axis, size in enumerate(shape) if isinstance(size, str) and axis in (problem.axes or ()))


def _bounds(problem: Slice, axis: int) -> tuple[int, int, int]:
    """Start, end and step of an axis."""
    at = (problem.axes or ()).index(axis)
    return problem.starts[at], problem.ends[at], (problem.steps or ())[at]


def _count(problem: Slice, axis: int, size: int) -> int:
    """The elements that are taken along an axis, if it has that size."""
    shape = (*problem.data.shape[:axis], size, *problem.data.shape[axis + 1 :])
    return replace(problem, data=TensorType(shape, problem.data.dtype)).windows[axis].count
