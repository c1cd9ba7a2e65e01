"""Addresses that are read are those that NumPy tells."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmlgather.backends import addresses

FROZEN = np.arange(6)
FROZEN.setflags(write=False)
ARRAYS: dict[str, Any] = {
    "scalar": np.array(3),
    "empty": np.empty((0, 3)),
    "reversed": np.arange(12).reshape(3, 4)[::-1, ::-2],
    "misaligned": np.zeros(17, np.uint8)[1:].view(np.int64),
    "read-only": FROZEN,
    "of another package's type": np.zeros(3, ml_dtypes.bfloat16),
    "objects": np.array([None, "a"]),
    "of a subclass": np.zeros(3).view(np.recarray),
    "broadcast": np.broadcast_to(np.arange(3), (4, 3)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_address_is_where_numpy_says(name: str) -> None:
    assert addresses.address_of(ARRAYS[name]) == addresses._ask(ARRAYS[name]) == ARRAYS[name].ctypes.data


def test_an_array_that_moves_is_found_again() -> None:
    array = np.zeros(4)
    for size in (1 << 12, 1 << 20, 2):
        array.resize(size, refcheck=False)
        assert addresses.address_of(array) == array.ctypes.data


def test_numpy_is_asked_where_reading_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    assert addresses._reader() is addresses._read
    monkeypatch.setattr(addresses, "_FIELD", addresses._FIELD + 8)  # the number of dimensions
    assert addresses._reader() is addresses._ask
