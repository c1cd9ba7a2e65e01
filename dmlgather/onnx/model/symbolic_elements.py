"""Operators on arrays of which some elements are expressions of sizes, or not known: a row for each operator."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.dialects.size_arrays import KEPT_ELEMENTS, plain
from dmlgather.dialects.sizes import KnownSize
from dmlgather.onnx.model.size_names import ModelSizes
from dmlgather.onnx.model.values import Array, Element, array_of, objects

WIDE = frozenset(("int32", "int64", "uint32", "uint64", "float32", "float64"))
"""The types of numbers that hold every size. float32 rounds sizes from 2^24 on, which no model means."""


@dataclass(frozen=True)
class Arithmetic:
    """Computes with elements of one node. integers: whether they are integers, which are divided towards 0. attributes: of the
    node, as far as they are one integer.
    """

    names: ModelSizes
    integers: bool = True
    attributes: Mapping[str, int] = field(default_factory=dict)

    def __call__(self, operation: str, *operands: Element) -> Element:
        """The result of an operation of `Sizes.compute`, of which floating-point numbers may be operands too."""
        numbers = self._plain(operands)
        if isinstance(numbers, Unknown):
            return numbers
        if any(isinstance(one, Fraction) for one in numbers) and not any(isinstance(one, str) for one in numbers):
            exact = _exact(operation, numbers)
            return Unknown("a number that floating point rounds") if exact is None else exact
        result = self.names.sizes.compute(operation, *numbers)
        if result is None:
            return Unknown("no expression of sizes, as far as it is understood", self.names.decided_by(*operands))
        return result

    def compare(self, left: Element, relation: str, right: Element) -> bool | Unknown:
        """Whether one of RELATIONS holds."""
        numbers = self._plain((left, right))
        if isinstance(numbers, Unknown):
            return numbers
        answer = self.names.sizes.compare(numbers[0], relation, numbers[1])
        if answer is None:
            return Unknown(f"whether {left} {relation} {right}, which is not known", self.names.decided_by(left, right))
        return answer

    def fold(self, operation: str, elements: Sequence[Element]) -> Element:
        """The operation over all elements; there is at least one."""
        return reduce(lambda one, two: self(operation, one, two), elements)

    def _plain(self, operands: Sequence[Element]) -> list[KnownSize | Fraction] | Unknown:
        for one in operands:
            if isinstance(one, Unknown):
                return one
            if isinstance(one, float) and not math.isfinite(one):
                return Unknown(f"computed from {one}", computed=True)
        return [plain(one) for one in operands]


def _exact(operation: str, numbers: Sequence[Any]) -> Element | None:
    """An operation on numbers, where floating point does not round its result."""
    if operation == "divide" and not numbers[1]:
        return None
    exact = Fraction(_EXACT[operation](*numbers)) if operation in _EXACT else None
    if exact is None or exact.denominator & (exact.denominator - 1):
        return None
    return int(exact) if exact.denominator == 1 else float(exact)


_EXACT: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": Fraction,
    "minimum": min,
    "maximum": max,
    "negate": operator.neg,
    "absolute": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "truncate": math.trunc,
}


def _divide(arithmetic: Arithmetic, left: Element, right: Element) -> Element:
    return arithmetic("truncate_divide" if arithmetic.integers else "divide", left, right)


def _modulo(arithmetic: Arithmetic, left: Element, right: Element) -> Element:
    truncates = arithmetic.attributes.get("fmod", 0) or not arithmetic.integers
    return arithmetic("truncate_modulo" if truncates else "floor_modulo", left, right)


def _clip(arithmetic: Arithmetic, value: Element, low: Element | None = None, high: Element | None = None) -> Element:
    above = value if low is None else arithmetic("maximum", value, low)
    return above if high is None else arithmetic("minimum", above, high)


def _both(_: Arithmetic, one: Element, two: Element) -> Element:
    if one is False or two is False:
        return False
    return two if one is True else one


def _either(_: Arithmetic, one: Element, two: Element) -> Element:
    if one is True or two is True:
        return True
    return two if one is False else one


def _where(_: Arithmetic, condition: Element, one: Element, two: Element) -> Element:
    if isinstance(condition, Unknown):
        return one if one == two else condition
    return one if condition else two


def _power(arithmetic: Arithmetic, base: Element, exponent: Element) -> Element:
    if isinstance(exponent, int | float) and exponent in (1, 2, 3):
        return arithmetic.fold("multiply", [base] * int(exponent))
    return Unknown("a power of a size that is not known")


def _binary(operation: str) -> Callable[..., Element]:
    return lambda arithmetic, *operands: arithmetic.fold(operation, operands)


def _unary(operation: str) -> Callable[..., Element]:
    return lambda arithmetic, operand: arithmetic(operation, operand)


def _relation(relation: str) -> Callable[..., Element]:
    return lambda arithmetic, left, right: arithmetic.compare(left, relation, right)


ELEMENTWISE: Mapping[str, Callable[..., Element]] = {
    "Add": _binary("add"),
    "Sub": _binary("subtract"),
    "Mul": _binary("multiply"),
    "Sum": _binary("add"),
    "Min": _binary("minimum"),
    "Max": _binary("maximum"),
    "Div": _divide,
    "Mod": _modulo,
    "Pow": _power,
    "Neg": _unary("negate"),
    "Abs": _unary("absolute"),
    "Floor": _unary("floor"),
    "Ceil": _unary("ceil"),
    "Relu": lambda arithmetic, value: arithmetic("maximum", value, 0),
    "Clip": _clip,
    "Equal": _relation("="),
    "Less": _relation("<"),
    "LessOrEqual": _relation("<="),
    "Greater": _relation(">"),
    "GreaterOrEqual": _relation(">="),
    "Not": lambda _, value: value if isinstance(value, Unknown) else not value,
    "And": _both,
    "Or": _either,
    "Where": _where,
}
"""From the elements of the inputs at one place, None for inputs that are left out, to that of the output."""

LOGICAL = frozenset(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not", "And", "Or"))
"""The operators of ELEMENTWISE that give booleans."""

REDUCTIONS: Mapping[str, str] = {"ReduceSum": "add", "ReduceProd": "multiply", "ReduceMin": "minimum", "ReduceMax": "maximum"}
"""The operation of each operator that reduces."""


def elementwise(node_type: str, arithmetic: Arithmetic, inputs: Sequence[Array | None], dtype: np.dtype[Any]) -> Array:
    """The output of an operator of ELEMENTWISE. ValueError where the inputs' shapes do not fit or the output is too large."""
    given = [objects(one) for one in inputs if one is not None]
    shape = np.broadcast_shapes(*(one.shape for one in given))
    if math.prod(shape) > KEPT_ELEMENTS:
        raise ValueError(f"{math.prod(shape)} elements")
    columns = iter([np.broadcast_to(one, shape).reshape(-1) for one in given])
    rows = [None if one is None else next(columns) for one in inputs]
    run = ELEMENTWISE[node_type]
    found = [run(arithmetic, *(None if row is None else row[at] for row in rows)) for at in range(math.prod(shape))]
    return array_of(found, shape, np.dtype(bool) if node_type in LOGICAL else dtype)


def reduced(
    node_type: str, arithmetic: Arithmetic, data: Array, dtype: np.dtype[Any], *, axes: Sequence[int] | None, keep: bool
) -> Array:
    """The output of an operator of REDUCTIONS. axes: None for all. keep: whether they stay, with size 1. ValueError for axes
    that data does not have.
    """
    chosen = set(range(data.ndim)) if axes is None else {axis + data.ndim * (axis < 0) for axis in axes}
    if not chosen <= set(range(data.ndim)) or data.size == 0:
        raise ValueError(f"axes {axes} of rank {data.ndim}")
    kept = [axis for axis in range(data.ndim) if axis not in chosen]
    rows = objects(data).transpose(*kept, *sorted(chosen)).reshape(math.prod(data.shape[axis] for axis in kept), -1)
    found = [arithmetic.fold(REDUCTIONS[node_type], row) for row in rows.tolist()]
    shape = [1 if axis in chosen else size for axis, size in enumerate(data.shape) if keep or axis not in chosen]
    return array_of(found, shape, dtype)


def cast(arithmetic: Arithmetic, data: Array, source: np.dtype[Any], target: np.dtype[Any]) -> Array:
    """The elements in another type, where it holds every size."""

    def one(element: Element) -> Element:
        if isinstance(element, Unknown):
            return element
        if target == np.bool_:
            zero = arithmetic.compare(element, "=", 0)
            return zero if isinstance(zero, Unknown) else not zero
        if target.name not in WIDE or (target.kind == "u" and arithmetic.compare(element, ">=", 0) is not True):
            return Unknown(f"a size as {target.name}, which may not hold it")
        return arithmetic("truncate", element) if source.kind == "f" and target.kind in "iu" else element

    return array_of([one(element) for element in objects(data).reshape(-1)], data.shape, target)


def sequence(arithmetic: Arithmetic, start: Element, limit: Element, step: Element) -> list[Element] | None:
    """The elements of Range; None where their number is not known, or is too large."""
    number = range_length(arithmetic, start, limit, step)
    if not isinstance(number, int) or number > KEPT_ELEMENTS:
        return None
    return [arithmetic("add", start, arithmetic("multiply", step, at)) for at in range(number)]


def range_length(arithmetic: Arithmetic, start: Element, limit: Element, step: Element) -> KnownSize | None:
    """The number of elements of Range."""
    length = arithmetic("maximum", arithmetic("ceil", arithmetic("divide", arithmetic("subtract", limit, start), step)), 0)
    return length if isinstance(length, int | str) else None
