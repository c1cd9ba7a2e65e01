"""Layouts. Judge: enumerated addresses."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.plan import Layout, blocks, coordinates, overlaps, packed_strides, reach


def addresses(sizes: tuple[int, ...], strides: tuple[int, ...], offset: int = 0) -> list[int]:
    return [
        offset + sum(a * b for a, b in zip(o, strides, strict=True)) for o in itertools.product(*(range(size) for size in sizes))
    ]


@st.composite
def strided(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    strides = tuple(draw(st.integers(-7, 13)) for _ in sizes)
    return sizes, strides


@given(strided())
def test_reach_and_overlaps_agree_with_enumeration(tensor: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    found = addresses(*tensor)
    assert reach(*tensor) == (min(found), max(found))
    assert overlaps(*tensor) == (len(set(found)) < len(found))


@given(strided(), st.integers(-60, 60))
def test_coordinates_invert_the_address(tensor: tuple[tuple[int, ...], tuple[int, ...]], address: int) -> None:
    sizes, strides = tensor
    found = coordinates(address, sizes, strides)
    assert (found is not None) == (address in addresses(sizes, strides))
    if found is not None:
        assert all(0 <= index < size for index, size in zip(found, sizes, strict=True))
        assert sum(a * b for a, b in zip(found, strides, strict=True)) == address


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((2**11, 2**11), (2**11, 1), False),  # the sufficient test decides
        ((2**11, 2**11), (2**11, 0), True),  # a stride of 0 always does
        ((2**11, 2**11), (2**10, 1), None),  # overlaps, but is too large to enumerate
        ((2**9, 2**9), (2**8, 1), True),  # small enough to enumerate
        ((3, 2), (2, 3), False),  # 0 3 2 5 4 7: interleaved, which only enumeration finds
        ((0, 5), (0, 0), False),
    ],
)
def test_overlaps_returns_none_if_undecided(sizes: tuple[int, ...], strides: tuple[int, ...], expected: bool | None) -> None:
    assert overlaps(sizes, strides) is expected


def test_packed_strides_of_an_empty_tensor_do_not_collapse() -> None:
    assert packed_strides((2, 0, 3)) == (3, 3, 1)


def test_a_layout_finds_its_elements() -> None:
    layout = Layout((2, 3), (-4, 1), 4, 7)
    assert [layout.position(address) for address in range(7)] == [(1, 0), (1, 1), (1, 2), None, (0, 0), (0, 1), (0, 2)]


def test_coordinates_of_an_impossible_address_are_none_quickly() -> None:
    assert coordinates(29, (2,) * 28, (2,) * 28) is None


def test_coordinates_of_many_dimensions_are_found_quickly() -> None:
    rng = random.Random(0)
    sizes = (2,) * 20
    strides = packed_strides(sizes)
    for _ in range(50):
        at = tuple(rng.randrange(2) for _ in sizes)
        assert coordinates(sum(a * b for a, b in zip(at, strides, strict=True)), sizes, strides) == at


@pytest.mark.parametrize("channels_last", [True, False])
def test_blocks_equal_numpys_reshape_and_transpose(channels_last: bool) -> None:
    n, c, h, w, size, further = 2, 3, 4, 5, 2, 2
    space = Layout.packed((n, c, h * size, w * size, further))
    depth = Layout.packed((n, c * size**2, h, w, further))
    flat = np.arange(depth.extent)
    parts, order = ((size, size, c), (0, 3, 4, 1, 5, 2, 6)) if channels_last else ((c, size, size), (0, 1, 4, 2, 5, 3, 6))
    expected = (
        flat.reshape(n, *parts, h, w, further).transpose(order),
        flat.reshape(n, c, h, size, w, size, further),
    )
    for layout, addressed in zip(blocks(depth, space, size, channels_last=channels_last), expected, strict=True):
        assert layout.sizes == addressed.shape
        assert [step * flat.itemsize for step in layout.strides] == list(addressed.strides)
        assert (layout.offset, layout.extent) == (0, flat.size)
