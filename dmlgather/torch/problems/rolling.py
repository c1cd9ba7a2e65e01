"""roll: a tensor in two windows of each rolled dimension, which change places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, SliceView
from dmlgather.dialects.windows import Window
from dmlgather.plan import IndexPlan, Layout, OutOfBounds
from dmlgather.torch.problems.arguments import check_data, dim_of, integer, integers, is_integer
from dmlgather.wording import counted


@dataclass(frozen=True)
class RolledPart:
    """A window of the data, and the place in the result where it begins, per dimension."""

    problem: SliceView
    start: tuple[int, ...]

    def plan(self) -> IndexPlan:
        """The copy of this part, from a packed tensor into a packed tensor of the same sizes."""
        whole = self.problem.data.layout
        sizes = self.problem.output.shape
        part = Layout(sizes, whole.strides, whole.address(self.start) if 0 not in sizes else 0, whole.extent)
        return self.problem.lower([whole, part])


@dataclass(frozen=True)
class Rolling:
    """torch.roll: element i of a dimension is element (i - shift) modulo its size.

    No single plan says this. It is a copy of each part, two for each rolled dimension, or a chain of views.

    data: as it is rolled, with one dimension where no dims are given. shifts: for each dimension, from 0 on and below its size;
    0 where it is not rolled. shape: of the result.
    """

    data: TensorType
    shifts: tuple[int, ...]
    shape: tuple[int, ...]

    out_of_bounds = OutOfBounds.CLAMP  # no index can be out of bounds

    @property
    def output(self) -> TensorType:
        """As the input."""
        return TensorType(self.shape, self.data.dtype)

    @property
    def parts(self) -> tuple[RolledPart, ...]:
        """The parts; together they write each element of the result once."""
        ends = [
            ((Window(size - shift, shift, 1), 0), (Window(0, size - shift, 1), shift)) if shift else ((Window.whole(size), 0),)
            for size, shift in zip(self.data.shape, self.shifts, strict=True)
        ]
        return tuple(
            RolledPart(SliceView(self.data, tuple(taken for taken, _ in part)), tuple(start for _, start in part))
            for part in product(*ends)
        )

    def chain(self) -> Iterator[Problem]:
        """Views, of which each reads what the one before wrote: each rolled dimension twice, and then a window of both."""
        dtype, sizes = self.data.dtype, self.data.shape
        if not any(self.shifts):
            yield ReshapeView(self.data, sizes)
        for axis, (size, shift) in enumerate(zip(sizes, self.shifts, strict=True)):
            if shift:
                lead, trail = prod(sizes[:axis]), prod(sizes[axis + 1 :])
                yield ExpandView(TensorType((lead, 1, size * trail), dtype), (lead, 2, size * trail))
                windows = (Window.whole(lead), Window(size - shift, size, 1), Window.whole(trail))
                yield SliceView(TensorType((lead, 2 * size, trail), dtype), windows)


def roll(data: TensorType, shifts: Any, dims: Any = ()) -> Rolling:
    """torch.roll. shifts, dims: an integer or equally many; without dims, one shift rolls the flattened data.

    RuntimeError for unequal numbers, IndexError for another dimension.
    """
    check_data("roll", "input", data)
    by = (integer("shifts", shifts),) if is_integer(shifts) else shifts
    along = (integer("dims", dims),) if is_integer(dims) else () if dims is None else dims
    counts, axes = integers("shifts", by), integers("dims", along)
    if not counts:
        raise RuntimeError("shifts has no entries, expected one or more")
    if not axes and len(counts) == 1:
        count = prod(data.shape)
        return Rolling(TensorType((count,), data.dtype), (counts[0] % count if count else 0,), data.shape)
    if len(counts) != len(axes):
        raise RuntimeError(f"shifts has {counted(len(counts), 'entry')} and dims {len(axes)}: expected equally many")
    found = [0] * data.rank
    if 0 not in data.shape:  # as PyTorch, which then looks at no dimension
        for number, (count, axis) in enumerate(zip(counts, axes, strict=True)):
            dim = dim_of(f"dims[{number}]", axis, data.rank, scalar=False)
            found[dim] = (found[dim] + count) % data.shape[dim]
    return Rolling(data, tuple(found), data.shape)
