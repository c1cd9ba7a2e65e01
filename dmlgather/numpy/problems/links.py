"""The links of a chain in NumPy's spelling: brackets, transpose and reshape. Each makes a problem for the data that it gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from dmlgather.dialects.advanced_indexing import Mask, indexing, stacked
from dmlgather.dialects.problem import Problem, TensorType, check_axes, whole
from dmlgather.dialects.views import ReshapeView, TransposeView
from dmlgather.numpy.problems.entries import WrittenEntry
from dmlgather.numpy.problems.take_along_axis import TakeAlongAxis
from dmlgather.wording import counted

MOST_DIMENSIONS = 64
"""Of NumPy's arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class Brackets:
    """x[…]."""

    written: tuple[WrittenEntry, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.written))}]"

    def problem(self, data: TensorType) -> Problem:
        """IndexError, ValueError and TypeError as of `indexing`, and IndexError for more than 64 dimensions."""
        problem = indexing(data, [each.entry for each in self.written])
        if problem.output.rank > MOST_DIMENSIONS:
            raise IndexError(f"the result would have {problem.output.rank} dimensions, expected at most {MOST_DIMENSIONS}")
        return problem

    @property
    def looks_up(self) -> bool:
        """Whether there are indices to look up. True alone is a new dimension."""
        found = [each.entry for each in self.written if each.is_array]
        return any(not isinstance(entry, Mask) or entry.shape or not entry.count for entry in found)

    @property
    def has_placeholder(self) -> bool:
        """Whether the values of an index array are not known."""
        return any(each.arrays is None for each in self.written)

    def indices(self) -> Any:
        """The problem's `indices`. There is no placeholder. IndexError for index arrays that cannot be broadcast."""
        return stacked([each.entry for each in self.written], [array for each in self.written for array in each.arrays or ()])


@dataclass(frozen=True, slots=True, eq=False)
class TakenAlong:
    """numpy.take_along_axis(x, …, axis)."""

    written: WrittenEntry
    axis: int
    looks_up = True

    def __str__(self) -> str:
        return f".take_along_axis({self.written}, {self.axis})"

    def problem(self, data: TensorType) -> Problem:
        """ValueError for another axis or number of dimensions; IndexError for sizes that cannot be broadcast."""
        assert isinstance(self.written.entry, TensorType)
        return TakeAlongAxis(data, self.written.entry, self.axis)

    @property
    def has_placeholder(self) -> bool:
        """Whether the values of the indices are not known."""
        return self.written.arrays is None

    def indices(self) -> Any:
        """The problem's `indices`. There is no placeholder."""
        return (self.written.arrays or ())[0]


@dataclass(frozen=True, slots=True)
class Transposed:
    """x.transpose(axes): the dimensions in that order; None for the reverse order."""

    axes: tuple[Any, ...] | None

    def __str__(self) -> str:
        return f".transpose({'' if self.axes is None else _written(self.axes)})"

    def problem(self, data: TensorType) -> Problem:
        """ValueError unless `axes` names each dimension once, counted from either end."""
        if self.axes is None:
            return TransposeView(data, tuple(range(data.rank)[::-1]))
        axes = tuple(whole(f"axes[{number}]", axis) for number, axis in enumerate(self.axes))
        if len(axes) != data.rank:
            raise ValueError(f"axes is {axes}, but there are {counted(data.rank, 'dimension')}: expected each once")
        return TransposeView(data, check_axes("axes", axes, data.rank, "data"))


@dataclass(frozen=True, slots=True)
class Reshaped:
    """x.reshape(shape), in row-major order; one size may be -1: whatever is left. None for the shape as it is."""

    shape: tuple[Any, ...] | None

    def __str__(self) -> str:
        return f".reshape({None if self.shape is None else _written(self.shape)})"

    def problem(self, data: TensorType) -> Problem:
        """ValueError for another number of elements, and for a size below -1 or a second -1."""
        if self.shape is None:
            return ReshapeView(data, data.shape)
        sizes = [whole(f"shape[{number}]", size) for number, size in enumerate(self.shape)]
        if min(sizes, default=0) < -1 or sizes.count(-1) > 1:
            raise ValueError(f"shape is {self.shape}, expected sizes of 0 or more, and at most one -1")
        if -1 in sizes:
            others = prod(size for size in sizes if size != -1)
            if not others or prod(data.shape) % others:
                raise ValueError(f"shape is {self.shape}, but data is {data}: no size in the place of -1 gives as many elements")
            sizes[sizes.index(-1)] = prod(data.shape) // others
        return ReshapeView(data, tuple(sizes))


def _written(integers: Sequence[Any]) -> str:
    """Integers as arguments; no integers as one argument."""
    return ", ".join(map(str, integers)) or "()"


Link = Brackets | TakenAlong | Transposed | Reshaped


def problems(links: Sequence[Link], data: TensorType) -> tuple[Problem, ...]:
    """The problem of each link; each reads what the one before it writes."""
    found: list[Problem] = []
    for link in links:
        found.append(link.problem(found[-1].output if found else data))
    return tuple(found)
