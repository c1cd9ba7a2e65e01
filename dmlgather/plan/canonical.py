"""The canonical form: two problems that mean the same become the same plan.

Drop dimensions of size 1, walk the output forwards by falling stride, merge neighbours that move as one, sort lookups and
drop those that cannot matter, widen elements, and state only the extents that are reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import gcd
from typing import Any

from dmlgather.plan.index_plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.plan.layout import reach

WIDEST = 16
"""Bytes of the widest element that a backend moves at once."""


def canonicalise(plan: IndexPlan, widest: int = WIDEST) -> IndexPlan:
    """The canonical form of `plan`, with elements of at most `widest` bytes (a pointer's alignment, or 16).

    Writes the same bits as `plan` and, under RAISE, names the same bad index. ValueError when the elements are wider than
    `widest` and the fill value cannot be split.

    >>> rows = dg.onnx.gather.plan(((30522, 384), "float32"), ((128,), "int64"))  # 384 elements of 4 bytes are 96 of 16
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
    """The canonical form at the plan's own element size."""
    return _simplified(plan, plan.element_bytes)


def _simplified(plan: IndexPlan, widest: int) -> IndexPlan:
    """The canonical form with elements of at most `widest` bytes, which are at least as wide as the plan's."""
    if plan.empty:
        return _checks_alone(plan)
    if plan.constant:
        zeros = (0,) * plan.rank
        nothing = Lookup(zeros, index_offset=0, limit=0, wrap=0, in_stride=0)
        plan = replace(plan, in_strides=zeros, in_offset=0, lookups=(nothing,), index_type=IndexType.INT64)
    plan = _without_idle_steps(plan)
    if not plan.lookups or plan.out_of_bounds in (OutOfBounds.CLAMP, OutOfBounds.PROMISE):
        plan = _without(plan, lambda lookup: lookup.limit == 1 or lookup.in_stride == 0)
    index_strides = list(zip(*[lookup.index_strides for lookup in plan.lookups], strict=True)) or [()] * plan.rank
    strides = zip(plan.shape, plan.out_strides, plan.in_strides, index_strides, strict=True)
    dims = [_Dim(*moved) for moved in strides if moved[0] > 1]
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
    in_reach, index_reach = plan.in_reach, plan.index_reach  # it reaches the same addresses
    out_end = out_offset + sum([(dim.size - 1) * dim.out_stride for dim in dims]) + 1
    steps = [in_offset, out_offset, *[lookup.in_stride for lookup in plan.lookups]]
    dims, wide = _widen(dims, steps, widest // plan.element_bytes, reads=in_reach is not None)
    return IndexPlan(
        shape=tuple([dim.size for dim in dims]),
        out_strides=tuple([dim.out_stride // wide for dim in dims]),
        in_strides=tuple([dim.in_stride // wide for dim in dims]),
        element_bytes=plan.element_bytes * wide,
        in_extent=0 if in_reach is None else (in_reach[1] + 1) // wide,
        out_extent=out_end // wide,
        in_offset=in_offset // wide,
        out_offset=out_offset // wide,
        lookups=_lookups(plan, dims, index_offsets, wide),
        index_type=plan.index_type,
        index_extent=0 if index_reach is None else index_reach[1] + 1,
        out_of_bounds=plan.out_of_bounds,
        fill=plan.fill * wide,
    )


def narrow(plan: IndexPlan, element_bytes: int) -> IndexPlan:
    """The same copy by elements of `element_bytes`, a divisor of the plan's own. ValueError when the fill value is not a
    repetition of that many bytes.
    """
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


class _Dim:
    """One output dimension with every stride that moves along it."""

    __slots__ = ("in_stride", "index_strides", "out_stride", "size")

    def __init__(self, size: int, out_stride: int, in_stride: int, index_strides: tuple[int, ...]) -> None:
        self.size, self.out_stride, self.in_stride, self.index_strides = size, out_stride, in_stride, index_strides

    def reversed(self) -> _Dim:
        return _Dim(self.size, -self.out_stride, -self.in_stride, tuple(-step for step in self.index_strides))

    def absorbs(self, inner: _Dim) -> bool:
        """Whether this dimension and the one inside it move as a single one."""
        size = inner.size
        return (
            self.out_stride == size * inner.out_stride
            and self.in_stride == size * inner.in_stride
            and self.index_strides == tuple([size * step for step in inner.index_strides])
        )


def _merge(dims: Iterable[_Dim]) -> list[_Dim]:
    merged: list[_Dim] = []
    for dim in dims:
        if merged and merged[-1].absorbs(dim):
            merged[-1] = _Dim(merged[-1].size * dim.size, dim.out_stride, dim.in_stride, dim.index_strides)
        else:
            merged.append(dim)
    return merged


def _widen(dims: list[_Dim], steps: Sequence[int], most: int, reads: bool) -> tuple[list[_Dim], int]:
    """Treat the innermost dimension's neighbours as one element as far as every size, stride and offset divides. Returns the
    dimensions whose sizes count such elements, and how many elements make one. steps: offsets, and input strides of lookups.
    most: elements that may become one. reads: whether any is read.
    """
    wide = 1
    while dims and dims[-1].out_stride == wide and (dims[-1].in_stride == wide or not reads) and not any(dims[-1].index_strides):
        *outer, inner = dims
        reached = wide * inner.size
        wider = gcd(most, reached, *steps, *[step for dim in outer for step in (dim.out_stride, dim.in_stride)])
        if wider < reached:
            if wider > wide:
                dims = [*outer, _Dim(reached // wider, wider, wider if reads else 0, inner.index_strides)]
            return dims, wider
        dims, wide = outer, wider
    return dims, wide


def _checks_alone(plan: IndexPlan) -> IndexPlan:
    """The canonical plan without output: nothing at all, or under RAISE the index checks behind a leading size of 0."""
    if plan.index_reach is None:
        return IndexPlan((0,), (1,), (1,), element_bytes=1, in_extent=0, out_extent=0)
    shape = plan.index_shape
    # By what neither sorting nor merging dimensions changes, since those are sorted by the lookups. Ties keep the given order.
    lookups = sorted(
        (_forwards(lookup, shape) for lookup in plan.lookups),
        key=lambda item: (item.index_offset, reach(shape, item.index_strides)[1], item.limit, item.wrap),
    )
    dims = [_Dim(size, 0, 0, tuple(item.index_strides[axis] for item in lookups)) for axis, size in enumerate(shape) if size > 1]
    dims = _merge(sorted(dims, key=lambda dim: (dim.index_strides, dim.size), reverse=True))
    dims.insert(0, _Dim(0, 0, 0, (0,) * len(lookups)))
    return _tighten(
        replace(
            plan,
            shape=tuple(dim.size for dim in dims),
            out_strides=(0,) * len(dims),
            in_strides=(0,) * len(dims),
            in_offset=0,
            out_offset=0,
            element_bytes=1,
            lookups=tuple(
                replace(item, index_strides=tuple(dim.index_strides[number] for dim in dims))
                for number, item in enumerate(lookups)
            ),
        )
    )


def _forwards(lookup: Lookup, shape: Sequence[int]) -> Lookup:
    """A lookup that only checks, which meets the same indices whichever way it walks: by steps that are not negative."""
    return replace(
        lookup,
        index_strides=tuple(map(abs, lookup.index_strides)),
        index_offset=reach(shape, lookup.index_strides, lookup.index_offset)[0],
        in_stride=0,
    )


def _without(plan: IndexPlan, idle: Callable[[Lookup], bool]) -> IndexPlan:
    """The plan without its idle lookups. A plan without any lookup has the policy CLAMP, since no policy can apply."""
    lookups = tuple([lookup for lookup in plan.lookups if not idle(lookup)])
    if lookups:
        return plan if lookups == plan.lookups else replace(plan, lookups=lookups)
    if not plan.lookups and plan.out_of_bounds is OutOfBounds.CLAMP and not plan.index_extent:
        return plan
    return replace(plan, lookups=(), index_type=None, index_extent=0, out_of_bounds=OutOfBounds.CLAMP, fill=b"")


def _without_idle_steps(plan: IndexPlan) -> IndexPlan:
    """The plan with 0 for the steps and offsets of the input that no valid index can make, which may be of any size."""
    if not plan.lookups:
        return plan
    reads = all(lookup.limit for lookup in plan.lookups)
    if any(one.in_stride and not (reads and one.limit > 1) for one in plan.lookups):
        lookups = tuple(one if reads and one.limit > 1 else replace(one, in_stride=0) for one in plan.lookups)
        plan = replace(plan, lookups=lookups)
    return plan if reads else replace(plan, in_strides=(0,) * plan.rank, in_offset=0)


def _lookups(plan: IndexPlan, dims: Sequence[_Dim], index_offsets: Sequence[int], wide: int) -> tuple[Lookup, ...]:
    """The plan's lookups over new dimensions, in canonical order. wide: elements that make a new one."""
    if not plan.lookups:
        return ()
    moved = [
        Lookup(tuple([dim.index_strides[number] for dim in dims]), offset, lookup.limit, lookup.wrap, lookup.in_stride // wide)
        for number, (lookup, offset) in enumerate(zip(plan.lookups, index_offsets, strict=True))
    ]
    return tuple(sorted(moved, key=lambda item: (item.index_offset, item.index_strides, item.limit, item.wrap, item.in_stride)))


def _tighten(plan: IndexPlan) -> IndexPlan:
    """State the extents that are reached, so that padding behind a tensor does not make two plans differ."""
    return replace(plan, **_extents(plan))


def _extents(plan: IndexPlan) -> dict[str, Any]:
    """The extents that the plan reaches, by the names of its fields."""
    reached = {"in_extent": plan.in_reach, "out_extent": plan.out_reach, "index_extent": plan.index_reach}
    return {name: 0 if span is None else span[1] + 1 for name, span in reached.items()}
