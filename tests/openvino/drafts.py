"""Calls in the making: good ones. Tensors have a few hundred elements at most."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tests.dialects.drafting import EXTREMES, laid_out, random_bits, some_shape
from tests.openvino.specification import INTEGERS, Array, Call

MOST_ELEMENTS = 240


@dataclass
class Draft:
    """A call in the making."""

    version: Any
    data: Array
    indices: Array
    axis: Any
    batch_dims: Any


def good(rng: random.Random, version: int, dtypes: Sequence[Any], index_dtypes: Sequence[Any], *, negatives: bool) -> Draft:
    """A draft without a fault. negatives: whether indices may be negative."""
    sizes = list(some_shape(rng, 1, 5))
    axis = rng.randrange(len(sizes))
    if rng.random() < 0.1:  # beyond what narrow index types reach
        sizes = [1 if dimension != axis else rng.choice((130, 200, 257, 300)) for dimension in range(len(sizes))]
    batch = rng.randint(0, axis) if version > 1 and rng.random() < 0.6 else 0
    moved = some_shape(rng, 0, 3)
    if prod((*sizes[:axis], *moved, *sizes[axis + 1 :])) > 2 * MOST_ELEMENTS:
        moved = moved[:1]
    index_sizes = (*sizes[:batch], *moved)
    values = _values(rng, index_sizes, sizes[axis], np.dtype(rng.choice(index_dtypes)), negatives=negatives)
    data = random_bits(rng, np.dtype(rng.choice(dtypes)), tuple(sizes))
    return Draft(version, data, values, _axis(rng, axis, len(sizes)), _batch_dims(rng, version, batch, len(index_sizes)))


def _values(rng: random.Random, shape: tuple[int, ...], size: int, dtype: np.dtype[Any], *, negatives: bool) -> Array:
    info = np.iinfo(dtype)
    low, high = max(info.min, -size), min(info.max, size - 1)
    far = [value for value in EXTREMES if info.min <= value <= info.max]
    outside = rng.choice((0, 0.2, 0.6))  # of an index, to be out of range

    def value() -> int:
        found = rng.randint(low, high) if low <= high else 0
        if rng.random() < outside:
            found = rng.choice((rng.choice(far), size, -size - 1, size + rng.randrange(9), -size - rng.randrange(9)))
        return max(min(found, int(info.max)), int(info.min) if negatives else 0)

    return np.array([value() for _ in range(prod(shape))], dtype).reshape(shape)


def _axis(rng: random.Random, axis: int, rank: int) -> Any:
    """The axis counted from either end, as an integer or as an array of one."""
    said = axis - rank if rng.random() < 0.4 else axis
    if rng.random() < 0.6:
        return said
    dtypes = [dtype for dtype in INTEGERS if said >= 0 or dtype.kind == "i"]
    return np.array(said, rng.choice(dtypes)).reshape(rng.choice(((), (1,))))


def _batch_dims(rng: random.Random, version: int, batch: int, rank: int) -> int:
    """That many batch dimensions, counted from either end of the indices' rank."""
    return batch - rank if version > 1 and batch < rank and rng.random() < 0.4 else batch


def finished(rng: random.Random, draft: Draft, fault: str, seed: int) -> Call:
    """The call of a draft, its arrays laid out."""
    data, indices = (laid_out(rng, array) for array in (draft.data, draft.indices))
    return Call(draft.version, data, indices, draft.axis, draft.batch_dims, fault, seed)
