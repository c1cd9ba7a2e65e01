"""Large arrays in parts: work on one part takes little memory, and little time until Ctrl-C is heeded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 2**18
"""Elements of a chunk, at most."""


def chunks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Views that follow each other in row-major order and together are the array.

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
