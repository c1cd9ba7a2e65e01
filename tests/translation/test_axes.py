"""Strides as axes and windows: what is found addresses the same elements, and what has axes is found."""

from __future__ import annotations

import random
from itertools import product
from math import prod

import pytest

from dmlgather.plan import dot, packed_strides, reach
from dmlgather.translation.axes import AxisWalk, Steps, axis_walk


def addresses(walk: AxisWalk, steps: Steps) -> list[int]:
    """The elements that a walk takes, in the order of the dimensions and then of the lookups' values."""
    strides = packed_strides(walk.shape)
    found = []
    ranges = [*map(range, steps.sizes), *(range(limit) for limit, _ in steps.lookups)]
    for place in product(*ranges):
        at = [window.start for window in walk.windows]
        for dim, axis in enumerate(walk.walked):
            if axis is not None:
                step = walk.windows[axis].step if axis not in walk.looked_up else 1
                at[axis] += step * place[dim]
        for number, axis in enumerate(walk.looked_up):
            at[axis] += place[len(steps.sizes) + number]
        assert all(0 <= coordinate < size for coordinate, size in zip(at, walk.shape, strict=True))
        found.append(dot(at, strides))
    return found


def wanted(steps: Steps) -> list[int]:
    """The same, by the strides."""
    ranges = [*map(range, steps.sizes), *(range(limit) for limit, _ in steps.lookups)]
    strides = (*steps.strides, *(stride for _, stride in steps.lookups))
    return [steps.offset + dot(place, strides) for place in product(*ranges)]


@pytest.mark.parametrize(
    ("shape", "steps", "expected"),
    [
        ((4, 6), Steps((4, 6), (6, 1)), (4, 6)),  # everything
        ((4, 6), Steps((2, 3), (12, -2), 5), (4, 6)),  # every second row, backwards
        ((4, 6), Steps((6, 4), (1, 6)), (4, 6)),  # transposed
        ((24,), Steps((4, 3), (6, 2)), (4, 3, 2)),  # rows and columns of a buffer
        ((25,), Steps((4, 6), (6, 1)), (4, 6)),  # a buffer that is longer
        ((2, 8, 3), Steps((2, 2, 4, 3), (24, 3, 6, 1)), (2, 4, 2, 3)),  # channels as blocks
        ((5, 4), Steps((3, 4), (0, 1), 0, ((5, 4),)), (5, 4)),  # rows that are looked up
        ((1, 4), Steps((4,), (1,), 0, ((1, 4),)), (1, 4)),
        ((5, 5), Steps((5,), (6,)), (25,)),  # a diagonal
        ((9, 4), Steps((3, 4), (4, 1), 0, ((7, 4),)), (9, 4)),  # windows of three rows
    ],
)
def test_what_has_axes(shape: tuple[int, ...], steps: Steps, expected: tuple[int, ...]) -> None:
    walk = axis_walk(shape, steps)
    assert walk is not None
    assert walk.shape == expected
    assert addresses(walk, steps) == wanted(steps)


@pytest.mark.parametrize(
    ("shape", "steps"),
    [
        ((10,), Steps((8, 3), (1, 1))),  # overlapping windows
        ((4, 6), Steps((2, 3), (7, 2))),
        ((20,), Steps((2, 5), (8, 1), 6)),  # rows that end in the next one
    ],
)
def test_what_has_none(shape: tuple[int, ...], steps: Steps) -> None:
    assert axis_walk(shape, steps) is None


def test_random_steps() -> None:
    """Whatever is found takes the right elements, and steps along axes are found."""
    rng, found = random.Random(1), 0
    for _ in range(400):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3)))
        strides = packed_strides(shape)
        sizes = tuple(rng.randint(1, 3) for _ in range(rng.randint(0, 3)))
        walked = tuple(rng.choice((0, 1, -1, 2)) * rng.choice(strides) for _ in sizes)
        lookups = tuple((rng.randint(1, 4), rng.choice(strides)) for _ in range(rng.randint(0, 1)))
        low, high = reach((*sizes, *(limit for limit, _ in lookups)), (*walked, *(stride for _, stride in lookups)))
        if high - low >= prod(shape):
            continue
        steps = Steps(sizes, walked, rng.randint(-low, prod(shape) - 1 - high), lookups)
        walk = axis_walk(shape, steps)
        if walk is not None:
            assert addresses(walk, steps) == wanted(steps), (shape, steps)
            found += 1
    assert found > 200
