"""Values of symbols that are searched for: they meet what is demanded, and the smallest come first."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmlgather.onnx_checking.checked_model import SizeCondition
from dmlgather.onnx_checking.sizes.conditions import Conditions, strongest
from dmlgather.onnx_checking.sizes.expressions import Sizes
from dmlgather.onnx_checking.sizes.ranges import Range
from dmlgather.onnx_checking.sizes.size_search import Constraint, Crossing, SizeSearch, constraints_of

FARTHEST = 2**32 - 1

SUMS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-12, 12)), min_size=1, max_size=3)
"""Of each condition: the factors of N and M, and the number that their sum is at least."""


def _conditions(sums: list[tuple[int, int, int]]) -> Conditions:
    conditions = Conditions(Sizes())
    for n, m, least in sums:
        left = [*["N"] * max(n, 0), *["M"] * max(m, 0)]
        right = [*["N"] * max(-n, 0), *["M"] * max(-m, 0)]
        conditions.require(left, right, least)
    return conditions


@settings(max_examples=200)
@given(SUMS)
def test_sums_of_two_symbols(sums: list[tuple[int, int, int]]) -> None:
    """Judge: all small values. What is found meets the conditions; where small ones do, something is found."""
    conditions = _conditions(sums)
    some = [(n, m) for n, m in product(range(40), repeat=2) if all(a * n + b * m >= least for a, b, least in sums)]
    ranges = conditions.tightened()
    if ranges is None:
        assert not some
        return
    found = SizeSearch(conditions.sizes, ["N", "M"], ranges, FARTHEST).first(constraints_of(conditions))
    assert found is not None or not some
    if found is not None:
        assert all(a * found["N"] + b * found["M"] >= least for a, b, least in sums)
        assert all(ranges[name].low <= value for name, value in found.items() if name in ranges)


@given(SUMS)
def test_words_of_sums_say_the_same(sums: list[tuple[int, int, int]]) -> None:
    conditions = _conditions(sums)
    stated = conditions.stated()
    text = " and ".join(each.text for each in stated).replace(" = ", " == ") or "True"
    for n, m in product(range(15), repeat=2):
        meant = all(a * n + b * m >= least for a, b, least in sums)
        assert (not conditions.never and bool(eval(text, {"N": n, "M": m}))) is meant, text
        assert (not conditions.never and _holds(stated, {"N": n, "M": m})) is meant, stated
        assert (not conditions.never and _holds(strongest(stated), {"N": n, "M": m})) is meant, stated


@pytest.mark.slow
@given(SUMS, SUMS)
def test_the_conditions_of_several_nodes_are_joined(some: list[tuple[int, int, int]], more: list[tuple[int, int, int]]) -> None:
    """No size is spoken of twice, and the words and the numbers say the same as all of them."""
    each = [_conditions(some), _conditions(more)]
    joined = strongest(one for conditions in each for one in conditions.stated())
    assert len({one.size for one in joined}) == len(joined)
    text = " and ".join(one.text for one in joined).replace(" = ", " == ") or "True"
    for n, m in product(range(15), repeat=2):
        meant = all(_holds(conditions.stated(), {"N": n, "M": m}) for conditions in each)
        assert _holds(joined, {"N": n, "M": m}) is meant, joined
        assert bool(eval(text, {"N": n, "M": m})) is meant, text


def _holds(stated: Iterable[SizeCondition], values: dict[str, int]) -> bool:
    """Whether conditions hold, by their terms alone."""
    for each in stated:
        assert each.terms is not None
        assert set(each.symbols) == set(each.terms)
        found = sum(factor * values[name] for name, factor in each.terms.items())
        assert found == eval(each.size, dict(values)), each
        if found < each.at_least or (each.at_most is not None and found > each.at_most):
            return False
    return True


def test_groups_do_not_disturb_each_other() -> None:
    """A hundred independent symbols are found as soon as one."""
    sizes = Sizes()
    symbols = [f"s{number}" for number in range(100)]
    constraints = [
        Constraint(frozenset({name}), lambda values, name=name: values[name] >= 70, (Crossing((name,), (), 70),))  # type: ignore[misc]
        for name in symbols
    ]
    found = SizeSearch(sizes, symbols, {"s0": Range(99)}, FARTHEST).first(constraints)
    assert found == dict.fromkeys(symbols, 70) | {"s0": 99}


def test_values_that_cannot_be_are_not_found() -> None:
    sizes = Sizes()
    search = SizeSearch(sizes, ["N"], {"N": Range(3, 9)}, FARTHEST)
    assert search.first([Constraint(frozenset({"N"}), lambda values: values["N"] > 9, (Crossing(("N",), (), 9),))]) is None
    assert search.first([Constraint(frozenset({"N"}), lambda values: values["N"] > 8, (Crossing(("N",), (), 9),))]) == {"N": 9}
    assert search.first([Constraint(frozenset(), lambda _: False)]) is None


def test_sizes_that_are_no_sums() -> None:
    sizes = Sizes()
    half = sizes.compute("floor_divide", "N", 2)
    assert isinstance(half, str)
    search = SizeSearch(sizes, ["N"], {}, FARTHEST)
    constraint = Constraint(frozenset({"N"}), lambda values: sizes.at(half, values) >= 5000, (Crossing((half,), (), 5000),))
    assert search.first([constraint]) == {"N": 10000}
