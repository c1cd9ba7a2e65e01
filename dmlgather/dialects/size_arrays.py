"""Arrays of sizes, as a model computes with them: numbers, or the names of expressions where they are not known.

An array of numbers is any array of NumPy's. One with names is an array of objects, each an int or a str; moving its elements is
left to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dmlgather.dialects.sizes import KnownSize

Array = np.ndarray[Any, Any]

KEPT_ELEMENTS = 1024
"""The most elements of a value that is kept while a model is checked: bounds of slices, shapes and axes have fewer."""


def size_array(sizes: Sequence[KnownSize]) -> Array:
    """A one-dimensional array of sizes: int64, or objects where one is a name."""
    if any(isinstance(size, str) for size in sizes):
        return np.array([*sizes, None], object)[:-1]  # NumPy makes no texts of strings beside None
    return np.array(sizes, np.int64)


def has_names(array: Array) -> bool:
    """Whether an array's elements are objects: numbers and names."""
    return bool(array.dtype == object)


def known_sizes(array: Array) -> list[KnownSize]:
    """The elements that are integers or names, in order."""
    return [size for each in array.reshape(-1) if isinstance(size := plain(each), int | str)]


def with_numbers(array: Array, number: Callable[[KnownSize], int], dtype: np.dtype[Any] | type) -> Array:
    """The array with numbers for its names. number: makes one of each element; int64 holds the nearest one."""
    limits = np.iinfo(np.int64)
    found = [min(max(number(size), limits.min), limits.max) for size in known_sizes(array)]
    return np.array(found, np.int64).reshape(array.shape).astype(dtype)


def plain(element: Any) -> KnownSize | Fraction:
    """An element as Python's value. ValueError for a float that is not finite."""
    if isinstance(element, str):
        return element
    return int(element) if element == int(element) else Fraction(float(element))
