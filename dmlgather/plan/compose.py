"""Composition: a plan that reads what another plan wrote, as one plan and so one kernel."""

from __future__ import annotations

from dataclasses import replace

from dmlgather.plan.canonical import narrow, simplify
from dmlgather.plan.index_plan import IndexPlan, Lookup, OutOfBounds
from dmlgather.plan.layout import dot
from dmlgather.plan.walk import CompositionError, Walk


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
    walk = Walk.over(source, outer)
    if source.out_of_bounds is OutOfBounds.RAISE:
        _check_coverage(walk, source)
    return _composed(walk, source, outer)


def _check_coverage(walk: Walk, inner: IndexPlan) -> None:
    """CompositionError unless every index that the inner plan checks is still looked up."""
    looked_up = [axis for axis, size in enumerate(inner.index_shape) if size > 1]
    if any(sum(1 for axis in looked_up if step[axis]) > 1 for step in walk.steps):
        raise CompositionError("the outer plan reads a diagonal of the indices: RAISE would check fewer than before")
    for axis in looked_up:
        span = 0
        moves = sorted((abs(step[axis]), size) for size, step in zip(walk.sizes, walk.steps, strict=True) if step[axis])
        for move, size in moves:
            if move > span + 1:
                break
            span += move * (size - 1)
        if span != inner.shape[axis] - 1:
            raise CompositionError(
                f"the outer plan reads {span + 1} of {inner.shape[axis]} positions along the inner output's dimension "
                f"{axis}: RAISE would check fewer indices than before"
            )


def _composed(walk: Walk, inner: IndexPlan, outer: IndexPlan) -> IndexPlan:
    """The composed plan."""
    if inner.lookups:
        lookups = tuple(
            Lookup(
                tuple(dot(step, lookup.index_strides) for step in walk.steps),
                lookup.index_offset + dot(walk.start, lookup.index_strides),
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
                index_strides=tuple(strides[number] for strides in walk.index_strides),
                in_stride=dot(walk.value_steps[number], inner.in_strides),
            )
            for number, lookup in enumerate(outer.lookups)
        )
    looker = inner if inner.lookups else outer
    return IndexPlan(
        shape=tuple(walk.sizes),
        out_strides=tuple(walk.out_strides),
        in_strides=tuple(dot(step, inner.in_strides) for step in walk.steps),
        element_bytes=outer.element_bytes,
        in_extent=inner.in_extent,
        out_extent=outer.out_extent,
        in_offset=inner.in_offset + dot(walk.start, inner.in_strides),
        out_offset=outer.out_offset,
        lookups=lookups,
        index_type=looker.index_type,
        index_extent=looker.index_extent,
        out_of_bounds=looker.out_of_bounds,
        fill=looker.fill,
    )
