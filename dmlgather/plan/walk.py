"""The input addresses of an outer plan as coordinates in the output of an inner plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dmlgather.plan.index_plan import IndexPlan


class CompositionError(ValueError):
    """Two plans cannot be composed; the message says why. Run them one after the other.

    `code`: the reason as a fixed text, such as "two index tensors".
    """

    def __init__(self, message: str, code: str = "not one walk") -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class Walk:
    """The input address of an outer plan, as coordinates in the output of an inner plan in canonical form (`simplify`).

    `start`: coordinates of the first element. `sizes`, `out_strides`, `index_strides`: those of the outer plan, with dimensions
    split where they cross the end of an inner dimension. `steps[i]`: change of the coordinates by one step of outer dimension
    i. `value_steps[k]`: change by one unit of lookup k.
    """

    start: tuple[int, ...]
    sizes: list[int]
    out_strides: list[int]
    index_strides: list[tuple[int, ...]]
    steps: list[tuple[int, ...]]
    value_steps: list[tuple[int, ...]]

    @classmethod
    def over(cls, inner: IndexPlan, outer: IndexPlan) -> Walk:
        """Return the walk of `outer` over the output of `inner`, which is its input. CompositionError if there is none."""
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
    """A dimension of the outer plan, or a part of one.

    `step`: change of the inner coordinates by one step. `carried`: other strides of the dimension.
    """

    size: int
    step: tuple[int, ...]
    carried: tuple[int, ...]


def walked(inner: IndexPlan, dims: Iterable[tuple[int, int, tuple[int, ...]]]) -> list[WalkedDim]:
    """Split dimensions where they cross the end of a dimension of `inner`, and drop those of size 1.

    `dims`: size, stride in the output of `inner` (elements), and further strides, which are split like it. CompositionError if
    a stride leads to an address that `inner` does not write.

    Example: `inner` has shape {2,3} and output strides {3,1}. A dimension of size 6 and stride 1 is split into one of size 2
    and stride 3, and one of size 3 and stride 1.
    """
    split = []
    pending = [(size, distance, carried) for size, distance, carried in dims if size > 1]
    while pending:
        size, distance, carried = pending.pop(0)
        step = decompose(distance, inner)
        inside = _fitting(size, step, inner)
        if inside < size:
            pending.insert(0, (size // inside, distance * inside, tuple(stride * inside for stride in carried)))
        split.append(WalkedDim(inside, step, carried))
    return split


def check_inside(inner: IndexPlan, start: Sequence[int], sizes: Sequence[int], steps: Sequence[Sequence[int]]) -> None:
    """Raise CompositionError if the walk leaves the output of `inner`.

    The walk begins at `start`; its dimension i has `sizes[i]` positions, which are `steps[i]` apart.
    """
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
    """Return a distance in the output of `inner` (elements) as numbers of steps along the dimensions of `inner`.

    The output strides of `inner` are sorted in falling order. Example: with strides {8,1}, a distance of 19 is (2, 3).
    """
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
    """Return the size of the inner part of an outer dimension that is split; `size` if it is not split.

    Example: 12 steps of 2 along a dimension of size 8 leave it after 8 / 2 = 4 steps; 4 divides 12.
    """
    fit = size
    for move, limit in zip(step, inner.shape, strict=True):
        if move and (fit - 1) * abs(move) >= limit and limit % abs(move) == 0:
            inside = limit // abs(move)
            if inside > 1 and fit % inside == 0:
                fit = inside
    return fit
