"""Operators outside the family that several libraries have, as the graphs of all dialects spell them.

An operator has NumPy's name where NumPy has the function, else ONNX's with underscores. Attributes are pairs of name and value,
by name; axes count from the front. What constants decide, such as the axes of a sum, stands in the attributes and not among the
inputs. Operators that are others put together are taken apart by `normal_forms`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

Attributes = tuple[tuple[str, Hashable], ...]


class SharedOperator(NamedTuple):
    """An operator with its attributes and the values that it reads."""

    operator: str
    attributes: Attributes
    inputs: tuple[str, ...]


def shared(operator: str, inputs: Sequence[str | None], /, **attributes: Hashable) -> SharedOperator:
    """The operator with these attributes. inputs: those that are left out at the end may be None."""
    given = [value for value in inputs if value is not None]
    if list(inputs[: len(given)]) != given:
        raise ValueError(f"inputs of {operator} are {list(inputs)}: only the last ones may be left out")
    return SharedOperator(operator, tuple(sorted(attributes.items())), tuple(given))


def rounded(number: float, dtype: np.dtype[Any]) -> Any:
    """A number as libraries compute with it beside such elements: float64 or float32; "-0.0", which == does not tell from 0.0."""
    found = float(number if dtype == np.float64 else np.float32(number))
    return "-0.0" if found == 0 and np.signbit(found) else found


ONE_INPUT = frozenset(
    (
        *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cast", "ceil", "celu", "cos", "cosh", "elu", "erf", "exp"),
        *("floor", "gelu", "hard_sigmoid", "isinf", "isnan", "leaky_relu", "log", "negative", "reciprocal", "relu", "round"),
        *("selu", "sigmoid", "sign", "sin", "sinh", "softplus", "sqrt", "tan", "tanh"),
    )
)
"""Functions of one element, with attributes."""

UNORDERED = frozenset(("add", "equal", "maximum", "minimum", "multiply"))
"""Functions of two elements that may be exchanged."""

POINTWISE = ONE_INPUT | UNORDERED | {"divide", "greater", "greater_equal", "less", "less_equal", "power", "prelu", "subtract"}
"""Operators whose result at a point follows from the elements at that point, inputs broadcast as NumPy does it."""
