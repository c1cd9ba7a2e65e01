"""Integers at the ends of their types, and programs that are too large or too deep: there is always an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.equivalence import decide, elementwise, meaning
from dmlgather.equivalence.parts import PartMaker
from tests.equivalence.making import Program, do, graph, ids, lax_take, number, typed


def negated(b: GraphBuilder, x: str) -> str:
    """2**64 - x in uint64, which no table of int64 holds."""
    return do(
        b, "cast", do(b, "negative", do(b, "cast", do(b, "add", x, number(b, 127, "uint8")), dtype="uint64")), dtype="uint8"
    )


def selected(b: GraphBuilder, x: str, y: str) -> str:
    return do(b, "where", do(b, "cast", x, dtype="bool"), number(b, [1.5, 2, 7], "float32"), y)


def largest(b: GraphBuilder, x: str) -> str:
    return do(b, "equal", do(b, "cast", x, dtype="uint64"), number(b, 2**64 - 1, "uint64"), dtype="bool")


@pytest.mark.parametrize(
    ("program", "types"),
    [(negated, [ids(3, dtype="uint8")]), (selected, [ids(3), typed(3)]), (largest, [ids(3, dtype="int8")])],
)
def test_known_elements_that_are_no_int64_are_followed(program: Program, types: list[object]) -> None:
    assert decide(graph(program, *types), graph(program, *types)).verdict == "proven"  # type: ignore[arg-type]


def test_the_largest_of_uint64_is_not_below_0() -> None:
    ends = decide(
        graph(lambda b, x: do(b, "minimum", x, do(b, "cast", number(b, [-1, -1, -1]), dtype="uint64")), typed(3, dtype="uint64")),
        graph(lambda b, x: x, typed(3, dtype="uint64")),
    )
    assert ends.verdict != "different"


def added(times: int) -> Program:
    """Reads each value twice, so that the formula would double at each step."""

    def program(b: GraphBuilder, i: str) -> str:
        for step in range(times):
            i = do(b, "add", do(b, "multiply", i, i), do(b, "minimum", i, number(b, step)))
        return i

    return program


def test_arithmetic_that_reads_each_value_twice_is_cut_into_leaves() -> None:
    assert decide(graph(added(40), ids(2)), graph(added(40), ids(2))).verdict == "proven"


def test_nested_selections_take_time_that_grows_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is computed a few times, however deep it lies, and what depends on inputs is never searched for known elements."""
    done = Counter[str]()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            done[name] += 1
            return function(*args)

        return call

    monkeypatch.setattr(meaning, "computed", counted("steps", elementwise.computed))
    monkeypatch.setattr(PartMaker, "parts", counted("parts", PartMaker.parts))

    def program(b: GraphBuilder, x: str, *masks: str) -> str:
        for mask in masks:
            x = do(b, "where", mask, b.input(f"other of {mask}", typed(6)), x)
        return x

    names = [f"mask {number}" for number in range(40)]
    one, other = (graph(program, typed(6), *[typed(6, dtype="bool")] * 40, names=["x", *names]) for _ in range(2))
    assert decide(one, other).verdict == "proven"
    assert done["steps"] <= 4 * 2 * 40
    assert done["parts"] == 0


def test_lookups_in_lookups_end_with_an_answer() -> None:
    def program(b: GraphBuilder, i: str) -> str:
        for _ in range(100):
            i = lax_take(b, i, i)
        return i

    assert decide(graph(program, ids(4)), graph(lambda b, i: i, ids(4))).verdict in ("different", "not proven")


def test_programs_that_are_too_large_are_not_run() -> None:
    large = ids(2**40)
    one, other = (graph(lambda b, x, n=n: do(b, "add", x, number(b, n)), large) for n in (1, 2))
    found = decide(one, other)
    assert found.verdict == "not proven"
    assert "too large to be run" in found.reason
