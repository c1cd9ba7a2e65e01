"""The bytes that a case must move, counted from its plan and its indices."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

from benchmarks.bench_report import Traffic
from dmlgather.plan import IndexPlan, canonicalise

SECTOR, LINE, PAGE = 32, 64, 4096
"""Bytes of one read: a GPU's sector, a CPU's cache line, a page of a mapped file."""

_CHUNK = 2**22
"""Number of reads that are counted at a time."""


def traffic(plan: IndexPlan, indices: NDArray[np.int64] | None, sector: int) -> Traffic:
    """Count the sectors of `sector` bytes that a plan reads. Indices must be valid."""
    plan = canonicalise(plan)
    touched = np.zeros(-(-plan.in_extent * plan.element_bytes // sector), np.bool_)
    fetched = 0
    for first, last in _runs(plan, indices):
        low, high = first * plan.element_bytes // sector, last * plan.element_bytes // sector  # no element crosses a sector's end
        fetched += int((high - low + 1).sum())
        for step in range(int((high - low).max()) + 1):
            touched[np.minimum(low + step, high)] = True
    return Traffic(
        index_bytes=0 if indices is None else indices.nbytes,
        output_bytes=plan.elements * plan.element_bytes,
        fetched_bytes=fetched * sector,
        touched_bytes=int(touched.sum()) * sector,
    )


def _runs(plan: IndexPlan, indices: NDArray[np.int64] | None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the first and the last source elements of contiguous runs, a few million runs at a time."""
    row_is_run = plan.rank > 0 and abs(plan.in_strides[-1]) == 1 and all(lookup.index_strides[-1] == 0 for lookup in plan.lookups)
    shape = plan.shape[:-1] if row_is_run else plan.shape
    low, high = sorted((0, plan.in_strides[-1] * (plan.shape[-1] - 1))) if row_is_run else (0, 0)
    for spans in _boxes(shape):
        start = plan.in_offset + _addresses(spans, plan.in_strides)
        for lookup in plan.lookups:
            assert indices is not None
            places = lookup.index_offset + _addresses(spans, lookup.index_strides)
            start = start + indices.reshape(-1)[places] * lookup.in_stride
        start = np.broadcast_to(start, [end - begin for begin, end in spans])
        yield start + low, start + high


def _boxes(shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield parts of `shape` along its first dimension, as (begin, end) per dimension."""
    if not shape:
        yield ()
        return
    rows = max(1, _CHUNK // prod(shape[1:]))
    for begin in range(0, shape[0], rows):
        yield (begin, min(begin + rows, shape[0])), *((0, size) for size in shape[1:])


def _addresses(spans: tuple[tuple[int, int], ...], strides: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the addresses, in elements, of a box of coordinates. Dimensions with stride 0 get size 1."""
    total = np.zeros((1,) * len(spans), np.int64)
    steps = [np.arange(*span) * step if step else np.zeros(1, np.int64) for span, step in zip(spans, strides, strict=False)]
    for part in np.ix_(*steps):
        total = total + part
    return total
