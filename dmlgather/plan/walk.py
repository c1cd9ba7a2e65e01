"""How the steps of one plan walk over the output of another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dmlgather.plan.index_plan import IndexPlan


class CompositionError(ValueError):
    """The two plans cannot become one plan; the message says why. Run them one after the other.

    code: the reason in few words, the same for all plans that it stops: "two index tensors".
    """

    def __init__(self, message: str, code: str = "not one walk") -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class Walk:
    """The outer plan's input address as coordinates of the inner plan's output: start + per-dimension steps. The inner plan is in
    canonical form at its own element size (`simplify`).

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
    def over(cls, inner: IndexPlan, outer: IndexPlan) -> Walk:
        """How `outer`, whose input is the output of `inner`, walks over it. CompositionError where strides cannot say it."""
        strides = zip(outer.out_strides, *(lookup.index_strides for lookup in outer.lookups), strict=True)
        dims = walked(inner, zip(outer.shape, outer.in_strides, strides, strict=True))
        walk = cls(
            start=decompose(outer.in_offset - inner.out_offset, inner),
            sizes=[dim.size for dim in dims],
            out_strides=[dim.carried[0] for dim in dims],
            index_strides=[dim.carried[1:] for dim in dims],
            steps=[dim.step for dim in dims],
            value_steps=[decompose(lookup.in_stride, inner) for lookup in outer.lookups],
        )
        limits = [max(lookup.limit, 1) for lookup in outer.lookups]
        check_inside(inner, walk.start, [*walk.sizes, *limits], [*walk.steps, *walk.value_steps])
        return walk


@dataclass(frozen=True, slots=True)
class WalkedDim:
    """A dimension of the outer plan, or a part of one. step: inner coordinates moved by one step; carried: other strides."""

    size: int
    step: tuple[int, ...]
    carried: tuple[int, ...]


def walked(inner: IndexPlan, dims: Iterable[tuple[int, int, tuple[int, ...]]]) -> list[WalkedDim]:
    """Dimensions split where they cross a boundary of the output of `inner`; those of size 1 are left out.

    dims: size, step in elements of the output of `inner`, and strides that are split likewise. CompositionError where a step
    falls between the elements that `inner` writes.
    """
    found = []
    pending = [(size, distance, carried) for size, distance, carried in dims if size > 1]
    while pending:
        size, distance, carried = pending.pop(0)
        step = decompose(distance, inner)
        inside = _fitting(size, step, inner)
        if inside < size:
            # The dimension runs over the end of an inner one: split it there and let the outer part carry.
            pending.insert(0, (size // inside, distance * inside, tuple(stride * inside for stride in carried)))
        found.append(WalkedDim(inside, step, carried))
    return found


def check_inside(inner: IndexPlan, start: Sequence[int], sizes: Sequence[int], steps: Sequence[Sequence[int]]) -> None:
    """CompositionError unless a walk from `start`, `sizes[i]` times by `steps[i]`, stays inside the output of `inner`."""
    for axis, size in enumerate(inner.shape):
        moves = [(count - 1) * step[axis] for count, step in zip(sizes, steps, strict=True)]
        low = start[axis] + sum(move for move in moves if move < 0)
        high = start[axis] + sum(move for move in moves if move > 0)
        if low < 0 or high >= size:
            raise CompositionError(
                f"the outer plan walks coordinates {low} … {high} of the inner output's dimension {axis} of size {size} "
                f"(inner shape {list(inner.shape)}, strides {list(inner.out_strides)}): not one strided walk"
            )


def decompose(distance: int, inner: IndexPlan) -> tuple[int, ...]:
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
