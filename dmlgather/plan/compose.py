"""Composition: a plan that reads what another plan wrote, as one plan and so one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dmlgather.plan.canonical import narrow, simplify
from dmlgather.plan.index_plan import IndexPlan, Lookup, OutOfBounds
from dmlgather.plan.layout import dot


class CompositionError(ValueError):
    """The two plans cannot become one plan; the message says why. Run them one after the other."""


def compose(outer: IndexPlan, inner: IndexPlan) -> IndexPlan:
    """One plan for `inner` followed by `outer`, where `outer`'s input is `inner`'s output buffer.

    The result reads `inner`'s input and writes `outer`'s output. CompositionError where both plans look up indices, where RAISE
    would check fewer indices than before, where `outer` reads addresses that `inner` does not write, or where strides cannot
    express how it walks over them.

    >>> rows = dg.onnx.gather.plan(((30522, 384), "float32"), ((128,), "int64"))
    >>> half = dg.onnx.slice.plan(((128, 384), "float32"), [0], [192], [1])
    >>> print(dg.compose(half, rows))
    shape [128, 192] of 4-byte elements, RAISE
      out [24576]: offset 0, strides [192, 1]
      in  [11720448]: offset 0, strides [0, 1]
      lookup 0: INT64 [128] offset 0, strides [1, 0]; values 0 … 30521, wrap 30522, in stride 384
    """
    if outer.lookups and inner.lookups:
        raise CompositionError("both plans look up indices; one plan has one index tensor")
    outer.check_limits()
    inner.check_limits()
    if outer.empty:
        if inner.out_of_bounds is OutOfBounds.RAISE and inner.index_reach is not None:
            raise CompositionError("the outer plan is empty, so the inner plan's indices would no longer be checked")
        return replace(outer, in_extent=inner.in_extent)
    if outer.constant:
        return replace(outer, in_extent=inner.in_extent)
    if inner.empty:
        raise CompositionError("the outer plan reads elements, the inner plan writes none")
    if inner.element_bytes != outer.element_bytes:
        smaller = min(inner.element_bytes, outer.element_bytes)
        outer, inner = narrow(outer, smaller), narrow(inner, smaller)
    source = simplify(inner)
    walk = _Walk.over(source, outer)
    if source.out_of_bounds is OutOfBounds.RAISE:
        walk.check_coverage(source)
    return walk.plan(source, outer)


@dataclass(slots=True)
class _Walk:
    """The outer plan's input address as coordinates of the inner plan's output: start + per-dimension steps.

    sizes and out_strides are the outer plan's, with dimensions split where they cross a boundary of the inner plan's;
    steps[i] are the inner coordinates moved by one step of outer dimension i, value_steps[k] by one unit of lookup k.
    """

    start: tuple[int, ...]
    sizes: list[int]
    out_strides: list[int]
    index_strides: list[tuple[int, ...]]
    steps: list[tuple[int, ...]]
    value_steps: list[tuple[int, ...]]

    @classmethod
    def over(cls, inner: IndexPlan, outer: IndexPlan) -> _Walk:
        start = _decompose(outer.in_offset - inner.out_offset, inner)
        walk = cls(start, [], [], [], [], [_decompose(lookup.in_stride, inner) for lookup in outer.lookups])
        pending = [
            (size, outer.out_strides[axis], outer.in_strides[axis], tuple(k.index_strides[axis] for k in outer.lookups))
            for axis, size in enumerate(outer.shape)
            if size > 1
        ]
        while pending:
            size, out_stride, in_stride, index_strides = pending.pop(0)
            step = _decompose(in_stride, inner)
            inside = _fitting(size, step, inner)
            if inside < size:
                # The dimension runs over the end of an inner one: split it there and let the outer part carry.
                parts = size // inside
                pending.insert(0, (parts, out_stride * inside, in_stride * inside, tuple(s * inside for s in index_strides)))
                size = inside
            walk.sizes.append(size)
            walk.out_strides.append(out_stride)
            walk.index_strides.append(index_strides)
            walk.steps.append(step)
        walk._check_inside(inner, [max(lookup.limit, 1) for lookup in outer.lookups])
        return walk

    def _check_inside(self, inner: IndexPlan, limits: Sequence[int]) -> None:
        ranges = [*zip(self.sizes, self.steps, strict=True), *zip(limits, self.value_steps, strict=True)]
        for axis, size in enumerate(inner.shape):
            moves = [(count - 1) * step[axis] for count, step in ranges]
            low = self.start[axis] + sum(move for move in moves if move < 0)
            high = self.start[axis] + sum(move for move in moves if move > 0)
            if low < 0 or high >= size:
                raise CompositionError(
                    f"the outer plan walks coordinates {low} … {high} of the inner output's dimension {axis} of size {size} "
                    f"(inner shape {list(inner.shape)}, strides {list(inner.out_strides)}): not one strided walk"
                )

    def check_coverage(self, inner: IndexPlan) -> None:
        """CompositionError unless every index that the inner plan checks is still looked up."""
        looked_up = [axis for axis, size in enumerate(inner.index_shape) if size > 1]
        if any(sum(1 for axis in looked_up if step[axis]) > 1 for step in self.steps):
            raise CompositionError("the outer plan reads a diagonal of the indices: RAISE would check fewer than before")
        for axis in looked_up:
            span = 0
            moves = sorted((abs(step[axis]), size) for size, step in zip(self.sizes, self.steps, strict=True) if step[axis])
            for move, size in moves:
                if move > span + 1:
                    break
                span += move * (size - 1)
            if span != inner.shape[axis] - 1:
                raise CompositionError(
                    f"the outer plan reads {span + 1} of {inner.shape[axis]} positions along the inner output's dimension "
                    f"{axis}: RAISE would check fewer indices than before"
                )

    def plan(self, inner: IndexPlan, outer: IndexPlan) -> IndexPlan:
        """The composed plan."""
        if inner.lookups:
            lookups = tuple(
                Lookup(
                    tuple(dot(step, lookup.index_strides) for step in self.steps),
                    lookup.index_offset + dot(self.start, lookup.index_strides),
                    lookup.limit,
                    lookup.wrap,
                    lookup.in_stride,
                )
                for lookup in inner.lookups
            )
        else:
            lookups = tuple(
                replace(
                    lookup,
                    index_strides=tuple(strides[number] for strides in self.index_strides),
                    in_stride=dot(self.value_steps[number], inner.in_strides),
                )
                for number, lookup in enumerate(outer.lookups)
            )
        looker = inner if inner.lookups else outer
        return IndexPlan(
            shape=tuple(self.sizes),
            out_strides=tuple(self.out_strides),
            in_strides=tuple(dot(step, inner.in_strides) for step in self.steps),
            element_bytes=outer.element_bytes,
            in_extent=inner.in_extent,
            out_extent=outer.out_extent,
            in_offset=inner.in_offset + dot(self.start, inner.in_strides),
            out_offset=outer.out_offset,
            lookups=lookups,
            index_type=looker.index_type,
            index_extent=looker.index_extent,
            out_of_bounds=looker.out_of_bounds,
            fill=looker.fill,
        )


def _decompose(distance: int, inner: IndexPlan) -> tuple[int, ...]:
    """A distance in inner output elements as steps along the inner dimensions (falling output strides)."""
    sign, rest = (-1, -distance) if distance < 0 else (1, distance)
    steps = []
    for stride in inner.out_strides:
        steps.append(sign * (rest // stride))
        rest %= stride
    if rest:
        raise CompositionError(
            f"a step of {distance} elements falls between the elements that the inner plan writes "
            f"(strides {list(inner.out_strides)})"
        )
    return tuple(steps)


def _fitting(size: int, step: Sequence[int], inner: IndexPlan) -> int:
    """The largest part of an outer dimension that stays within the inner dimensions it moves along and divides its size."""
    fit = size
    for move, limit in zip(step, inner.shape, strict=True):
        if move and (fit - 1) * abs(move) >= limit and limit % abs(move) == 0:
            inside = limit // abs(move)
            if inside > 1 and fit % inside == 0:
                fit = inside
    return fit
