"""Ranges of sizes, and bounds of expressions whose symbols are in ranges."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

from dmlgather.directml.rules.tensors import ELEMENT_LIMIT

FARTHEST = 1 << 40
"""The largest value of a symbol that is considered. DirectML's sizes are at most 2^32 - 1."""

MOST_INTERVALS = 400
"""The most intervals of a symbol that are examined."""

MOST_HALVED = 64
"""An interval is divided near 0 if it starts there and is longer than this, because most sizes are small. Others are halved."""


@dataclass(frozen=True, slots=True)
class Range:
    """Sizes from `low` to `high`, both included. `high` is None if there is no upper limit."""

    low: int
    high: int | None = None

    def both(self, other: Range) -> Range:
        """Return the intersection of two ranges. If it is empty, its `low` exceeds its `high`."""
        highs = [high for high in (self.high, other.high) if high is not None]
        return Range(max(self.low, other.low), min(highs, default=None))

    @property
    def empty(self) -> bool:
        """Return True if the range has no size."""
        return self.high is not None and self.low > self.high

    def condition(self, name: str) -> str:
        """Return the condition that a size is in the range, for example "N >= 1". Limits beyond DirectML's sizes are left out."""
        if self.high is None or self.high >= ELEMENT_LIMIT:
            return f"{name} >= {self.low}"
        if self.low == self.high:
            return f"{name} = {self.low}"
        return f"{self.low} <= {name} <= {self.high}" if self.low else f"{name} <= {self.high}"


ANY = Range(0)
"""The range of a symbol about which nothing is known."""

Number = int | Fraction

Ranges = Mapping[str, Range]
"""The ranges of symbols, none of them empty. A missing symbol has the range ANY."""

NO_RANGES: Ranges = {}


@dataclass(frozen=True, slots=True)
class LinearBounds:
    """Bounds of a number: it is between sum + `low` and sum + `high`. The sum adds symbols times `factors`, which are not 0."""

    low: Number
    high: Number
    factors: Mapping[str, Number] = field(default_factory=dict)

    def plus(self, other: LinearBounds) -> LinearBounds:
        """Return the bounds of a sum."""
        factors = dict(self.factors)
        for symbol, factor in other.factors.items():
            factors[symbol] = factors.get(symbol, 0) + factor
        return LinearBounds(self.low + other.low, self.high + other.high, {name: each for name, each in factors.items() if each})

    def times(self, factor: Number) -> LinearBounds:
        """Return the bounds of the product with `factor`, which is not 0."""
        low, high = sorted((self.low * factor, self.high * factor))
        return LinearBounds(low, high, {name: each * factor for name, each in self.factors.items()})

    def ends(self, ranges: Ranges) -> tuple[Number, Number]:
        """Return the minimum and the maximum of the number for symbols in these ranges."""
        low, high = self.low, self.high
        for symbol, factor in self.factors.items():
            allowed = ranges.get(symbol, ANY)
            products = (factor * allowed.low, factor * _last(allowed))
            low, high = low + min(products), high + max(products)
        return low, high

    def constant(self, ranges: Ranges) -> LinearBounds:
        """Return bounds without symbols."""
        return LinearBounds(*self.ends(ranges))


def _last(allowed: Range) -> int:
    return FARTHEST if allowed.high is None else min(allowed.high, FARTHEST)


Bounding = Callable[[Ranges], LinearBounds]
"""A function from the ranges of symbols to the bounds of an expression."""


def bounding(expression: Any) -> Bounding:
    """Return a function that bounds an expression of sympy."""
    if expression.is_Symbol:
        symbol = LinearBounds(0, 0, {str(expression.name): 1})
        return lambda _: symbol
    if expression.is_Rational:
        value = int(expression) if expression.is_Integer else Fraction(int(expression.p), int(expression.q))
        number = LinearBounds(value, value)
        return lambda _: number
    name, operands = type(expression).__name__, [bounding(each) for each in expression.args]
    if name in _OF_ONE:
        of_one, (operand,) = _OF_ONE[name], operands
        return lambda ranges: of_one(operand(ranges), ranges)
    of_two = _OF_TWO[name]
    return lambda ranges: reduce(lambda one, two: of_two(one, two, ranges), [each(ranges) for each in operands])


def _product(first: LinearBounds, second: LinearBounds, ranges: Ranges) -> LinearBounds:
    (least, most), (low, high) = first.ends(ranges), second.ends(ranges)
    if least == most or low == high:
        number, variable = (least, second) if least == most else (low, first)
        return variable.times(number) if number else LinearBounds(0, 0)
    corners = (least * low, least * high, most * low, most * high)
    return LinearBounds(min(corners), max(corners))


def _power(base: LinearBounds, exponent: LinearBounds, ranges: Ranges) -> LinearBounds:
    count = int(exponent.low)
    assert count > 0, "sizes are divided by numbers alone"
    return reduce(lambda one, two: _product(one, two, ranges), [base] * count)


def _least(one: LinearBounds, two: LinearBounds, ranges: Ranges) -> LinearBounds:
    low, high = one.plus(two.times(-1)).ends(ranges)
    if high <= 0 or low >= 0:
        return one if high <= 0 else two
    if one.factors != two.factors:
        one, two = one.constant(ranges), two.constant(ranges)
    return LinearBounds(min(one.low, two.low), min(one.high, two.high), one.factors)


def _most(one: LinearBounds, two: LinearBounds, ranges: Ranges) -> LinearBounds:
    return _least(one.times(-1), two.times(-1), ranges).times(-1)


def _floor(operand: LinearBounds, ranges: Ranges) -> LinearBounds:
    """Return the bounds of a number rounded down. With integer factors, only the constants are rounded: floor(N + 5/2) = N + 2.
    With other factors, rounding subtracts less than 1. If bounds without symbols are as close, they are returned.
    """
    if all(factor.denominator == 1 for factor in operand.factors.values()):
        return LinearBounds(math.floor(operand.low), math.floor(operand.high), operand.factors)
    low, high = map(math.floor, operand.ends(ranges))
    most_less: Number = 1
    if operand.low == operand.high:  # N/2 + 1/3 has multiples of 1/6, so rounding subtracts at most 5/6
        most_less -= Fraction(1, math.lcm(*(each.denominator for each in (operand.low, *operand.factors.values()))))
    if high - low <= most_less:
        return LinearBounds(low, high)
    return LinearBounds(operand.low - most_less, operand.high, operand.factors)


def _modulo(operand: LinearBounds, divisor: LinearBounds, ranges: Ranges) -> LinearBounds:
    """Return the bounds of a remainder. A remainder has the divisor's sign and is closer to 0 than the divisor."""
    low, high = divisor.ends(ranges)
    if low == high and low:
        whole = _floor(operand.times(Fraction(1) / low), ranges).constant(ranges)
        if whole.low == whole.high:
            return operand.plus(LinearBounds(-whole.low * low, -whole.low * low))
    return LinearBounds(min(low + 1, 0), max(high - 1, 0))


_OF_ONE: Mapping[str, Callable[[LinearBounds, Ranges], LinearBounds]] = {
    "Abs": lambda operand, ranges: _most(operand, operand.times(-1), ranges),
    "floor": _floor,
    "ceiling": lambda operand, ranges: _floor(operand.times(-1), ranges).times(-1),
}

_OF_TWO: Mapping[str, Callable[[LinearBounds, LinearBounds, Ranges], LinearBounds]] = {
    "Add": lambda one, two, _: one.plus(two),
    "Mul": _product,
    "Pow": _power,
    "Min": _least,
    "Max": _most,
    "Mod": _modulo,
}
"""The functions that occur in expressions, by their number of operands."""


def where_not_negative(bound: Bounding, symbol: str, ranges: Ranges = NO_RANGES) -> Range | bool | None:
    """Return the range of a symbol in which an expression is not negative. The result is True for the symbol's whole range,
    False for no size of it, and None if the sizes form no range or were not found. `ranges`: the ranges of the expression's
    symbols. Every other symbol's range has one size.
    """
    accepted: list[Range] = []
    for interval, (least, most) in _intervals(bound, symbol, ranges, lambda least, most: least < 0 <= most):
        if least < 0 <= most:
            return None
        if least >= 0 and accepted and accepted[-1].high == interval.low - 1:
            accepted[-1] = Range(accepted[-1].low, interval.high)
        elif least >= 0:
            accepted.append(interval)
        if len(accepted) > 1:
            return None
    if not accepted:
        return False
    (range_,), whole = accepted, ranges.get(symbol, ANY)
    if (range_.low, range_.high) == (whole.low, _last(whole)):
        return True
    return Range(range_.low, None if range_.high == FARTHEST else range_.high)


def largest_value(bound: Bounding, symbols: Collection[str]) -> int | None:
    """Return an upper bound of an expression, or None if the expression may exceed every size of DirectML. The bound is the
    maximum if the expression has one symbol and no remainders.
    """
    most = bound({}).ends({})[1]
    if len(symbols) == 1:
        (symbol,) = symbols
        best = bound(far := {symbol: Range(FARTHEST, FARTHEST)}).ends(far)[0]

        def is_open(least: Number, most: Number) -> bool:
            nonlocal best
            best = max(best, least)
            return best < most

        if best <= ELEMENT_LIMIT:
            most = max(most for _, (_, most) in _intervals(bound, symbol, NO_RANGES, is_open))
    return math.floor(most) if most <= ELEMENT_LIMIT else None


def _intervals(
    bound: Bounding, symbol: str, ranges: Ranges, is_open: Callable[[Number, Number], bool]
) -> Iterator[tuple[Range, tuple[Number, Number]]]:
    """Yield intervals that make up the range of a symbol, in order. With each, yield the minimum and the maximum of an
    expression in the interval. An interval is divided further if `is_open` returns True for these two numbers, up to
    MOST_INTERVALS intervals.
    """
    whole = ranges.get(symbol, ANY)
    pending, count = [(whole.low, _last(whole))], 0
    while pending:
        low, high = pending.pop()
        count += 1
        here = {**ranges, symbol: (interval := Range(low, high))}
        ends = bound(here).ends(here)
        if low < high and count < MOST_INTERVALS and is_open(*ends):
            middle = math.isqrt((low + 1) * (high + 1)) - 1 if high > 4 * low + MOST_HALVED else (low + high) // 2
            pending += [(middle + 1, high), (low, middle)]
        else:
            yield interval, ends
