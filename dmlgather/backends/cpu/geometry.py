"""A canonical plan as NumPy moves memory: strides in bytes, and units of any number of bytes.

A unit is the innermost run of elements that lies contiguous on both sides and shares its indices: a row of a table, the channels
of a pixel. It is moved as one opaque NumPy item, so that the same code serves every data type.
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
"""Bytes of NumPy's unsigned integers."""


@dataclass(frozen=True)
class Geometry:
    """shape: units per dimension, rank >= 1. Strides, offsets and the in_stride of each lookup are in bytes. reads: whether
    anything is read.
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
        """The geometry of a canonical plan. longest: bytes of the longest run that is one unit; a longer one becomes a dimension
        of words. 0 leaves elements as they are.
        """
        # The leading 0 of an empty plan with lookups is left out: the other dimensions are those of the indices to be checked.
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
                replace(one, index_strides=one.index_strides[kept] or (0,), in_stride=size * one.in_stride)
                for one in plan.lookups
            ),
            policy=plan.out_of_bounds,
            fill=plan.fill,
            reads=plan.in_reach is not None,
        )
        return elements._joined(longest) if longest and elements.reads else elements

    def _joined(self, longest: int) -> Geometry:
        """By units of a whole innermost run, or of words of one that is longer than `longest` bytes."""
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
            lookups=tuple(replace(one, index_strides=one.index_strides[keep]) for one in self.lookups),
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
        step = gcd(*self.in_strides, *(one.in_stride for one in self.lookups))
        return self.unit if step % self.unit == 0 else step

    def moves(self, axis: int) -> bool:
        """Whether any lookup moves along `axis`."""
        return any(one.index_strides[axis] for one in self.lookups)

    @cached_property
    def still(self) -> int:
        """The first of the trailing dimensions along which no lookup moves; `rank` when the last one is looked up."""
        return max((axis + 1 for axis in range(self.rank) if self.moves(axis)), default=0)

    @cached_property
    def slice_bytes(self) -> int:
        """Bytes that share their indices: those of the dimensions from `still` on."""
        return self.unit * prod(self.shape[self.still :])

    def target(self, out: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Every output position, shaped like the geometry."""
        return np.ndarray(self.shape, dtype, out, self.out_offset, self.out_strides)

    def window(self, data: NDArray[Any], dtype: np.dtype[Any]) -> tuple[int, NDArray[Any]]:
        """The byte where what can be read begins, and all units in it, in one dimension, a pitch apart."""
        limits = tuple(one.limit for one in self.lookups)
        steps = tuple(one.in_stride for one in self.lookups)
        low, high = reach(self.shape + limits, self.in_strides + steps, self.in_offset)
        return low, np.ndarray(((high - low) // self.pitch + 1,), dtype, data, low, (self.pitch,))

    def fill_item(self, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
        """The fill value, repeated to fill one unit, as a zero-dimensional item."""
        return np.frombuffer(self.fill * (self.unit // len(self.fill)), dtype).reshape(())
