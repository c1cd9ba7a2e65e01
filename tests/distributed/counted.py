"""Tables in chunks whose loads are counted, and the layouts and bytes they are drawn from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import dask
import dask.array as da
import ml_dtypes
import numpy as np
from dask.core import flatten
from numpy.typing import NDArray

Chunks = tuple[tuple[int, ...], ...]

DTYPES = tuple(
    np.dtype(each)
    for each in ("f4", "f2", "i1", "u8", "f8", ">f4", "?", "c8", "c16", "M8[s]", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn)
)


class CountedTable:
    """An array that dask reads chunk by chunk. loads: the chunks' coordinates, in the order in which they were read."""

    def __init__(self, values: NDArray[Any], chunks: Chunks) -> None:
        self.values, self.shape, self.dtype, self.ndim = values, values.shape, values.dtype, values.ndim
        self.loads: list[tuple[int, ...]] = []
        starts = [np.cumsum([0, *sizes])[:-1].tolist() for sizes in chunks]
        places = product(*(range(len(sizes)) for sizes in chunks))
        self._place = {
            (begin, size): place
            for place, begin, size in zip(places, product(*starts), product(*chunks), strict=True)
            if 0 not in size
        }
        self.table = da.from_array(
            self, chunks=chunks, name=False, asarray=False, meta=np.empty((0,) * values.ndim, values.dtype)
        )

    def __getitem__(self, where: tuple[slice, ...]) -> NDArray[Any]:
        found = self.values[where]
        self.loads.append(self._place[tuple(each.start for each in where), found.shape])
        return found


def chunks_of(rng: random.Random, shape: Sequence[int]) -> Chunks:
    """Random chunks along each axis, many of them of one row, some empty."""
    return tuple(_cut(rng, size) for size in shape)


def _cut(rng: random.Random, size: int) -> tuple[int, ...]:
    kind = rng.random()
    if kind < 0.2:
        return (size,)
    if kind < 0.4 and size:
        return (1,) * size
    borders = sorted(rng.randint(0, size) for _ in range(rng.randint(1, 4)))
    return tuple(np.diff([0, *borders, size]).tolist())


def random_bits(rng: random.Random, shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Elements of any bits, NaNs with payloads among them; a bool is 0 or 1."""
    count = int(np.prod(shape)) * dtype.itemsize
    raw = np.frombuffer(rng.randbytes(count), np.uint8)
    return (raw & 1 if dtype == np.bool_ else raw).view(dtype).reshape(shape)


def bits(array: Any) -> tuple[Any, ...]:
    """All that is compared: the kind of array, its type, shape and bytes."""
    return type(array), array.dtype, array.shape, array.tobytes()


def computed_chunks(array: da.Array) -> list[Any]:
    """The chunks of an array, each computed alone."""
    return list(dask.get(array.__dask_graph__(), list(flatten(array.__dask_keys__()))))
