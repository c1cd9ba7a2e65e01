"""Sizes that are unknown before a model runs, as expressions of symbols: "seq", "seq + 1", "floor(seq/2)".

A size is an int, or a str with the text of its expression. `Sizes` keeps the sympy expression behind each text. Only this
module and `ranges` use sympy. An array of sizes has data type object, so NumPy can move its elements.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from dmlgather.onnx_checking.sizes.ranges import Bounding, LinearBounds, Range, bounding, largest_value, where_not_negative
from dmlgather.package import missing_extra

if TYPE_CHECKING:
    from sympy import Expr


def linear_of(expression: Any) -> tuple[dict[str, int], int] | None:
    """Split 2*N - M + 3 into {"N": 2, "M": -1} and 3. Return None if it is not linear with integer factors."""
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


@lru_cache(maxsize=1024)
def value_of(expression: Any) -> Callable[[Mapping[str, int]], int | Fraction]:
    """Compile a sympy expression to a Python function, which is about a hundred times as fast."""
    if expression.is_Symbol:
        return operator.itemgetter(str(expression.name))
    if expression.is_Rational:
        number = int(expression) if expression.is_Integer else Fraction(int(expression.p), int(expression.q))
        return lambda _: number
    compute = _VALUES[type(expression).__name__]
    operands = [value_of(operand) for operand in expression.args]
    return lambda values: compute(*(operand(values) for operand in operands))


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
"""Python implementations of sympy classes."""


KnownSize = int | str
"""A number, or the text of a symbolic expression. It may be a slice bound, so negative."""

MOST_OPERATIONS = 40
"""Limit of operations in an expression. Longer ones count as unknown: comparing them takes too long."""

MOST_PARTS = 8
"""Limit of operands of a minimum or maximum. Sympy compares each pair of operands."""

LARGEST = 2**63 - 1

SHORT = 64
"""The largest denominator of fractions that floating point multiplies with sizes exactly."""

WORD = re.compile(r"[^\W\d][\w.\[\]]*")
"""Symbol names that need no quotes in expressions: "seq", "data[0]"."""

QUOTIENTS = ("divide", "floor_divide", "truncate_divide", "floor_modulo", "truncate_modulo")

RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}


class Sizes:
    """The symbolic sizes of one model, and arithmetic on them. Symbols stand for integers of 0 or more."""

    def __init__(self) -> None:
        self._symbols: dict[str, str] = {}
        self._taken: set[str] = set()
        self._named: dict[str, Expr] = {}
        self._names: dict[Expr, str] = {}
        self._boundings: dict[tuple[KnownSize, KnownSize, int], Bounding] = {}
        self._solved: dict[tuple[Any, ...], Range | bool | None] = {}

    def symbol(self, text: str) -> str:
        """Register a symbol. Return `text`, or a variant if an expression has the same text."""
        if text not in self._symbols:
            name = text
            while name in self._named or name in self._taken:
                name = f"'{name}'"
            self._symbols[text] = name
            self._taken.add(name)
        return self._symbols[text]

    def compute(self, operation: str, *operands: KnownSize | Fraction) -> KnownSize | None:
        """Apply one of OPERATIONS to sizes. Return None if no single expression is right for all sizes, or if it is too long.

        "floor_…" rounds towards minus infinity, "truncate_…" towards 0. "divide" does not round: floating point is exact for
        the quotients that models compute. Fractions must have the denominators 2, 4, 8 …; others can only be rounded.
        """
        result = self._compute(operation, *map(self._expression, operands))
        return None if result is None else self._name(result)

    def number(self, operation: str, *numbers: KnownSize | Fraction) -> Fraction | None:
        """Apply an operation of `compute` to rational numbers. Return None if the result is not rational."""
        result = self._compute(operation, *map(self._expression, numbers))
        return Fraction(int(result.p), int(result.q)) if result is not None and result.is_Rational else None

    def compare(self, left: KnownSize | Fraction, relation: str, right: KnownSize | Fraction) -> bool | None:
        """Compare two sizes. Return None if the answer depends on the symbols, or if it was not found."""
        if not isinstance(left, str) and not isinstance(right, str):
            return RELATIONS[relation](left, right)
        difference = self._expression(left) - self._expression(right)
        signs = {
            -1: difference.is_negative is not False,
            0: difference.is_zero is not False,
            1: difference.is_positive is not False,
        }
        answers = {RELATIONS[relation](sign, 0) for sign, possible in signs.items() if possible}
        return answers.pop() if len(answers) == 1 else None

    def symbols(self, size: object) -> frozenset[str]:
        """Return the symbols in a size. An object that is no size has none."""
        if isinstance(size, str) and size in self._named:
            return frozenset(str(symbol.name) for symbol in self._named[size].free_symbols)
        return frozenset({size}) if isinstance(size, str) else frozenset()

    def at(self, size: KnownSize, values: Mapping[str, int]) -> int:
        """Evaluate a size. Raise ZeroDivisionError if it has no integer value for these numbers."""
        if isinstance(size, int):
            return size
        if size not in self._named:
            return values[size]
        result = value_of(self._named[size])(values)
        if result.denominator != 1:
            raise ZeroDivisionError(f"{size} has no value for {dict(values)}")
        return int(result)

    def linear(self, size: KnownSize) -> tuple[dict[str, int], int] | None:
        """Split "2*N + 3" into {"N": 2} and 3. Return None if a size is not linear."""
        if isinstance(size, int):
            return {}, size
        return linear_of(self._named[size]) if size in self._named else ({size: 1}, 0)

    def parts(self, size: KnownSize, operation: Literal["minimum", "maximum", "multiply"]) -> tuple[KnownSize, ...]:
        """Split a size such as "max(N, M)" into the operands "N" and "M". Return a size of another kind as a tuple of one."""
        kind = {"minimum": "Min", "maximum": "Max", "multiply": "Mul"}[operation]
        if isinstance(size, int) or size not in self._named or type(self._named[size]).__name__ != kind:
            return (size,)
        parts = tuple(part for each in self._named[size].args if (part := self._name(each)) is not None)
        return parts if len(parts) == len(self._named[size].args) else (size,)

    def bounding(self, left: KnownSize, right: KnownSize = 0, offset: int = 0) -> Bounding:
        """Return a function that computes bounds of left - right - offset."""
        key = (left, right, offset)
        if key not in self._boundings:
            left_sum, right_sum = self.linear(left), self.linear(right)
            if left_sum is None or right_sum is None:
                self._boundings[key] = bounding(self._expression(left) - self._expression(right) - offset)
            else:  # without sympy, which takes half a second to import
                total = _exactly(left_sum).plus(_exactly(right_sum).times(-1)).plus(LinearBounds(-offset, -offset))
                self._boundings[key] = lambda _: total
        return self._boundings[key]

    def where_at_least(
        self, left: KnownSize, right: KnownSize, offset: int, symbol: str, ranges: Mapping[str, Range]
    ) -> Range | bool | None:
        """Solve left >= right + offset for one symbol. All other symbols must have a fixed value in `ranges`.
        Return the range of solutions. Return True if the symbol's whole range solves it, and False if no value does.
        Return None if the solutions are not one range, or were not found.
        """
        key = (left, right, offset, symbol, *ranges.items())
        if key not in self._solved:
            self._solved[key] = where_not_negative(self.bounding(left, right, offset), symbol, ranges)
        return self._solved[key]

    def most(self, size: KnownSize) -> int | None:
        """Return an upper bound of a size, or None if it may exceed the largest size in DirectML."""
        return largest_value(self.bounding(size), self.symbols(size))

    def _expression(self, size: KnownSize | Fraction) -> Any:
        if not isinstance(size, str):
            return _sympy().Rational(size.numerator, size.denominator)
        return self._named[size] if size in self._named else _sympy().Symbol(size, integer=True, nonnegative=True)

    def _name(self, result: Any) -> KnownSize | None:
        if result.is_Integer:
            return int(result) if abs(int(result)) <= LARGEST else None
        if result.is_Symbol:
            return str(result.name)
        if result.count_ops() > MOST_OPERATIONS or not result.free_symbols or not _finite(result):
            return None
        if result not in self._names:
            name = _printed(result)
            while name in self._named or name in self._taken:
                name = f"({name})"
            self._named[name], self._names[result] = result, name
        return self._names[result]

    def _compute(self, operation: str, *operands: Any) -> Any | None:
        if operation not in ("floor", "ceil", "truncate") and not all(map(_exact, operands)):
            return None
        if operation in QUOTIENTS:
            return _quotient(operation, *operands)
        if operation in ("minimum", "maximum") and sum(map(_parts, operands)) > MOST_PARTS:
            return None
        return _SIMPLE[operation](_sympy(), *operands)


def _exactly(linear: tuple[dict[str, int], int]) -> LinearBounds:
    factors, constant = linear
    return LinearBounds(constant, constant, factors)


def _parts(value: Any) -> int:
    return len(value.args) if isinstance(value, _sympy().Min | _sympy().Max) else 1


def _quotient(operation: str, left: Any, right: Any) -> Any | None:
    """Return a quotient or remainder, or None if the divisor stays symbolic: sympy 1.14 assumes that such a quotient has no
    upper limit. A model that runs never divides by 0.
    """
    if right.is_zero or not (left.is_integer and right.is_integer):
        return None
    exact = left / right
    if any(power.exp.is_negative and power.base.free_symbols for power in exact.atoms(_sympy().Pow)):
        return None
    if operation == "divide":
        return exact
    same_signs = (left.is_nonnegative and right.is_nonnegative) or (left.is_nonpositive and right.is_nonpositive)
    if operation.startswith("floor") or same_signs:
        return _sympy().floor(exact) if operation.endswith("divide") else _sympy().Mod(left, right)
    whole = _truncate(_sympy(), exact)
    return whole if operation.endswith("divide") else _sympy().expand(left - right * whole)


def _truncate(sympy: Any, value: Any) -> Any:
    """Round towards 0: max(0, floor(value)) + min(0, ceiling(value)). A term that is always 0 is left out."""
    least, most = bounding(value)({}).ends({})
    positive = sympy.floor(value) if least >= 0 else sympy.Max(0, sympy.floor(value)) if most >= 1 else 0
    negative = sympy.ceiling(value) if most <= 0 else sympy.Min(0, sympy.ceiling(value)) if least <= -1 else 0
    return sympy.sympify(positive if least >= 0 else negative if most <= 0 else positive + negative)


_SIMPLE: Mapping[str, Callable[..., Any]] = {
    "add": lambda sympy, left, right: sympy.expand(left + right),
    "subtract": lambda sympy, left, right: sympy.expand(left - right),
    "multiply": lambda sympy, left, right: sympy.expand(left * right),
    "minimum": lambda sympy, left, right: sympy.Min(left, right),
    "maximum": lambda sympy, left, right: sympy.Max(left, right),
    "negate": lambda _, value: -value,
    "absolute": lambda sympy, value: sympy.Abs(value),
    "floor": lambda sympy, value: sympy.floor(value),
    "ceil": lambda sympy, value: sympy.ceiling(value),
    "truncate": _truncate,
}

OPERATIONS = (*QUOTIENTS, *_SIMPLE)


def _exact(value: Any) -> bool:
    """Return True if floating point computes an expression without rounding, unless sizes are very large. Example: N/2."""
    if value.is_integer:
        return True
    return not value.atoms(_sympy().Pow) and all(_is_short(number) for number in value.atoms(_sympy().Rational))


def _is_short(number: Any) -> bool:
    """Return True if a number has few bits, so that floating point is exact: 1/2, 3/4 and 100, not the float 0.7."""
    return bool(number.q & (number.q - 1) == 0 and number.q <= SHORT and abs(number.p) <= SHORT**2)


def _finite(value: Any) -> bool:
    """Return True if an expression has no infinity, and no number beyond 64 bits."""
    return all(
        number.is_Rational and abs(number.p) <= LARGEST and number.q <= LARGEST for number in value.atoms(_sympy().Number)
    ) and (not value.has(_sympy().zoo))


@cache
def _sympy() -> Any:
    """Import sympy, which takes half a second. Raise ModuleNotFoundError, which says how to install it."""
    try:
        import sympy
    except ModuleNotFoundError as error:
        raise missing_extra("computing with sizes", "onnx", error) from None
    return sympy


def _printed(expression: Any) -> str:
    from sympy.printing.str import StrPrinter

    def call(name: str) -> Callable[[Any, Any], str]:
        return lambda printer, function: f"{name}({printer.stringify(function.args, ', ')})"

    methods = {f"_print_{name}": call(name.lower()) for name in ("Min", "Max", "Mod")}
    methods["_print_Symbol"] = lambda _, symbol: symbol.name if WORD.fullmatch(symbol.name) else f"'{symbol.name}'"
    return str(type("Printer", (StrPrinter,), methods)().doprint(expression))
