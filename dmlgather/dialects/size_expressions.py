"""What follows from the expression of a size, which is one of sympy's: its value, its sum of symbols, its trend."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any


def linear_of(expression: Any) -> tuple[dict[str, int], int] | None:
    """The factor of each symbol, and the constant; None where an expression is no such sum."""
    factors: dict[str, int] = {}
    constant = 0
    for factor, term in (term.as_coeff_Mul() for term in (expression.args if expression.is_Add else (expression,))):
        if not factor.is_Integer:
            return None
        if term.is_Symbol:
            factors[str(term.name)] = int(factor)
        elif term.is_Integer:
            constant += int(factor * term)
        else:
            return None
    return factors, constant


def value_of(expression: Any) -> Callable[[Mapping[str, int]], int | Fraction]:
    """What computes an expression for values of its symbols; sympy takes a hundred times as long."""
    if expression.is_Symbol:
        return operator.itemgetter(str(expression.name))
    if expression.is_Rational:
        number = int(expression) if expression.is_Integer else Fraction(int(expression.p), int(expression.q))
        return lambda _: number
    compute = _VALUES[type(expression).__name__]
    operands = [value_of(each) for each in expression.args]
    return lambda values: compute(*(each(values) for each in operands))


_VALUES: Mapping[str, Callable[..., int | Fraction]] = {
    "Add": lambda *terms: sum(terms),
    "Mul": lambda *factors: math.prod(factors),
    "Pow": lambda base, exponent: Fraction(base) ** exponent,
    "Min": min,
    "Max": max,
    "Mod": operator.mod,
    "Abs": abs,
    "floor": math.floor,
    "ceiling": math.ceil,
}
"""The functions of the expressions."""


def trend_of(expression: Any) -> int | None:
    """The trend of an expression of at most one symbol: sums, extrema and whole parts of what rises do not fall."""
    if not expression.free_symbols:
        return 0
    if expression.is_Symbol:
        return 1
    factor, rest = expression.as_coeff_Mul()
    if factor != 1:
        trend = trend_of(rest)
        return None if trend is None else trend if factor > 0 else -trend
    if type(expression).__name__ not in ("Add", "Min", "Max", "floor", "ceiling"):
        return None
    trends = {trend_of(each) for each in expression.args} - {0}
    return trends.pop() if len(trends) == 1 else None
