"""Blocks, groups and rows of whole gathers. Judge: NumPy's take on the whole axis, done again from the rows of each chunk."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgather.distributed.chunk_grid import Rows
from dmlgather.distributed.routing import host_indices, routing_of, row_bytes
from tests.distributed.standin import Standin


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


def test_a_group_takes_a_row_once() -> None:
    positions = np.array([4, 0, 4, 4, 9, 0])
    apart = routing_of(positions, (5, 5), 8, 16, 16)
    assert [_listed(group.rows) for group in apart.groups] == [{0: [0, 4]}, {0: [4]}, {0: [0], 1: [4]}]
    together = routing_of(positions, (5, 5), 8, 16, 32)
    assert [_listed(group.rows) for group in together.groups] == [{0: [0, 4]}, {0: [0], 1: [4]}]


def _listed(rows: Rows) -> dict[int, list[int]]:
    return {chunk: each.tolist() for chunk, each in rows.items()}


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
