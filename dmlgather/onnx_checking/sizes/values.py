"""Values of tensors before a model runs: numbers, symbolic sizes and Unknowns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np

from dmlgather.onnx_checking.sizes.expressions import KnownSize


@dataclass(frozen=True, slots=True)
class Unknown:
    """The reason why a value is unknown before the model runs.
    `reason`: a noun phrase, such as "an input of the graph".
    `computed`: True if the reason names a computation. Values that are computed from the value keep this reason.
    `of_sizes`: True if the value depends only on sizes, and these do not depend on data.
    """

    reason: str
    decided_by: str | None = None
    computed: bool = False
    of_sizes: bool = False

    def computed_from(self, name: str, decided_by: str | None = None) -> Unknown:
        """Return the reason for a result that is computed from this value. `name`: the name of this value."""
        reason = self.reason if self.computed else f"computed from {name!r}, {self.reason}"
        return Unknown(reason, decided_by, computed=True, of_sizes=self.of_sizes)


Array = np.ndarray[Any, Any]

KEPT_ELEMENTS = 1024
"""Larger values count as unknown. Shapes, axes and bounds of slices are smaller."""


def has_names(array: Array) -> bool:
    """Return True if an array has elements that are not numbers."""
    return bool(array.dtype == object)


def with_numbers(array: Array, number: Callable[[KnownSize], int], dtype: np.dtype[Any] | type) -> Array:
    """Return an array with numbers in place of symbolic sizes, clamped to int64."""
    limits = np.iinfo(np.int64)
    sizes = (size for element in array.flat if isinstance(size := plain(element), int | str))
    numbers = [min(max(number(size), limits.min), limits.max) for size in sizes]
    return np.array(numbers, np.int64).reshape(array.shape).astype(dtype)


def plain(element: Any) -> KnownSize | Fraction:
    """Convert an element to a Python value: int, Fraction, or str for a symbolic size. Floats must be finite."""
    if isinstance(element, str):
        return element
    return int(element) if element == int(element) else Fraction(float(element))


Value = Array | Unknown
"""The elements of a tensor. The array has data type object if some are not numbers."""


def is_partly(value: object) -> TypeGuard[Array]:
    """Return True for an array with elements that are not numbers."""
    return isinstance(value, np.ndarray) and has_names(value)


def is_known(value: object) -> TypeGuard[Array]:
    """Return True for an array of numbers."""
    return isinstance(value, np.ndarray) and not has_names(value)


def all_or_unknown(value: Value) -> Value:
    """Return the first Unknown among the elements, or the value if there is none."""
    return first_unknown(value) or value


def first_unknown(value: object) -> Unknown | None:
    """Return the value if it is an Unknown, else the first Unknown among its elements, or None."""
    elements = value.reshape(-1) if is_partly(value) else [value]
    return next((element for element in elements if isinstance(element, Unknown)), None)


def same(one: Value, two: Value) -> bool:
    """Return True if two values have the same bits, or the same symbolic sizes."""
    if isinstance(one, Unknown) or isinstance(two, Unknown):
        return isinstance(one, Unknown) and isinstance(two, Unknown) and one == two
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    return bool((one == two).all()) if one.dtype == object else one.tobytes() == two.tobytes()
