"""Example index values for pictures: spread over the axis, one that counts from the end, one out of range."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from dmlgather.plan import IndexPlan, IndexType, Lookup

NEAR = 8
"""Positions lie among the first `NEAR` of an axis."""


def example_indices(plan: IndexPlan, looked_up: Iterable[tuple[int, ...]]) -> dict[int, int]:
    """Index values by address (elements of the index tensor). looked_up: the addresses of each step, one per lookup.

    The last tuple of indices has one out of range, the one before it a negative one where those count from the end.
    """
    assert plan.index_type is not None
    tuples = list(dict.fromkeys(looked_up))
    values: dict[int, int] = {}
    for number, addresses in enumerate(tuples):
        for component, address in enumerate(addresses):
            lookup = plan.lookups[component]
            values.setdefault(address, _ordinary(number + component, lookup.limit, plan.index_type))
    if len(tuples) > 2 and plan.lookups[0].wrap > 1:
        values[tuples[-2][0]] = _from_the_end(plan.lookups[0].wrap, {values[addresses[0]] for addresses in tuples[:-2]})
    if len(tuples) > 1:
        beyond = _beyond(plan.lookups[-1], plan.index_type)
        if beyond is not None:
            values[tuples[-1][-1]] = beyond
    return values


def _ordinary(number: int, limit: int, index_type: IndexType) -> int:
    among = max(1, min(limit, NEAR, _most(index_type)))
    step = next(step for step in (2, 3, 5, 7, 1) if gcd(step, among) == 1)
    return (2 + number * step + number // among) % among


def _from_the_end(wrap: int, used: set[int]) -> int:
    """A negative value for a position close to the end that no other index has; -1, to which larger values are clamped, only if
    there is no other.
    """
    return next((-back for back in range(2, min(wrap, NEAR) + 1) if wrap - back not in used), -1)


def _beyond(lookup: Lookup, index_type: IndexType) -> int | None:
    """A value out of range on the side that the type has room for."""
    if lookup.limit + 1 <= _most(index_type):
        return lookup.limit + 1
    return -lookup.wrap - 2 if index_type.signed and lookup.wrap + 2 <= _most(index_type) else None


def _most(index_type: IndexType) -> int:
    return int(2 ** (8 * index_type.bytes - index_type.signed) - 1)
