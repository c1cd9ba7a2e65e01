"""How the steps of one plan walk over the output of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmlgather.plan.index_plan import IndexPlan


class CompositionError(ValueError):
    """The two plans cannot become one plan; the message says why. Run them one after the other."""


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
