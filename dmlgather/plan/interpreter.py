"""Interpreter of a plan for single output elements: which indices it reads and which input element it copies.

Diagrams and messages use this module. The reference backend does not, because it is the standard for the other backends.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from dmlgather.plan.index_plan import IndexPlan, OutOfBounds
from dmlgather.plan.layout import coordinates, dot


class IndexOutcome(enum.Enum):
    """The effect of one index on the output element: the index is valid, is clamped, causes a fill, or is refused."""

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
"""The outcome of an index out of range, by policy. Under RAISE, no element is written."""


@dataclass(frozen=True, slots=True)
class ResolvedIndex:
    """An index that a plan has read, and its effect.

    `address`: address of the index in the index tensor, in elements. `value`: the index itself. `position`: position along the
    indexed axis, after wrapping and clamping. It is None if the index is out of range and not clamped.
    """

    address: int
    value: int
    position: int | None
    outcome: IndexOutcome


@dataclass(frozen=True, slots=True)
class Origin:
    """The input element that an output element is a copy of, and the indices that select it.

    `source`: address in the input, in elements. It is None if no input element is read, because an index is out of range.
    """

    source: int | None
    indices: tuple[ResolvedIndex, ...]

    @property
    def outcome(self) -> IndexOutcome:
        """Return the outcome of the first index that is out of range, or VALID if all are in range."""
        return next((index.outcome for index in self.indices if index.outcome is not IndexOutcome.VALID), IndexOutcome.VALID)


def step_at(plan: IndexPlan, output_address: int) -> tuple[int, ...]:
    """Return the point of `plan.shape` at which the plan writes `output_address`, an address in elements.

    Raises ValueError if the plan never writes there.
    """
    step = coordinates(output_address - plan.out_offset, plan.shape, plan.out_strides)
    if step is None:
        raise ValueError(f"the plan writes nothing to output element {output_address}")
    return step


def index_addresses(plan: IndexPlan, step: tuple[int, ...]) -> tuple[int, ...]:
    """Return the address, in elements, of each lookup's index for the point `step` of `plan.shape`."""
    return tuple(lookup.index_offset + dot(step, lookup.index_strides) for lookup in plan.lookups)


def origin_of(plan: IndexPlan, step: tuple[int, ...], value_at: Callable[[int], int]) -> Origin:
    """Return the source of one output element: the one that the plan writes at the point `step` of `plan.shape`.

    `value_at`: a function that returns the index at an address of the index tensor. The address is in elements.
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
