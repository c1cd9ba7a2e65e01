"""The sectors that any kernel must move for a plan, derived from the plan's addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.plan import IndexPlan, canonicalise

SECTOR = 32
"""Bytes of a sector, the unit that a GPU moves."""

_CHUNK = 2**22
"""Number of addresses held at a time."""

Addresses = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MustMove:
    """Sectors that must be loaded (indices and payload) and stored, and the bytes of the output."""

    loaded: int
    stored: int
    output_bytes: int


def must_move(plan: IndexPlan, indices: NDArray[Any] | None) -> MustMove:
    """Return the sectors of a non-empty `plan` with these indices, which are valid. Every buffer begins at a sector boundary.

    Stores are the sectors that contain output. Loads are the sectors with resolved indices and with payload. A slice must load
    a sector of payload once. A gather must load it once for each row of the output that needs it. A row is the innermost
    canonical dimension.
    """
    plan = canonicalise(plan)
    size = plan.element_bytes
    payload = _gathered(plan, indices) if plan.lookups else _sectors(*_box(plan.shape, plan.in_strides, plan.in_offset, size))
    stored = _sectors(*_box(plan.shape, plan.out_strides, plan.out_offset, size))
    return MustMove(_looked_up(plan) + payload, stored, plan.elements * size)


def _looked_up(plan: IndexPlan) -> int:
    """Return the number of sectors with resolved indices."""
    width = 0 if plan.index_type is None else plan.index_type.bytes
    boxes = [_box(plan.shape, lookup.index_strides, lookup.index_offset, width) for lookup in plan.lookups]
    if len({run for _, run in boxes}) > 1:  # intervals of equal length can be sorted together
        boxes = [(_sums(plan.shape, lookup.index_strides, lookup.index_offset) * width, width) for lookup in plan.lookups]
    return _sectors(np.concatenate([starts for starts, _ in boxes]), boxes[0][1]) if boxes else 0


def _gathered(plan: IndexPlan, indices: NDArray[Any] | None) -> int:
    """Return the number of sectors with the payload of a row, added over the rows."""
    assert indices is not None
    size, outer, columns = plan.element_bytes, plan.shape[:-1], plan.shape[-1:]
    moving = any(any(lookup.index_strides[-1:]) for lookup in plan.lookups)
    within, run = (_sums(columns, plan.in_strides[-1:]) * size, size) if moving else _box(columns, plan.in_strides[-1:], 0, size)
    total = 0
    for rows in _rows(outer, within.size):
        starts = (plan.in_offset + _dot(rows, plan.in_strides))[:, None] * size + within
        for lookup in plan.lookups:
            places = (lookup.index_offset + _dot(rows, lookup.index_strides))[:, None]
            if moving:
                places = places + _sums(columns, lookup.index_strides[-1:])
            starts = starts + indices.reshape(-1)[places].astype(np.int64) * (lookup.in_stride * size)
        total += _sectors(starts, run)
    return total


def _sectors(starts: Addresses, width: int) -> int:
    """Return the distinct sectors of intervals of `width` bytes, for starts along the last axis together, along others apart."""
    if width <= SECTOR and starts.shape[-1] == starts.size:  # marking is faster than sorting
        first, last = starts.reshape(-1) // SECTOR, (starts.reshape(-1) + (width - 1)) // SECTOR
        low = int(first.min())
        marks = np.zeros(int(last.max()) - low + 1, np.bool_)
        marks[first - low] = marks[last - low] = True
        return int(marks.sum())
    starts = np.sort(starts, axis=-1)
    first, last = starts // SECTOR, (starts + (width - 1)) // SECTOR
    new = last - first + 1
    new[..., 1:] = last[..., 1:] - np.maximum(first[..., 1:], last[..., :-1] + 1) + 1  # starts and ends grow together
    return int(new.sum())


def _box(shape: Sequence[int], strides: Sequence[int], offset: int, width: int) -> tuple[Addresses, int]:
    """Return the bytes of all elements in a box as intervals of one length: their starts and the length. strides and offset count
    elements of `width` bytes.
    """
    low = offset + sum((count - 1) * min(step, 0) for count, step in zip(shape, strides, strict=True))
    steps = sorted((abs(step) * width, count) for count, step in zip(shape, strides, strict=True))
    run = width
    while steps and steps[0][0] <= run:  # the intervals of neighbours touch or overlap
        step, count = steps.pop(0)
        run += step * (count - 1)
    return low * width + _sums([count for _, count in steps], [step for step, _ in steps]), run


def _sums(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Addresses:
    """Return offset + coordinates · strides for all coordinates of `shape`, in one dimension."""
    total = np.array([offset], np.int64)
    for count, step in zip(shape, strides, strict=True):
        total = (total[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
    return total


def _rows(shape: tuple[int, ...], columns: int) -> Iterator[tuple[Addresses, ...]]:
    """Yield the coordinates of all rows, some millions of addresses at a time."""
    count = max(1, _CHUNK // columns)
    for begin in range(0, prod(shape), count):
        flat = np.arange(begin, min(begin + count, prod(shape)), dtype=np.int64)
        yield np.unravel_index(flat, shape) if shape else (flat * 0,)


def _dot(coordinates: tuple[Addresses, ...], strides: Sequence[int]) -> Addresses:
    """Return coordinates · strides, without the strides of dimensions that have no coordinates."""
    return sum((at * step for at, step in zip(coordinates, strides, strict=False)), np.zeros_like(coordinates[0]))
