"""Arrays in chunks. Judge: NumPy's order of elements."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.chunks import chunks


@given(st.lists(st.integers(0, 7), max_size=4), st.integers(1, 9), st.data())
def test_chunks_are_views_that_cover_the_array_in_order(sizes: list[int], most: int, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(sizes))))
    array = np.arange(prod(sizes)).reshape([sizes[axis] for axis in order]).transpose(np.argsort(order))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("dmlgather.chunks.CHUNK", most)
        found = list(chunks(array))
    assert all(chunk.size <= most for chunk in found)
    assert [value for chunk in found for value in chunk.reshape(-1).tolist()] == array.reshape(-1).tolist()
    for chunk in found:
        chunk[...] = -1  # they are views
    assert (array == -1).all()
