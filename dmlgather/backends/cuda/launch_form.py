"""The launch form: thread dimensions, and one *walked dimension*, along which a thread moves several elements in a loop.

With U elements per thread, the walked dimension of size n is cut into U chunks of `full` elements each, n // U or slightly
fewer. The thread at chunk coordinate c < full moves elements c, c + full, …, so neighbouring threads access neighbouring
memory. Each remaining element has its own thread, at chunk coordinates from `full` on. Example: n = 10 and U = 4 give full = 2.
Thread 0 moves elements 0, 2, 4 and 6, thread 1 moves elements 1, 3, 5 and 7, thread 2 moves element 8, and thread 3 element 9.
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
"""Fewest threads per multiprocessor if threads walk: half of those that it can hold. Assumed."""
ROUNDED = 16
"""A chunk of at least this many cache lines, or else sectors, is shortened to whole lines or sectors."""


class LaunchForm(NamedTuple):
    """A distribution of elements over threads. A thread *walks* if it moves several elements along one dimension, in a loop.

    `dimensions`: the dimensions of the threads, fastest first.
    `walked`: the size of the walked dimension, and the steps in bytes from one element of a thread to the next.
    `chunk`: the position of the walked dimension in `dimensions`. Along it, thread i moves elements i, i + `full`, ….
    `full`: the number of threads along this dimension that walk. Every other thread moves one element.
    `invariant`: True if all elements of a thread have the same indices.
    `moved`: the number of elements that a walking thread moves.
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
        """The number of threads of the launch."""
        return prod([dim.size for dim in self.dimensions])

    @property
    def along(self) -> int:
        """The size of the walked dimension, or 0 if each thread moves only one element."""
        return self.walked.size if self.full else 0

    def padded(self, count: int) -> LaunchForm:
        """Return the form with dimensions of size 1 appended, so that it has `count` dimensions."""
        if count == len(self.dimensions):
            return self
        padding = (Dimension(1, index_steps=(0,) * len(self.walked.index_steps)),) * (count - len(self.dimensions))
        return self._replace(dimensions=self.dimensions + padding)


class _Last:
    """Cache of the last launch form, because several families ask for the form of the same work."""

    entry: tuple[tuple[Work, tuple[int, int], int], LaunchForm] | None = None


_last = _Last()


def launch_form(work: Work, unroll: tuple[int, int], multiprocessors: int) -> LaunchForm:
    """Return the cheapest launch form for `work`. If threads walk, it has enough threads for the GPU.

    `unroll`: two numbers of elements per walking thread: for different indices per element, and for the same indices.
    """
    form = cheap_form(work, unroll, multiprocessors, inf)
    assert form is not None, "every form costs less than infinity"
    return form


def cheap_form(work: Work, unroll: tuple[int, int], multiprocessors: int, enough: float) -> LaunchForm | None:
    """Return the cheapest launch form for `work`.

    Returns None if there are several forms and each costs at least `enough`. A single form is returned at any cost.
    """
    key = work, unroll, multiprocessors
    if (last := _last.entry) and last[0] == key:
        return last[1]
    forms = _walks(*key)
    if len(forms) < len(work.dims):
        forms.append(_form(work.dims, 0, 0, 1))
    if len(forms) == 1:
        return forms[0]
    cheapest = None
    for form in forms:
        if (cost := form_cost(work, form, enough=enough)) < enough:
            cheapest, enough = form, cost
    if cheapest is not None:
        cheapest = cheapest._replace(cost=enough)
        _last.entry = key, cheapest
    return cheapest


def _walks(work: Work, unroll: tuple[int, int], multiprocessors: int) -> list[LaunchForm]:
    forms, elements, threads = [], work.elements, multiprocessors * THREADS_PER_MULTIPROCESSOR
    for axis, dim in enumerate(work.dims):
        count = unroll[not any(dim.index_steps)]
        full = _full(dim, count)
        if full and elements // dim.size * (dim.size - (count - 1) * full) >= threads:
            forms.append(_form(work.dims, axis, full, count))
    return forms


def _form(dims: Sequence[Dimension], axis: int, full: int, count: int) -> LaunchForm:
    dim = dims[axis]
    chunks = Dimension(dim.size - (count - 1) * full, dim.out_step, dim.in_step, dim.index_steps)
    walked = Dimension(dim.size, full * dim.out_step, full * dim.in_step, tuple([full * step for step in dim.index_steps]))
    return LaunchForm((*dims[:axis], chunks, *dims[axis + 1 :]), walked, full, axis, not any(walked.index_steps), count)


def _full(dim: Dimension, count: int) -> int:
    full = dim.size // count
    for unit in (LINE, SECTOR):
        whole = unit // gcd(unit, dim.out_step)
        if full >= ROUNDED * whole:
            return full - full % whole
    return full
