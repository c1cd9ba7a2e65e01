"""lax.slice, lax.rev and lax.dynamic_slice: rules and lowering. Source: JAX's documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.windows import Window, WindowProblem
from dmlgather.lax.problems.gather import OPERANDS, TYPES, GatherDimensionNumbers, LaxGather
from dmlgather.plan import IndexPlan, Layout, OutOfBounds


@dataclass(frozen=True)
class LaxSlice(WindowProblem):
    """lax.slice: operand[start : limit : stride] in every dimension, 0 <= start <= limit <= size. strides: None means 1s."""

    data: TensorType
    start_indices: tuple[int, ...]
    limit_indices: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    name = "slice"

    def __post_init__(self) -> None:
        TYPES.check("lax.slice", "operand", self.data.dtype, OPERANDS)
        bounds = {"start_indices": self.start_indices, "limit_indices": self.limit_indices, "strides": self._steps}
        for field, values in bounds.items():
            if len(values) != self.data.rank:
                raise TypeError(f"{field} is {values}; expected {self.data.rank} entries, one per dimension of operand")
        for dimension, (start, limit, step, size) in enumerate(zip(*bounds.values(), self.data.shape, strict=True)):
            if not 0 <= start <= limit <= size:
                raise TypeError(
                    f"start_indices[{dimension}] is {start} and limit_indices[{dimension}] {limit}; expected 0 <= start <= limit "
                    f"<= {size}, operand's size there"
                )
            if step < 1:
                raise TypeError(f"strides[{dimension}] is {step}; expected 1 or more")

    @property
    def _steps(self) -> tuple[int, ...]:
        return (1,) * self.data.rank if self.strides is None else self.strides

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        bounds = zip(self.start_indices, self.limit_indices, self._steps, strict=True)
        return tuple(Window(start, -((start - limit) // step), step) for start, limit, step in bounds)


@dataclass(frozen=True)
class Rev(WindowProblem):
    """lax.rev: operand reversed along `dimensions`."""

    data: TensorType
    dimensions: tuple[int, ...]

    name = "rev"

    def __post_init__(self) -> None:
        TYPES.check("lax.rev", "operand", self.data.dtype, OPERANDS)
        known = set(range(self.data.rank))
        if len(set(self.dimensions)) < len(self.dimensions) or not known.issuperset(self.dimensions):
            raise TypeError(
                f"dimensions is {self.dimensions}; expected dimensions of operand, of rank {self.data.rank}, each once"
            )

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        return tuple(
            Window(size - 1, size, -1) if size and dimension in self.dimensions else Window.whole(size)
            for dimension, size in enumerate(self.data.shape)
        )


@dataclass(frozen=True)
class DynamicSlice(Problem):
    """lax.dynamic_slice: one window of `slice_sizes`, whose start is known at run time and clamped so that the window is inside.

    It equals the gather of one index vector under mode "clip". indices: JAX's scalar starts, stacked, shape [rank of operand].
    """

    data: TensorType
    indices: TensorType
    slice_sizes: tuple[int, ...]

    name = "dynamic_slice"
    inputs: ClassVar[tuple[str, ...]] = ("data", "indices")
    out_of_bounds = OutOfBounds.CLAMP

    def __post_init__(self) -> None:
        if self.indices.shape != (self.data.rank,):
            raise TypeError(
                f"start_indices has shape {self.indices.shape}; expected {(self.data.rank,)}, one per dimension of operand"
            )
        _ = self.gather

    @cached_property
    def gather(self) -> LaxGather:
        """The equal gather."""
        every = tuple(range(self.data.rank))
        return LaxGather(self.data, self.indices, GatherDimensionNumbers(every, (), every), self.slice_sizes, self.out_of_bounds)

    @property
    def output(self) -> TensorType:
        return self.gather.output

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return self.gather.lookup_axes

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        return self.gather._lower(layouts)
