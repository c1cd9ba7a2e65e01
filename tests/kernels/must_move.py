"""The sectors that must move for a plan, whatever the kernel: from the plan's addresses alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.plan import IndexPlan, canonicalise

SECTOR = 32
"""Bytes that a GPU moves at a time."""

_CHUNK = 2**22
"""Addresses that are held at a time."""

Addresses = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MustMove:
    """Sectors that must be loaded (indices and payload) and stored, and the bytes of the output."""

    loaded: int
    stored: int
    output_bytes: int


def must_move(plan: IndexPlan, indices: NDArray[Any] | None) -> MustMove:
    """The sectors of `plan` (not empty) with these indices, all of them valid. Every buffer begins with a sector.

    Stores: the sectors that contain output. Loads: the sectors that contain indices which are looked up, and those that contain
    payload. A slice has to load a sector of payload once; a gather has to load it once for each row of the output that needs it.
    A row is the innermost canonical dimension.
    """
    plan = canonicalise(plan)
    size = plan.element_bytes
    payload = _gathered(plan, indices) if plan.lookups else _sectors(*_box(plan.shape, plan.in_strides, plan.in_offset, size))
    stored = _sectors(*_box(plan.shape, plan.out_strides, plan.out_offset, size))
    return MustMove(_looked_up(plan) + payload, stored, plan.elements * size)


def _looked_up(plan: IndexPlan) -> int:
    """Sectors that contain indices which are looked up."""
    width = 0 if plan.index_type is None else plan.index_type.bytes
    boxes = [_box(plan.shape, lookup.index_strides, lookup.index_offset, width) for lookup in plan.lookups]
    if len({run for _, run in boxes}) > 1:  # intervals of one length can be sorted together
        boxes = [(_sums(plan.shape, lookup.index_strides, lookup.index_offset) * width, width) for lookup in plan.lookups]
    return _sectors(np.concatenate([starts for starts, _ in boxes]), boxes[0][1]) if boxes else 0


def _gathered(plan: IndexPlan, indices: NDArray[Any] | None) -> int:
    """Sectors that contain the payload of a row, added up over the rows."""
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
    """Distinct sectors that intervals of `width` bytes touch: starts along the last axis together, those along others apart."""
    if width <= SECTOR and starts.shape[-1] == starts.size:  # marks are quicker than sorting
        first, last = starts.reshape(-1) // SECTOR, (starts.reshape(-1) + (width - 1)) // SECTOR
        low = int(first.min())
        marks = np.zeros(int(last.max()) - low + 1, np.bool_)
        marks[first - low] = marks[last - low] = True
        return int(marks.sum())
    starts = np.sort(starts, axis=-1)
    first, last = starts // SECTOR, (starts + (width - 1)) // SECTOR
    new = last - first + 1
    new[..., 1:] = last[..., 1:] - np.maximum(first[..., 1:], last[..., :-1] + 1) + 1  # as starts grow, so do ends
    return int(new.sum())


def _box(shape: Sequence[int], strides: Sequence[int], offset: int, width: int) -> tuple[Addresses, int]:
    """The bytes of all elements in a box, as intervals of one length: their starts, and that length. strides, offset: elements
    of `width` bytes.
    """
    low = offset + sum((count - 1) * min(step, 0) for count, step in zip(shape, strides, strict=True))
    steps = sorted((abs(step) * width, count) for count, step in zip(shape, strides, strict=True))
    run = width
    while steps and steps[0][0] <= run:  # neighbours touch or overlap
        step, count = steps.pop(0)
        run += step * (count - 1)
    return low * width + _sums([count for _, count in steps], [step for step, _ in steps]), run


def _sums(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Addresses:
    """offset + coordinates · strides for all coordinates of `shape`, in one dimension."""
    total = np.array([offset], np.int64)
    for count, step in zip(shape, strides, strict=True):
        total = (total[:, None] + np.arange(count, dtype=np.int64) * step).reshape(-1)
    return total


def _rows(shape: tuple[int, ...], columns: int) -> Iterator[tuple[Addresses, ...]]:
    """The coordinates of all rows, some millions of addresses at a time."""
    count = max(1, _CHUNK // columns)
    for begin in range(0, prod(shape), count):
        flat = np.arange(begin, min(begin + count, prod(shape)), dtype=np.int64)
        yield np.unravel_index(flat, shape) if shape else (flat * 0,)


def _dot(coordinates: tuple[Addresses, ...], strides: Sequence[int]) -> Addresses:
    """coordinates · strides, without the strides of dimensions that have no coordinates."""
    return sum((at * step for at, step in zip(coordinates, strides, strict=False)), np.zeros_like(coordinates[0]))
