"""Which values elements at places may have: arrays of places give what a dictionary of single places gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.equivalence import decide
from dmlgather.equivalence.checks import AllowedValues, rows
from dmlgather.plan.index_function import Intervals, common, united
from tests import seeds
from tests.equivalence.making import do, graph, ids, number, take, typed


def drawn(chance: np.random.Generator, columns: int) -> NDArray[np.int64]:
    return chance.integers(-2, 3, (int(chance.integers(1, 9)), columns))


def values(chance: np.random.Generator) -> Intervals:
    ends = np.sort(chance.integers(-9, 10, 4)).tolist()
    return united([(ends[0], ends[1]), (ends[2], ends[3])])


def split(places: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [places[:, column] for column in range(places.shape[1])]


def test_random_checks_are_those_of_single_places() -> None:
    chance = seeds.numpy_rng()
    for _ in range(200):
        columns = int(chance.integers(1, 4))
        both = []
        for _ in range(2):
            allowed, single = AllowedValues(), dict[tuple[int, ...], Intervals]()
            for _ in range(int(chance.integers(1, 5))):
                places, taken = drawn(chance, columns), values(chance)
                possible = allowed.copy().add(rows(split(places)), taken)
                for place in map(tuple, places.tolist()):
                    single[place] = common(single.get(place, taken), taken)
                assert allowed.add(rows(split(places)), taken) is possible is (() not in single.values())
            assert len(allowed) == len(single)
            asked = drawn(chance, columns)
            known = [single.get(place) for place in map(tuple, asked.tolist())]
            expected = None if None in known else united(each for found in known for each in found or ())
            assert allowed.at(rows(split(asked))) == expected
            both.append((allowed, single))
        (one, first), (two, second) = both
        apart = {(first.get(place), second.get(place)) for place in {**first, **second} if first.get(place) != second.get(place)}
        found = one.difference(two)
        assert found in apart if apart else found is None
        assert one.difference(one.copy()) is None


def test_places_of_bytes_are_rows_too() -> None:
    found = rows([np.array([3, 1, 3]), np.array([[0, 9], [0, 8], [0, 9]], np.uint8)])
    assert found.tolist() == [[1, 0, 8], [3, 0, 9]]


def test_a_million_indices_are_checked_in_a_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of calls does not grow with the number of indices."""
    counts = []
    for points in (10, 100_000):
        calls = 0

        def counted(function: Callable[..., Intervals]) -> Callable[..., Intervals]:
            def call(*args: Intervals) -> Intervals:
                nonlocal calls
                calls += 1
                return function(*args)

            return call

        def program(b: GraphBuilder, x: str, i: str) -> str:
            for added in (3, 2, 1):
                i = do(b, "add", i, number(b, added))
            return take(b, x, i)

        monkeypatch.setattr("dmlgather.equivalence.checks.common", counted(common))
        monkeypatch.setattr("dmlgather.equivalence.checks.common", counted(common))
        one, other = (graph(program, typed(100), ids(points)) for _ in range(2))
        assert decide(one, other).verdict == "proven"
        counts.append(calls)
    assert counts[0] == counts[1] > 0
