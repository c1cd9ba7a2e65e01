"""Ranges of sizes, what an expression can be where its symbols are in ranges, and where it is not negative."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

from dmlgather.directml.rules.tensors import ELEMENT_LIMIT

FARTHEST = 1 << 40
"""No symbol is looked at beyond it: DirectML describes no size that is larger than 2^32 - 1."""

MOST_INTERVALS = 400
"""In how many intervals of a symbol an expression is looked at."""

MOST_HALVED = 64
"""Longer intervals, unless they are far from 0, are divided near to 0, as most numbers in expressions are small."""


@dataclass(frozen=True, slots=True)
class Range:
    """Sizes from `low` on, up to `high` where that is not None."""

    low: int
    high: int | None = None

    def both(self, other: Range) -> Range:
        """The sizes in both ranges; `low` exceeds `high` where there are none."""
        highs = [high for high in (self.high, other.high) if high is not None]
        return Range(max(self.low, other.low), min(highs, default=None))

    @property
    def empty(self) -> bool:
        """Whether the range has no size."""
        return self.high is not None and self.low > self.high

    def condition(self, name: str) -> str:
        """The condition that a size is in the range: "N >= 1". Sizes that DirectML cannot describe are not spoken of."""
        if self.high is None or self.high >= ELEMENT_LIMIT:
            return f"{name} >= {self.low}"
        if self.low == self.high:
            return f"{name} = {self.low}"
        return f"{self.low} <= {name} <= {self.high}" if self.low else f"{name} <= {self.high}"


ANY = Range(0)
"""The range of a symbol about which nothing is known."""

Number = int | Fraction

Ranges = Mapping[str, Range]
"""The ranges of symbols, none of them empty; that of others is ANY."""

NO_RANGES: Ranges = {}


@dataclass(frozen=True, slots=True)
class LinearBounds:
    """Numbers between a sum of symbols plus `low` and the same sum plus `high`. factors: of the symbols, none of them 0."""

    low: Number
    high: Number
    factors: Mapping[str, Number] = field(default_factory=dict)

    def plus(self, other: LinearBounds) -> LinearBounds:
        """The sum."""
        factors = dict(self.factors)
        for symbol, factor in other.factors.items():
            factors[symbol] = factors.get(symbol, 0) + factor
        return LinearBounds(self.low + other.low, self.high + other.high, {name: each for name, each in factors.items() if each})

    def times(self, factor: Number) -> LinearBounds:
        """The product with a number other than 0."""
        low, high = sorted((self.low * factor, self.high * factor))
        return LinearBounds(low, high, {name: each * factor for name, each in self.factors.items()})

    def ends(self, ranges: Ranges) -> tuple[Number, Number]:
        """The least and the most that the numbers can be."""
        low, high = self.low, self.high
        for symbol, factor in self.factors.items():
            known = ranges.get(symbol, ANY)
            of_both = (factor * known.low, factor * _last(known))
            low, high = low + min(of_both), high + max(of_both)
        return low, high

    def constant(self, ranges: Ranges) -> LinearBounds:
        """The same numbers between two numbers."""
        return LinearBounds(*self.ends(ranges))


def _last(known: Range) -> int:
    return FARTHEST if known.high is None else min(known.high, FARTHEST)


Bounding = Callable[[Ranges], LinearBounds]
"""What bounds an expression where its symbols are in ranges."""


def bounding(expression: Any) -> Bounding:
    """What bounds an expression of sympy."""
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


def _sum(one: LinearBounds, two: LinearBounds, _: Ranges) -> LinearBounds:
    return one.plus(two)


def _product(one: LinearBounds, two: LinearBounds, ranges: Ranges) -> LinearBounds:
    (least, most), (low, high) = one.ends(ranges), two.ends(ranges)
    if least == most or low == high:
        number, other = (least, two) if least == most else (low, one)
        return other.times(number) if number else LinearBounds(0, 0)
    corners = (least * low, least * high, most * low, most * high)
    return LinearBounds(min(corners), max(corners))


def _power(base: LinearBounds, exponent: LinearBounds, ranges: Ranges) -> LinearBounds:
    times = int(exponent.low)
    assert times > 0, "sizes are divided by numbers alone"
    return reduce(lambda one, two: _product(one, two, ranges), [base] * times)


def _least(one: LinearBounds, two: LinearBounds, ranges: Ranges) -> LinearBounds:
    low, high = one.plus(two.times(-1)).ends(ranges)
    if high <= 0 or low >= 0:
        return one if high <= 0 else two
    if one.factors != two.factors:
        one, two = one.constant(ranges), two.constant(ranges)
    return LinearBounds(min(one.low, two.low), min(one.high, two.high), one.factors)


def _most(one: LinearBounds, two: LinearBounds, ranges: Ranges) -> LinearBounds:
    return _least(one.times(-1), two.times(-1), ranges).times(-1)


def _floor(of: LinearBounds, ranges: Ranges) -> LinearBounds:
    """Of a whole number of each symbol, the number is rounded alone; else what rounding takes away is less than 1."""
    if all(factor.denominator == 1 for factor in of.factors.values()):
        return LinearBounds(math.floor(of.low), math.floor(of.high), of.factors)
    low, high = map(math.floor, of.ends(ranges))
    most_less = (
        1 if of.low != of.high else 1 - Fraction(1, math.lcm(*(each.denominator for each in (of.low, *of.factors.values()))))
    )
    return LinearBounds(low, high) if high - low <= most_less else LinearBounds(of.low - most_less, of.high, of.factors)


def _ceiling(of: LinearBounds, ranges: Ranges) -> LinearBounds:
    return _floor(of.times(-1), ranges).times(-1)


def _absolute(of: LinearBounds, ranges: Ranges) -> LinearBounds:
    return _most(of, of.times(-1), ranges)


def _modulo(of: LinearBounds, divisor: LinearBounds, ranges: Ranges) -> LinearBounds:
    """What remains of an integer has the sign of the divisor, and is less than it."""
    low, high = divisor.ends(ranges)
    if low == high and low:
        whole = _floor(of.times(Fraction(1) / low), ranges).constant(ranges)
        if whole.low == whole.high:
            return of.plus(LinearBounds(-whole.low * low, -whole.low * low))
    return LinearBounds(min(low + 1, 0), max(high - 1, 0))


_OF_ONE: Mapping[str, Callable[[LinearBounds, Ranges], LinearBounds]] = {"Abs": _absolute, "floor": _floor, "ceiling": _ceiling}

_OF_TWO: Mapping[str, Callable[[LinearBounds, LinearBounds, Ranges], LinearBounds]] = {
    "Add": _sum,
    "Mul": _product,
    "Pow": _power,
    "Min": _least,
    "Max": _most,
    "Mod": _modulo,
}
"""The functions of the expressions, with the operands that each takes at a time."""


def where_not_negative(bound: Bounding, symbol: str, ranges: Ranges = NO_RANGES) -> Range | bool | None:
    """Where an expression is not negative: for a range of a symbol, or for all or none in its range. None where that is no range,
    or not found. ranges: of its symbols; those of the others have one size each.
    """
    found: list[Range] = []
    for known, (least, most) in _intervals(bound, symbol, ranges, lambda least, most: least < 0 <= most):
        if least < 0 <= most:
            return None
        if least >= 0 and found and found[-1].high == known.low - 1:
            found[-1] = Range(found[-1].low, known.high)
        elif least >= 0:
            found.append(known)
        if len(found) > 1:
            return None
    if not found:
        return False
    (one,), within = found, ranges.get(symbol, ANY)
    if (one.low, one.high) == (within.low, _last(within)):
        return True
    return Range(one.low, None if one.high == FARTHEST else one.high)


def largest_value(bound: Bounding, symbols: Collection[str]) -> int | None:
    """A number that an expression does not exceed: the most that it can be, if it has one symbol and no remainders. None where it
    may be more than any size that DirectML can describe.
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
    """Intervals that make up the range of a symbol, in order, with the least and the most that an expression can be there.
    is_open: whether an interval with these ends is divided, if it can be; after many were, no more are.
    """
    within = ranges.get(symbol, ANY)
    pending, looked_at = [(within.low, _last(within))], 0
    while pending:
        low, high = pending.pop()
        looked_at += 1
        here = {**ranges, symbol: (known := Range(low, high))}
        ends = bound(here).ends(here)
        if low < high and looked_at < MOST_INTERVALS and is_open(*ends):
            middle = math.isqrt((low + 1) * (high + 1)) - 1 if high > 4 * low + MOST_HALVED else (low + high) // 2
            pending += [(middle + 1, high), (low, middle)]
        else:
            yield known, ends
