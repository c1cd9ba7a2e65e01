"""Symbolic sizes: sizes that are unknown before a model runs, as expressions of the model's symbols. Examples: "seq", "seq +
1", "floor(seq/2)".

A size is an int, or a str with the text of its expression. `Sizes` keeps the sympy expression behind each text. Only this
module and `ranges` use sympy. An array of sizes has data type object and holds ints and strs, so NumPy can move its elements.
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
    """Split a linear expression into the factor of each symbol and a constant. For example, 2*N - M + 3 gives {"N": 2, "M": -1}
    and 3. Return None if the expression is not linear, or has a factor that is not an integer.
    """
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
    """Compile a sympy expression to a Python function. The function takes a number for each symbol and returns the value. It is
    about a hundred times as fast as sympy's own evaluation.
    """
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
"""Python implementations of the sympy functions that occur in expressions, by the name of the sympy class."""


KnownSize = int | str
"""A size of a tensor, or an integer that a model computes from sizes, such as the bound of a slice. An int is a number. A str
is the text of a symbolic expression.
"""

MOST_OPERATIONS = 40
"""The most operations in one expression. A longer expression is not kept, and the size counts as unknown, because comparing
long expressions takes too much time.
"""

MOST_PARTS = 8
"""The most operands of a minimum or maximum. With more operands, the size counts as unknown, because sympy compares each
operand with each other one.
"""

LARGEST = 2**63 - 1

SHORT = 64
"""The largest denominator of a fraction whose products with sizes count as exact in floating point."""

WORD = re.compile(r"[^\W\d][\w.\[\]]*")
"""Symbol names that need no quotes in the text of an expression, such as "seq" or "data[0]"."""

QUOTIENTS = ("divide", "floor_divide", "truncate_divide", "floor_modulo", "truncate_modulo")
"""Division and remainder. Their second operand must not be 0."""

RELATIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}
"""The relations that `Sizes.compare` accepts, by their sign."""


class Sizes:
    """The symbolic sizes of one model, and arithmetic on them. A size is referred to by the text of its expression. A symbol
    stands for an integer of 0 or more.
    """

    def __init__(self) -> None:
        self._symbols: dict[str, str] = {}
        self._taken: set[str] = set()
        self._named: dict[str, Expr] = {}
        self._names: dict[Expr, str] = {}
        self._boundings: dict[tuple[KnownSize, KnownSize, int], Bounding] = {}
        self._solved: dict[tuple[Any, ...], Range | bool | None] = {}

    def symbol(self, text: str) -> str:
        """Register a symbol, and return the text that refers to it. That is the text in the model, unless an expression of
        other symbols already has this text.
        """
        if text not in self._symbols:
            name = text
            while name in self._named or name in self._taken:
                name = f"'{name}'"
            self._symbols[text] = name
            self._taken.add(name)
        return self._symbols[text]

    def compute(self, operation: str, *operands: KnownSize | Fraction) -> KnownSize | None:
        """Apply an arithmetic operation to sizes. `operation`: one of OPERATIONS. "floor_…" rounds towards minus infinity,
        "truncate_…" towards 0. "divide" does not round, because floating point is exact for the quotients that models compute.
        Operands with the denominators 2, 4, 8 … can be used in every operation; other fractions can only be rounded. Return
        None if no single expression is right for all sizes, or if the expression is too long.
        """
        result = self._compute(operation, *map(self._expression, operands))
        return None if result is None else self._name(result)

    def number(self, operation: str, *numbers: KnownSize | Fraction) -> Fraction | None:
        """Apply an operation of `compute` to numbers that need not be integers. Return None if the result is not a rational
        number.
        """
        result = self._compute(operation, *map(self._expression, numbers))
        return Fraction(int(result.p), int(result.q)) if result is not None and result.is_Rational else None

    def compare(self, left: KnownSize | Fraction, relation: str, right: KnownSize | Fraction) -> bool | None:
        """Return True if the relation holds for all values of the symbols, and False if it holds for none. Return None if it
        depends on the values, or if neither could be shown. `relation`: one of RELATIONS.
        """
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
        """Return the symbols in the expression of a size. The result is empty for a number, and for an object that is no size."""
        if isinstance(size, str) and size in self._named:
            return frozenset(str(symbol.name) for symbol in self._named[size].free_symbols)
        return frozenset({size}) if isinstance(size, str) else frozenset()

    def at(self, size: KnownSize, values: Mapping[str, int]) -> int:
        """Evaluate a size. `values`: a number for each symbol. ZeroDivisionError if the result is not an integer, for example
        after a division by zero.
        """
        if isinstance(size, int):
            return size
        if size not in self._named:
            return values[size]
        result = value_of(self._named[size])(values)
        if result.denominator != 1:
            raise ZeroDivisionError(f"{size} has no value for {dict(values)}")
        return int(result)

    def linear(self, size: KnownSize) -> tuple[dict[str, int], int] | None:
        """Split a size into the factor of each symbol and a constant. For example, "2*N + 3" gives {"N": 2} and 3. Return None
        if the size is not linear in its symbols.
        """
        if isinstance(size, int):
            return {}, size
        return linear_of(self._named[size]) if size in self._named else ({size: 1}, 0)

    def parts(self, size: KnownSize, operation: Literal["minimum", "maximum", "multiply"]) -> tuple[KnownSize, ...]:
        """Return the operands of a size that is a minimum, maximum or product. For example, the parts of "max(N, M)" as a
        maximum are "N" and "M". Any other size is returned as the only part.
        """
        kind = {"minimum": "Min", "maximum": "Max", "multiply": "Mul"}[operation]
        if isinstance(size, int) or size not in self._named or type(self._named[size]).__name__ != kind:
            return (size,)
        parts = tuple(part for each in self._named[size].args if (part := self._name(each)) is not None)
        return parts if len(parts) == len(self._named[size].args) else (size,)

    def bounding(self, left: KnownSize, right: KnownSize = 0, offset: int = 0) -> Bounding:
        """Return a function that computes a lower and an upper bound of left - right - offset. The function's argument is the
        range of each symbol.
        """
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
        """Solve left >= right + offset for one symbol. Return the values that meet it as a range. Return True for all values in
        the symbol's range, and False for none. Return None if the values are not one range, or if they were not found.
        `ranges`: the range of each symbol. All symbols but `symbol` must have a range with a single value.
        """
        key = (left, right, offset, symbol, *ranges.items())
        if key not in self._solved:
            self._solved[key] = where_not_negative(self.bounding(left, right, offset), symbol, ranges)
        return self._solved[key]

    def most(self, size: KnownSize) -> int | None:
        """Return an upper bound of the size. Return None if the size may exceed the largest size in DirectML."""
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
    """Return the number of operands of a minimum or maximum. For any other expression, return 1."""
    return len(value.args) if isinstance(value, _sympy().Min | _sympy().Max) else 1


def _quotient(operation: str, left: Any, right: Any) -> Any | None:
    """Return a quotient or a remainder of two expressions. A symbolic divisor is taken to be different from 0, because a model
    that runs never divides by 0. Return None if the divisor is still symbolic after simplification, because sympy 1.14 assumes
    that such a quotient has no upper limit.
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
    """Round an expression towards 0: max(0, floor(value)) + min(0, ceiling(value)). A term that is always 0 is left out."""
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
"""The arithmetic operations that `Sizes.compute` accepts."""


def _exact(value: Any) -> bool:
    """Return True if floating point computes the expression without rounding for sizes that occur in practice. Halves, quarters
    and so on are exact as well.
    """
    if value.is_integer:
        return True
    return not value.atoms(_sympy().Pow) and all(_is_short(number) for number in value.atoms(_sympy().Rational))


def _is_short(number: Any) -> bool:
    """Return True if floating point represents the product of this number and a size exactly, because the product needs few
    bits. Examples are 1/2, 3/4 and 100, but not the float 0.7.
    """
    return bool(number.q & (number.q - 1) == 0 and number.q <= SHORT and abs(number.p) <= SHORT**2)


def _finite(value: Any) -> bool:
    """Return True if an expression has no infinity, and no number beyond 64 bits."""
    return all(
        number.is_Rational and abs(number.p) <= LARGEST and number.q <= LARGEST for number in value.atoms(_sympy().Number)
    ) and (not value.has(_sympy().zoo))


@cache
def _sympy() -> Any:
    """Import sympy, which takes half a second. ModuleNotFoundError says how to install it."""
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
