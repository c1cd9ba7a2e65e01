"""The launch form: thread dimensions, and one dimension that every thread walks.

The walked dimension of size n is cut into chunks of `full` elements, n // U or a little less: the thread at chunk coordinate
c < full moves elements c, c + full, …, so that neighbouring threads stay neighbours in memory; the elements left over get a
thread each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from dmlgather.backends.cuda.arguments import Dimension

SECTOR, LINE = 32, 128
"""Bytes of which memory moves whole ones, and bytes that a request of a warp looks up in the L1 cache at once."""
WARP = 32
SEGMENT_BYTES = 64
"""A walk along the innermost dimension must leave neighbouring threads at least this many adjacent bytes of output, if these are
whole sectors; otherwise, it must leave a warp as many elements as it has threads. Counted: where 25 vectors of a row were walked
in segments of 6, stores used 83 % of the sectors that they touched, and all of them when rows were walked instead.
"""
THREADS_PER_MULTIPROCESSOR = 1024
"""Threads walk only if every multiprocessor still gets this many of them: half of those that it can hold. Assumed."""
ROUNDED = 16
"""Segments of at least so many sectors become whole sectors, and those of so many lines whole lines, so that warps store whole
ones, wherever rows begin. At most a sixteenth of the elements then has threads of its own.
"""


@dataclass(frozen=True, slots=True)
class LaunchForm:
    """What a kernel is launched with.

    dimensions: fastest first. walked: steps in bytes from one walked element to the next. full: chunk coordinates below it
    walk, any other moves one element. invariant: no lookup moves along the walk.
    """

    dimensions: tuple[Dimension, ...]
    walked: Dimension
    full: int
    chunk_slowest: bool
    invariant: bool

    @property
    def threads(self) -> int:
        """Threads of the launch."""
        return prod(dim.size for dim in self.dimensions)

    def padded(self, count: int) -> LaunchForm:
        """The same with `count` dimensions; the chunk stays the fastest or the slowest, where the kernels look for it."""
        padding = (Dimension(1, index_steps=(0,) * len(self.walked.index_steps)),) * (count - len(self.dimensions))
        if self.chunk_slowest:
            return replace(self, dimensions=(*self.dimensions[:-1], *padding, self.dimensions[-1]))
        return replace(self, dimensions=self.dimensions + padding)


def launch_form(dims: Sequence[Dimension], element_bytes: int, unroll: Callable[[bool], int], multiprocessors: int) -> LaunchForm:
    """The form in which `dims` (at least one, fastest first) are launched.

    unroll: elements that the kernel's threads walk, given whether the walk is invariant.
    """
    axis = _walked_axis(dims, element_bytes, unroll)
    dim = dims[axis]
    invariant = not any(dim.index_steps)
    count = unroll(invariant)
    full = _full(dim, count, element_bytes if axis == 0 else 0)
    chunks = dim.size - (count - 1) * full
    threads = prod(other.size for other in dims) // dim.size * chunks
    if threads < multiprocessors * THREADS_PER_MULTIPROCESSOR:
        full, chunks = 0, dim.size
    chunk = replace(dim, size=chunks)
    others = (*dims[:axis], *dims[axis + 1 :])
    ordered = (chunk, *others) if axis == 0 else (*others, chunk)
    return LaunchForm(ordered, _times(dim, full), full, axis != 0, invariant)


def _walked_axis(dims: Sequence[Dimension], element_bytes: int, unroll: Callable[[bool], int]) -> int:
    """The dimension to walk: if possible one without lookups, else a long one; accesses of threads must stay coalesced."""
    best, rank = 0, (False, False, False, 0)
    for axis, dim in enumerate(dims):
        invariant = not any(dim.index_steps)
        full = dim.size // unroll(invariant)
        coalesced = (
            axis > 0 or len(dims) == 1 or full * element_bytes >= _shortest_segment(dims, element_bytes, full * element_bytes)
        )
        candidate = (full > 0 and coalesced, invariant, axis == 0, dim.size)
        if candidate > rank:
            best, rank = axis, candidate
    return best


def _full(dim: Dimension, count: int, element_bytes: int) -> int:
    """Chunk coordinates that walk. element_bytes: of adjacent threads, 0 if they are not adjacent."""
    full = dim.size // count
    for unit in (LINE, SECTOR):
        if full * element_bytes >= ROUNDED * unit:
            return full - full % (unit // element_bytes)
    return full


def _shortest_segment(dims: Sequence[Dimension], element_bytes: int, segment: int) -> int:
    whole = not any(step % SECTOR for step in (segment, *(dim.out_step for dim in dims[1:])))
    return SEGMENT_BYTES if whole else WARP * element_bytes


def _times(dim: Dimension, count: int) -> Dimension:
    steps = tuple(count * step for step in dim.index_steps)
    return Dimension(dim.size, count * dim.out_step, count * dim.in_step, steps)
