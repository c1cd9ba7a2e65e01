"""Sizes as expressions, compared with the same operations on Python's numbers."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from dmlgather.onnx_checking.sizes.expressions import LARGEST, OPERATIONS, RELATIONS, KnownSize, Sizes
from dmlgather.onnx_checking.sizes.ranges import Range, where_not_negative

SYMBOLS = ("N", "M", "batch size", "x[1]")

MEANING: Mapping[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "minimum": min,
    "maximum": max,
    "negate": lambda a: -a,
    "absolute": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "truncate": math.trunc,
    "divide": lambda a, b: Fraction(a) / b,
    "floor_divide": lambda a, b: math.floor(Fraction(a) / b),
    "truncate_divide": lambda a, b: math.trunc(Fraction(a) / b),
    "floor_modulo": lambda a, b: a - b * math.floor(Fraction(a) / b),
    "truncate_modulo": lambda a, b: a - b * math.trunc(Fraction(a) / b),
}

UNARY = ("negate", "absolute", "floor", "ceil", "truncate")

Tree = int | str | tuple[Any, ...]


def _tree(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    binary = st.tuples(st.sampled_from([name for name in OPERATIONS if name not in UNARY]), children, children)
    return binary | st.tuples(st.sampled_from(UNARY), children)


TREES = st.recursive(st.integers(-5, 9) | st.sampled_from(SYMBOLS), _tree, max_leaves=6)


def _computed(sizes: Sizes, tree: Tree) -> KnownSize | None:
    if not isinstance(tree, tuple):
        return sizes.symbol(tree) if isinstance(tree, str) else tree
    operands = [_computed(sizes, each) for each in tree[1:]]
    known = [each for each in operands if each is not None]
    return sizes.compute(tree[0], *known) if len(known) == len(operands) else None


def _meant(tree: Tree, values: Mapping[str, int]) -> Any:
    if not isinstance(tree, tuple):
        return values[tree] if isinstance(tree, str) else tree
    return MEANING[tree[0]](*(_meant(each, values) for each in tree[1:]))


def _known(sizes: Sizes, tree: Tree, values: Mapping[str, int]) -> tuple[KnownSize, Any]:
    """The size of a tree, and its value. Where it has none, another example is drawn: the model fails at such sizes."""
    size = _computed(sizes, tree)
    assume(size is not None)
    assert size is not None
    try:
        return size, _meant(tree, values)
    except ZeroDivisionError:
        reject()


def test_every_operation_has_a_judge() -> None:
    assert set(MEANING) == set(OPERATIONS)


VALUES = st.fixed_dictionaries({name: st.integers(0, 12) for name in SYMBOLS})
DRAWN = settings(suppress_health_check=[HealthCheck.filter_too_much])


@DRAWN
@given(TREES, VALUES)
def test_an_expression_has_the_value_that_its_operations_have(tree: Tree, values: dict[str, int]) -> None:
    sizes = Sizes()
    size, meant = _known(sizes, tree, values)
    assert meant != int(meant) or sizes.at(size, values) == meant
    assert sizes.symbols(size) <= set(values)


@DRAWN
@given(TREES, TREES, VALUES)
def test_comparisons_hold_for_all_sizes(one: Tree, two: Tree, values: dict[str, int]) -> None:
    sizes = Sizes()
    (left, less), (right, more) = (_known(sizes, tree, values) for tree in (one, two))
    for relation, meaning in RELATIONS.items():
        assert sizes.compare(left, relation, right) in (None, meaning(less, more))


@DRAWN
@given(TREES, VALUES)
def test_a_linear_size_is_the_sum_of_its_parts(tree: Tree, values: dict[str, int]) -> None:
    sizes = Sizes()
    size, meant = _known(sizes, tree, values)
    parts = sizes.linear(size)
    assert parts is None or sum(factor * values[name] for name, factor in parts[0].items()) + parts[1] == meant


@DRAWN
@given(
    TREES, VALUES, st.fixed_dictionaries({name: st.tuples(st.integers(0, 9), st.none() | st.integers(0, 40)) for name in SYMBOLS})
)
def test_values_are_within_their_bounds(tree: Tree, values: dict[str, int], around: dict[str, tuple[int, int | None]]) -> None:
    sizes = Sizes()
    size, meant = _known(sizes, tree, values)
    ranges = {
        name: Range(max(0, values[name] - below), None if above is None else values[name] + above)
        for name, (below, above) in around.items()
    }
    most = sizes.most(size)
    low, high = sizes.bounding(size)(ranges).ends(ranges)
    assert low <= meant <= high
    assert most is None or math.floor(meant) <= most


ONE_SYMBOL = st.recursive(st.integers(-5, 9) | st.just("N"), _tree, max_leaves=6)


def _many(tree: Tree, values: Iterable[int]) -> Iterator[tuple[int, Any]]:
    """Values of the symbol with the results of operations, where they have one."""
    for value in values:
        with suppress(ZeroDivisionError):
            yield value, _meant(tree, {"N": value})


@settings(max_examples=300)
@given(ONE_SYMBOL, st.integers(0, 9), st.none() | st.integers(0, 90))
def test_where_an_expression_of_one_symbol_is_not_negative(tree: Tree, low: int, more: int | None) -> None:
    """Judge: the operations on many numbers."""
    sizes, within = Sizes(), Range(low, None if more is None else low + more)
    size = _computed(sizes, tree)
    if not isinstance(size, str):
        return
    found = where_not_negative(sizes.bounding(size), "N", {"N": within})
    meant = list(_many(tree, range(low, low + 90 if within.high is None else within.high + 1)))
    holds = [value for value, result in meant if result >= 0]
    if found is None:
        return
    if isinstance(found, Range):
        assert holds == [value for value, _ in meant if found.both(Range(value, value)) == Range(value, value)]
    else:
        assert len(holds) == (len(meant) if found else 0)


PIECEWISE = st.recursive(
    st.integers(-5, 9) | st.just("N"),
    lambda children: (
        st.tuples(st.sampled_from(["add", "subtract", "minimum", "maximum"]), children, children)
        | st.tuples(st.sampled_from(["negate", "absolute"]), children)
    ),
    max_leaves=8,
)


@given(PIECEWISE | st.tuples(st.just("floor_divide"), PIECEWISE, st.integers(1, 4)))
def test_the_most_that_an_expression_of_one_symbol_can_be(tree: Tree) -> None:
    sizes = Sizes()
    size = _computed(sizes, tree)
    most = None if size is None else sizes.most(size)
    if most is not None:
        assert math.floor(max((result for _, result in _many(tree, range(90))), default=most)) == most


@pytest.mark.parametrize(
    ("tree", "found"),
    [
        (("subtract", ("subtract", ("minimum", "N", 3), ("minimum", "N", 1)), 2), Range(3)),
        (("subtract", "N", ("floor_divide", "N", 8)), True),
        (("subtract", ("subtract", "N", ("maximum", ("subtract", "N", 5), 0)), 5), Range(5)),
        (("subtract", ("floor_divide", "N", 1000), 5000), Range(5_000_000)),
        (("subtract", ("minimum", "N", 3), 4), False),
        (("subtract", ("floor_modulo", "N", 4), 1), None),
        (("subtract", ("multiply", ("subtract", 9, "N"), "N"), 20), Range(4, 5)),
    ],
)
def test_where_it_is_by_hand(tree: Tree, found: Range | bool | None) -> None:
    sizes = Sizes()
    size = _computed(sizes, tree)
    assert size is not None
    assert where_not_negative(sizes.bounding(size), "N") == found


def test_parts() -> None:
    sizes = Sizes()
    least = sizes.compute("minimum", "N", 512)
    assert least is not None
    assert set(sizes.parts(least, "minimum")) == {"N", 512}
    assert sizes.parts(least, "maximum") == (least,)
    assert sizes.parts("N", "minimum") == ("N",)
    assert set(sizes.parts(sizes.compute("multiply", sizes.compute("multiply", "N", "M") or 0, 2) or 0, "multiply")) == {
        2,
        "N",
        "M",
    }
    assert sizes.parts(sizes.compute("divide", "N", 2) or 0, "multiply") == ("N/2",)
    assert sizes.parts(4, "minimum") == (4,)


@pytest.mark.parametrize(
    ("operation", "operands", "name"),
    [
        ("add", ("N", 1), "N + 1"),
        ("add", ("batch size", 1), "'batch size' + 1"),
        ("minimum", ("N", 512), "min(512, N)"),
        ("floor_divide", ("N", 2), "floor(N/2)"),
        ("floor_modulo", ("N", 2), "mod(N, 2)"),
        ("divide", ("N", 3), "N/3"),
        ("maximum", ("N", 0), "N"),
        ("subtract", ("N", "N"), 0),
        ("truncate_divide", (-7, 2), -3),
        ("truncate_modulo", (-7, 2), -1),
        ("floor_modulo", (-7, 2), 1),
        ("truncate_divide", ("N - 1", 8), "max(0, floor(N/8 - 1/8))"),
        ("truncate_divide", ("N - 9", 8), "max(0, floor(N/8 - 9/8)) + min(0, ceiling(N/8 - 9/8))"),
    ],
)
def test_names(operation: str, operands: tuple[KnownSize, ...], name: KnownSize) -> None:
    sizes = Sizes()
    for less in (1, 9):
        sizes.compute("subtract", "N", less)
    assert sizes.compute(operation, *operands) == name


def test_sizes_that_are_not_known_have_no_name() -> None:
    sizes = Sizes()
    third = sizes.compute("divide", "N", 3)
    assert third is not None
    assert sizes.compute("multiply", third, 3) is None, "floating point rounds a third"
    assert sizes.compute("floor", third) == "floor(N/3)"
    assert sizes.compute("floor_divide", "N", 0) is None
    assert sizes.compute("floor_divide", 5, "N") is None, "sympy compares such quotients wrong"
    thrice = sizes.compute("multiply", "N", 3)
    assert thrice is not None
    assert sizes.compute("floor_divide", thrice, "N") == 3
    assert sizes.compute("multiply", LARGEST, 2) is None, "it has more than 64 bits"
    long: KnownSize | None = "N"
    for number in range(60):
        long = None if long is None else sizes.compute("add", long, sizes.symbol(f"s{number}"))
    assert long is None, "it is too long"
    most: KnownSize | None = "N"
    for number in range(12):
        most = None if most is None else sizes.compute("maximum", most, sizes.symbol(f"s{number}"))
    assert most is None, "each of its sizes is compared with each"


def test_a_symbol_is_not_taken_for_an_expression_of_its_name() -> None:
    sizes = Sizes()
    sizes.compute("add", sizes.symbol("N"), 1)
    other = sizes.symbol("N + 1")
    assert other == "'N + 1'"
    assert sizes.symbol("N + 1") == other
    assert sizes.symbols(other) == {other}
    assert sizes.compute("subtract", "N + 1", "N") == 1
    assert sizes.compare(other, "=", "N + 1") is None
    assert sizes.at(other, {other: 4}) == 4
    first = Sizes()
    first.symbol("N + 1")
    assert first.compute("add", first.symbol("N"), 1) == "(N + 1)"


def test_symbols_alone_do_not_import_sympy() -> None:
    code = (
        "import sys; from dmlgather.onnx_checking.sizes.expressions import Sizes; sizes = Sizes(); n = sizes.symbol('N'); "
        "sizes.at(n, {'N': 1}), sizes.symbols(n), sizes.linear(n), sizes.parts(n, 'minimum'); "
        "sys.exit('sympy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
