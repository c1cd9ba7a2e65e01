"""Sizes that a node is judged with where its model declares none, chosen by the bounds of a slice or the size of a block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from dmlgather.dialects.problem import Problem
from dmlgather.dialects.unknown_sizes import Named, Range, concrete
from dmlgather.dialects.windows import window
from dmlgather.directml.rules.tensors import ELEMENT_LIMIT
from dmlgather.onnx.problems.depth_space import DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.slice import Slice

FAR = 1 << 16
"""Elements: bounds of a slice beyond this mean "to the end", and no trial size is that large because of them."""


def nonempty_sizes(problem: Slice, shape: Named) -> dict[str, Range]:
    """The unknown sizes of data under which a slice is not empty; empty ranges where it always is. shape: of data."""
    ranges = {size: Range(1) for size in shape if isinstance(size, str)}
    for axis, name in _sliced_axes(problem, shape):
        ranges[name] = ranges[name].both(_nonempty_range(problem, axis))
    return ranges


def _nonempty_range(problem: Slice, axis: int) -> Range:
    """The sizes of one axis for which its window is not empty. They are one range, which ends where a bound, or the difference of
    two, passes the size. Sizes that DirectML cannot describe do not count.
    """
    bounds = _bounds(problem, axis)
    sizes = _turning_points(*bounds)
    nonempty = [size for size in sizes if window(size, *bounds).count]
    if not nonempty or nonempty[0] > ELEMENT_LIMIT:
        return Range(1, 0)
    return Range(nonempty[0], None if nonempty[-1] == sizes[-1] or nonempty[-1] >= ELEMENT_LIMIT else nonempty[-1])


def block_units(operator: str, blocksize: int, data: Named) -> dict[str, int]:
    """What the unknown sizes of data must be multiples of, by name, where the operator moves blocks."""
    problem = {problem.name: problem for problem in (DepthToSpace, SpaceToDepth)}.get(operator)
    units = problem.units(blocksize) if problem and blocksize > 0 else {}
    return {size: unit for axis, unit in units.items() for size in data[axis : axis + 1] if isinstance(size, str)}


def trial_sizes(units: Mapping[str, int], problem: Problem, data: Named) -> tuple[dict[str, Range], list[dict[str, int]]]:
    """The ranges of the unknown sizes in which no tensor is empty, and sizes in them to judge a problem with.

    The sizes are ordinary ones, the smallest, and for a slice those of which it takes most, and the smallest of which it takes
    more than one element, so that its steps matter. There are none where a tensor is always empty. units: what
    each unknown size must be a multiple of. data: the shape of data.
    """
    ranges = {name: Range(unit) for name, unit in units.items()}
    if not isinstance(problem, Slice):
        return ranges, [{name: times * unit for name, unit in units.items()} for times in (2, 1)]
    ranges |= nonempty_sizes(problem, data)
    if any(known.empty for known in ranges.values()):
        return ranges, []
    beyond = dict.fromkeys(ranges, 2)
    most: list[tuple[str, int]] = []
    several: dict[str, int] = {}
    for axis, name in _sliced_axes(problem, data):
        bounds = _bounds(problem, axis)
        beyond[name] = max(beyond[name], sum(abs(bound) for bound in bounds if abs(bound) < FAR) + 2)
        points = sorted({ranges[name].within(size) for size in _turning_points(*bounds) if size <= ELEMENT_LIMIT})
        counts = {size: window(size, *bounds).count for size in points}
        most.append((name, max((size for size in points if size < FAR), key=counts.__getitem__, default=points[0])))
        if more := [size for size in points if counts[size] > 1]:
            several[name] = max(several.get(name, 1), more[0])
    ordinary = {name: known.within(beyond[name]) for name, known in ranges.items()}
    smallest = {name: known.low for name, known in ranges.items()}
    alone = [smallest | {name: size} for name, size in several.items()]
    possible = [sizes for sizes in (smallest | several, *alone) if math.prod(concrete(data, sizes)) <= ELEMENT_LIMIT]
    return ranges, [ordinary, smallest, *(ordinary | {name: size} for name, size in most), *possible]


def _turning_points(start: int, end: int, step: int) -> list[int]:
    """The sizes of an axis near which the bounds of its window begin or cease to matter, or a second element is taken."""
    near = {sign * value for value in (start, end, start - end) for sign in (1, -1)}
    near |= {value + abs(step) for value in near}
    return sorted({1} | {value + more for value in near for more in (-1, 0, 1, 2) if value + more >= 1})


def _sliced_axes(problem: Slice, shape: Named) -> Iterator[tuple[int, str]]:
    """The axes of unknown size that have bounds, with the names of their sizes."""
    return ((axis, size) for axis, size in enumerate(shape) if isinstance(size, str) and axis in (problem.axes or ()))


def _bounds(problem: Slice, axis: int) -> tuple[int, int, int]:
    """Start, end and step of an axis."""
    at = (problem.axes or ()).index(axis)
    return problem.starts[at], problem.ends[at], (problem.steps or ())[at]
