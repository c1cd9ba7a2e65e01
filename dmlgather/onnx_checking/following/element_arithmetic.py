"""Arithmetic on elements that are numbers, names of sizes, or not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from dmlgather.onnx_checking.sizes.expressions import KnownSize, Sizes
from dmlgather.onnx_checking.sizes.values import KEPT_ELEMENTS, Array, Unknown, plain

Element = int | float | str | Unknown
"""A number, the name of an expression of sizes, or why it is not known."""


def _both(one: Element, two: Element) -> Element:
    if one is False or two is False:
        return False
    return two if one is True else one


def _either(one: Element, two: Element) -> Element:
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
"""The relation of `Sizes.compare`, and whether it must hold."""

_LOGIC: Mapping[str, Callable[..., Element]] = {"and": _both, "or": _either, "not": _not, "where": _select}
"""On elements, of which those that decide are bools."""


def folded(operation: str) -> Callable[..., Any]:
    """An operation over all operands, of which it takes two at a time."""
    return lambda compute, *operands: compute.fold(operation, operands)


def applied(operation: str) -> Callable[..., Any]:
    """An operation on all operands at once."""
    return lambda compute, *operands: compute(operation, *operands)


@dataclass(frozen=True)
class Arithmetic:
    """Computes with elements of one node. unknown: what is not known for a reason that sizes have. integers: whether the
    elements are integers. attributes: of the node, as far as they are one number.
    """

    sizes: Sizes
    unknown: Callable[..., Unknown]
    integers: bool = True
    attributes: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, operation: str, *operands: Element) -> Element:
        """The result of an operation of `Sizes.compute`, a comparison, "and", "or", "not" or "where"."""
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
        """An operation of two operands over all of them; there is at least one."""
        return reduce(lambda one, two: self(operation, one, two), operands)

    def compare(self, left: Element, relation: str, right: Element) -> bool | Unknown:
        """Whether one of RELATIONS holds."""
        numbers = self._plain((left, right))
        if isinstance(numbers, Unknown):
            return numbers
        answer = self.sizes.compare(numbers[0], relation, numbers[1])
        if answer is None:
            return self.unknown(f"whether {left} {relation} {right}, which is not known", left, right)
        return answer

    def _plain(self, operands: Sequence[Element]) -> list[KnownSize | Fraction] | Unknown:
        for one in operands:
            if isinstance(one, Unknown):
                return one
            if isinstance(one, float) and not math.isfinite(one):
                return Unknown(f"computed from {one}", computed=True)
        return [plain(one) for one in operands]


def over(row: Callable[..., Element], compute: Arithmetic, inputs: Sequence[Array | None], dtype: np.dtype[Any]) -> Array:
    """The output of a row that computes one element of those at one place of the inputs, None for inputs that are left out.
    ValueError where the inputs' shapes do not fit or the output is too large.
    """
    given = [objects(one) for one in inputs if one is not None]
    shape = np.broadcast_shapes(*(one.shape for one in given))
    if math.prod(shape) > KEPT_ELEMENTS:
        raise ValueError(f"{math.prod(shape)} elements")
    columns = iter([np.broadcast_to(one, shape).reshape(-1) for one in given])
    rows = [None if one is None else next(columns) for one in inputs]
    found = [row(compute, *(None if one is None else one[at] for one in rows)) for at in range(math.prod(shape))]
    return array_of(found, shape, dtype)


def range_length(compute: Arithmetic, start: Element, limit: Element, step: Element) -> KnownSize | None:
    """The number of elements of Range."""
    length = compute("maximum", compute("ceil", compute("divide", compute("subtract", limit, start), step)), 0)
    return length if isinstance(length, int | str) else None


def array_of(elements: Sequence[Element], shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An array of that type, or of objects where some elements are no numbers. A number that the type does not hold counts as not
    known.
    """
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        too_large = Unknown(f"a number that {dtype.name} does not hold")
        elements = [too_large if isinstance(one, int) and not info.min <= one <= info.max else one for one in elements]
    if all(isinstance(one, int | float) for one in elements):
        return np.array(elements, dtype).reshape(shape)
    array = np.empty(len(elements), object)
    array[:] = elements
    return array.reshape(shape)


def objects(value: Array) -> Array:
    """The elements as Elements, in an array of objects."""
    return value.astype(object)
