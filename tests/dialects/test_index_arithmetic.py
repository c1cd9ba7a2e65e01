"""Arithmetic on functions of one index, judged by NumPy on every value of the index's type."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from dmlgather.dialects.index_arithmetic import MOST_PIECES, arithmetic, truths, whole_range
from dmlgather.dialects.index_graph import ELEMENTWISE, Elementwise
from dmlgather.plan.index_function import IndexFunction, Piece

INDEX = np.arange(-128, 128)
TYPES = [np.dtype(name) for name in ("int8", "uint8", "bool", "int16", "int32")]
OPERANDS = {"cast": 1, "negative": 1, "not": 1, "where": 3}


def drawn(chance: random.Random, dtype: np.dtype[Any]) -> IndexFunction:
    """A random function of an int8 whose results the type holds."""
    least, most = whole_range(dtype)
    cuts = sorted({-128, 128, *(chance.randint(-128, 127) for _ in range(chance.randint(0, 2)))})
    pieces = []
    for low, end in itertools.pairwise(cuts):
        piece = Piece(low, end - 1, chance.choice([0, 1, 1, -1, 2, -5]), chance.choice([0, 1, chance.randint(-300, 300)]))
        if piece.results[0] < least or piece.results[1] > most:
            piece = Piece(low, end - 1, 0, chance.randint(max(least, -100), min(most, 100)))
        pieces.append(piece)
    return IndexFunction(tuple(pieces))


def table(function: IndexFunction) -> np.ndarray[Any, Any]:
    return np.array([function(int(v)) for v in INDEX])


@pytest.mark.parametrize("operator", [*ELEMENTWISE, "cast"])
def test_arithmetic_is_numpys(operator: str) -> None:
    chance = random.Random(operator)
    followed = 0
    for _ in range(25):
        dtypes = [chance.choice(TYPES) for _ in range(OPERANDS.get(operator, 2))]
        operands = [drawn(chance, dtype) for dtype in dtypes]
        work = Elementwise(operator, chance.choice(TYPES))
        try:
            expected = work.compute([table(each).astype(dtype) for each, dtype in zip(operands, dtypes, strict=True)])
        except TypeError:  # NumPy subtracts and negates no bools
            continue
        found = arithmetic(work, operands, dtypes)
        if found is not None:
            followed += 1
            np.testing.assert_array_equal(table(found), expected.astype(int))
    assert followed >= 3


def test_what_is_not_followed() -> None:
    i64 = np.dtype(np.int64)
    value = IndexFunction.identity(*whole_range(i64))
    assert arithmetic(Elementwise("multiply", i64), [value, value], [i64, i64]) is None  # a square
    assert arithmetic(Elementwise("remainder", i64), [value, IndexFunction.constant(7, *value.domain[0])], [i64, i64]) is None
    many = IndexFunction.constant(2 * MOST_PIECES, *value.domain[0])
    assert arithmetic(Elementwise("multiply", i64), [value, many], [i64, i64]) is None  # it wraps around too often
    u64 = np.dtype(np.uint64)
    assert arithmetic(Elementwise("add", i64), [value, value.restricted(((0, 9),))], [i64, u64]) is None  # NumPy adds floats


def test_where_a_condition_holds() -> None:
    below = arithmetic(
        Elementwise("less", np.dtype(bool)),
        [IndexFunction.identity(-9, 9), IndexFunction.constant(3, -9, 9)],
        [np.dtype(np.int8), np.dtype(np.int8)],
    )
    assert below is not None
    assert truths(below) == (((-9, 2),), ((3, 9),))
