"""Evaluation of a plan for single output elements: the indices that it looks up and the input element that it reads.

Diagrams and messages use this module. The reference backend does not, because it is the standard for the other backends.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from dmlgather.plan.index_plan import IndexPlan, OutOfBounds
from dmlgather.plan.layout import coordinates, dot


class IndexOutcome(enum.Enum):
    """The effect of one index on the output element that looks it up."""

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
"""The outcome of an index out of range, by policy."""


@dataclass(frozen=True, slots=True)
class ResolvedIndex:
    """One index that was looked up.

    `address`: address in the index tensor, in elements. `position`: position along the indexed axis, after wrapping and clamping;
    None if no element is read.
    """

    address: int
    value: int
    position: int | None
    outcome: IndexOutcome


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of one output element. `source`: address in the input, in elements; None if no element is read."""

    source: int | None
    indices: tuple[ResolvedIndex, ...]

    @property
    def outcome(self) -> IndexOutcome:
        """Return the outcome of the first index that is out of range, else VALID."""
        return next((index.outcome for index in self.indices if index.outcome is not IndexOutcome.VALID), IndexOutcome.VALID)


def step_at(plan: IndexPlan, output_address: int) -> tuple[int, ...]:
    """Return the point of `plan.shape` that writes an output address (elements). Raises ValueError if no point writes it."""
    step = coordinates(output_address - plan.out_offset, plan.shape, plan.out_strides)
    if step is None:
        raise ValueError(f"the plan writes nothing to output element {output_address}")
    return step


def index_addresses(plan: IndexPlan, step: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index address (elements) of each lookup at the point `step` of `plan.shape`."""
    return tuple(lookup.index_offset + dot(step, lookup.index_strides) for lookup in plan.lookups)


def origin_of(plan: IndexPlan, step: tuple[int, ...], value_at: Callable[[int], int]) -> Origin:
    """Return the source of the output element at the point `step` of `plan.shape`.

    `value_at`: a function from an address in the index tensor (elements) to the index there.
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
