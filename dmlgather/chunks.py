"""Iteration over large arrays in parts. Each step takes little memory, and Ctrl-C takes effect soon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 2**18
"""In elements."""


def chunks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Divide an array into consecutive parts in row-major order, and yield a view of each part."""
    if array.size <= CHUNK:
        yield array
        return
    import numpy as np

    axis = next(axis for axis, size in enumerate(array.shape) if size > 1)
    for half in np.array_split(array, 2, axis):
        yield from chunks(half)
