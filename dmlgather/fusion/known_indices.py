"""Gathers whose indices are known: views where the indices walk evenly, without anything to check where they are in range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.plan import IndexPlan, Lookup, OutOfBounds, packed_strides


def with_known_indices(plan: IndexPlan, indices: NDArray[Any]) -> IndexPlan:
    """The plan for these elements of its index tensor, shape [index_extent].

    Lookups whose positions walk evenly (up or down, alone or in groups) become steps through the input, and the policy becomes
    CLAMP. The plan is returned as it is where an index is out of bounds under FILL or RAISE.
    """
    if plan.in_reach is None:
        return plan
    found = [_positions(plan, lookup, indices) for lookup in plan.lookups]
    if plan.out_of_bounds in (OutOfBounds.FILL, OutOfBounds.RAISE):
        limits = [lookup.limit for lookup in plan.lookups]
        if any((each < 0).any() or (each >= limit).any() for each, limit in zip(found, limits, strict=True)):
            return plan
    plan = replace(plan, out_of_bounds=OutOfBounds.CLAMP, fill=b"")
    for number, lookup in reversed([*enumerate(plan.lookups)]):
        within = np.clip(_positions(plan, plan.lookups[number], indices), 0, lookup.limit - 1)
        plan = _walked(plan, number, within)  # which may split dimensions that other lookups move along
    return plan


def _positions(plan: IndexPlan, lookup: Lookup, indices: NDArray[Any]) -> NDArray[Any]:
    """What a lookup finds, wrapped but not clamped, for each coordinate; of size 1 along dimensions that do not move it."""
    addresses = np.array(lookup.index_offset)
    sizes = [size if step else 1 for size, step in zip(plan.shape, lookup.index_strides, strict=True)]
    for axis, (size, step) in enumerate(zip(sizes, lookup.index_strides, strict=True)):
        shape = [1] * len(sizes)
        shape[axis] = size
        addresses = addresses + step * np.arange(size).reshape(shape)
    values = indices[addresses].astype(object if indices.dtype == np.uint64 else np.int64)
    return np.asarray(values + np.where(values < 0, lookup.wrap, 0))


def _walked(plan: IndexPlan, number: int, positions: NDArray[Any]) -> IndexPlan:
    """The plan with a lookup as steps through the input, if its positions walk evenly. positions: as of `_positions`."""
    first = positions.flat[0]
    steps, total = list[list[tuple[int, int]]](), np.array(first)
    for axis, size in enumerate(plan.shape):
        along = np.moveaxis(positions, axis, 0).reshape(positions.shape[axis], -1)[:, 0] - first
        parts = [(size, 0)] if along.size == 1 else _even_steps(along)
        if parts is None:
            return plan
        total = total + along.reshape([-1 if axis == other else 1 for other in range(plan.rank)])
        steps.append(parts)
    if (total != positions).any():
        return plan
    lookup = plan.lookups[number]
    others = plan.lookups[:number] + plan.lookups[number + 1 :]
    dims = [(size, beyond, axis, step) for axis, parts in enumerate(steps) for size, beyond, step in _nested(parts)]
    return replace(
        plan,
        shape=tuple(size for size, _, _, _ in dims),
        out_strides=tuple(plan.out_strides[axis] * beyond for _, beyond, axis, _ in dims),
        in_strides=tuple(plan.in_strides[axis] * beyond + step * lookup.in_stride for _, beyond, axis, step in dims),
        in_offset=plan.in_offset + int(first) * lookup.in_stride,
        lookups=tuple(
            replace(each, index_strides=tuple(each.index_strides[axis] * beyond for _, beyond, axis, _ in dims))
            for each in others
        ),
        index_type=plan.index_type if others else None,
        index_extent=plan.index_extent if others else 0,
    )


def _even_steps(positions: NDArray[Any]) -> list[tuple[int, int]] | None:
    """Positions, of which the first is 0, as nested loops: sizes and steps, outermost first. None where there are none."""
    step = positions[1]
    line = step * np.arange(positions.size)
    breaks = np.flatnonzero(positions != line)
    if not breaks.size:
        return [(positions.size, int(step))]
    inside = int(breaks[0])
    groups = positions[::inside]
    if positions.size % inside or (positions.reshape(-1, inside) != groups[:, None] + line[:inside]).any():
        return None
    outer = _even_steps(groups)
    return None if outer is None else [*outer, (inside, int(step))]


def _nested(parts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """For each of several nested loops over a dimension: size, elements of the dimension that one turn passes, and step."""
    sizes = [size for size, _ in parts]
    for (size, step), beyond in zip(parts, packed_strides(sizes), strict=True):
        yield size, beyond, step
