"""A canonical plan for NumPy: a copy of units, with strides in bytes.

A unit is an innermost run of elements with the same indices that is contiguous in the input and in the output, such as a row of
a table or the channels of a pixel. NumPy moves a unit as one opaque item, so the same code serves every data type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.plan import IndexPlan, Lookup, OutOfBounds, reach

WORDS = (1, 2, 4, 8)
"""Sizes in bytes of NumPy's unsigned integers."""


@dataclass(frozen=True)
class Geometry:
    """A canonical plan that copies *units* instead of elements. A unit is a number of bytes that NumPy copies as one item.

    Strides, offsets, `unit` and each lookup's `in_stride` are in bytes.
    `shape`: the number of units along each dimension. There is at least one dimension.
    `reads`: False if the plan reads no input, because it only writes the fill value.
    """

    shape: tuple[int, ...]
    out_strides: tuple[int, ...]
    in_strides: tuple[int, ...]
    out_offset: int
    in_offset: int
    unit: int
    lookups: tuple[Lookup, ...]
    policy: OutOfBounds
    fill: bytes
    reads: bool

    @classmethod
    def of(cls, plan: IndexPlan, longest: int) -> Geometry:
        """Return the geometry of a canonical plan. `longest`: the largest unit in bytes; 0 to keep single elements."""
        # An empty plan with lookups has a leading dimension of size 0. Its other dimensions are those of the indices to check.
        kept = slice(1 if plan.empty and plan.lookups else 0, None)
        size = plan.element_bytes
        elements = cls(
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
            policy=plan.out_of_bounds,
            fill=plan.fill,
            reads=plan.in_reach is not None,
        )
        return elements._joined(longest) if longest and elements.reads else elements

    def _joined(self, longest: int) -> Geometry:
        """Join each innermost contiguous run of elements to one unit.

        If a run has more than `longest` bytes, it becomes several units of up to 8 bytes instead.
        """
        if not self.out_strides[-1] == self.unit == self.in_strides[-1] or self.moves(self.rank - 1):
            return self
        run = self.unit * self.shape[-1]
        unit = run if run <= longest else max(self.unit, gcd(run, max(WORDS)))
        keep = slice(-1 if unit == run and self.rank > 1 else None)
        return replace(
            self,
            shape=(*self.shape[:-1], run // unit)[keep],
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
        """The opaque data type of a unit, such as `V12`. It needs no alignment."""
        return np.dtype(f"V{self.unit}")

    @cached_property
    def word(self) -> np.dtype[np.generic]:
        """The data type with which to copy units: an integer if possible, because NumPy copies integers faster."""
        return np.dtype(f"u{self.unit}") if self.unit in WORDS else self.item

    @cached_property
    def pitch(self) -> int:
        """The distance in bytes between neighbouring addresses at which a unit can begin in the input.

        It is less than `unit` if units can overlap, as in sliding windows.
        """
        step = gcd(*self.in_strides, *(lookup.in_stride for lookup in self.lookups))
        return self.unit if step % self.unit == 0 else step

    def moves(self, axis: int) -> bool:
        """Return True if some index changes along dimension `axis`."""
        return any(lookup.index_strides[axis] for lookup in self.lookups)

    @cached_property
    def still(self) -> int:
        """The number of dimensions up to the last one along which an index changes."""
        return max((axis + 1 for axis in range(self.rank) if self.moves(axis)), default=0)

    @cached_property
    def slice_bytes(self) -> int:
        """The bytes of all units that are copied with the same indices."""
        return self.unit * prod(self.shape[self.still :])

    def target(self, out: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the output buffer as an array of units."""
        return np.ndarray(self.shape, dtype, out, self.out_offset, self.out_strides)

    def window(self, data: NDArray[Any], dtype: np.dtype[Any]) -> tuple[int, NDArray[Any]]:
        """Return the lowest offset that the plan can read, and all units that it can read, from this offset on.

        The units may overlap: they are `pitch` bytes apart.
        """
        limits = tuple(lookup.limit for lookup in self.lookups)
        steps = tuple(lookup.in_stride for lookup in self.lookups)
        low, high = reach(self.shape + limits, self.in_strides + steps, self.in_offset)
        return low, np.ndarray(((high - low) // self.pitch + 1,), dtype, data, low, (self.pitch,))

    def fill_item(self, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
        """Return the fill value, repeated until it has the size of one unit."""
        return np.frombuffer(self.fill * (self.unit // len(self.fill)), dtype).reshape(())
