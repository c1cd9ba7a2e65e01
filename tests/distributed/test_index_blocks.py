"""Blocks of indices and groups of blocks. Judge: what is asked of them, checked block by block."""

from __future__ import annotations

from itertools import product, zip_longest
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgather.distributed.routing import block_chunks, even, grouped


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=4), st.integers(0, 12), st.integers(1, 200))
def test_a_block_has_no_more_output_than_it_may(shape: list[int], bytes_each: int, block_bytes: int) -> None:
    chunks = block_chunks(shape, bytes_each, block_bytes)
    assert [sum(sizes) for sizes in chunks] == shape
    assert all(len(sizes) == 1 or min(sizes) >= 1 for sizes in chunks)
    for block in product(*chunks):
        assert prod(block) * bytes_each <= block_bytes or prod(block) == 1
    for axis, sizes in enumerate(chunks):
        if len(sizes) > 1:  # only the outermost dimension that is split may have more than one index in a chunk
            assert all(max(before) <= 1 for before in chunks[:axis])
            assert {*sizes[:-1]} == {max(sizes)}  # what zarr stores as it is
            room = block_bytes // bytes_each // prod(shape[axis + 1 :])
            assert len(sizes) == -(-shape[axis] // max(room, 1))  # no more of them than needed


@pytest.mark.parametrize(
    ("size", "largest", "expected"), [(7, 3, (3, 3, 1)), (9, 4, (3, 3, 3)), (6, 3, (3, 3)), (2, 5, (2,)), (0, 5, (0,))]
)
def test_chunks_are_alike_but_for_the_last(size: int, largest: int, expected: tuple[int, ...]) -> None:
    assert even(size, largest) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 20), max_size=12), st.integers(1, 40))
def test_groups_are_as_large_as_they_may_be(sizes: list[int], limit: int) -> None:
    found = grouped(range(len(sizes)), sizes, limit)
    assert [number for group in found for number in group] == list(range(len(sizes)))
    for group, after in zip_longest(found, found[1:]):
        total = sum(sizes[number] for number in group)
        assert len(group) > 0
        assert total <= limit or len(group) == 1
        assert after is None or total + sizes[after[0]] > limit
