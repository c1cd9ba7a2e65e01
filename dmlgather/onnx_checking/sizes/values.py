"""Values of tensors, as far as they are known before a model runs: numbers, names of sizes, or why they are not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeGuard

import numpy as np

from dmlgather.onnx_checking.sizes.expressions import KnownSize


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why a value is not known before the model runs: "an input of the graph". decided_by: an input of the model that it
    depends on; None where it is not known which. computed: whether it is computed, and the reason says by what or from what: then
    all that is computed from it has the same reason. of_sizes: whether sizes alone decide it, none of which depends on data.
    """

    reason: str
    decided_by: str | None = None
    computed: bool = False
    of_sizes: bool = False

    def computed_from(self, name: str, decided_by: str | None = None) -> Unknown:
        """Why a value is not known that is computed from this one, which the model calls `name`."""
        reason = self.reason if self.computed else f"computed from {name!r}, {self.reason}"
        return Unknown(reason, decided_by, computed=True, of_sizes=self.of_sizes)


Array = np.ndarray[Any, Any]

KEPT_ELEMENTS = 1024
"""The most elements of a value that is kept while a model is checked: bounds of slices, shapes and axes have fewer."""


def has_names(array: Array) -> bool:
    """Whether an array's elements are objects: numbers and names."""
    return bool(array.dtype == object)


def with_numbers(array: Array, number: Callable[[KnownSize], int], dtype: np.dtype[Any] | type) -> Array:
    """The array with numbers for its names. number: makes one of each element; int64 holds the nearest one."""
    limits = np.iinfo(np.int64)
    found = [min(max(number(size), limits.min), limits.max) for each in array.flat if isinstance(size := plain(each), int | str)]
    return np.array(found, np.int64).reshape(array.shape).astype(dtype)


def plain(element: Any) -> KnownSize | Fraction:
    """An element as Python's value. ValueError for a float that is not finite."""
    if isinstance(element, str):
        return element
    return int(element) if element == int(element) else Fraction(float(element))


Value = Array | Unknown
"""Elements, or why none is known. Where some are no numbers, the array has objects, each an Element."""


def is_partly(value: object) -> TypeGuard[Array]:
    """Whether some elements of a value are no numbers."""
    return isinstance(value, np.ndarray) and has_names(value)


def is_known(value: object) -> TypeGuard[Array]:
    """Whether all elements of a value are numbers."""
    return isinstance(value, np.ndarray) and not has_names(value)


def exposed(value: Value) -> Value:
    """A value of which all elements are numbers or names; where an element is not known, why it is not."""
    return first_unknown(value) or value


def first_unknown(value: object) -> Unknown | None:
    """The value, or the first of its elements, that is not known; None where there is none."""
    elements = value.reshape(-1) if is_partly(value) else [value]
    return next((element for element in elements if isinstance(element, Unknown)), None)


def same(one: Value, two: Value) -> bool:
    """Whether two values are the same bits and names."""
    if isinstance(one, Unknown) or isinstance(two, Unknown):
        return isinstance(one, Unknown) and isinstance(two, Unknown) and one == two
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    return bool((one == two).all()) if one.dtype == object else one.tobytes() == two.tobytes()
