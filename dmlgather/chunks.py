"""Large arrays in parts, so that a step takes little memory and Ctrl-C is handled soon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 2**18
"""At most this many elements are in a chunk."""


def chunks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield views of consecutive parts of the array in row-major order; together they cover it.

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
