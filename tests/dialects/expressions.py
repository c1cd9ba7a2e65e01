"""Random index expressions, good and bad, and what NumPy makes of them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHAPES: tuple[tuple[int, ...], ...] = ((3,), (1,), (2, 3), (2, 1), (0,))
"""Of index arrays; most of them can be broadcast together."""


def some_data(rng: random.Random) -> NDArray[np.int64]:
    """An array of up to 4 dimensions, some of them empty, whose elements all differ; of any strides."""
    shape = [0 if rng.random() < 0.04 else rng.randint(1, 4) for _ in range(rng.randint(0, 4))]
    wide = np.arange(np.prod([2 * size for size in shape], dtype=int)).reshape([2 * size for size in shape])
    data = wide[tuple(slice(None, 2 * size, 2) if rng.random() < 0.3 else slice(size) for size in shape)]
    return np.asarray(data).transpose(rng.sample(range(data.ndim), data.ndim))


def some_expression(rng: random.Random, shape: Sequence[int], *, faults: float = 0.12) -> tuple[Any, ...]:
    """An expression for data of that shape. faults: how likely one entry breaks a rule; index arrays that cannot be broadcast
    come in addition.
    """
    entries: list[Any] = []
    axis, faulty = 0, rng.randint(0, len(shape)) if rng.random() < faults else -1
    while axis < len(shape) and rng.random() < 0.85:
        rank = 2 if axis + 1 < len(shape) and rng.random() < 0.1 else 1
        entries.append(_entry(rng, shape[axis : axis + rank], len(entries) == faulty))
        axis += rank
    for extra, share in ((None, 0.25), (..., 0.25), (None, 0.1), (True, 0.04), (False, 0.03)):
        if rng.random() < share:
            entries.insert(rng.randint(0, len(entries)), extra)
    if faulty == len(shape):
        entries.insert(rng.randint(0, len(entries)), rng.choice((..., 0, slice(None))))
    return tuple(entries)


def _entry(rng: random.Random, sizes: Sequence[int], faulty: bool) -> Any:
    size, kind = sizes[0], rng.random()
    if len(sizes) > 1 or kind > 0.9:
        shape = [own + (faulty and own > 0) for own in sizes]
        return np.array(rng.choices((True, False), k=int(np.prod(shape))), bool).reshape(shape)
    if kind < 0.25:
        return rng.choice((-size - 1, size, 2**40)) if faulty or not size else rng.randrange(-size, size)
    if kind < 0.6:
        start, stop = (rng.choice((None, rng.randint(-size - 2, size + 2), 2**70, -(2**70))) for _ in range(2))
        return slice(start, stop, 0 if faulty else rng.choice((None, 1, 2, -1, -2, 3, 2**70, -(2**70))))
    places = rng.choice(SHAPES) if size else (0,)
    values = [rng.randrange(-size, size + faulty) for _ in range(int(np.prod(places)))]
    return np.array(values, rng.choice(("int8", "int16", "int32", "int64"))).reshape(places)


def numpys(data: NDArray[Any], expression: tuple[Any, ...]) -> NDArray[Any] | Exception:
    """What NumPy gives, or the error that it raises. NumPy 2.2 only warns of an index out of bounds where the result is empty."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Out of bound index found", DeprecationWarning)
        try:
            return np.asarray(data[expression])
        except (IndexError, ValueError, TypeError, OverflowError) as error:
            return error
        except DeprecationWarning as warning:
            return IndexError(f"an index is out of bounds: {warning}")
