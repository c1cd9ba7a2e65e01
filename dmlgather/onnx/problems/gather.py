"""Gather, GatherElements and GatherND: rules and lowering. Source: the operators' pages in ONNX's documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmlgather.dialects.lowering import gather, gathering
from dmlgather.dialects.problem import TensorType, check_axis, check_batch, whole
from dmlgather.onnx.problems.data_types import check_type
from dmlgather.onnx.problems.operator_versions import OnnxProblem
from dmlgather.plan import IndexPlan, Layout


class GatherProblem(OnnxProblem):
    """A call with data and indices, where an index out of range is an error."""

    indices: TensorType

    inputs = ("data", "indices")

    @property
    def wraps(self) -> bool:
        """True, but for Gather-1."""
        return True

    def _check_tensors(self) -> None:
        version = self.version
        check_type(version, "data", self.data.dtype, version.types)
        check_type(version, "indices", self.indices.dtype, version.index_types)
        if not self.data.rank:
            raise ValueError(f"data is a scalar, but {version} takes data of rank >= 1: reshape it to (1,)")


@dataclass(frozen=True)
class Gather(GatherProblem):
    """output[lead…, i…, trail…] = data[lead…, indices[i…], trail…].

    data: of rank r >= 1. indices: of any rank q; the output has rank q + r - 1. axis: -r … r-1, kept non-negative.
    """

    data: TensorType
    indices: TensorType
    axis: int = 0
    opset: int = 13

    name = "Gather"

    def __post_init__(self) -> None:
        self._check_tensors()
        object.__setattr__(self, "axis", check_axis("axis", self.axis, self.data.rank, "data"))

    @property
    def wraps(self) -> bool:
        """Gather-1 asks for indices within bounds and does not mention negative ones."""
        return self.version.since > 1

    @property
    def output(self) -> TensorType:
        """data[:axis] ++ indices ++ data[axis+1:]."""
        sizes = self.data.shape
        return TensorType(sizes[: self.axis] + self.indices.shape + sizes[self.axis + 1 :], self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return (self.axis,)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        return gather(self, layouts, self.axis, 0)


@dataclass(frozen=True)
class GatherElements(GatherProblem):
    """output[c] = data[c with c[axis] replaced by indices[c]].

    data: of rank r >= 1. indices: of the same rank, off the axis no larger than data; the output has their shape.
    axis: -r … r-1, kept non-negative.
    """

    data: TensorType
    indices: TensorType
    axis: int = 0
    opset: int = 13

    name = "GatherElements"

    def __post_init__(self) -> None:
        self._check_tensors()
        if self.indices.rank != self.data.rank:
            raise ValueError(
                f"indices has rank {self.indices.rank} and data rank {self.data.rank}, but {self.version} takes equal ranks: "
                "reshape or expand indices"
            )
        axis = check_axis("axis", self.axis, self.data.rank, "data")
        object.__setattr__(self, "axis", axis)
        for dimension, (size, most) in enumerate(zip(self.indices.shape, self.data.shape, strict=True)):
            if dimension != axis and size > most:
                raise ValueError(
                    f"indices has size {size} in dimension {dimension}, where data has {most}, but off the axis ({axis}) "
                    f"{self.version} takes at most data's size: crop indices to {most} there"
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


@dataclass(frozen=True)
class GatherND(GatherProblem):
    """output[b…, i…, trail…] = data[b…, tuple indices[b…, i…, :], trail…].

    data: of rank r >= 1. indices: of rank q >= 1, its last dimension the tuples' components, at most r - batch_dims of them;
    none copies the whole of data for each tuple. batch_dims: 0 … min(q, r) - 1 leading dimensions of equal sizes; from
    opset 12 on.
    """

    data: TensorType
    indices: TensorType
    batch_dims: int = 0
    opset: int = 13

    name = "GatherND"

    def __post_init__(self) -> None:
        self._check_tensors()
        if not self.indices.rank:
            raise ValueError(f"indices is a scalar, but {self.version} takes indices of rank >= 1, the last one its tuples")
        batch = whole("batch_dims", self.batch_dims)
        object.__setattr__(self, "batch_dims", batch)
        most = min(self.data.rank, self.indices.rank) - 1
        if batch and self.version.since < 12:
            raise ValueError(f"batch_dims is {batch}, but {self.version} has none; it came with opset 12")
        if not 0 <= batch <= most:
            raise ValueError(
                f"batch_dims is {batch}, expected 0 … {most}: less than the ranks of data ({self.data.rank}) and indices "
                f"({self.indices.rank})"
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
        """Components of one index tuple."""
        return self.indices.shape[-1]

    @property
    def output(self) -> TensorType:
        """All but the last dimension of indices ++ the dimensions of data behind the indexed ones."""
        return TensorType(self.indices.shape[:-1] + self.data.shape[self.batch_dims + self.tuple_size :], self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        """One axis per component, behind the batch dimensions."""
        return tuple(range(self.batch_dims, self.batch_dims + self.tuple_size))

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, _ = layouts
        *tuples, component_stride = indices.strides
        batch, trail = data.strides[: self.batch_dims], data.strides[self.batch_dims + self.tuple_size :]
        in_strides = (*batch, *(0 for _ in tuples[len(batch) :]), *trail)
        index_strides = (*tuples, *(0 for _ in trail))
        return gathering(self, layouts, in_strides, index_strides, component_stride=component_stride)
