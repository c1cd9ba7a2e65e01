"""The launch form: thread dimensions, and one dimension that every thread walks.

The walked dimension of size n is cut into chunks of `full` elements, n // U or a little less: the thread at chunk coordinate
c < full moves elements c, c + full, …, so that neighbouring threads stay neighbours in memory; the elements left over get a
thread each. Threads go over the dimensions as the output lies in memory, and a chunk keeps the place of its dimension. Which
dimension is walked is decided by what it costs (`form_cost.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, inf, prod
from typing import NamedTuple

from dmlgather.backends.cuda.arguments import Dimension
from dmlgather.backends.cuda.cost import LINE, SECTOR
from dmlgather.backends.cuda.form_cost import form_cost
from dmlgather.backends.cuda.work import Work

THREADS_PER_MULTIPROCESSOR = 1024
"""Threads walk only if every multiprocessor still gets this many of them: half of those that it can hold. Assumed."""
ROUNDED = 16
"""Chunks of at least so many times the elements that end at whole sectors become whole sectors, and likewise whole lines, so that
warps store whole ones, wherever rows begin. At most a sixteenth of the elements then has threads of its own.
"""


class LaunchForm(NamedTuple):
    """What a kernel is launched with.

    dimensions: fastest first. walked: steps in bytes from one walked element to the next. chunk: the number of the dimension
    that is walked; chunk coordinates below `full` walk, any other moves one element. invariant: no lookup moves along the walk.
    moved: elements that a thread which walks moves. cost: what `form_cost` said of it, where forms were compared.
    """

    dimensions: tuple[Dimension, ...]
    walked: Dimension
    full: int
    chunk: int
    invariant: bool
    moved: int = 1
    cost: float | None = None

    @property
    def threads(self) -> int:
        """Threads of the launch."""
        return prod([dim.size for dim in self.dimensions])

    @property
    def along(self) -> int:
        """The size of the dimension that threads walk; 0 where none does."""
        return self.walked.size if self.full else 0

    def padded(self, count: int) -> LaunchForm:
        """The same with `count` dimensions."""
        if count == len(self.dimensions):
            return self
        padding = (Dimension(1, index_steps=(0,) * len(self.walked.index_steps)),) * (count - len(self.dimensions))
        return self._replace(dimensions=self.dimensions + padding)


class _Last:
    """The form that was found last, because several families may ask for one work, one after the other."""

    found: tuple[tuple[Work, tuple[int, int], int], LaunchForm] | None = None


_last = _Last()


def launch_form(work: Work, unroll: tuple[int, int], multiprocessors: int) -> LaunchForm:
    """The form in which `work` is launched: the cheapest of the walks that leave enough threads, and of none.

    unroll: elements that the kernel's threads walk, where the walk is not invariant and where it is.
    """
    found = cheap_form(work, unroll, multiprocessors, inf)
    assert found is not None, "all cost less than that"
    return found


def cheap_form(work: Work, unroll: tuple[int, int], multiprocessors: int, enough: float) -> LaunchForm | None:
    """The same; None where several would do, all of which cost as much as `enough`."""
    key = work, unroll, multiprocessors
    if (last := _last.found) and last[0] == key:
        return last[1]
    forms = _walks(*key)
    if len(forms) < len(work.dims):
        forms.append(_form(work.dims, 0, 0, 1))
    if len(forms) == 1:
        return forms[0]
    found = None
    for form in forms:
        if (cost := form_cost(work, form, enough=enough)) < enough:
            found, enough = form, cost
    if found is not None:
        found = found._replace(cost=enough)
        _last.found = key, found
    return found


def _walks(work: Work, unroll: tuple[int, int], multiprocessors: int) -> list[LaunchForm]:
    forms, elements, threads = [], work.elements, multiprocessors * THREADS_PER_MULTIPROCESSOR
    for axis, dim in enumerate(work.dims):
        count = unroll[not any(dim.index_steps)]
        full = _full(dim, count)
        if full and elements // dim.size * (dim.size - (count - 1) * full) >= threads:
            forms.append(_form(work.dims, axis, full, count))
    return forms


def _form(dims: Sequence[Dimension], axis: int, full: int, count: int) -> LaunchForm:
    """Threads go over the dimensions as the output lies in memory, and walk `count` elements along `axis`."""
    dim = dims[axis]
    chunks = Dimension(dim.size - (count - 1) * full, dim.out_step, dim.in_step, dim.index_steps)
    walked = Dimension(dim.size, full * dim.out_step, full * dim.in_step, tuple([full * step for step in dim.index_steps]))
    return LaunchForm((*dims[:axis], chunks, *dims[axis + 1 :]), walked, full, axis, not any(walked.index_steps), count)


def _full(dim: Dimension, count: int) -> int:
    """Chunk coordinates that walk."""
    full = dim.size // count
    for unit in (LINE, SECTOR):
        whole = unit // gcd(unit, dim.out_step)
        if full >= ROUNDED * whole:
            return full - full % whole
    return full
