"""Grids of chunks. Judge: NumPy, which cuts an array of numbers by the same sizes."""

from __future__ import annotations

import numpy as np
import pytest

from dmlgather.distributed.chunk_grid import cells, replace_axis


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
