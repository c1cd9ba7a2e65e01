"""Interpreter of a plan for single output elements, for diagrams and messages.

The reference backend does not use it, so tests can compare the two.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from dmlgather.plan.index_plan import IndexPlan, OutOfBounds
from dmlgather.plan.layout import coordinates, dot


class IndexOutcome(enum.Enum):
    """The effect of one index on an output element."""

    VALID = "valid"
    CLAMPED = "clamped"
    FILLED = "filled"
    REFUSED = "refused"


OUT_OF_RANGE = {
    OutOfBounds.CLAMP: IndexOutcome.CLAMPED,
    OutOfBounds.PROMISE: IndexOutcome.CLAMPED,
    OutOfBounds.FILL: IndexOutcome.FILLED,
    OutOfBounds.RAISE: IndexOutcome.REFUSED,
}


@dataclass(frozen=True, slots=True)
class ResolvedIndex:
    """An index that a plan has read, and its effect.

    `address`: the address of the index in the index tensor, in elements.
    `position`: the position on the indexed axis, after wrapping and clamping. None for FILLED and REFUSED.
    """

    address: int
    value: int
    position: int | None
    outcome: IndexOutcome


@dataclass(frozen=True, slots=True)
class Origin:
    """The input element that is copied to an output element.

    `source`: the address of the input element, in elements. None if an index is FILLED or REFUSED.
    """

    source: int | None
    indices: tuple[ResolvedIndex, ...]

    @property
    def outcome(self) -> IndexOutcome:
        """Outcome of the first index out of range, or VALID."""
        return next((index.outcome for index in self.indices if index.outcome is not IndexOutcome.VALID), IndexOutcome.VALID)


def step_at(plan: IndexPlan, output_address: int) -> tuple[int, ...]:
    """Return the point of `plan.shape` that writes `output_address`. Raises ValueError if there is none."""
    step = coordinates(output_address - plan.out_offset, plan.shape, plan.out_strides)
    if step is None:
        raise ValueError(f"the plan writes nothing to output element {output_address}")
    return step


def index_addresses(plan: IndexPlan, step: tuple[int, ...]) -> tuple[int, ...]:
    """Return the address of each lookup's index at the point `step` of `plan.shape`."""
    return tuple(lookup.index_offset + dot(step, lookup.index_strides) for lookup in plan.lookups)


def origin_of(plan: IndexPlan, step: tuple[int, ...], value_at: Callable[[int], int]) -> Origin:
    """Return the origin of the element that the plan writes at the point `step` of `plan.shape`.

    `value_at`: returns the index at an address of the index tensor.
    """
    indices = []
    source = plan.in_offset + dot(step, plan.in_strides)
    for lookup, address in zip(plan.lookups, index_addresses(plan, step), strict=True):
        value = value_at(address)
        wrapped = value + lookup.wrap if value < 0 else value
        outcome = IndexOutcome.VALID if 0 <= wrapped < lookup.limit else OUT_OF_RANGE[plan.out_of_bounds]
        reads = outcome in (IndexOutcome.VALID, IndexOutcome.CLAMPED)
        position = min(max(wrapped, 0), lookup.limit - 1) if reads else None
        source += (position or 0) * lookup.in_stride
        indices.append(ResolvedIndex(address, value, position, outcome))
    complete = all(index.position is not None for index in indices)
    return Origin(source if complete else None, tuple(indices))
