"""x[…] with constant index arrays, as JAX's own tests write it: fused to JAX's bits. `ci/heavy index` runs hundreds."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.chain_drawing import Chain, check_fresh_chains
from tests.lax.fused_chains import faults
from tests.lax.random_brackets import random_brackets

X = np.arange(120, dtype=np.int32).reshape(4, 6, 5)


def ints(*values: Any) -> Any:
    return np.array(values, np.int32)


TABLE: tuple[Any, ...] = (
    (ints(0, 1, 2, 3), ints(0, 1, 0, 1)),
    (ints(-1, -2, -3, -4), ints(0, 1, 3, 4)),
    (ints(0, 1), ints(0, 1), ints(0, 2)),
    (ints([0], [2]), ints(1, 3, 5)),
    (ints([0, 0], [1, 1]), ints([0, 1], [0, 1])),
    (ints([[0]], [[3]]), ints([0], [5]), ints(4, 2, 0)),
    (ints(0, 1, 2, 3), slice(None), ints(0, 1, 0, 1)),
    (slice(None), ints(0, 1, 2, 4, 5, 0), ints(0, 0, 0, 1, 1, 1)),
    (slice(1, 3), ints([0, 1], [2, 3]), ints([1, 1], [3, 3])),
    (..., ints(0, 1, 4, 5), ints(0, 1, 2, 3)),
    (None, ints(1, 2), None, ints([3], [0])),
    (ints(1, 2), None, ints(0, 1), ...),
    (2, ints([0, 1], [4, 5]), ints([0, 1], [0, 1])),
    (ints(0, 9, 1), ints(0, 1, -9)),
    (ints(2, 2**31 - 1), slice(None, None, -2), ints(-(2**31), 3)),
    (np.array(3, np.int8), ints(0, 2, 1), slice(-2, None)),
    (np.array([True, False, True, True]), ints(0, 1, 5)),
    (np.arange(24).reshape(4, 6) % 3 == 1,),
    (ints(3), np.array([[False] * 5] * 3 + [[True] * 5] * 3)),
)


@pytest.mark.slow
def test_each_row_of_the_table() -> None:
    assert faults([Chain((partial(_taken, key),), (f"x[{key}]",), X, ()) for key in TABLE]) == []


def _taken(key: Any, x: Any, _: Any) -> Any:
    return x[key]


@pytest.mark.slow
def test_random_brackets() -> None:
    check_fresh_chains(random_brackets, faults, 15)
