"""Values of tensors, as far as they are known before a model runs. An element is a number, a symbolic size, or an `Unknown`
with the reason why it is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np

from dmlgather.onnx_checking.sizes.expressions import KnownSize


@dataclass(frozen=True, slots=True)
class Unknown:
    """The reason why a value is not known before the model runs. `reason`: a noun phrase for messages, for example "an input of
    the graph". `decided_by`: a model input that the value depends on; None if no such input is known. `computed`: True if the
    reason names a computation. Values that are computed from this one then have the same reason. `of_sizes`: True if the value
    depends only on sizes, and these sizes do not depend on the data in tensors.
    """

    reason: str
    decided_by: str | None = None
    computed: bool = False
    of_sizes: bool = False

    def computed_from(self, name: str, decided_by: str | None = None) -> Unknown:
        """Return the Unknown for a value that is computed from this one. `name`: the name of this unknown value in the model."""
        reason = self.reason if self.computed else f"computed from {name!r}, {self.reason}"
        return Unknown(reason, decided_by, computed=True, of_sizes=self.of_sizes)


Array = np.ndarray[Any, Any]

KEPT_ELEMENTS = 1024
"""The most elements of a value that a check reads or computes. A larger value counts as unknown. Shapes, axes and the bounds of
slices have fewer elements.
"""


def has_names(array: Array) -> bool:
    """Return True if an array has elements that are not numbers: symbolic sizes or Unknowns."""
    return bool(array.dtype == object)


def with_numbers(array: Array, number: Callable[[KnownSize], int], dtype: np.dtype[Any] | type) -> Array:
    """Return a copy of an array with numbers in place of symbolic sizes. `number`: returns the number for an element. Numbers
    outside the range of int64 are clamped.
    """
    limits = np.iinfo(np.int64)
    sizes = (size for element in array.flat if isinstance(size := plain(element), int | str))
    numbers = [min(max(number(size), limits.min), limits.max) for size in sizes]
    return np.array(numbers, np.int64).reshape(array.shape).astype(dtype)


def plain(element: Any) -> KnownSize | Fraction:
    """Convert an element to a Python value. A whole number becomes an int, another number a Fraction, and a symbolic size
    remains a str. Floats must be finite.
    """
    if isinstance(element, str):
        return element
    return int(element) if element == int(element) else Fraction(float(element))


Value = Array | Unknown
"""The elements of a tensor, or an Unknown if none is known. If some elements are not numbers, the array has data type object.
"""


def is_partly(value: object) -> TypeGuard[Array]:
    """Return True if a value is an array with some elements that are not numbers."""
    return isinstance(value, np.ndarray) and has_names(value)


def is_known(value: object) -> TypeGuard[Array]:
    """Return True if a value is an array with numbers only."""
    return isinstance(value, np.ndarray) and not has_names(value)


def all_or_unknown(value: Value) -> Value:
    """Return the first Unknown among the elements of a value. If there is none, return the value itself."""
    return first_unknown(value) or value


def first_unknown(value: object) -> Unknown | None:
    """Return the value if it is an Unknown, or the first Unknown among its elements. Return None if there is none."""
    elements = value.reshape(-1) if is_partly(value) else [value]
    return next((element for element in elements if isinstance(element, Unknown)), None)


def same(one: Value, two: Value) -> bool:
    """Return True if two values have the same bits, or the same symbolic sizes."""
    if isinstance(one, Unknown) or isinstance(two, Unknown):
        return isinstance(one, Unknown) and isinstance(two, Unknown) and one == two
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    return bool((one == two).all()) if one.dtype == object else one.tobytes() == two.tobytes()
