"""The reference backend: the plan's pseudocode, line for line, over blocks of coordinates. Other backends are compared with it.

It takes plans in any form, does not canonicalise them, and computes in exact integers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from math import inf, prod
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dmlgather.plan import IndexPlan, OutOfBounds, dot, packed_strides, unravel

BLOCK = 2**14
"""Most elements in a block. Its addresses stay in the cache, and Ctrl-C does not wait long."""

REPORTED = 0.05
"""Seconds between two calls of a watcher, at least."""

Watcher = Callable[[int, int], None]
"""Progress callback. It gets the number of finished elements and of all elements. Under RAISE, it first counts indices."""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """In the body, call `watcher` with the progress of every run of the reference backend."""
    before = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(before)


def run(plan: IndexPlan, data: NDArray[Any] | range, indices: NDArray[Any] | None, out: NDArray[Any]) -> int | None:
    """Execute `plan` on three one-dimensional buffers. Under RAISE, return the smallest offset of a bad index, else None.

    `data`, `out`: elements of one dtype, of `plan.element_bytes` bytes. `indices`: elements of `plan.index_type`; None without
    lookups. If an index is bad under RAISE, the output is not written.
    """
    plan.check_limits()
    if plan.out_of_bounds is OutOfBounds.RAISE:
        bad = min(_bad_offsets(plan, indices), default=None)
        if bad is not None:
            return bad
    data, out = _words(data), _words(out)
    fill = np.frombuffer(plan.fill, out.dtype) if plan.fill else None
    for o in _blocks(plan, plan.shape):
        target = _places(o.address(plan.out_offset, plan.out_strides))
        if plan.constant:  # indices are not read
            out[target] = fill
            continue
        source, ok = o.address(plan.in_offset, plan.in_strides), np.array([True])
        for lookup in plan.lookups:
            v = _values(indices, o.address(lookup.index_offset, lookup.index_strides))
            v[v < 0] += lookup.wrap
            ok = ok & (v >= 0) & (v < lookup.limit)
            source = source + np.minimum(np.maximum(v, 0), lookup.limit - 1).astype(source.dtype) * lookup.in_stride
        value = _elements(data, source)
        out[target] = value if fill is None else np.where(ok, value, fill)
    return None


@dataclass(frozen=True, slots=True)
class ReferenceProgram:
    """A plan for the reference backend. It has the methods of the other backends' programs."""

    plan: IndexPlan

    launch: ClassVar[None] = None  # this backend takes arrays, not addresses

    def run(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> int | None:
        """Execute the plan, like the function `run` of this module."""
        return run(self.plan, data, indices, out)

    def bind(self, data: NDArray[Any], indices: NDArray[Any] | None, out: NDArray[Any]) -> Callable[[], int | None]:
        """Return a function that executes the plan on these buffers."""
        return partial(self.run, data, indices, out)


prepare = ReferenceProgram


def _bad_offsets(plan: IndexPlan, indices: NDArray[Any] | None) -> Iterator[int]:
    for o in _blocks(plan, plan.index_shape):
        for lookup in plan.lookups:
            offset = o.address(lookup.index_offset, lookup.index_strides)
            v = _values(indices, offset)
            v[v < 0] += lookup.wrap
            bad = offset[(v < 0) | (v >= lookup.limit)]
            if bad.size:
                yield int(bad.min())


def _values(indices: NDArray[Any] | None, offset: NDArray[Any]) -> NDArray[Any]:
    """Return the indices at these offsets, in a type that is wide enough to add `wrap`."""
    assert indices is not None
    exact = np.uint64 if indices.dtype.kind == "u" and offset.dtype != object else offset.dtype  # unsigned: no wraps
    return indices[_places(offset)].astype(exact)


def _elements(data: NDArray[Any] | range, source: NDArray[Any]) -> NDArray[Any]:
    """Return data[source]. Unlike an array, `data` may be a range with more items than memory can hold."""
    if isinstance(data, range):
        return np.asarray(np.frompyfunc(data.__getitem__, 1, 1)(source))
    return data[_places(source)]


Elements = TypeVar("Elements", NDArray[Any], NDArray[Any] | range)


def _words(elements: Elements) -> Elements:
    """View the elements as a data type that NumPy copies bit by bit. As bool, NumPy would change the byte 2 to 1."""
    if isinstance(elements, range) or elements.dtype.hasobject:
        return elements
    size = elements.dtype.itemsize
    return elements.view("c16" if size == 16 else f"u{size}" if size in {1, 2, 4, 8} else f"V{size}")


def _places(address: NDArray[Any]) -> NDArray[np.intp]:
    return address.astype(np.intp, copy=False)


@dataclass(frozen=True, slots=True)
class _Coordinates:
    """The coordinates of all elements of a block. `integer`: the type for addresses, as `_integer` returns it."""

    of: Sequence[int | NDArray[Any]]
    integer: type

    def address(self, offset: int, strides: Sequence[int]) -> NDArray[Any]:
        """Return the address of each element. The result has size 1 along dimensions with stride 0."""
        address: NDArray[Any] = np.array([offset], self.integer)
        # Innermost dimension first: NumPy's inner loops are longer then.
        for coordinate, stride in zip(reversed(self.of), reversed(strides), strict=True):
            if stride:
                address = address + coordinate * stride
        return address


def _blocks(plan: IndexPlan, shape: Sequence[int]) -> Iterator[_Coordinates]:
    """Yield the coordinates of an array of this shape in row-major order, at most BLOCK at a time.

    Also calls the function that `watched` has set.
    """
    steps, room = list[int](), BLOCK
    for size in reversed(shape):
        steps.insert(0, max(min(size, room), 1))
        room //= steps[0]
    counts = [-(-size // step) for size, step in zip(shape, steps, strict=True)]
    integer, pitches, watcher, last_call = _integer(plan), packed_strides(shape), _watcher.get(), -inf
    for number in range(prod(counts)):
        first = [at * step for at, step in zip(unravel(number, counts), steps, strict=True)]
        if watcher is not None and time.monotonic() - last_call >= REPORTED:
            watcher(dot(first, pitches), prod(shape))
            last_call = time.monotonic()
        o, inner = list[int | NDArray[Any]](), list[int]()
        for start, step, size in zip(reversed(first), reversed(steps), reversed(shape), strict=True):
            if step == 1:
                o.insert(0, start)  # a number instead of a dimension, because NumPy's arrays have at most 64 dimensions
            else:
                o.insert(0, np.arange(start, min(start + step, size), dtype=integer).reshape(-1, *inner))
                inner.append(1)
        yield _Coordinates(o, integer)
    if watcher is not None:
        watcher(prod(shape), prod(shape))


def _integer(plan: IndexPlan) -> type:
    """Return int64 if it holds every number of the plan, else `object` (Python's integers).

    No sum or product overflows either: a valid plan reaches no address outside of its buffers, so no term of an address is
    larger than the extent of a buffer.
    """
    numbers = [plan.in_extent, plan.index_extent, plan.out_extent, *plan.in_strides, *plan.out_strides]
    for lookup in plan.lookups:
        numbers += [lookup.limit, lookup.wrap, lookup.in_stride, *lookup.index_strides]
    return np.int64 if all(-(2**63) < number < 2**63 for number in numbers) else object
