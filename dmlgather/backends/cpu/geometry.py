"""A canonical plan as NumPy moves memory: byte strides, and units of any number of bytes.

A unit is the innermost run of elements that lies contiguous on both sides and shares its indices: a row of a table, the
channels of a pixel. Units are handled as opaque NumPy items of that many bytes, so that one recipe serves every data type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from dmlgather.plan import IndexPlan, Lookup, OutOfBounds, packed_strides

WORDS = (1, 2, 4, 8)
"""Bytes of NumPy's unsigned integers."""

LINE, LOOKING, STEPPING = 64, 16, 8
"""Bytes of a cache line; the costs of a lookup and of a step of a strided copy, in bytes copied in the same time."""


@dataclass(frozen=True)
class Geometry:
    """shape: units per dimension, rank >= 1. Strides, offsets and the in_stride of each lookup are in bytes. in_bytes: a lower
    bound of the input's size.
    """

    shape: tuple[int, ...]
    out_strides: tuple[int, ...]
    in_strides: tuple[int, ...]
    out_offset: int
    in_offset: int
    unit: int
    lookups: tuple[Lookup, ...]
    index_dtype: np.dtype[np.integer] | None
    out_of_bounds: OutOfBounds
    fill: bytes
    writes: bool
    in_bytes: int

    @classmethod
    def of(cls, plan: IndexPlan, in_extent: int | None = None) -> Geometry:
        """The geometry of a canonical plan, with elements as units. in_extent: elements of the input, if more than are reached.

        Leaves out the leading 0 of an empty plan with lookups: the other dimensions are those of the indices that RAISE checks.
        """
        kept = slice(1 if plan.empty and plan.lookups else 0, None)
        size = plan.element_bytes
        return cls(
            shape=plan.shape[kept] or (1,),
            out_strides=tuple(size * step for step in plan.out_strides[kept]) or (0,),
            in_strides=tuple(size * step for step in plan.in_strides[kept]) or (0,),
            out_offset=size * plan.out_offset,
            in_offset=size * plan.in_offset,
            unit=size,
            lookups=tuple(
                replace(lookup, index_strides=lookup.index_strides[kept] or (0,), in_stride=size * lookup.in_stride)
                for lookup in plan.lookups
            ),
            index_dtype=None if plan.index_type is None else np.dtype(plan.index_type.value.lower()),
            out_of_bounds=plan.out_of_bounds,
            fill=plan.fill,
            writes=not plan.empty,
            in_bytes=size * (plan.in_extent if in_extent is None else in_extent),
        )

    @cached_property
    def run(self) -> int:
        """Bytes of the innermost run that could be one unit; the unit itself if there is none."""
        contiguous = self.out_strides[-1] == self.unit == self.in_strides[-1]
        together = contiguous and self.writes and not self.moves(self.rank - 1)
        return self.unit * self.shape[-1] if together else self.unit

    def swapped(self, unit: int) -> Geometry:
        """Bytes that are read backwards, as units of `unit` bytes; whoever copies them swaps the bytes of each."""
        return replace(
            self,
            shape=(*self.shape[:-1], self.shape[-1] // unit),
            out_strides=(*self.out_strides[:-1], unit),
            in_strides=(*self.in_strides[:-1], -unit),
            in_offset=self.in_offset - (unit - 1),
            unit=unit,
        )

    def joined(self, unit: int) -> Geometry:
        """The same geometry by units of `unit` bytes, a divisor of the run and a multiple of the present unit."""
        if unit == self.unit:
            return self
        inner = self.run // unit
        keep = slice(None) if inner > 1 or self.rank == 1 else slice(-1)
        return replace(
            self,
            shape=(*self.shape[:-1], inner)[keep],
            out_strides=(*self.out_strides[:-1], unit)[keep],
            in_strides=(*self.in_strides[:-1], unit)[keep],
            unit=unit,
            lookups=tuple(replace(lookup, index_strides=lookup.index_strides[keep]) for lookup in self.lookups),
        )

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @cached_property
    def item(self) -> np.dtype[np.void]:
        """One unit as an opaque item, which needs no alignment: take() would copy whole buffers of misaligned integers."""
        return np.dtype(f"V{self.unit}")

    @cached_property
    def word(self) -> np.dtype[np.generic]:
        """One unit as an unsigned integer where one fits: NumPy's strided copies of these are far quicker than of items."""
        return np.dtype(f"u{self.unit}") if self.unit in WORDS else self.item

    @cached_property
    def pitch(self) -> int:
        """Bytes per step of an offset. If it equals the unit, the source is contiguous."""
        step = gcd(*self.in_strides, *(lookup.in_stride for lookup in self.lookups))
        return self.unit if step % self.unit == 0 else step

    @property
    def packed(self) -> bool:
        """Whether the output is C-contiguous."""
        return self.out_strides == tuple([self.unit * step for step in packed_strides(self.shape)])

    def moves(self, axis: int) -> bool:
        """Whether any lookup moves along `axis`."""
        return any(lookup.index_strides[axis] for lookup in self.lookups)

    @cached_property
    def still(self) -> int:
        """The first of the trailing dimensions along which no lookup moves; `rank` when the last one is looked up."""
        axis = self.rank
        while axis and not self.moves(axis - 1):
            axis -= 1
        return axis

    @cached_property
    def direct(self) -> int:
        """The first of the trailing dimensions along which only lookups move the source; `rank` when there is none."""
        axis = self.rank
        while axis and not self.in_strides[axis - 1]:
            axis -= 1
        return axis

    def units(self, first: int = 0) -> int:
        """Units in the dimensions from `first` on."""
        return prod(self.shape[first:])

    def span(self, first: int) -> int:
        """Bytes from the lowest to the highest source position that all lookups and the dimensions from `first` on reach."""
        steps = [(size - 1) * step for size, step in zip(self.shape[first:], self.in_strides[first:], strict=True)]
        steps += [max(lookup.limit - 1, 0) * lookup.in_stride for lookup in self.lookups]
        return sum(map(abs, steps))

    @cached_property
    def top(self) -> int:
        """The highest source byte that a unit begins at, without lookups."""
        return self.in_offset + sum(max(0, (size - 1) * step) for size, step in zip(self.shape, self.in_strides, strict=True))

    @cached_property
    def weight(self) -> int:
        """What the work costs, in bytes of a plain copy: bytes written, bytes of indices, and what each unit adds."""
        index_bytes = 0 if self.index_dtype is None else self.index_dtype.itemsize
        indices = (
            prod(size for size, step in zip(self.shape, lookup.index_strides, strict=True) if step) for lookup in self.lookups
        )
        skipped = min(max(abs(self.in_strides[-1]) - self.unit, 0), LINE)
        each = self.unit + (LOOKING if self.lookups else STEPPING + skipped)
        return sum(indices) * index_bytes + self.writes * self.units() * each

    def fill_item(self, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
        """The fill value, repeated to fill one unit, as a zero-dimensional item."""
        return np.frombuffer(self.fill * (self.unit // len(self.fill)), dtype).reshape(())
