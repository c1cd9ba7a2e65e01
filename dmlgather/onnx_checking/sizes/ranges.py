"""Ranges of symbols, and bounds of expressions in these ranges (interval arithmetic)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

from dmlgather.directml.rules.tensors import ELEMENT_LIMIT

FARTHEST = 1 << 40
"""The largest value to consider. It exceeds 2^32 - 1, DirectML's largest size, to show which expressions have no limit."""

MOST_INTERVALS = 400
"""Limit of intervals into which a range is divided. Beyond it, the answer may be unknown."""

MOST_HALVED = 64
"""Intervals near 0 that are longer are divided near their start, because most sizes are small."""


@dataclass(frozen=True, slots=True)
class Range:
    """Integers from `low` to `high`, both included. None means no upper limit."""

    low: int
    high: int | None = None

    def both(self, other: Range) -> Range:
        """Return the intersection. If it is empty, its `low` exceeds its `high`."""
        highs = [high for high in (self.high, other.high) if high is not None]
        return Range(max(self.low, other.low), min(highs, default=None))

    @property
    def empty(self) -> bool:
        """Return True if no size lies in the range."""
        return self.high is not None and self.low > self.high

    def condition(self, name: str) -> str:
        """Return "1 <= N <= 512", or "N >= 1" if the upper limit is DirectML's or more."""
        if self.high is None or self.high >= ELEMENT_LIMIT:
            return f"{name} >= {self.low}"
        if self.low == self.high:
            return f"{name} = {self.low}"
        return f"{self.low} <= {name} <= {self.high}" if self.low else f"{name} <= {self.high}"


ANY = Range(0)
"""The range of a symbol about which nothing is known."""

Number = int | Fraction

Ranges = Mapping[str, Range]
"""Ranges by symbol, none of them empty. Missing symbols have the range ANY."""

NO_RANGES: Ranges = {}


@dataclass(frozen=True, slots=True)
class LinearBounds:
    """Bounds of an expression: sum(factor * symbol) + `low` and sum(factor * symbol) + `high`. For example, floor(N/2) lies
    between N/2 - 1/2 and N/2.
    """

    low: Number
    high: Number
    factors: Mapping[str, Number] = field(default_factory=dict)

    def plus(self, other: LinearBounds) -> LinearBounds:
        """Return bounds of the sum of two expressions."""
        factors = dict(self.factors)
        for symbol, factor in other.factors.items():
            factors[symbol] = factors.get(symbol, 0) + factor
        return LinearBounds(self.low + other.low, self.high + other.high, {name: each for name, each in factors.items() if each})

    def times(self, factor: Number) -> LinearBounds:
        """Return bounds of the expression times a factor other than 0."""
        low, high = sorted((self.low * factor, self.high * factor))
        return LinearBounds(low, high, {name: each * factor for name, each in self.factors.items()})

    def ends(self, ranges: Ranges) -> tuple[Number, Number]:
        """Return the minimum of the lower bound and the maximum of the upper bound."""
        low, high = self.low, self.high
        for symbol, factor in self.factors.items():
            allowed = ranges.get(symbol, ANY)
            products = (factor * allowed.low, factor * _last(allowed))
            low, high = low + min(products), high + max(products)
        return low, high

    def constant(self, ranges: Ranges) -> LinearBounds:
        """Return the limits of these bounds, as numbers."""
        return LinearBounds(*self.ends(ranges))


def _last(allowed: Range) -> int:
    return FARTHEST if allowed.high is None else min(allowed.high, FARTHEST)


Bounding = Callable[[Ranges], LinearBounds]
"""Computes bounds of one expression from the ranges of its symbols."""


def bounding(expression: Any) -> Bounding:
    """Compile a sympy expression to a function that computes its bounds."""
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
    """Round bounds down: floor(N + 5/2) = N + 2. If a factor is no integer, rounding subtracts less than 1."""
    if all(factor.denominator == 1 for factor in operand.factors.values()):
        return LinearBounds(math.floor(operand.low), math.floor(operand.high), operand.factors)
    low, high = map(math.floor, operand.ends(ranges))
    most_less: Number = 1
    if operand.low == operand.high:  # values of N/2 + 1/3 are multiples of 1/6, so rounding subtracts at most 5/6
        most_less -= Fraction(1, math.lcm(*(each.denominator for each in (operand.low, *operand.factors.values()))))
    if high - low <= most_less:
        return LinearBounds(low, high)
    return LinearBounds(operand.low - most_less, operand.high, operand.factors)


def _modulo(operand: LinearBounds, divisor: LinearBounds, ranges: Ranges) -> LinearBounds:
    """Return bounds of a remainder. A remainder has the sign of the divisor, and a smaller absolute value."""
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
"""Functions that compute bounds of a result from the bounds of two operands, by sympy class."""


def where_not_negative(bound: Bounding, symbol: str, ranges: Ranges = NO_RANGES) -> Range | bool | None:
    """Return the range of one symbol in which an expression is at least 0. All other symbols must have a fixed value.
    Return True if this is the whole range of the symbol, and False if the expression is always negative.
    Return None if the values are not one range, or were not found.
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
    """Return an upper bound of an expression, or None if it may exceed the largest size in DirectML."""
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
    """Divide the range of a symbol into intervals. Yield each interval, and the bounds of the expression in it.
    `is_open`: a function of the bounds. An interval is divided while it returns True, up to about MOST_INTERVALS intervals.
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
