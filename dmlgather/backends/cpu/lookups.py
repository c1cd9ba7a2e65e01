"""Source addresses, computed from the indices block by block.

One unsigned maximum proves that all indices of a block are in range, because a negative index is huge as an unsigned integer.
The indices are then used without a copy. If a block fails this test, its indices are wrapped and tested again. If it still
fails, its indices are clamped, and the bad ones are marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cpu.geometry import Geometry
from dmlgather.plan import Lookup, OutOfBounds, unravel

LARGEST = 2**63 - 1
"""The largest limit and wrap. It is larger than every offset in a buffer."""
Box = tuple[slice, ...]
"""A block of units: for each dimension, a slice with explicit start and stop."""


def fit(shape: Sequence[int], units: int) -> tuple[int, ...]:
    """Return the shape of blocks of at most `units` units. A block has at least one unit.

    A block spans as many innermost dimensions as fit. The next dimension is cut into nearly equal parts. Example: shape (10, 3)
    and 12 units give (4, 3), so the blocks have 4, 4 and 2 rows.
    """
    sizes = [1] * len(shape)
    room = max(units, 1)
    for axis in reversed(range(len(shape))):
        parts = -(-shape[axis] // room)
        sizes[axis] = -(-shape[axis] // parts)
        room //= sizes[axis]
    return tuple(sizes)


def boxes(shape: Sequence[int], sizes: Sequence[int]) -> Iterator[Box]:
    """Yield blocks of at most these sizes that cover `shape`, in row-major order."""
    counts = [-(-size // step) for size, step in zip(shape, sizes, strict=True)]
    for number in range(prod(counts)):
        starts = (at * step for at, step in zip(unravel(number, counts), sizes, strict=True))
        yield tuple(slice(at, min(at + step, size)) for at, step, size in zip(starts, sizes, shape, strict=True))


@dataclass(frozen=True, slots=True)
class Resolved:
    """The positions or addresses that the indices of a block select, after wrap and clamp.

    `values`: positions along the axis, or addresses in the input. `bad`: True for each index out of bounds, or None if there is
    none.
    `offset`: under RAISE, the smallest offset of a bad index.
    """

    values: NDArray[np.integer]
    bad: NDArray[np.bool_] | None = None
    offset: int | None = None


class LookedUp:
    """A lookup and its index buffer.

    `shape`: the sizes of the leading dimensions. These include all dimensions along which the index changes.
    """

    def __init__(self, lookup: Lookup, shape: tuple[int, ...], policy: OutOfBounds, indices: NDArray[Any]) -> None:
        self.lookup, self.policy = lookup, policy
        self.steps = lookup.index_strides[: len(shape)]
        sizes = tuple(size if step else 1 for size, step in zip(shape, self.steps, strict=True))
        itemsize = indices.dtype.itemsize
        start, strides = itemsize * lookup.index_offset, tuple(itemsize * step for step in self.steps)
        # NumPy raises if the view does not lie inside the buffer.
        self.view: NDArray[np.integer] = np.ndarray(sizes, indices.dtype, indices, start, strides)
        self.unsigned = np.dtype(f"u{itemsize}")
        negatives = 2 ** (8 * itemsize - 1)  # the lowest negative value, read as unsigned: 128 for int8
        self.proof = min(lookup.limit, negatives) if indices.dtype.kind == "i" else lookup.limit

    def resolve(self, box: Box) -> Resolved:
        """Return the positions along the axis that the indices of a block select.

        The result has size 1 along dimensions where the index does not change.
        """
        part = tuple(span if step else slice(0, 1) for span, step in zip(box, self.steps, strict=True))
        raw = self.view[(*part, ...)]  # with "...", because NumPy would return a scalar if there are no dimensions
        if raw.view(self.unsigned).max() < self.proof:
            return Resolved(raw.view(np.int64) if raw.dtype == np.uint64 else raw)
        values = self._wrapped(raw)
        limit = self.lookup.limit
        if values.view(np.uint64).max() < limit:
            return Resolved(values)
        bad = None
        if self.policy in (OutOfBounds.FILL, OutOfBounds.RAISE):
            bad = values.view(np.uint64) >= np.uint64(limit)
        values = np.clip(values, 0, max(limit - 1, 0))
        return Resolved(values, bad, None if bad is None else self._smallest(bad, part))

    def _wrapped(self, raw: NDArray[np.integer]) -> NDArray[np.int64]:
        if raw.dtype == np.uint64:
            # A value of 2^63 or more would be negative as an int64. Replace it by the limit, which is out of bounds, too.
            clipped: NDArray[np.uint64] = np.minimum(raw, np.uint64(self.lookup.limit))
            return clipped.view(np.int64)
        values = raw.astype(np.int64)
        if self.lookup.wrap:
            signs = values >> 63
            signs &= self.lookup.wrap
            values += signs
        return values

    def _smallest(self, bad: NDArray[np.bool_], part: Box) -> int | None:
        if self.policy is not OutOfBounds.RAISE:
            return None
        offsets = np.array(self.lookup.index_offset)
        for axis, (span, step) in enumerate(zip(part, self.steps, strict=True)):
            offsets = offsets + _along(axis, len(part), np.arange(span.start, span.stop) * step)
        return int(offsets.min(where=bad, initial=LARGEST))


class Addresses:
    """The address in the input from which each unit is copied. Address n means byte `origin` + n · `pitch`."""

    def __init__(self, geometry: Geometry, dims: int, indices: NDArray[Any] | None, origin: int, pitch: int) -> None:
        assert indices is not None
        self.shape = geometry.shape[:dims]
        self.lookups = [LookedUp(lookup, self.shape, geometry.policy, indices) for lookup in geometry.lookups]
        self.start = (geometry.in_offset - origin) // pitch
        self.steps = [step // pitch for step in geometry.in_strides[:dims]]
        self.lookup_steps = [lookup.in_stride // pitch for lookup in geometry.lookups]

    def of(self, box: Box) -> Resolved:
        """Return the addresses from which the units of a block are copied."""
        total: NDArray[np.integer] = np.array(self.start, np.int64)
        for axis, (span, step) in enumerate(zip(box, self.steps, strict=True)):
            if step:
                total = total + _along(axis, len(box), np.arange(span.start, span.stop) * step)
        bad: NDArray[np.bool_] | None = None
        offset: int | None = None
        for lookup, step in zip(self.lookups, self.lookup_steps, strict=True):
            positions = lookup.resolve(box)
            if positions.bad is not None:
                bad = positions.bad if bad is None else bad | positions.bad
            if positions.offset is not None:
                offset = positions.offset if offset is None else min(positions.offset, offset)
            total = total + np.multiply(positions.values, step, dtype=np.int64)
        return Resolved(np.broadcast_to(total, [span.stop - span.start for span in box]), bad, offset)


def _along(axis: int, rank: int, values: NDArray[np.integer]) -> NDArray[np.integer]:
    return values.reshape((-1, *[1] * (rank - 1 - axis)))
