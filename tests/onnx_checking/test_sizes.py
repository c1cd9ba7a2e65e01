"""Sizes as expressions, compared with the same operations on Python's numbers."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmlgather.onnx_checking.sizes.expressions import LARGEST, OPERATIONS, RELATIONS, KnownSize, Sizes

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


def test_every_operation_has_a_judge() -> None:
    assert set(MEANING) == set(OPERATIONS)


VALUES = st.fixed_dictionaries({name: st.integers(0, 12) for name in SYMBOLS})


@given(TREES, VALUES)
def test_an_expression_has_the_value_that_its_operations_have(tree: Tree, values: dict[str, int]) -> None:
    sizes = Sizes()
    size = _computed(sizes, tree)
    if size is None:
        return
    try:
        meant = _meant(tree, values)
    except ZeroDivisionError:
        return  # the model fails at such sizes
    if meant == int(meant):
        assert sizes.at(size, values) == meant
    assert sizes.symbols(size) <= set(values)


@given(TREES, TREES, VALUES)
def test_what_is_compared_holds_for_all_sizes(one: Tree, two: Tree, values: dict[str, int]) -> None:
    sizes = Sizes()
    left, right = _computed(sizes, one), _computed(sizes, two)
    if left is None or right is None:
        return
    for relation, meaning in RELATIONS.items():
        answer = sizes.compare(left, relation, right)
        try:
            assert answer in (None, meaning(_meant(one, values), _meant(two, values)))
        except ZeroDivisionError:
            return


@given(TREES, VALUES)
def test_a_linear_size_is_the_sum_of_its_parts(tree: Tree, values: dict[str, int]) -> None:
    sizes = Sizes()
    size = _computed(sizes, tree)
    parts = None if size is None else sizes.linear(size)
    if parts is None:
        return
    try:
        meant = _meant(tree, values)
    except ZeroDivisionError:
        return
    assert sum(factor * values[name] for name, factor in parts[0].items()) + parts[1] == meant


@given(TREES, st.integers(0, 12), st.integers(0, 12))
def test_a_size_that_rises_never_falls(tree: Tree, one: int, two: int) -> None:
    sizes = Sizes()
    size = _computed(sizes, tree)
    trend = None if size is None else sizes.trend(size)
    if trend is None:
        return
    try:
        before, after = (_meant(tree, dict.fromkeys(SYMBOLS, value)) for value in sorted((one, two)))
    except ZeroDivisionError:
        return
    assert (after - before) * trend >= 0
    assert trend or before == after


def test_trends() -> None:
    sizes = Sizes()
    less = sizes.compute("floor_divide", sizes.compute("subtract", "N", 1) or 0, 2) or 0
    assert sizes.trend(less) == 1
    assert sizes.trend(sizes.compute("subtract", 3, less) or 0) == -1
    assert sizes.trend(sizes.compute("minimum", less, 512) or 0) == 1
    assert sizes.trend(sizes.compute("floor_modulo", "N", 2) or 0) is None
    assert sizes.trend(sizes.compute("add", "N", "M") or 0) is None
    assert sizes.trend(4) == 0


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
    ],
)
def test_names(operation: str, operands: tuple[KnownSize, ...], name: KnownSize) -> None:
    assert Sizes().compute(operation, *operands) == name


def test_what_is_not_known() -> None:
    sizes = Sizes()
    less = sizes.compute("subtract", "N", 3)
    third = sizes.compute("divide", "N", 3)
    assert less is not None
    assert third is not None
    assert sizes.compute("truncate_divide", less, 2) is None, "it rounds up below 0, and down above"
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
