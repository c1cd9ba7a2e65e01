"""Values of tensors before a model runs. An element is a number, the name of a size, or the reason why it is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np

from dmlgather.onnx_checking.sizes.expressions import KnownSize


@dataclass(frozen=True, slots=True)
class Unknown:
    """The reason why a value is not known before the model runs, for example "an input of the graph". `decided_by`: a model
    input that the value depends on; None if no such input is known. `computed`: True if the reason names a computation; it is
    then also the reason of values that are computed from this value. `of_sizes`: True if only sizes decide the value, and no
    size depends on data.
    """

    reason: str
    decided_by: str | None = None
    computed: bool = False
    of_sizes: bool = False

    def computed_from(self, name: str, decided_by: str | None = None) -> Unknown:
        """Return the Unknown of a value that is computed from this value. `name`: the model's name of this value."""
        reason = self.reason if self.computed else f"computed from {name!r}, {self.reason}"
        return Unknown(reason, decided_by, computed=True, of_sizes=self.of_sizes)


Array = np.ndarray[Any, Any]

KEPT_ELEMENTS = 1024
"""The most elements of a value that is kept during a check. Bounds of slices, shapes and axes have fewer."""


def has_names(array: Array) -> bool:
    """Return True for an array of objects, some of which are no numbers."""
    return bool(array.dtype == object)


def with_numbers(array: Array, number: Callable[[KnownSize], int], dtype: np.dtype[Any] | type) -> Array:
    """Return the array with a number for each name. Numbers are clamped to int64. `number`: converts an element to an integer."""
    limits = np.iinfo(np.int64)
    sizes = (size for element in array.flat if isinstance(size := plain(element), int | str))
    numbers = [min(max(number(size), limits.min), limits.max) for size in sizes]
    return np.array(numbers, np.int64).reshape(array.shape).astype(dtype)


def plain(element: Any) -> KnownSize | Fraction:
    """Return an element as a Python value. ValueError for a float that is not finite."""
    if isinstance(element, str):
        return element
    return int(element) if element == int(element) else Fraction(float(element))


Value = Array | Unknown
"""The elements of a tensor, or the reason why no element is known. If some elements are no numbers, the array has objects."""


def is_partly(value: object) -> TypeGuard[Array]:
    """Return True if some elements of a value are no numbers."""
    return isinstance(value, np.ndarray) and has_names(value)


def is_known(value: object) -> TypeGuard[Array]:
    """Return True if all elements of a value are numbers."""
    return isinstance(value, np.ndarray) and not has_names(value)


def all_or_unknown(value: Value) -> Value:
    """Return the first Unknown element of a value, or the value if no element is Unknown."""
    return first_unknown(value) or value


def first_unknown(value: object) -> Unknown | None:
    """Return the value if it is Unknown, else its first Unknown element. Returns None if no element is Unknown."""
    elements = value.reshape(-1) if is_partly(value) else [value]
    return next((element for element in elements if isinstance(element, Unknown)), None)


def same(one: Value, two: Value) -> bool:
    """Return True if two values have equal bits and names."""
    if isinstance(one, Unknown) or isinstance(two, Unknown):
        return isinstance(one, Unknown) and isinstance(two, Unknown) and one == two
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    return bool((one == two).all()) if one.dtype == object else one.tobytes() == two.tobytes()
