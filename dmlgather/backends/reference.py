"""The reference backend: the plan's pseudocode, line for line, in Python integers. The judge of every other backend.

Slow on purpose; it takes plans in any form and does not canonicalise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.plan import IndexPlan, OutOfBounds, dot

WATCHED = 2**14
"""Elements from one call of a watcher to the next: less than a tenth of a second."""

Watcher = Callable[[int, int], None]
"""Takes the number of elements that are done, from 0 on, and the number of all."""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """A context in which `watcher` is told of the progress of every run, at its start, at its end and in between."""
    before = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(before)


def run(plan: IndexPlan, data: NDArray[Any] | range, indices: NDArray[Any] | None, out: NDArray[Any]) -> int | None:
    """Execute `plan` over three one-dimensional buffers and return the smallest offset of a bad index under RAISE.

    data: [in_extent] and out: [out_extent], elements of `plan.element_bytes` bytes of one dtype; indices: [index_extent] of
    `plan.index_type`, None without lookups. Under RAISE the output is complete only when None is returned.
    """
    plan.check_limits()
    if plan.out_of_bounds is OutOfBounds.RAISE:
        bad = min(_bad_offsets(plan, indices), default=None)
        if bad is not None:
            return bad
    fill = np.frombuffer(plan.fill, out.dtype)[0] if plan.fill else None
    for o in _coordinates(plan.shape, _watcher.get()):
        source = plan.in_offset + dot(o, plan.in_strides)
        ok = True
        for lookup in plan.lookups:
            if plan.constant:
                ok = False
                break
            assert indices is not None
            value = int(indices[lookup.index_offset + dot(o, lookup.index_strides)])
            if value < 0:
                value += lookup.wrap
            ok = ok and 0 <= value < lookup.limit
            source += min(max(value, 0), lookup.limit - 1) * lookup.in_stride
        target = plan.out_offset + dot(o, plan.out_strides)
        if ok or plan.out_of_bounds is not OutOfBounds.FILL:
            out[target] = data[source]
        else:
            out[target] = fill
    return None


@dataclass(frozen=True, slots=True)
class ReferenceProgram:
    """A plan for `run`, with the methods that programs of the other backends have."""

    plan: IndexPlan

    def run(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> int | None:
        """Execute the plan on buffers, as the function `run` does."""
        return run(self.plan, data, indices, out)

    def bind(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> Callable[[], int | None]:
        """A function that executes the plan on these buffers."""
        return partial(self.run, data, indices, out)

    def describe(self) -> str:
        """How the plan is executed, in words."""
        return "the plan's pseudocode, one element at a time"


prepare = ReferenceProgram


def _bad_offsets(plan: IndexPlan, indices: NDArray[Any] | None) -> Iterator[int]:
    for o in _coordinates(plan.index_shape):
        for lookup in plan.lookups:
            assert indices is not None
            offset = lookup.index_offset + dot(o, lookup.index_strides)
            value = int(indices[offset])
            if value < 0:
                value += lookup.wrap
            if not 0 <= value < lookup.limit:
                yield offset


def _coordinates(shape: Sequence[int], watcher: Watcher | None = None) -> Iterator[tuple[int, ...]]:
    """Every coordinate in row-major order. Nothing is listed beforehand, as itertools.product would list each dimension."""
    count, at = prod(shape), [0] * len(shape)
    for number in range(count):
        if watcher is not None and number % WATCHED == 0:
            watcher(number, count)
        yield tuple(at)
        for axis in reversed(range(len(shape))):
            at[axis] += 1
            if at[axis] < shape[axis]:
                break
            at[axis] = 0
    if watcher is not None:
        watcher(count, count)
