"""Calls in the making: good ones with batching dimensions, partial windows and starts near and far from the range."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tests.dialects.drafting import EXTREMES, laid_out, random_bits, some_sizes
from tests.dialects.outcomes import Array
from tests.lax.specification import FIELDS, Call

MOST_ELEMENTS = 200

PARTS_OF_BYTES = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
"""Types whose bytes have that many bits that count."""

FILL_VALUES: tuple[Any, ...] = (
    *(None, None),
    *(1, -1, True, 7.0, -0.0, 9.5, 300, 2**31, 1e10),
    *(np.float32(0.1), np.uint8(200)),
)
"""No 0: JAX keeps what it compiled by the value, and 0 equals -0.0."""

MODES = ("clip", "fill", "drop", "promise_in_bounds", None)


@dataclass
class Draft:
    """A call in the making."""

    operand: Any
    start_indices: Any
    numbers: dict[str, Any]
    slice_sizes: Any
    mode: Any
    fill_value: Any
    x64: bool | None

    def finished(self, rng: random.Random, fault: str, seed: int) -> Call:
        """The call, its arrays laid out."""
        arrays = [
            laid_out(rng, array) if isinstance(array, np.ndarray) else array for array in (self.operand, self.start_indices)
        ]
        numbers = tuple(tuple(value) if isinstance(value, list) else value for value in self.numbers.values())
        sizes = self.slice_sizes if rng.random() < 0.2 or not isinstance(self.slice_sizes, list) else tuple(self.slice_sizes)
        return Call(arrays[0], arrays[1], numbers, sizes, self.mode, self.fill_value, self.x64, fault, seed)


@dataclass(frozen=True)
class Range:
    """What start indices may be drawn from.

    outside: whether out of range ones are. bits: of a signed integer that holds all of them.
    """

    outside: bool
    bits: int = 65


def good(
    rng: random.Random, dtypes: Sequence[Any], index_dtypes: Sequence[Any], mode: Any, *, x64: bool | None, values: Range
) -> Draft:
    """A draft without a fault."""
    sizes = some_sizes(rng, rng.choice((0, 1, 1, 2, 2, 3, 3, 4)), most=MOST_ELEMENTS)
    if sizes and rng.random() < 0.08:  # beyond what narrow index types reach
        sizes = [1 for _ in sizes]
        sizes[rng.randrange(len(sizes))] = rng.choice((130, 200, 257, 300))
    dims = list(range(len(sizes)))
    batching = sorted(rng.sample(dims, rng.choice((0, 0, 1, 2)) % (len(dims) + 1)))
    others = [dim for dim in dims if dim not in batching]
    collapsed = [dim for dim in others if rng.random() < 0.4]
    looked_up = rng.sample(others, rng.randint(0, len(others)))
    moved = some_sizes(rng, rng.choice((0, 1, 1, 2)))
    if prod((*moved, *sizes)) > 3 * MOST_ELEMENTS:
        moved = moved[:1]
    index_sizes = [*moved, *(sizes[dim] for dim in batching)]
    order = rng.sample(range(len(index_sizes)), len(index_sizes))
    index_batching = [order.index(len(moved) + number) for number in range(len(batching))]
    index_sizes = [index_sizes[number] for number in order]
    empty = 0 in index_sizes
    slice_sizes = [_slice_size(rng, size, dim in (*batching, *collapsed), empty) for dim, size in enumerate(sizes)]
    if any(size > sizes[dim] for dim, size in enumerate(slice_sizes)) and not empty:
        index_sizes.insert(0, 0)
        index_batching = [dim + 1 for dim in index_batching]
    kept = [dim for dim in others if dim not in collapsed]
    offset_dims = sorted(rng.sample(range(len(kept) + len(index_sizes)), len(kept)))
    dtype = np.dtype(rng.choice(index_dtypes))
    lasts = [sizes[dim] - slice_sizes[dim] for dim in looked_up]
    fields = (offset_dims, collapsed, looked_up, batching, index_batching)
    return Draft(
        elements(rng, np.dtype(rng.choice(dtypes)), tuple(sizes)),
        _starts(rng, index_sizes, lasts, dtype, values),
        dict(zip(FIELDS, fields, strict=True)),
        slice_sizes,
        mode,
        rng.choice(FILL_VALUES),
        x64,
    )


def elements(rng: random.Random, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Any bits that the type has."""
    found = random_bits(rng, dtype, shape)
    if dtype.name not in PARTS_OF_BYTES:
        return found
    return np.asarray((found.view(np.uint8) % np.uint8(2 ** PARTS_OF_BYTES[dtype.name])).view(dtype))


def _slice_size(rng: random.Random, size: int, gone: bool, empty: bool) -> int:
    """gone: whether the result lacks the dimension. empty: whether there are no windows, so that their sizes may be any."""
    if gone:
        return 1
    if empty and rng.random() < 0.3:
        return size + rng.randint(1, 4)
    return rng.choice((size, min(1, size), rng.randint(0 if rng.random() < 0.1 else min(1, size), size)))


def _starts(rng: random.Random, shape: list[int], lasts: list[int], dtype: np.dtype[Any], values: Range) -> Array:
    info = np.iinfo(dtype)
    reach: int = 2 ** (values.bits - 1)
    low, high = max(int(info.min), -reach), min(int(info.max), reach - 1)
    far = [value for value in EXTREMES if low <= value <= high]
    outside = rng.choice((0, 0.2, 0.6)) if values.outside else 0  # of an index, to be out of range

    def value(last: int) -> int:
        found = rng.randint(0, max(last, 0))
        if rng.random() < outside:
            near = (last + 1, -1, last + rng.randrange(1, 9), -rng.randrange(1, 9))
            found = rng.choice((rng.choice(far), *near))
        return max(min(found, high), low)

    starts = [value(last) for _ in range(prod(shape)) for last in lasts]
    return np.array(starts, dtype).reshape(*shape, len(lasts))
