"""The plan, followed for single output elements: which indices they look up and which input element they read."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from dmlgather.plan import IndexPlan, OutOfBounds, coordinates


class Outcome(enum.Enum):
    """What becomes of an index, and of the output element that looks it up."""

    VALID = "valid"
    CLAMPED = "clamped"
    FILLED = "filled"
    REFUSED = "refused"


OUT_OF_RANGE = {
    OutOfBounds.CLAMP: Outcome.CLAMPED,
    OutOfBounds.PROMISE: Outcome.CLAMPED,
    OutOfBounds.FILL: Outcome.FILLED,
    OutOfBounds.RAISE: Outcome.REFUSED,
}
"""What an index out of range becomes under each policy."""


@dataclass(frozen=True, slots=True)
class Found:
    """One index that was looked up. address: elements into the index tensor. position: where it points after wrapping and
    clamping, along its axis; None where no element is read.
    """

    address: int
    value: int
    position: int | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Read:
    """Where one output element comes from. source: elements into the input; None where none is read."""

    source: int | None
    found: tuple[Found, ...]

    @property
    def outcome(self) -> Outcome:
        """The outcome of the first of its indices that is out of range, else VALID."""
        return next((item.outcome for item in self.found if item.outcome is not Outcome.VALID), Outcome.VALID)


def at(plan: IndexPlan, output_address: int) -> tuple[int, ...]:
    """The step of the plan that writes an output address (elements)."""
    step = coordinates(output_address - plan.out_offset, plan.shape, plan.out_strides)
    if step is None:
        raise ValueError(f"the plan writes nothing to output element {output_address}")
    return step


def index_addresses(plan: IndexPlan, step: tuple[int, ...]) -> tuple[int, ...]:
    """The index tensor's elements that a step looks up, one per lookup."""
    return tuple(lookup.index_offset + _dot(step, lookup.index_strides) for lookup in plan.lookups)


def read(plan: IndexPlan, step: tuple[int, ...], value_at: Callable[[int], int]) -> Read:
    """Follow one step of the plan. value_at: the index at an address of the index tensor."""
    found = []
    source = plan.in_offset + _dot(step, plan.in_strides)
    for lookup, address in zip(plan.lookups, index_addresses(plan, step), strict=True):
        value = value_at(address)
        wrapped = value + lookup.wrap if value < 0 else value
        outcome = Outcome.VALID if 0 <= wrapped < lookup.limit else OUT_OF_RANGE[plan.out_of_bounds]
        reads = outcome in (Outcome.VALID, Outcome.CLAMPED)
        position = min(max(wrapped, 0), lookup.limit - 1) if reads else None
        source += (position or 0) * lookup.in_stride
        found.append(Found(address, value, position, outcome))
    complete = all(item.position is not None for item in found)
    return Read(source if complete else None, tuple(found))


def _dot(step: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return sum(a * b for a, b in zip(step, strides, strict=True))
