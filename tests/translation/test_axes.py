"""Strides as axes and windows: what is found addresses the same elements, and what has axes is found."""

from __future__ import annotations

import random
from itertools import product
from math import prod

import pytest

from dmlgather.plan import dot, packed_strides, reach
from dmlgather.translation.axes import AccessPattern, AxisMap, map_to_axes


def addresses(axis_map: AxisMap, access: AccessPattern) -> list[int]:
    """The elements that a map reads, in the order of the dimensions and then of the lookups' values."""
    strides = packed_strides(axis_map.shape)
    found = []
    ranges = [*map(range, access.sizes), *(range(limit) for limit, _ in access.lookups)]
    for place in product(*ranges):
        at = [window.start for window in axis_map.windows]
        for dim, axis in enumerate(axis_map.dim_axes):
            if axis is not None:
                step = axis_map.windows[axis].step if axis not in axis_map.lookup_axes else 1
                at[axis] += step * place[dim]
        for number, axis in enumerate(axis_map.lookup_axes):
            at[axis] += place[len(access.sizes) + number]
        assert all(0 <= coordinate < size for coordinate, size in zip(at, axis_map.shape, strict=True))
        found.append(dot(at, strides))
    return found


def wanted(access: AccessPattern) -> list[int]:
    """The same, by the strides."""
    ranges = [*map(range, access.sizes), *(range(limit) for limit, _ in access.lookups)]
    strides = (*access.strides, *(stride for _, stride in access.lookups))
    return [access.offset + dot(place, strides) for place in product(*ranges)]


@pytest.mark.parametrize(
    ("shape", "access", "expected"),
    [
        ((4, 6), AccessPattern((4, 6), (6, 1)), (4, 6)),  # everything
        ((4, 6), AccessPattern((2, 3), (12, -2), 5), (4, 6)),  # every second row, backwards
        ((4, 6), AccessPattern((6, 4), (1, 6)), (4, 6)),  # transposed
        ((24,), AccessPattern((4, 3), (6, 2)), (4, 3, 2)),  # rows and columns of a buffer
        ((25,), AccessPattern((4, 6), (6, 1)), (4, 6)),  # a buffer that is longer
        ((2, 8, 3), AccessPattern((2, 2, 4, 3), (24, 3, 6, 1)), (2, 4, 2, 3)),  # channels as blocks
        ((5, 4), AccessPattern((3, 4), (0, 1), 0, ((5, 4),)), (5, 4)),  # rows that are looked up
        ((1, 4), AccessPattern((4,), (1,), 0, ((1, 4),)), (1, 4)),
        ((5, 5), AccessPattern((5,), (6,)), (25,)),  # a diagonal
        ((9, 4), AccessPattern((3, 4), (4, 1), 0, ((7, 4),)), (9, 4)),  # windows of three rows
    ],
)
def test_strides_along_axes_have_a_map(shape: tuple[int, ...], access: AccessPattern, expected: tuple[int, ...]) -> None:
    axis_map = map_to_axes(shape, access)
    assert axis_map is not None
    assert axis_map.shape == expected
    assert addresses(axis_map, access) == wanted(access)


@pytest.mark.parametrize(
    ("shape", "access"),
    [
        ((10,), AccessPattern((8, 3), (1, 1))),  # overlapping windows
        ((4, 6), AccessPattern((2, 3), (7, 2))),
        ((20,), AccessPattern((2, 5), (8, 1), 6)),  # rows that end in the next one
    ],
)
def test_strides_across_axes_have_none(shape: tuple[int, ...], access: AccessPattern) -> None:
    assert map_to_axes(shape, access) is None


def test_random_strides_have_right_maps() -> None:
    """Whatever is found takes the right elements, and patterns along axes are found."""
    rng, found = random.Random(1), 0
    for _ in range(400):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 3)))
        strides = packed_strides(shape)
        sizes = tuple(rng.randint(1, 3) for _ in range(rng.randint(0, 3)))
        access_strides = tuple(rng.choice((0, 1, -1, 2)) * rng.choice(strides) for _ in sizes)
        lookups = tuple((rng.randint(1, 4), rng.choice(strides)) for _ in range(rng.randint(0, 1)))
        low, high = reach((*sizes, *(limit for limit, _ in lookups)), (*access_strides, *(stride for _, stride in lookups)))
        if high - low >= prod(shape):
            continue
        access = AccessPattern(sizes, access_strides, rng.randint(-low, prod(shape) - 1 - high), lookups)
        axis_map = map_to_axes(shape, access)
        if axis_map is not None:
            assert addresses(axis_map, access) == wanted(access), (shape, access)
            found += 1
    assert found > 200
