"""numpy.take_along_axis as a problem: its rules, plan and descriptor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dmlgather.dialects import descriptors
from dmlgather.dialects.descriptors import Dim, View
from dmlgather.dialects.exporter import Descriptors, views
from dmlgather.dialects.problem import Problem, TensorType, broadcast_strides, check_axis, gathering
from dmlgather.directml import FeatureLevel
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, build


@dataclass(frozen=True)
class TakeAlongAxis(Problem):
    """output[c] = data[c with c[axis] replaced by indices[c]]. Except along `axis`, data and indices are broadcast.

    Negative indices count from the end. If the output is empty, indices are not checked.
    """

    data: TensorType
    indices: TensorType
    axis: int

    name = "take_along_axis"
    inputs = ("data", "indices")
    out_of_bounds = OutOfBounds.RAISE
    wraps = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", check_axis("axis", self.axis, self.data.rank, "data"))
        if self.indices.rank != self.data.rank:
            raise ValueError(f"indices is {self.indices} and data is {self.data}: expected equal ranks")
        for axis, (size, count) in enumerate(zip(self.data.shape, self.indices.shape, strict=True)):
            if axis != self.axis and size != count and 1 not in (size, count):
                raise IndexError(
                    f"indices has size {count} in dimension {axis}, and data has size {size}: sizes must be equal, or 1, "
                    f"except along the axis ({self.axis})"
                )

    @property
    def output(self) -> TensorType:
        sizes = [1 if axis == self.axis else size for axis, size in enumerate(self.data.shape)]
        return TensorType(np.broadcast_shapes(self.indices.shape, sizes), self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return (self.axis,)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, output = layouts
        in_strides = [0 if axis == self.axis else step for axis, step in enumerate(broadcast_strides(data))]
        if 0 in output.sizes:
            return build(data, output, in_strides, self.data.dtype.itemsize)
        return gathering(self, layouts, in_strides, broadcast_strides(indices))


def take_along_axis_form(problem: TakeAlongAxis, level: FeatureLevel) -> Descriptors:
    """Return the GATHER_ELEMENTS descriptor of numpy.take_along_axis. Strides of 0 broadcast the tensors."""
    data, indices, output = views(problem)
    indices = replace(indices, dims=(*indices.dims, *(Dim(1, 0) for _ in data.dims[problem.data.rank :])))
    sizes = list(output.sizes)
    indices = _expanded(indices, sizes)
    sizes[problem.axis] = problem.data.shape[problem.axis]
    return descriptors.gather_elements(_expanded(data, sizes), indices, output, problem.axis, level)


def _expanded(view: View, sizes: Sequence[int]) -> View:
    """Broadcast a view to these sizes by strides of 0."""
    return replace(
        view, dims=tuple(dim if dim.size == size else Dim(size, 0) for dim, size in zip(view.dims, sizes, strict=True))
    )
