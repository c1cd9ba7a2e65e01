"""Plans that look up the argument of an index function instead of its result: arithmetic in front of a gather becomes its wrap,
limit, offset and policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dmlgather.plan.index_function import IndexFunction, Piece, lookup_function
from dmlgather.plan.index_plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.plan.walk import CompositionError

MOST_ADDED = 2**63 - 1
"""The largest wrap that devices can add to an index."""


def look_up_arguments(plan: IndexPlan, function: IndexFunction, index_type: IndexType) -> IndexPlan:
    """The plan that does with v what `plan` does with function(v), for every v of `index_type`, for which `function` is defined.

    A lookup whose position does not depend on v is dropped; CLAMP takes the place of a policy that can never apply.
    CompositionError where a lookup cannot say it.

    >>> from dmlgather.plan.index_arguments import look_up_arguments
    >>> from dmlgather.plan.index_function import IndexFunction, Piece
    >>> clipped = IndexFunction((Piece(0, 4, 1, 0), Piece(5, 255, 0, 4)))  # min(v, 4)
    >>> plan = dg.onnx.gather.plan(((5,), "float32"), ((3,), "int64"))
    >>> print(look_up_arguments(plan, clipped, dg.IndexType.UINT8))
    shape [3] of 4-byte elements, CLAMP
      out [3]: offset 0, strides [1]
      in  [5]: offset 0, strides [0]
      lookup 0: UINT8 [3] offset 0, strides [1]; values 0 … 4, wrap 0, in stride 1
    """
    values = value_range(index_type)
    for policy in _policies(plan.out_of_bounds):
        found = [_expressed(lookup, plan.out_of_bounds, policy, function, values) for lookup in plan.lookups]
        if all(each is not None for each in found):
            return _with_lookups(plan, [each for each in found if each is not None], index_type, policy)
    raise CompositionError(
        "the wrap, limit, offset and policy of a lookup cannot say what the arithmetic in front of it does",
        "index arithmetic",
    )


def value_range(index_type: IndexType) -> tuple[int, int]:
    """The smallest and the largest index of a type."""
    bits = 8 * index_type.bytes
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if index_type.signed else (0, 2**bits - 1)


def _policies(policy: OutOfBounds) -> tuple[OutOfBounds, ...]:
    """The policies that may say the same, the preferred one first."""
    return (policy, OutOfBounds.CLAMP) if policy is OutOfBounds.PROMISE else tuple(dict.fromkeys((OutOfBounds.CLAMP, policy)))


@dataclass(frozen=True, slots=True)
class _Expressed:
    """offset + in_stride · (what `lookup` finds); no lookup where the position is always the same. offset: in input elements."""

    lookup: Lookup | None
    offset: int


def _expressed(
    lookup: Lookup, policy: OutOfBounds, wanted: OutOfBounds, function: IndexFunction, values: tuple[int, int]
) -> _Expressed | None:
    """What a lookup of function(v) under one policy is as a lookup of v under the other; None where it is none."""
    target = function.then(lookup_function(lookup, policy, function.low, function.high))
    if wanted is OutOfBounds.CLAMP and target.domain != (values,):
        return None
    if target.single is not None and target.domain == (values,) and wanted is not OutOfBounds.PROMISE:
        return _Expressed(None, target.single * lookup.in_stride)
    first, slope, limit = _from_zero(target, values[1])
    for wrap in _wraps(target, first, slope, index_may_be_negative=values[0] < 0):
        found = replace(lookup, limit=limit, wrap=wrap, in_stride=slope * lookup.in_stride)
        if wanted is OutOfBounds.CLAMP and not limit:
            continue
        if lookup_function(found, wanted, *values).scaled(slope, first) == target and (
            wanted is not OutOfBounds.PROMISE or _promised(lookup, function) == _promised(found, IndexFunction.identity(*values))
        ):
            return _Expressed(found, first * lookup.in_stride)
    return None


def _promised(lookup: Lookup, function: IndexFunction) -> object:
    """The values of which PROMISE says that there are no others."""
    return function.then(lookup_function(lookup, OutOfBounds.RAISE, function.low, function.high)).domain


def _from_zero(target: IndexFunction, high: int) -> tuple[int, int, int]:
    """The line from 0 on: target(0), the slope, and how many values from 0 on lie on it."""
    first, second = target(0), target(1) if high else None
    if first is None:
        return 0, 1, 0
    slope = 1 if second is None or second == first else second - first
    differences = target.plus(IndexFunction((Piece(0, high, -slope, -first),)))
    return first, slope, differences.preimage(0, 0)[0][1] + 1


def _wraps(target: IndexFunction, first: int, slope: int, *, index_may_be_negative: bool) -> Iterator[int]:
    """What may have to be added to negative values: nothing, or what brings the end of a piece onto the line."""
    yield 0
    if index_may_be_negative:
        ends = {value for piece in target.pieces if piece.low < 0 for value in (piece.low, min(piece.high, -1))}
        positions = {value: target(value) for value in ends}
        found = {(at - first) // slope - value for value, at in positions.items() if at is not None and not (at - first) % slope}
        yield from sorted(wrap for wrap in found if 0 < wrap <= MOST_ADDED)


def _with_lookups(plan: IndexPlan, found: Sequence[_Expressed], index_type: IndexType, policy: OutOfBounds) -> IndexPlan:
    lookups = tuple(each.lookup for each in found if each.lookup is not None)
    policy = policy if lookups else OutOfBounds.CLAMP
    return replace(
        plan,
        in_offset=plan.in_offset + sum(each.offset for each in found),
        lookups=lookups,
        index_type=index_type if lookups else None,
        index_extent=plan.index_extent if lookups else 0,
        out_of_bounds=policy,
        fill=plan.fill if policy is OutOfBounds.FILL else b"",
    )
