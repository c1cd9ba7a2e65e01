"""Plans that look up the argument of a function: every index of a small type is tried; the judge is the interpreter of plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.plan.index_arguments import look_up_arguments, value_range
from dmlgather.plan.index_function import IndexFunction, Piece
from dmlgather.plan.interpreter import origin_of
from dmlgather.plan.walk import CompositionError
from tests import seeds

SIZE = 5
PLAN = IndexPlan(
    (1,), (1,), (0,), 1, 2 * SIZE, 1, lookups=(Lookup((1,), 0, SIZE, SIZE, 2),), index_type=IndexType.INT16, index_extent=1
)


def under(policy: OutOfBounds, wrap: int = SIZE, size: int = SIZE) -> IndexPlan:
    fill = b"f" if policy is OutOfBounds.FILL else b""
    return replace(PLAN, out_of_bounds=policy, fill=fill, lookups=(Lookup((1,), 0, size, wrap, 2),))


def tabled(rule: Callable[[int], int], index_type: IndexType) -> IndexFunction:
    """A function by all of its values."""
    low, high = value_range(index_type)
    return IndexFunction(tuple(Piece(value, value, 0, rule(value)) for value in range(low, high + 1)))


def read(plan: IndexPlan, value: int) -> int | str | None:
    """The address that is read for an index; None for a filled element, "refused" under RAISE."""
    origin = origin_of(plan, (0,) * plan.rank, lambda address: value)
    return "refused" if origin.source is None and plan.out_of_bounds is OutOfBounds.RAISE else origin.source


RULES: dict[str, Callable[[int], int]] = {
    "identity": lambda v: v,
    "wrapped": lambda v: v + SIZE if v < 0 else v,
    "clipped": lambda v: min(max(v, 0), SIZE - 1),
    "clipped to fewer": lambda v: min(max(v, 0), 2),
    "wrapped and clipped": lambda v: min(max(v + SIZE if v < 0 else v, 0), SIZE - 1),
    "clipped from below": lambda v: max(v, -SIZE),
    "from the end": lambda v: SIZE - 1 - v,
    "one later": lambda v: v + 1,
    "doubled": lambda v: 2 * v,
    "tripled": lambda v: 3 * v,
    "constant": lambda v: 3,
    "constant and bad": lambda v: SIZE,
    "negative": lambda v: -v,
    "out of the axis": lambda v: v + 1000,
    "behind": lambda v: SIZE if v < 0 else v,
}


@pytest.mark.parametrize("index_type", [IndexType.INT8, IndexType.UINT8])
@pytest.mark.parametrize("policy", OutOfBounds)
@pytest.mark.parametrize("rule", RULES)
def test_a_plan_that_looks_up_arguments_reads_the_same(rule: str, policy: OutOfBounds, index_type: IndexType) -> None:
    function = tabled(RULES[rule], index_type)
    low, high = value_range(index_type)
    for wrap, size in ((0, SIZE), (SIZE, SIZE), (200, SIZE), (SIZE, 1)):
        before = under(policy, wrap, size)
        try:
            after = look_up_arguments(before, function, index_type)
        except CompositionError:
            continue
        assert all(read(after, value) == read(before, RULES[rule](value)) for value in range(low, high + 1))
        if after.out_of_bounds is OutOfBounds.PROMISE:
            refusing = [replace(plan, out_of_bounds=OutOfBounds.RAISE) for plan in (before, after)]
            for value in range(low, high + 1):
                assert (read(refusing[0], RULES[rule](value)) == "refused") == (read(refusing[1], value) == "refused")


EXPRESSED: dict[tuple[Any, ...], str] = {
    ("identity", "INT8"): "clamp fill raise promise",
    ("identity", "UINT8"): "clamp fill raise promise",
    ("wrapped", "INT8"): "",  # twice: -6 becomes -1, and that 4
    ("wrapped", "INT8", 0): "clamp fill raise promise",
    ("clipped", "INT8"): "clamp fill raise promise",
    ("clipped to fewer", "INT8"): "clamp fill raise promise",
    ("wrapped and clipped", "INT8"): "clamp fill raise promise",
    ("clipped from below", "INT8"): "clamp promise",
    ("from the end", "INT8", 0): "clamp fill raise promise",
    ("one later", "INT8"): "",
    ("one later", "UINT8"): "clamp fill raise promise",
    ("doubled", "UINT8"): "clamp fill raise promise",
    ("tripled", "UINT8"): "fill raise",  # clamped, 6 becomes 4, which is no multiple of 3
    ("constant", "INT8"): "clamp fill raise promise",
    ("out of the axis", "UINT8"): "clamp fill raise promise",
}
"""The policies that take an arithmetic on an index type, in front of a lookup that wraps as ONNX's do, or by 0."""


@pytest.mark.parametrize("row", EXPRESSED, ids=str)
def test_the_arithmetic_that_models_have_is_expressed(row: tuple[Any, ...]) -> None:
    rule, kind, wrap = (*row, SIZE)[:3]
    index_type = IndexType[kind]
    taken = []
    for policy in (OutOfBounds.CLAMP, OutOfBounds.FILL, OutOfBounds.RAISE, OutOfBounds.PROMISE):
        try:
            look_up_arguments(under(policy, wrap), tabled(RULES[rule], index_type), index_type)
        except CompositionError:
            continue
        taken.append(policy.value)
    assert " ".join(taken) == EXPRESSED[row]


def test_arithmetic_that_keeps_indices_in_range_leaves_nothing_to_check() -> None:
    plan = look_up_arguments(under(OutOfBounds.RAISE), tabled(RULES["clipped"], IndexType.INT8), IndexType.INT8)
    assert plan.out_of_bounds is OutOfBounds.CLAMP
    plan = look_up_arguments(under(OutOfBounds.PROMISE), tabled(RULES["clipped"], IndexType.INT8), IndexType.INT8)
    assert plan.out_of_bounds is OutOfBounds.CLAMP, "nobody promised anything about the argument"


def test_random_functions_are_expressed_rightly_or_refused() -> None:
    rng = seeds.rng()
    for _ in range(60):
        index_type = rng.choice((IndexType.INT8, IndexType.UINT8))
        low, high = value_range(index_type)
        ends = sorted(rng.sample(range(low, high), rng.randint(0, 3)))
        lines = [(rng.choice((-1, 0, 1, 1, 2)), rng.randint(-8, 8)) for _ in range(len(ends) + 1)]
        bounds = list(zip([low, *(end + 1 for end in ends)], [*ends, high], lines, strict=True))
        function = IndexFunction(tuple(Piece(first, last, *line) for first, last, line in bounds))
        before = under(rng.choice(list(OutOfBounds)), rng.choice((0, SIZE, 2)), rng.choice((1, 2, SIZE)))
        try:
            after = look_up_arguments(before, function, index_type)
        except CompositionError:
            continue
        for value in range(low, high + 1):
            result = function(value)
            assert result is not None
            assert read(after, value) == read(before, result)
