"""Iteration over large arrays in parts. Each step then takes little memory, and Ctrl-C takes effect soon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 2**18
"""A part of an array has at most this many elements."""


def chunks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Split an array into parts, and yield a view of each. The parts are consecutive in row-major order and cover the array.

    >>> [chunk.tolist() for chunk in chunks(np.zeros(3, np.uint8))]
    [[0, 0, 0]]
    """
    if array.size <= CHUNK:
        yield array
        return
    import numpy as np

    axis = next(axis for axis, size in enumerate(array.shape) if size > 1)
    for half in np.array_split(array, 2, axis):
        yield from chunks(half)
