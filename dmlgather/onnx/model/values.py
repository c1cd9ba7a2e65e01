"""Values of a model's tensors, as far as they are known before it runs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dmlgather.dialects.checked_model import Unknown
from dmlgather.dialects.sizes import Array, has_names

Value = Array | Unknown
"""Elements, or why none is known. Where some are no numbers, the array has objects, each an Element."""


def is_partly(value: object) -> bool:
    """Whether some elements of a value are no numbers."""
    return isinstance(value, np.ndarray) and has_names(value)


def is_known(value: object) -> bool:
    """Whether all elements of a value are numbers."""
    return isinstance(value, np.ndarray) and not has_names(value)


def exposed(value: Value) -> Value:
    """A value of which all elements are numbers or names; where an element is not known, why it is not."""
    return first_unknown([value]) or value


def first_unknown(values: Iterable[object]) -> Unknown | None:
    """The first of some values, or of their elements, that is not known."""
    for value in values:
        if isinstance(value, Unknown):
            return value
        if is_partly(value):
            for element in value.reshape(-1):  # type: ignore[attr-defined] # it is an array
                if isinstance(element, Unknown):
                    return element
    return None


def same(one: Value, two: Value) -> bool:
    """Whether two values are the same bits and names."""
    if isinstance(one, Unknown) or isinstance(two, Unknown):
        return isinstance(one, Unknown) and isinstance(two, Unknown) and one == two
    if one.dtype != two.dtype or one.shape != two.shape:
        return False
    return bool((one == two).all()) if one.dtype == object else one.tobytes() == two.tobytes()
