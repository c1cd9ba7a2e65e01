"""Resolve indices: raw values in, positions inside the axis out.

One unsigned maximum proves that all raw values of a block are in range (a negative value looks huge); they are then used without
a copy. Only a block that fails this test is wrapped, and only a block that then still fails is clamped and masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dmlgather.backends.cpu.blocks import Box
from dmlgather.backends.cpu.geometry import Geometry
from dmlgather.plan import Lookup, OutOfBounds

LARGEST = 2**63 - 1
FIRST = slice(0, 1)
SMALL = 2**12


class Scratch:
    """Buffers that one thread of one call uses again for every block."""

    def __init__(self) -> None:
        self.buffers: dict[object, NDArray[Any]] = {}

    def room(self, name: object, shape: tuple[int, ...], dtype: DTypeLike = np.int64) -> NDArray[Any]:
        """An uninitialised array of `shape` that the next request for `name` reuses."""
        units = prod(shape)
        if name not in self.buffers or self.buffers[name].size < units:
            self.buffers[name] = np.empty(units, dtype)
        return self.buffers[name][:units].reshape(shape)


@dataclass(frozen=True, slots=True)
class Resolved:
    """values: positions 0 … limit-1, shaped like the raw block, of a type that int64 holds. bad: where the raw index was
    out of bounds, None where nowhere. offset: under RAISE the smallest offset (elements of the index buffer) of a bad one.
    """

    values: NDArray[np.integer]
    bad: NDArray[np.bool_] | None = None
    offset: int | None = None


class Resolver:
    """One lookup of a plan: where its indices lie and which of them are valid."""

    def __init__(self, geometry: Geometry, lookup: Lookup) -> None:
        assert geometry.index_dtype is not None
        if max(lookup.limit, lookup.wrap) > LARGEST:
            raise ValueError(f"a lookup has limit {lookup.limit} and wrap {lookup.wrap}, expected at most {LARGEST}")
        self.lookup = lookup
        self.dtype = geometry.index_dtype
        self.noticed = geometry.out_of_bounds in (OutOfBounds.FILL, OutOfBounds.RAISE)
        self.raises = geometry.out_of_bounds is OutOfBounds.RAISE
        self.unsigned = np.dtype(f"u{self.dtype.itemsize}")
        negatives = 2 ** (8 * self.dtype.itemsize - 1)  # the lowest negative value, read as unsigned
        self.proof = min(lookup.limit, negatives) if self.dtype.kind == "i" else lookup.limit
        # NumPy's own check takes -limit … limit-1 and counts negative values from the end.
        reads_alike = lookup.wrap == lookup.limit if self.dtype.kind == "i" else self.dtype.itemsize < 8
        self.native = lookup.limit > 0 and reads_alike
        self.still = tuple(not step for step in lookup.index_strides)
        self.shape = tuple(1 if still else size for size, still in zip(geometry.shape, self.still, strict=True))
        self.strides = tuple(self.dtype.itemsize * step for step in lookup.index_strides)

    def view(self, indices: NDArray[Any], first: int = 0) -> NDArray[np.integer]:
        """The indices of every output position; size 1 along dimensions where the lookup does not move. NumPy proves that
        the view lies inside the buffer. first: the dimension to begin with, none moving before it.
        """
        at = self.dtype.itemsize * self.lookup.index_offset
        return np.ndarray(self.shape[first:], self.dtype, indices, at, self.strides[first:])

    def place(self, box: Box) -> Box:
        """Where the indices of the block `box` lie in the view."""
        return tuple([FIRST if still else span for span, still in zip(box, self.still, strict=True)])

    def part(self, view: NDArray[np.integer], box: Box) -> NDArray[np.integer]:
        """The raw indices of the block `box`."""
        return view[self.place(box)]

    def signed(self, raw: NDArray[np.integer]) -> NDArray[np.integer]:
        """The same bits in a type that int64 holds. uint64 values that passed the proof are below 2^63: the same numbers."""
        return raw.view(np.int64) if self.dtype.itemsize == 8 else raw

    def resolve(self, view: NDArray[np.integer], box: Box, scratch: Scratch) -> Resolved:
        """The positions that the block `box` looks up, valid until `scratch` serves this resolver again."""
        part = self.place(box)
        raw = view[part]
        if _largest(raw.view(self.unsigned)) < self.proof:
            return Resolved(self.signed(raw))
        values = self._wrapped(raw, scratch)
        unsigned = values.view(np.uint64)
        if _largest(unsigned) < self.lookup.limit:
            return Resolved(values)
        bad = None
        if self.noticed:
            bad = np.greater_equal(unsigned, np.uint64(self.lookup.limit), out=scratch.room((self, "bad"), raw.shape, np.bool_))
        np.clip(values, 0, max(self.lookup.limit - 1, 0), out=values)
        return Resolved(values, bad, self._offset(bad, part) if bad is not None and self.raises else None)

    def _wrapped(self, raw: NDArray[np.integer], scratch: Scratch) -> NDArray[np.int64]:
        values = scratch.room(self, raw.shape)
        if self.lookup.wrap:
            np.right_shift(raw, 63, out=values, dtype=np.int64)
            np.bitwise_and(values, self.lookup.wrap, out=values)
            np.add(values, raw, out=values)
        elif self.dtype == np.uint64:
            # A value above the limit would turn negative as an int64; it is brought down to the limit, which is as bad.
            np.minimum(raw, np.uint64(self.lookup.limit), out=values.view(np.uint64))
        else:
            np.copyto(values, raw)
        return values

    def _offset(self, bad: NDArray[np.bool_], part: Box) -> int:
        """The smallest offset among the bad indices of a part of the indices."""
        offsets = np.full(bad.shape, self.lookup.index_offset)
        for axis, (span, step) in enumerate(zip(part, self.lookup.index_strides, strict=True)):
            walk = np.arange(span.start, span.stop) * step
            offsets += walk.reshape((-1, *[1] * (len(part) - 1 - axis)))
        return int(offsets.min(where=bad, initial=LARGEST))


def _largest(values: NDArray[np.unsignedinteger]) -> int:
    """The maximum of at least one value. argmax is quicker to call, but it lets go of the interpreter lock, which another thread
    then keeps for longer than a block's maximum takes.
    """
    small = values.size <= SMALL and values.flags.c_contiguous
    return int(values.item(values.argmax()) if small else values.max())
