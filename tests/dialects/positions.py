"""What gathers and slices of several dialects share, position by position in Python integers. Knows no plan and no backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tests.dialects.outcomes import Array


def counted(axis: int, rank: int) -> int:
    """The axis from the front. ValueError for one outside."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} for rank {rank}")
    return int(axis) % rank


def position(value: Any, size: int, *, wraps: bool = True) -> int:
    """The position that an index says on an axis. wraps: whether it may be counted from the end. IndexError for one outside."""
    number = int(value)
    if not (-size if wraps else 0) <= number < size:
        raise IndexError(f"index {number} on an axis of size {size}")
    return number % size


def walk(size: int, start: int, stop: int, step: int) -> range:
    """The positions of a slice, whose bounds may be counted from the end. ValueError for a step of 0."""
    if step == 0:
        raise ValueError("a step of 0")
    start, stop = (value + size if value < 0 else value for value in (start, stop))
    if step > 0:
        return range(min(max(start, 0), size), min(max(stop, 0), size), step)
    if size == 0:
        return range(0)
    return range(min(max(start, 0), size - 1), min(max(stop, -1), size - 1), step)


def elements(data: Array, indices: Array, axis: int) -> Array:
    """output[o] = data[o with o[axis] replaced by indices[o]]."""
    places = np.ndindex(indices.shape)
    return taken(data, ((*o[:axis], position(indices[o], data.shape[axis]), *o[axis + 1 :]) for o in places), indices.shape)


def tuples(data: Array, indices: Array, batch: int) -> Array:
    """output[b…, q…, j…] = data[b…, *indices[b…, q…, :], j…]."""
    sizes, rest = data.shape[batch:], data.shape[batch + indices.shape[-1] :]
    found = {
        p: tuple(position(value, size) for value, size in zip(indices[p], sizes, strict=False))
        for p in np.ndindex(indices.shape[:-1])
    }
    return taken(data, ((*p[:batch], *at, *j) for p, at in found.items() for j in np.ndindex(rest)), (*indices.shape[:-1], *rest))


def taken(data: Array, sources: Iterable[tuple[int, ...]], shape: Sequence[int]) -> Array:
    """The elements at `sources` in row-major order; NumPy's take moves bytes, or references to objects."""
    steps = [int(np.prod(data.shape[dim + 1 :], dtype=np.int64)) for dim in range(data.ndim)]
    flat = [sum(at * step for at, step in zip(source, steps, strict=True)) for source in sources]
    return data.ravel(order="C").take(np.array(flat, np.int64)).reshape(shape)
