"""Arithmetic on tensor elements that are numbers, symbolic sizes or unknown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial, reduce
from typing import Any

import numpy as np

from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS, Array, Unknown, plain

Element = int | float | str | Unknown
"""A number, a symbolic size, or an Unknown."""


def _and(one: Element, two: Element) -> Element:
    if one is False or two is False:
        return False
    return two if one is True else one


def _or(one: Element, two: Element) -> Element:
    if one is True or two is True:
        return True
    return two if one is False else one


def _not(value: Element) -> Element:
    return value if isinstance(value, Unknown) else not value


def _select(condition: Element, one: Element, two: Element) -> Element:
    if isinstance(condition, Unknown):
        return one if one == two else condition
    return one if condition else two


_RELATIONS: Mapping[str, tuple[str, bool]] = {
    "equal": ("=", True),
    "not_equal": ("=", False),
    "less": ("<", True),
    "less_equal": ("<=", True),
    "greater": (">", True),
    "greater_equal": (">=", True),
}
"""For each comparison: the relation of `Sizes.compare`, and the answer that makes it true."""

_LOGIC: Mapping[str, Callable[..., Element]] = {"and": _and, "or": _or, "not": _not, "where": _select}
"""Operations on bools that may be unknown. For example, False and Unknown gives False."""


def folded(operation: str) -> Callable[..., Any]:
    """Return an element rule that applies a binary operation to the operands from left to right."""
    return lambda compute, *operands: compute.fold(operation, operands)


def applied(operation: str) -> Callable[..., Any]:
    """Return an element rule that applies an operation to its operands."""
    return lambda compute, *operands: compute(operation, *operands)


@dataclass(frozen=True)
class Arithmetic:
    """Computes with the elements of one node's inputs. `unknown`: a function that makes an Unknown from a reason and sizes."""

    sizes: Sizes
    unknown: Callable[..., Unknown]
    integers: bool = True
    attributes: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, operation: str, *operands: Element) -> Element:
        """Apply an operation to elements.
        `operation`: an operation of `Sizes.compute`, a comparison such as "less_equal", or "and", "or", "not" or "where".
        """
        if operation in _LOGIC:
            return _LOGIC[operation](*operands)
        if operation in _RELATIONS:
            relation, holds = _RELATIONS[operation]
            answer = self.compare(operands[0], relation, operands[1])
            return answer if isinstance(answer, Unknown) else answer is holds
        numbers = self._plain(operands)
        if isinstance(numbers, Unknown):
            return numbers
        if any(isinstance(one, Fraction) for one in numbers) and not any(isinstance(one, str) for one in numbers):
            exact = self.sizes.number(operation, *numbers)
            if exact is None:
                return Unknown("a number that floating point may round")
            return int(exact) if exact.denominator == 1 else float(exact)
        result = self.sizes.compute(operation, *numbers)
        if result is None:
            return self.unknown("no expression of sizes, as far as it is understood", *operands)
        return result

    def fold(self, operation: str, operands: Sequence[Element]) -> Element:
        """Apply a binary operation to one or more operands from left to right."""
        return reduce(partial(self, operation), operands)

    def compare(self, left: Element, relation: str, right: Element) -> bool | Unknown:
        """Compare two elements. Return an Unknown if the answer depends on symbols. `relation`: "<=", for example."""
        numbers = self._plain((left, right))
        if isinstance(numbers, Unknown):
            return numbers
        answer = self.sizes.compare(numbers[0], relation, numbers[1])
        if answer is None:
            return self.unknown(f"whether {left} {relation} {right}, which is not known", left, right)
        return answer

    def _plain(self, operands: Sequence[Element]) -> list[KnownSize | Fraction] | Unknown:
        for operand in operands:
            if isinstance(operand, Unknown):
                return operand
            if isinstance(operand, float) and not math.isfinite(operand):
                return Unknown(f"computed from {operand}", computed=True)
        return [plain(operand) for operand in operands]


def over(rule: Callable[..., Element], compute: Arithmetic, inputs: Sequence[Array | None], dtype: np.dtype[Any]) -> Array:
    """Apply a rule to each element, with NumPy's broadcasting. Raise ValueError for more than KEPT_ELEMENTS elements."""
    shape = np.broadcast_shapes(*(array.shape for array in inputs if array is not None))
    count = math.prod(shape)
    if count > KEPT_ELEMENTS:
        raise ValueError(f"{count} elements")
    columns = [[None] * count if array is None else np.broadcast_to(array, shape).reshape(-1).tolist() for array in inputs]
    return array_of([rule(compute, *row) for row in zip(*columns, strict=True)], shape, dtype)


def range_length(compute: Arithmetic, start: Element, limit: Element, step: Element) -> KnownSize | None:
    """Return the number of elements in ONNX's Range, or None."""
    length = compute("maximum", compute("ceil", compute("divide", compute("subtract", limit, start), step)), 0)
    return length if isinstance(length, int | str) else None


def array_of(elements: Sequence[Element], shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Build an array. If not all elements are numbers, it has objects. Integers outside `dtype` become Unknown."""
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        too_large = Unknown(f"a number that {dtype.name} does not hold")
        elements = [too_large if isinstance(each, int) and not info.min <= each <= info.max else each for each in elements]
    if all(isinstance(element, int | float) for element in elements):
        return np.array(elements, dtype).reshape(shape)
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(shape)
