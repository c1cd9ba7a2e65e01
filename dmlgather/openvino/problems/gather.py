"""Gather, GatherElements and GatherND: rules and lowering. Source: the operations' pages in OpenVINO's documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from dmlgather.dialects.gathers import GatherElementsProblem, GatherNDProblem
from dmlgather.dialects.problem import TensorType, check_axis, check_batch, gather, whole
from dmlgather.openvino.problems.operation_versions import INTEGERS, TYPES, OpenVINOProblem
from dmlgather.plan import IndexPlan, Layout, OutOfBounds


@dataclass(frozen=True)
class OpenVINOGather(OpenVINOProblem):
    """output[b…, lead…, i…, trail…] = data[b…, lead…, indices[b…, i…], trail…], 0 where the index is out of range.

    data: of rank r >= 1. indices: of any rank q, of any integer type. axis: -r … r-1, or an array of one such integer, stored as
    0 … r-1. batch_dims: -q … axis, a negative one counts from q, stored as 0 … axis; 0 in version 1. version: in 8 negative
    indices count from the end, in 1 and 7 they are out of range.
    """

    data: TensorType
    indices: TensorType
    axis: int
    batch_dims: int = 0
    version: int = 8

    name = "Gather"
    inputs = ("data", "indices")
    out_of_bounds = OutOfBounds.FILL

    def __post_init__(self) -> None:
        self._check_tensors()
        object.__setattr__(self, "axis", check_axis("axis", axis_of(self.axis), self.data.rank, "data"))
        object.__setattr__(self, "batch_dims", self._batch_dims())

    def _batch_dims(self) -> int:
        value, rank = whole("batch_dims", self.batch_dims), self.indices.rank
        if value and self.version == 1:
            raise ValueError(f"batch_dims is {value}, but {self} has none; it came with Gather-7")
        if not -rank <= value <= rank:
            raise ValueError(f"batch_dims is {value}, but indices has rank {rank}: expected {-rank} … {rank}")
        batch = value + rank if value < 0 else value
        shown = f"{value} (counted from the rank of indices, {rank}: {batch})" if value < 0 else f"{value}"
        if batch > self.axis:
            raise ValueError(
                f"batch_dims is {shown}, but axis counted from the front is {self.axis}: expected batch_dims <= axis"
            )
        check_batch(self.data, self.indices, batch, shown)
        return batch

    @property
    def wraps(self) -> bool:
        """From version 8 on."""
        return self.version == 8

    @property
    def fill(self) -> bytes:
        """Zero, in every type."""
        return bytes(self.data.dtype.itemsize)

    @property
    def output(self) -> TensorType:
        """data[:axis] ++ indices[batch_dims:] ++ data[axis+1:]."""
        sizes = self.data.shape
        moved = self.indices.shape[self.batch_dims :]
        return TensorType(sizes[: self.axis] + moved + sizes[self.axis + 1 :], self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return (self.axis,)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        return gather(self, layouts, self.axis, self.batch_dims)


@dataclass(frozen=True)
class OpenVINOGatherElements(OpenVINOProblem, GatherElementsProblem):
    """output[c] = data[c with c[axis] replaced by indices[c]]; an index out of range is an error.

    data: of rank r >= 1. indices: of type i32 or i64, with data's sizes off the axis; the output has their shape. Negative ones
    count from the end. axis: -r … r-1, stored as 0 … r-1.
    """

    data: TensorType
    indices: TensorType
    axis: int
    version: int = 6

    name = "GatherElements"
    smaller_indices = False
    out_of_bounds = OutOfBounds.RAISE
    wraps = True

    def __post_init__(self) -> None:
        self._check_tensors()
        self._check_elements(self)


@dataclass(frozen=True)
class OpenVINOGatherND(OpenVINOProblem, GatherNDProblem):
    """output[b…, i…, trail…] = data[b…, tuple indices[b…, i…, :], trail…]; an index out of range is an error.

    data: of rank r >= 1. indices: of rank q >= 1, of any integer type, its last dimension the tuples' components, at most
    r - batch_dims of them; none copies the whole of data for each tuple. Negative ones count from the end. batch_dims:
    0 … min(q, r) - 1 leading dimensions of equal sizes. version: in 5, the output has one dimension in the place of b….
    """

    data: TensorType
    indices: TensorType
    batch_dims: int = 0
    version: int = 8

    name = "GatherND"
    out_of_bounds = OutOfBounds.RAISE
    wraps = True

    def __post_init__(self) -> None:
        self._check_tensors()
        self._check_tuples(self)

    @property
    def merges_batches(self) -> bool:
        """Whether the output has one dimension for several of the batch."""
        return self.version == 5 and self.batch_dims > 1

    @property
    def output(self) -> TensorType:
        """As in every GatherND; the sizes b… are multiplied in version 5."""
        found = super().output
        if not self.merges_batches:
            return found
        return TensorType((prod(found.shape[: self.batch_dims]), *found.shape[self.batch_dims :]), found.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, output = layouts
        if self.merges_batches:
            output = output.split(0, self.data.shape[: self.batch_dims])
        return super()._lower([data, indices, output])


def axis_of(values: Any) -> int:
    """The axis, from an integer or a host array of one integer with at most one dimension.

    TypeError for another type, ValueError for another number of elements or dimensions.
    """
    if not hasattr(values, "dtype"):
        return whole("axis", values)
    if TYPES.name_of(values.dtype) not in INTEGERS:
        raise TypeError(f"axis has type {TYPES.name_of(values.dtype)}, but Gather takes {', '.join(INTEGERS)}")
    if values.size != 1 or values.ndim > 1:
        raise ValueError(f"axis has shape {tuple(values.shape)}, expected a scalar or one dimension of one element")
    return int(values.reshape(-1)[0])
