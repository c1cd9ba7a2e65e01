"""Grids of chunks, and positions split among chunks. Judges: NumPy, which cuts an array of numbers by the same sizes, and on the
whole axis, put together again from the rows of each chunk.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dmlgather.distributed.chunk_grid import Split, cells, chunk_starts, replace_axis, split, union
from tests import seeds

SIZES = st.lists(st.one_of(st.just(1), st.integers(0, 6), st.sampled_from([10**6, 2**40, 2**60])), min_size=1, max_size=6)


@pytest.mark.parametrize("chunks", [(), ((3,),), ((1, 0, 2), (2, 2)), ((0,), (4, 1)), ((2, 2), (1,), (3, 1))])
def test_every_cell_is_where_its_elements_lie(chunks: tuple[tuple[int, ...], ...]) -> None:
    whole = np.arange(int(np.prod([sum(sizes) for sizes in chunks]))).reshape([sum(sizes) for sizes in chunks])
    found = list(cells(chunks))
    assert [cell.grid_index for cell in found] == list(np.ndindex(*map(len, chunks)))
    for cell in found:
        part = whole
        for axis, (sizes, number) in enumerate(zip(chunks, cell.grid_index, strict=True)):
            part = np.split(part, np.cumsum(sizes)[:-1], axis)[number]
        assert cell.shape == part.shape
        assert cell.empty is (part.size == 0)
        assert np.array_equal(whole[cell.slices], part)
        if part.size:
            assert whole[cell.first] == part.flat[0]


def test_an_axis_is_replaced_by_any_number_of_axes() -> None:
    assert replace_axis((1, 2, 3), 1) == (1, 3)
    assert replace_axis([1, 2, 3], 1, 7) == (1, 7, 3)
    assert replace_axis((1, 2, 3), 0, 7, 8) == (7, 8, 2, 3)


def check(found: Split, positions: NDArray[np.int64], starts: NDArray[np.int64]) -> None:
    """Everything that a split says, by NumPy."""
    wanted = [np.unique(positions[(positions >= low) & (positions < high)]) - low for low, high in pairwise(starts)]
    assert {chunk: rows.tolist() for chunk, rows in found.rows.items()} == {
        chunk: rows.tolist() for chunk, rows in enumerate(wanted) if rows.size
    }
    assert list(found.rows) == sorted(found.rows)
    assert found.count == sum(map(len, wanted))
    assert found.lookup.dtype == np.int64
    joined = np.concatenate([*(rows + starts[chunk] for chunk, rows in found.rows.items()), [-1]])
    assert np.array_equal(joined[found.lookup], positions)


@settings(max_examples=60, deadline=None)
@given(SIZES, st.data())
def test_positions_come_together_again(sizes: list[int], data: st.DataObject) -> None:
    starts = chunk_starts(tuple(sizes))
    assert starts.tolist() == [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    extent = sum(sizes)
    borders = [at for low in starts.tolist() for at in (low - 1, low) if 0 <= at < extent]
    choice = st.one_of(*([st.integers(0, extent - 1), st.sampled_from(borders)] if extent else []), st.just(-1))
    values = data.draw(st.lists(choice, max_size=24))
    shape = data.draw(st.sampled_from([(len(values),), (len(values), 1), (1, 1, len(values))]))
    positions = np.array(values, np.int64).reshape(shape)
    check(split(positions, starts), positions, starts)


@pytest.mark.parametrize("spread", [100, 10**12, 2**62 - 1])
def test_every_way_of_sorting_agrees_with_numpy(spread: int) -> None:
    rng = seeds.numpy_rng()
    starts = np.linspace(0, spread, 8).astype(np.int64)
    starts[-1] = spread
    drawn = rng.integers(0, spread, 5000)
    for positions in (drawn, np.sort(drawn), np.full(5000, drawn[0]), np.where(rng.random(5000) < 0.2, -1, drawn), drawn[::-2]):
        check(split(positions, starts), positions, starts)


def test_scalars_and_empty_positions_are_split() -> None:
    starts = chunk_starts((2, 0, 3))
    for positions in (np.array(3), np.array(-1), np.empty((2, 0), np.int64), np.full((2, 2), -1)):
        check(split(positions, starts), positions, starts)
    nothing = chunk_starts((0,))
    check(split(np.full(3, -1), nothing), np.full(3, -1), nothing)


@given(st.lists(st.lists(st.integers(-1, 12), max_size=6), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_rows_that_several_blocks_share_are_united(blocks: list[list[int]]) -> None:
    starts = chunk_starts((5, 0, 1, 7))
    found = union([split(np.array(block, np.int64), starts).rows for block in blocks], starts)
    everything = sorted({position for block in blocks for position in block if position >= 0})
    assert [row + starts[chunk] for chunk, rows in found.items() for row in rows.tolist()] == everything
    assert all(rows.size for rows in found.values())
