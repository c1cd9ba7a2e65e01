"""Gather problems that ONNX and OpenVINO share: one element per index, and index tuples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dmlgather.dialects.problem import Problem, TensorType, check_axis, check_batch, gathering, whole
from dmlgather.plan import IndexPlan, Layout


class GatherElementsProblem(Problem):
    """A gather of one element per index, along `axis`. Example: output[i, j] = data[indices[i, j], j] for axis 0."""

    indices: TensorType
    axis: int

    inputs = ("data", "indices")
    smaller_indices: ClassVar[bool]
    """True if indices may be smaller than data along other axes."""

    def _check_elements(self, operator: object) -> None:
        """Raise ValueError unless ranks, axis and sizes fit together. Make `axis` count from the front."""
        if self.indices.rank != self.data.rank:
            raise ValueError(
                f"indices has rank {self.indices.rank} and data rank {self.data.rank}, but {operator} takes equal ranks: "
                "reshape or expand indices"
            )
        axis = check_axis("axis", self.axis, self.data.rank, "data")
        object.__setattr__(self, "axis", axis)
        rule, remedy = ("at most data's size", "crop") if self.smaller_indices else ("data's size", "crop or expand")
        for dimension, (size, data_size) in enumerate(zip(self.indices.shape, self.data.shape, strict=True)):
            if dimension != axis and (size > data_size or (size < data_size and not self.smaller_indices)):
                raise ValueError(
                    f"indices has size {size} and data has size {data_size} in dimension {dimension}, but {operator} takes "
                    f"{rule} except along the axis ({axis}): {remedy} indices to size {data_size} in dimension {dimension}"
                )

    @property
    def output(self) -> TensorType:
        return TensorType(self.indices.shape, self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return (self.axis,)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, _ = layouts
        in_strides = tuple(0 if axis == self.axis else stride for axis, stride in enumerate(data.strides))
        return gathering(self, layouts, in_strides, indices.strides)


class GatherNDProblem(Problem):
    """A gather by index tuples: output[b…, i…, trail…] = data[b…, *indices[b…, i…, :], trail…].

    `batch_dims`: the number of dimensions b….
    """

    indices: TensorType
    batch_dims: int

    inputs = ("data", "indices")

    def _check_tuples(self, operator: object) -> None:
        """Raise ValueError unless ranks, batch dimensions and tuples fit together. Make `batch_dims` an int."""
        if not self.indices.rank:
            raise ValueError(f"indices is a scalar, but {operator} takes rank >= 1: the last dimension holds the index tuples")
        batch = whole("batch_dims", self.batch_dims)
        object.__setattr__(self, "batch_dims", batch)
        most = min(self.data.rank, self.indices.rank) - 1
        if not 0 <= batch <= most:
            raise ValueError(
                f"batch_dims is {batch}, expected 0 … {most}, because it must be less than the ranks of data ({self.data.rank}) "
                f"and indices ({self.indices.rank})"
            )
        check_batch(self.data, self.indices, batch, str(batch))
        if self.tuple_size > self.data.rank - batch:
            raise ValueError(
                f"indices has tuples of {self.tuple_size} components (its last dimension), but data has "
                f"{self.data.rank - batch} dimensions to index (rank {self.data.rank}, batch_dims {batch}): shorten the tuples "
                f"to at most {self.data.rank - batch} components"
            )

    @property
    def tuple_size(self) -> int:
        """Number of components of an index tuple."""
        return self.indices.shape[-1]

    @property
    def output(self) -> TensorType:
        return TensorType(self.indices.shape[:-1] + self.data.shape[self.batch_dims + self.tuple_size :], self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return tuple(range(self.batch_dims, self.batch_dims + self.tuple_size))

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, _ = layouts
        *tuples, component_stride = indices.strides
        batch, trail = data.strides[: self.batch_dims], data.strides[self.batch_dims + self.tuple_size :]
        in_strides = (*batch, *(0 for _ in tuples[len(batch) :]), *trail)
        index_strides = (*tuples, *(0 for _ in trail))
        return gathering(self, layouts, in_strides, index_strides, component_stride=component_stride)
