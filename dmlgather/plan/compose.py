"""Composition: one plan that does the work of two. The "outer" plan reads what the "inner" plan writes."""

from __future__ import annotations

from dataclasses import replace

from dmlgather.plan.canonical import narrow, simplify
from dmlgather.plan.index_plan import IndexPlan, Lookup, OutOfBounds
from dmlgather.plan.layout import dot
from dmlgather.plan.walk import CompositionError, Walk, check_inside, decompose, walked

_CLAMPING = (OutOfBounds.CLAMP, OutOfBounds.PROMISE)


def compose(outer: IndexPlan, inner: IndexPlan, *, same_indices: bool = False) -> IndexPlan:
    """Return one plan for two plans that run one after the other: `outer` reads the buffer that `inner` writes.

    The new plan reads the input of `inner` and writes the output of `outer`, without the buffer between them. `same_indices`:
    True if both plans read their indices from the same tensor.

    Raises CompositionError in these cases:

    - The two plans read different index tensors or have different policies.
    - An index of `outer` would decide which index `inner` reads: indices of indices.
    - `outer` reads elements that `inner` does not write, or no strides describe the addresses of these elements in the input.
    - Under RAISE, the new plan would check fewer indices than the two plans.

    >>> rows = dg.onnx.gather.plan(((30522, 384), "float32"), ((128,), "int64"))
    >>> half = dg.onnx.slice.plan(((128, 384), "float32"), [0], [192], [1])
    >>> print(dg.compose(half, rows))
    shape [128, 192] of 4-byte elements, RAISE
      out [24576]: offset 0, strides [192, 1]
      in  [11720448]: offset 0, strides [0, 1]
      lookup 0: INT64 [128] offset 0, strides [1, 0]; values 0 … 30521, wrap 30522, in stride 384
    """
    if outer.lookups and inner.lookups:
        _check_mergeable(outer, inner, same_indices)
    for plan in (outer, inner):
        try:
            plan.check_limits()
        except ValueError as error:
            raise CompositionError(str(error), "cannot run") from None
    if outer.empty:
        if inner.out_of_bounds is OutOfBounds.RAISE and inner.index_reach is not None:
            raise CompositionError(
                "the outer plan is empty, so the inner plan's indices would no longer be checked", "unchecked indices"
            )
        return replace(outer, in_extent=inner.in_extent)
    if outer.constant:
        return replace(outer, in_extent=inner.in_extent)
    if inner.empty:
        raise CompositionError("the outer plan reads elements, but the inner plan writes no element")
    if inner.element_bytes != outer.element_bytes:
        smaller = min(inner.element_bytes, outer.element_bytes)
        outer, inner = narrow(outer, smaller), narrow(inner, smaller)
    source = simplify(inner)
    walk = Walk.over(source, outer)
    _check_values(walk, source)
    if source.out_of_bounds is OutOfBounds.RAISE:
        _check_coverage(walk, source)
    return _composed(walk, source, outer)


def compose_indices(outer: IndexPlan, view: IndexPlan) -> IndexPlan:
    """Return a plan like `outer` that needs no copy of the indices. `view`: the plan that makes this copy.

    Raises CompositionError if `view` has lookups, or if strides cannot describe the addresses of the indices.
    """
    if view.lookups:
        raise CompositionError(
            "the indices are the result of another lookup, but a plan can have only one index tensor", "index of an index"
        )
    if outer.index_reach is None:
        return replace(outer, index_extent=0)
    for number in range(len(outer.lookups)):
        outer = _with_moved_lookup(outer, number, simplify(view))
    return replace(outer, index_extent=view.in_extent)


def _with_moved_lookup(plan: IndexPlan, number: int, view: IndexPlan) -> IndexPlan:
    """Let one lookup read its indices from the input of `view` instead of the output. Other lookups are not changed."""
    leading = (0,) if plan.empty else ()  # an empty plan under RAISE has its index dimensions behind a leading size of 0
    lookup = plan.lookups[number]
    strides = zip(plan.out_strides, plan.in_strides, *(item.index_strides for item in plan.lookups), strict=True)
    dims = walked(view, zip(plan.index_shape if plan.empty else plan.shape, lookup.index_strides, strides, strict=True))
    start = decompose(lookup.index_offset - view.out_offset, view)
    check_inside(view, start, [dim.size for dim in dims], [dim.step for dim in dims])
    lookups = [
        replace(item, index_strides=(*leading, *(dim.carried[2 + item_number] for dim in dims)))
        for item_number, item in enumerate(plan.lookups)
    ]
    lookups[number] = replace(
        lookup,
        index_strides=(*leading, *(dot(dim.step, view.in_strides) for dim in dims)),
        index_offset=view.in_offset + dot(start, view.in_strides),
    )
    return replace(
        plan,
        shape=(*leading, *(dim.size for dim in dims)),
        out_strides=(*leading, *(dim.carried[0] for dim in dims)),
        in_strides=(*leading, *(dim.carried[1] for dim in dims)),
        lookups=tuple(lookups),
        index_extent=max(plan.index_extent, view.in_extent),
    )


def _check_mergeable(outer: IndexPlan, inner: IndexPlan, same_indices: bool) -> None:
    if not same_indices:
        raise CompositionError("both plans look up indices, but one plan can have only one index tensor", "two index tensors")
    first, second = inner.out_of_bounds, outer.out_of_bounds
    if first is not second and not (first in _CLAMPING and second in _CLAMPING):
        raise CompositionError(
            f"the policy for indices out of bounds is {first.name} in the inner plan, but {second.name} in the outer plan",
            "two policies",
        )
    if inner.fill != outer.fill:
        raise CompositionError(
            f"the inner plan fills with 0x{inner.fill.hex()}, but the outer plan fills with 0x{outer.fill.hex()}", "two policies"
        )


def _check_values(walk: Walk, inner: IndexPlan) -> None:
    for axis, size in enumerate(inner.index_shape):
        if size > 1 and any(step[axis] for step in walk.value_steps):
            raise CompositionError(
                f"the outer plan's indices move along dimension {axis} of the inner output, in which the inner plan looks up "
                "indices: this would be an index of an index",
                "index of an index",
            )


def _check_coverage(walk: Walk, inner: IndexPlan) -> None:
    """Raise CompositionError unless the outer plan uses every index of the inner plan, because RAISE checks every index.

    Example: two outer dimensions move along an inner axis of size 6. One has 3 steps of 1: it reads positions 0 … 2. The other
    has 2 steps of 3. As 3 <= 2 + 1, there is no gap, and both together read positions 0 … 2 + 3 = 5, which is the whole axis.
    """
    looked_up = [axis for axis, size in enumerate(inner.index_shape) if size > 1]
    if any(sum(1 for axis in looked_up if step[axis]) > 1 for step in walk.steps):
        raise CompositionError(
            "the outer plan reads only a diagonal of the indices, so one plan would check fewer indices than RAISE requires",
            "unchecked indices",
        )
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
                f"{axis}: RAISE would check fewer indices than before",
                "unchecked indices",
            )


def _composed(walk: Walk, inner: IndexPlan, outer: IndexPlan) -> IndexPlan:
    lookups = [
        Lookup(
            tuple(dot(step, lookup.index_strides) for step in walk.steps),
            lookup.index_offset + dot(walk.start, lookup.index_strides),
            lookup.limit,
            lookup.wrap,
            lookup.in_stride,
        )
        for lookup in inner.lookups
    ]
    lookups += [
        replace(
            lookup,
            index_strides=tuple(strides[number] for strides in walk.index_strides),
            in_stride=dot(walk.value_steps[number], inner.in_strides),
        )
        for number, lookup in enumerate(outer.lookups)
    ]
    policy_plan = outer if outer.lookups else inner
    policy = policy_plan.out_of_bounds
    if outer.lookups and inner.lookups and policy is OutOfBounds.PROMISE:
        policy = inner.out_of_bounds  # CLAMP, unless both plans have PROMISE
    return IndexPlan(
        shape=tuple(walk.sizes),
        out_strides=tuple(walk.out_strides),
        in_strides=tuple(dot(step, inner.in_strides) for step in walk.steps),
        element_bytes=outer.element_bytes,
        in_extent=inner.in_extent,
        out_extent=outer.out_extent,
        in_offset=inner.in_offset + dot(walk.start, inner.in_strides),
        out_offset=outer.out_offset,
        lookups=tuple(lookups),
        index_type=policy_plan.index_type,
        index_extent=max(outer.index_extent, inner.index_extent),
        out_of_bounds=policy,
        fill=policy_plan.fill,
    )
