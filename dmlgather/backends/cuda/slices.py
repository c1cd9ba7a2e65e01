"""Slices with kernels of their own: transposes, and innermost dimensions that run backwards."""

from __future__ import annotations

from dataclasses import replace

from dmlgather.backends.cuda.arguments import Dimension
from dmlgather.backends.cuda.variants import VECTOR
from dmlgather.backends.cuda.work import Work

TILE_WORTHWHILE = 16
"""A transpose is tiled where both of its dimensions are at least this long: half of a tile's edge."""


def transposed_axis(work: Work) -> int | None:
    """The dimension that is contiguous in the input where another one is contiguous in the output; None without one."""
    inner = work.dims[0]
    if work.lookups or inner.out_step != work.element_bytes or abs(inner.in_step) <= work.element_bytes:
        return None
    for axis, dim in enumerate(work.dims):
        if abs(dim.in_step) == work.element_bytes and min(dim.size, inner.size) >= TILE_WORTHWHILE:
            return axis
    return None


def reversed_vectors(work: Work, alignment: int) -> Work | None:
    """The same slice by vectors of 16 bytes whose lanes are to be reversed; None where it is no such slice."""
    inner, size = work.dims[0], work.element_bytes
    if work.lookups or (inner.out_step, inner.in_step) != (size, -size) or alignment < VECTOR or size == VECTOR:
        return None
    lanes = VECTOR // size
    in_offset = work.in_offset - (VECTOR - size)  # a vector's lowest input byte belongs to its last element
    steps = [step for dim in work.dims[1:] for step in (dim.in_step, dim.out_step)]
    if inner.size % lanes or any(at % VECTOR for at in (in_offset, work.out_offset, *steps)):
        return None
    dims = (Dimension(inner.size // lanes, VECTOR, -VECTOR), *work.dims[1:])
    return replace(work, dims=dims, element_bytes=VECTOR, in_offset=in_offset)
