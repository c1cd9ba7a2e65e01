"""Blocks of indices, groups of blocks, and rows of whole gathers. Judges: what is asked of each block and group, and NumPy's take
on the whole axis, done again from the rows of each chunk.
"""

from __future__ import annotations

import random
from itertools import product, zip_longest
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgather.distributed.routing import block_chunks, even, grouped, host_indices, routing_of, row_bytes
from tests.distributed.standin import Standin


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


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_every_block_finds_its_rows(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice([0, 1, 1, 2, 7]) for _ in range(rng.randint(1, 6))]
    extent = sum(sizes)
    table = np.array([rng.getrandbits(63) for _ in range(extent)] + [-5])  # a filled row last
    shape = [rng.randint(0, 5) for _ in range(rng.randint(0, 3))]
    positions = np.array([rng.randint(-1, extent - 1) for _ in range(int(np.prod(shape, dtype=int)))], np.int64).reshape(shape)
    chunks = np.split(table[:-1], np.cumsum(sizes)[:-1])
    routing = routing_of(positions, sizes, 8, rng.choice([8, 24, 1000]), rng.choice([8, 60, 1000]))
    blocks = {}
    for group in routing.groups:
        shared = {chunk: set(rows.tolist()) for chunk, rows in group.rows.items()}
        wanted: dict[int, set[int]] = {}
        for block in group.blocks:
            pieces = [chunks[chunk][rows] for chunk, rows in block.split.rows.items()]
            blocks[block.grid_index] = np.concatenate([*pieces, [-5]])[block.split.lookup]
            for chunk, rows in block.split.rows.items():
                wanted.setdefault(chunk, set()).update(rows.tolist())
        assert shared == wanted
        assert list(shared) == sorted(shared)
        assert [rows.tolist() for rows in group.rows.values()] == [sorted(rows) for rows in shared.values()]
    assert list(blocks) == list(np.ndindex(*map(len, routing.index_chunks)))
    assert [split.lookup.size for split in routing.splits] == [values.size for values in blocks.values()]
    whole = np.empty(shape, np.int64)
    for place, values in blocks.items():
        corner = [sum(each[:number]) for each, number in zip(routing.index_chunks, place, strict=True)]
        whole[tuple(slice(at, at + size) for at, size in zip(corner, values.shape, strict=True))] = values
    assert np.array_equal(whole, table[positions])


def test_a_row_is_as_wide_as_the_widest_chunk() -> None:
    assert row_bytes(((3, 3), (2, 5, 1), (4,)), 0, np.dtype("f4")) == 5 * 4 * 4
    assert row_bytes(((3, 3), (2, 5, 1), (4,)), 1, np.dtype("f4")) == 3 * 4 * 4
    assert row_bytes(((3, 3),), 0, np.dtype("f8")) == 8


def test_indices_come_to_the_host() -> None:
    values = np.array([[1, 2]], np.int16)
    assert host_indices(values) is values
    assert np.shares_memory(host_indices(Standin(values)), values)
    for given_values, expected in (([], []), ([[3], [1]], [[3], [1]]), (5, 5), (np.int32(5), 5)):
        found = host_indices(given_values)
        assert found.dtype.kind == "i"
        assert found.tolist() == expected
    with pytest.raises(TypeError, match=r"indices: expected an array .* got object"):
        host_indices(object())
