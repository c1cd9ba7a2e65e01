"""Functions of one index, judged by tables of their values."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from dmlgather.plan import Lookup, OutOfBounds
from dmlgather.plan.index_function import IndexFunction, Piece, lookup_function, united, within

VALUES = range(-40, 60)


def drawn(chance: random.Random) -> tuple[IndexFunction, dict[int, int]]:
    """A random function, and the table of its values."""
    pieces, start = [], chance.randint(-6, 0)
    for _ in range(chance.randint(1, 4)):
        start += chance.choice([0, 0, 2])
        length = chance.randint(1, 4)
        pieces.append(Piece(start, start + length - 1, chance.randint(-2, 2), chance.randint(-3, 3)))
        start += length
    return IndexFunction(tuple(pieces)), {v: piece.at(v) for piece in pieces for v in range(piece.low, piece.high + 1)}


def of(table: Mapping[int, int]) -> IndexFunction:
    """The function with this table, from pieces of one value each."""
    return IndexFunction(tuple(Piece(v, v, 7, table[v] - 7 * v) for v in sorted(table)))


def test_equal_tables_make_equal_functions() -> None:
    chance = random.Random(1)
    for _ in range(300):
        function, table = drawn(chance)
        assert {v: function(v) for v in VALUES if function(v) is not None} == table
        assert of(table) == function
        assert (function.low, function.high) == (min(table.values()), max(table.values()))
        assert function.single == (function.low if function.low == function.high else None)
        assert function.scaled(-3, 2) == of({v: 2 - 3 * result for v, result in table.items()})


def test_what_two_functions_make_together() -> None:
    chance = random.Random(2)
    for _ in range(300):
        (f, one), (g, two) = drawn(chance), drawn(chance)
        assert f.then(g) == of({v: two[result] for v, result in one.items() if result in two})
        assert f.plus(g) == of({v: one[v] + two[v] for v in one if v in two})
        assert f.restricted(g.domain) == of({v: one[v] for v in one if v in two})
        assert within(f.plus(g).domain, f.domain)


def test_values_with_results_in_a_range() -> None:
    chance = random.Random(3)
    for _ in range(300):
        function, table = drawn(chance)
        least, most = sorted((chance.randint(-9, 9), chance.randint(-9, 9)))
        found = [v for low, high in function.preimage(least, most) for v in range(low, high + 1)]
        assert found == [v for v in sorted(table) if least <= table[v] <= most]


def test_a_lookup_as_a_function() -> None:
    chance = random.Random(4)
    for _ in range(500):
        limit = chance.randint(1, 5)
        lookup = Lookup((), 0, limit, chance.choice([0, limit - 1, limit, limit + 2]), 1)
        policy, low, high = chance.choice(list(OutOfBounds)), chance.randint(-9, 0), chance.randint(0, 9)
        table = {}
        for value in range(low, high + 1):
            wrapped = value + lookup.wrap if value < 0 else value
            if 0 <= wrapped < limit:
                table[value] = wrapped
            elif policy in (OutOfBounds.CLAMP, OutOfBounds.PROMISE):
                table[value] = min(max(wrapped, 0), limit - 1)
        assert lookup_function(lookup, policy, low, high) == of(table)


def test_an_axis_without_elements() -> None:
    nothing = Lookup((), 0, 0, 0, 1)
    assert lookup_function(nothing, OutOfBounds.RAISE, -5, 5).pieces == ()
    with pytest.raises(ValueError, match="axis of size 0"):
        lookup_function(nothing, OutOfBounds.CLAMP, -5, 5)


def test_pieces_are_in_order() -> None:
    with pytest.raises(ValueError, match="overlap"):
        IndexFunction((Piece(0, 3, 1, 0), Piece(3, 5, 1, 0)))


def test_intervals_are_united() -> None:
    assert united([(5, 7), (0, 2), (3, 3), (9, 8)]) == ((0, 3), (5, 7))
