"""The canonical form of a plan: equal for plans that copy the same elements in the same way.

- Output strides are positive, and dimensions are sorted by them, largest first.
- Dimensions of size 1 are dropped, and adjacent dimensions are merged.
- Lookups are sorted, and lookups without effect are dropped.
- Elements are as wide as possible.
- Extents end at the last addressed element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import gcd
from typing import NamedTuple

from dmlgather.plan.index_plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.plan.layout import reach

WIDEST = 16
"""Largest element that a backend copies at once, in bytes."""


def canonicalise(plan: IndexPlan, widest: int = WIDEST) -> IndexPlan:
    """Return the canonical form of `plan`, with elements of at most `widest` bytes.

    The result writes the same bytes as `plan`. Under RAISE, it reports the same bad index. If the arrays are aligned to less
    than 16 bytes, pass their alignment as `widest`. Raises ValueError if the elements are wider than `widest` and the fill
    value cannot be split.

    >>> rows = dg.onnx.gather.plan(((30522, 384), "float32"), ((128,), "int64"))  # joins 4 elements of 4 bytes
    >>> print(dg.canonicalise(rows))
    shape [128, 96] of 16-byte elements, RAISE
      out [12288]: offset 0, strides [96, 1]
      in  [2930112]: offset 0, strides [0, 1]
      lookup 0: INT64 [128] offset 0, strides [1, 0]; values 0 … 30521, wrap 30522, in stride 96
    """
    if plan.element_bytes > widest:
        plan = narrow(plan, widest)
    return _simplified(plan, widest)


def simplify(plan: IndexPlan) -> IndexPlan:
    """Return the canonical form of `plan` without a change of the element size."""
    return _simplified(plan, plan.element_bytes)


def _simplified(plan: IndexPlan, widest: int) -> IndexPlan:
    if plan.empty:
        return _canonical_empty(plan)
    if plan.constant:
        zeros = (0,) * plan.rank
        invalid = Lookup(zeros, index_offset=0, limit=0, wrap=0, in_stride=0)
        plan = replace(plan, in_strides=zeros, in_offset=0, lookups=(invalid,), index_type=IndexType.INT64)
    plan = _zero_unused_strides(plan)
    if not plan.lookups or plan.out_of_bounds in (OutOfBounds.CLAMP, OutOfBounds.PROMISE):
        plan = _without_idle_lookups(plan)
    index_strides = list(zip(*[lookup.index_strides for lookup in plan.lookups], strict=True)) or [()] * plan.rank
    columns = zip(plan.shape, plan.out_strides, plan.in_strides, index_strides, strict=True)
    dims = [_Dim(*column) for column in columns if column[0] > 1]
    in_offset, out_offset = plan.in_offset, plan.out_offset
    index_offsets = [lookup.index_offset for lookup in plan.lookups]
    for position, dim in enumerate(dims):
        if dim.out_stride < 0:
            last = dim.size - 1
            in_offset += last * dim.in_stride
            out_offset += last * dim.out_stride
            index_offsets = [offset + last * step for offset, step in zip(index_offsets, dim.index_strides, strict=True)]
            dims[position] = dim.reversed()
    dims = _merge(sorted(dims, key=lambda dim: -dim.out_stride))
    in_reach, index_reach = plan.in_reach, plan.index_reach  # `dims` would give the same addresses
    out_end = out_offset + sum([(dim.size - 1) * dim.out_stride for dim in dims]) + 1
    steps = [in_offset, out_offset, *[lookup.in_stride for lookup in plan.lookups]]
    dims, factor = _widen(dims, steps, widest // plan.element_bytes, reads=in_reach is not None)
    return IndexPlan(
        shape=tuple([dim.size for dim in dims]),
        out_strides=tuple([dim.out_stride // factor for dim in dims]),
        in_strides=tuple([dim.in_stride // factor for dim in dims]),
        element_bytes=plan.element_bytes * factor,
        in_extent=0 if in_reach is None else (in_reach[1] + 1) // factor,
        out_extent=out_end // factor,
        in_offset=in_offset // factor,
        out_offset=out_offset // factor,
        lookups=_canonical_lookups(plan, dims, index_offsets, factor),
        index_type=plan.index_type,
        index_extent=0 if index_reach is None else index_reach[1] + 1,
        out_of_bounds=plan.out_of_bounds,
        fill=plan.fill * factor,
    )


def narrow(plan: IndexPlan, element_bytes: int) -> IndexPlan:
    """Return an equal plan with smaller elements. Raises ValueError if the fill value is not one such element, repeated."""
    factor = plan.element_bytes // element_bytes
    if factor == 1:
        return plan
    if plan.fill and plan.fill != plan.fill[:element_bytes] * factor:
        raise ValueError(
            f"the fill value 0x{plan.fill.hex()} of {plan.element_bytes} bytes cannot be written by aligned pieces of "
            f"{element_bytes} bytes; bind arrays aligned to {plan.element_bytes} bytes"
        )
    return replace(
        plan,
        shape=(*plan.shape, factor),
        out_strides=(*(factor * step for step in plan.out_strides), 1),
        in_strides=(*(factor * step for step in plan.in_strides), 1),
        in_offset=factor * plan.in_offset,
        out_offset=factor * plan.out_offset,
        in_extent=factor * plan.in_extent,
        out_extent=factor * plan.out_extent,
        element_bytes=element_bytes,
        fill=plan.fill[:element_bytes],
        lookups=tuple(
            replace(lookup, index_strides=(*lookup.index_strides, 0), in_stride=factor * lookup.in_stride)
            for lookup in plan.lookups
        ),
    )


class _Dim(NamedTuple):
    size: int
    out_stride: int
    in_stride: int
    index_strides: tuple[int, ...]

    def reversed(self) -> _Dim:
        return _Dim(self.size, -self.out_stride, -self.in_stride, tuple(-step for step in self.index_strides))


def _merge(dims: Iterable[_Dim]) -> list[_Dim]:
    merged: list[_Dim] = []
    for dim in dims:
        size, out_stride, in_stride, index_strides = dim
        strides = (size * out_stride, size * in_stride, tuple([size * step for step in index_strides]))
        if merged and merged[-1][1:] == strides:
            merged[-1] = dim._replace(size=merged[-1].size * size)
        else:
            merged.append(dim)
    return merged


def _widen(dims: list[_Dim], steps: Sequence[int], most: int, reads: bool) -> tuple[list[_Dim], int]:
    """Join contiguous elements into wider ones. Return the new dimensions and the factor: old elements per wide element.

    The factor must divide every address. Returned sizes count wide elements; returned strides still count old ones.

    Example: a plan of shape {5,12} has the strides {12,1} in its input and its output, and `most` is 16. The inner dimension
    has size 12, and the outer one has stride 12, so the factor is gcd(16, 12, 12) = 4. The sizes become {5,3}.
    """
    factor = 1
    while (
        dims and dims[-1].out_stride == factor and (dims[-1].in_stride == factor or not reads) and not any(dims[-1].index_strides)
    ):
        *outer, inner = dims
        contiguous = factor * inner.size
        wider = gcd(most, contiguous, *steps, *[step for dim in outer for step in (dim.out_stride, dim.in_stride)])
        if wider < contiguous:
            if wider > factor:
                dims = [*outer, _Dim(contiguous // wider, wider, wider if reads else 0, inner.index_strides)]
            return dims, wider
        dims, factor = outer, wider
    return dims, factor


def _canonical_empty(plan: IndexPlan) -> IndexPlan:
    """Return the canonical form of a plan that writes no element. Under RAISE, it still checks its indices."""
    if plan.index_reach is None:
        return IndexPlan((0,), (1,), (1,), element_bytes=1, in_extent=0, out_extent=0)
    shape = plan.index_shape
    # Indices may be checked in any order. So make all index strides positive, and sort the lookups. The sort key must not depend
    # on the order of the dimensions, because these are sorted later.
    checks = [
        Lookup(
            tuple(map(abs, item.index_strides)), reach(shape, item.index_strides, item.index_offset)[0], item.limit, item.wrap, 0
        )
        for item in plan.lookups
    ]
    checks.sort(key=lambda item: (item.index_offset, reach(shape, item.index_strides)[1], item.limit, item.wrap))
    dims = [_Dim(size, 0, 0, tuple(item.index_strides[axis] for item in checks)) for axis, size in enumerate(shape) if size > 1]
    dims = _merge(sorted(dims, key=lambda dim: (dim.index_strides, dim.size), reverse=True))
    dims.insert(0, _Dim(0, 0, 0, (0,) * len(checks)))
    zeros = (0,) * len(dims)
    return IndexPlan(
        tuple(dim.size for dim in dims),
        out_strides=zeros,
        in_strides=zeros,
        element_bytes=1,
        in_extent=0,
        out_extent=0,
        lookups=tuple(
            replace(item, index_strides=tuple(dim.index_strides[number] for dim in dims)) for number, item in enumerate(checks)
        ),
        index_type=plan.index_type,
        index_extent=plan.index_reach[1] + 1,
        out_of_bounds=plan.out_of_bounds,
    )


def _without_idle_lookups(plan: IndexPlan) -> IndexPlan:
    """Under CLAMP or PROMISE, drop lookups that select the same element for every index."""
    lookups = tuple([lookup for lookup in plan.lookups if lookup.limit != 1 and lookup.in_stride])
    if lookups:
        return plan if lookups == plan.lookups else replace(plan, lookups=lookups)
    if not plan.lookups and plan.out_of_bounds is OutOfBounds.CLAMP and not plan.index_extent:
        return plan
    return replace(plan, lookups=(), index_type=None, index_extent=0, out_of_bounds=OutOfBounds.CLAMP, fill=b"")


def _zero_unused_strides(plan: IndexPlan) -> IndexPlan:
    """Set input strides and offsets that do not affect the copy to 0.

    They do not matter if a lookup has no valid index, because then no input is read. A lookup's stride does not matter if its
    only valid index is 0.
    """
    if not plan.lookups:
        return plan
    reads = all(lookup.limit for lookup in plan.lookups)
    if any(lookup.in_stride and not (reads and lookup.limit > 1) for lookup in plan.lookups):
        lookups = tuple(lookup if reads and lookup.limit > 1 else replace(lookup, in_stride=0) for lookup in plan.lookups)
        plan = replace(plan, lookups=lookups)
    return plan if reads else replace(plan, in_strides=(0,) * plan.rank, in_offset=0)


def _canonical_lookups(plan: IndexPlan, dims: Sequence[_Dim], index_offsets: Sequence[int], factor: int) -> tuple[Lookup, ...]:
    if not plan.lookups:
        return ()
    lookups = [
        Lookup(tuple([dim.index_strides[number] for dim in dims]), offset, lookup.limit, lookup.wrap, lookup.in_stride // factor)
        for number, (lookup, offset) in enumerate(zip(plan.lookups, index_offsets, strict=True))
    ]
    return tuple(sorted(lookups, key=lambda item: (item.index_offset, item.index_strides, item.limit, item.wrap, item.in_stride)))
