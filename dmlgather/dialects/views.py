"""Views as problems: reshape, transpose, expand, slice, and copies with any strides. They read no indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from dmlgather.dialects.problem import Problem, TensorType, broadcast_strides
from dmlgather.dialects.windows import Window, WindowProblem
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, build
from dmlgather.plan.layout import common_split
from dmlgather.wording import counted


class ViewProblem(Problem):
    """A problem without indices: each output element is a copy of a data element."""

    inputs = ("data",)
    out_of_bounds = OutOfBounds.CLAMP  # the choice does not matter: there are no indices
    shape: tuple[int, ...]

    @property
    def output(self) -> TensorType:
        return TensorType(self.shape, self.data.dtype)


@dataclass(frozen=True)
class ReshapeView(ViewProblem):
    """A reshape. `lower` raises ValueError if no strides describe the data in the new shape."""

    data: TensorType
    shape: tuple[int, ...]

    name = "reshape"

    def __post_init__(self) -> None:
        if prod(self.shape) != prod(self.data.shape):
            raise ValueError(
                f"shape is {list(self.shape)}, which has {counted(prod(self.shape), 'element')}, but data is {self.data}, "
                f"which has {prod(self.data.shape)}: the numbers must be equal"
            )

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, output = layouts
        source, target = common_split(data, output), common_split(output, data)
        if source is None or target is None:
            raise ValueError(f"data of layout {data} cannot be viewed in shape {list(self.shape)}: copy it first")
        return build(source, target, source.strides, self.data.dtype.itemsize)


@dataclass(frozen=True)
class TransposeView(ViewProblem):
    """A transposition: dimension i of the output is dimension order[i] of data."""

    data: TensorType
    order: tuple[int, ...]

    name = "transpose"

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(self.data.rank)):
            raise ValueError(f"order is {list(self.order)}, which is no permutation of the {self.data.rank} dimensions of data")

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override] # it follows from the order
        """Sizes of the output."""
        return tuple(self.data.shape[axis] for axis in self.order)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, output = layouts
        return build(data, output, data.permuted(self.order).strides, self.data.dtype.itemsize)


@dataclass(frozen=True)
class ExpandView(ViewProblem):
    """A broadcast of data to a shape, by NumPy's rules."""

    data: TensorType
    shape: tuple[int, ...]

    name = "expand"

    def __post_init__(self) -> None:
        sizes = self.data.shape
        if len(self.shape) < len(sizes) or any(a not in (1, b) for a, b in zip(sizes[::-1], self.shape[::-1], strict=False)):
            raise ValueError(f"data of shape {list(sizes)} cannot be broadcast to {list(self.shape)}: sizes must be equal, or 1")

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, output = layouts
        steps = broadcast_strides(data)
        new = [0] * (len(output.sizes) - len(steps))
        return build(data, output, (*new, *steps), self.data.dtype.itemsize)


@dataclass(frozen=True)
class SliceView(WindowProblem):
    """A slice of data. `taken`: a window for each dimension."""

    data: TensorType
    taken: tuple[Window, ...]

    name = "slice"

    def __post_init__(self) -> None:
        if len(self.taken) != self.data.rank:
            raise ValueError(
                f"taken has {counted(len(self.taken), 'window')}, but data is {self.data}: expected one for each dimension"
            )
        for axis, (size, window) in enumerate(zip(self.data.shape, self.taken, strict=True)):
            ends = (window.start, window.start + (window.count - 1) * window.step)
            if window.count < 0 or (window.count and (min(ends) < 0 or max(ends) >= size)):
                raise ValueError(f"{window} is not inside dimension {axis}: data is {self.data}")

    @property
    def windows(self) -> tuple[Window, ...]:
        return self.taken


@dataclass(frozen=True)
class StridedView(ViewProblem):
    """A view of the flat data: output[o] = data.reshape(-1)[offset + o · strides].

    Strides are in elements and may be 0 or negative. `lower` raises ValueError if data are not packed.
    """

    data: TensorType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    name = "strided view"

    def __post_init__(self) -> None:
        if len(self.strides) != len(self.shape):
            raise ValueError(f"strides has {len(self.strides)} entries and shape has {len(self.shape)}: expected equal numbers")
        self.plan()  # the plan's constructor checks every address

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, output = layouts
        if data.strides != Layout.packed(data.sizes).strides and prod(data.sizes) > 1:
            raise ValueError("data is not packed: copy it first")
        return build(data, output, self.strides, self.data.dtype.itemsize, in_offset=self.offset)
