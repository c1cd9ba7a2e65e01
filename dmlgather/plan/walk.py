"""The elements that an outer plan reads, as coordinates in the output of the inner plan that wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dmlgather.plan.index_plan import IndexPlan


class CompositionError(ValueError):
    """No single plan does the work of two plans. The message says why. Run them one after the other.

    `code`: a fixed name of the reason, such as "two index tensors", which programs can compare.
    """

    def __init__(self, message: str, code: str = "not one walk") -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class Walk:
    """The coordinates of the elements that an outer plan reads in the output of an inner plan. The inner plan is canonical.

    Example: the inner plan writes shape {2,3} in row-major order. Then the element that the outer plan reads at address 4 has
    the coordinates (1, 1).

    `sizes`, `out_strides`, `index_strides`: dimensions of the outer plan after splits, with their strides.
    `steps[i]`: difference of the coordinates between neighbours along dimension i.
    `value_steps[k]`: difference of the coordinates if the index of lookup k grows by 1.
    """

    start: tuple[int, ...]
    sizes: list[int]
    out_strides: list[int]
    index_strides: list[tuple[int, ...]]
    steps: list[tuple[int, ...]]
    value_steps: list[tuple[int, ...]]

    @classmethod
    def over(cls, inner: IndexPlan, outer: IndexPlan) -> Walk:
        """Return the coordinates that `outer` reads. Raises CompositionError if strides cannot describe them."""
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
    """A dimension of the outer plan, or one of the dimensions into which it is split.

    `step`: the difference of the inner coordinates between neighbours along the dimension.
    `carried`: the strides of the dimension in other tensors.
    """

    size: int
    step: tuple[int, ...]
    carried: tuple[int, ...]


def walked(inner: IndexPlan, dims: Iterable[tuple[int, int, tuple[int, ...]]]) -> list[WalkedDim]:
    """Split the outer dimensions `dims` so that none runs over the end of a dimension of `inner`.

    `dims`: for each dimension, its size, its stride in the output of `inner`, and its strides in other tensors.

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
    """Raise CompositionError if a strided set of coordinates leaves the output of `inner`.

    The set is `start` + n_0 · `steps[0]` + n_1 · `steps[1]` + …, for all n_i from 0 to `sizes[i]` - 1.
    """
    for axis, size in enumerate(inner.shape):
        moves = [(count - 1) * step[axis] for count, step in zip(sizes, steps, strict=True)]
        low = start[axis] + sum(move for move in moves if move < 0)
        high = start[axis] + sum(move for move in moves if move > 0)
        if low < 0 or high >= size:
            raise CompositionError(
                f"the outer plan reads coordinates {low} … {high} in dimension {axis} of the inner output, which has size {size} "
                f"(inner shape {list(inner.shape)}, strides {list(inner.out_strides)}): one plan cannot wrap around there"
            )


def decompose(distance: int, inner: IndexPlan) -> tuple[int, ...]:
    """Split a distance between two output elements of `inner` into steps along each dimension.

    Output strides must be sorted, largest first. Example: with strides {8,1}, the distance 19 is (2, 3), because 2 · 8 + 3 · 1
    = 19. Raises CompositionError if `inner` writes no element at this distance.
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
    """Return the length of the pieces into which an outer dimension must be split. Return `size` if it stays whole.

    Example: a dimension of size 12 moves by 2 along an inner dimension of size 8. It runs over the end after 8 / 2 = 4 steps.
    As 4 divides 12, the dimension can be split into sizes 3 and 4.
    """
    fit = size
    for move, limit in zip(step, inner.shape, strict=True):
        if move and (fit - 1) * abs(move) >= limit and limit % abs(move) == 0:
            inside = limit // abs(move)
            if inside > 1 and fit % inside == 0:
                fit = inside
    return fit
