"""A canonical plan for NumPy: strides in bytes, and units of any number of bytes.

A unit is an innermost run of elements with the same indices that is contiguous in the input and in the output. For example, it
is a row of a table, or the channels of a pixel. NumPy moves a unit as one opaque item, so the same code serves every data type.
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
    """A plan as a copy of units. Strides, offsets and the `in_stride` of each lookup are in bytes.

    `shape`: units per dimension, at least one dimension. `unit`: bytes of a unit. `reads`: True if the plan reads the input.
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
        """Return the geometry of a canonical plan.

        `longest`: most bytes of a run that becomes one unit; a longer run becomes a dimension of words. With 0, every element
        is a unit.
        """
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
        """Return the geometry with the innermost run as one unit, or as words if it is longer than `longest` bytes."""
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
        """Return the number of dimensions."""
        return len(self.shape)

    @cached_property
    def item(self) -> np.dtype[np.void]:
        """Return the type of a unit as an opaque item. It needs no alignment, so that take() copies no misaligned buffer."""
        return np.dtype(f"V{self.unit}")

    @cached_property
    def word(self) -> np.dtype[np.generic]:
        """Return the type of a unit as an unsigned integer if there is one, because NumPy copies integers faster than items."""
        return np.dtype(f"u{self.unit}") if self.unit in WORDS else self.item

    @cached_property
    def pitch(self) -> int:
        """Return a number of bytes that divides all source offsets. If it equals `unit`, units are contiguous in the source."""
        step = gcd(*self.in_strides, *(lookup.in_stride for lookup in self.lookups))
        return self.unit if step % self.unit == 0 else step

    def moves(self, axis: int) -> bool:
        """Return True if any lookup moves along `axis`."""
        return any(lookup.index_strides[axis] for lookup in self.lookups)

    @cached_property
    def still(self) -> int:
        """Return the number of dimensions up to the last one along which a lookup moves."""
        return max((axis + 1 for axis in range(self.rank) if self.moves(axis)), default=0)

    @cached_property
    def slice_bytes(self) -> int:
        """Return the bytes of a slice along the dimensions from number `still` on. All its units have the same indices."""
        return self.unit * prod(self.shape[self.still :])

    def target(self, out: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return a view of all output units, of shape `shape`."""
        return np.ndarray(self.shape, dtype, out, self.out_offset, self.out_strides)

    def window(self, data: NDArray[Any], dtype: np.dtype[Any]) -> tuple[int, NDArray[Any]]:
        """Return the lowest byte that can be read, and a one-dimensional view of the units from there on, `pitch` bytes apart."""
        limits = tuple(lookup.limit for lookup in self.lookups)
        steps = tuple(lookup.in_stride for lookup in self.lookups)
        low, high = reach(self.shape + limits, self.in_strides + steps, self.in_offset)
        return low, np.ndarray(((high - low) // self.pitch + 1,), dtype, data, low, (self.pitch,))

    def fill_item(self, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
        """Return the fill value, repeated to one unit, as a zero-dimensional array."""
        return np.frombuffer(self.fill * (self.unit // len(self.fill)), dtype).reshape(())
