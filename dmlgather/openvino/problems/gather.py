"""Rules and lowering of Gather, GatherElements and GatherND. Source: their pages in OpenVINO's documentation."""

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
    """output[b…, lead…, i…, trail…] = data[b…, lead…, indices[b…, i…], trail…]; 0 for an index out of range.

    `axis`: an integer or an array of one integer. Negative values of `axis` and `batch_dims` are stored as numbers of 0 or
    more.
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
            raise ValueError(f"batch_dims is {value}, but {self} has no batch_dims: leave it out, or use Gather-7 or newer")
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
        return self.version == 8

    @property
    def fill(self) -> bytes:
        return bytes(self.data.dtype.itemsize)

    @property
    def output(self) -> TensorType:
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
    """output[c] = data[c with c[axis] replaced by indices[c]]; an index out of range is an error."""

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
    """output[b…, i…, trail…] = data[b…, *indices[b…, i…, :], trail…]; an index out of range is an error."""

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
        """True if the output has one dimension in place of several batch dimensions, as in version 5."""
        return self.version == 5 and self.batch_dims > 1

    @property
    def output(self) -> TensorType:
        output = super().output
        if not self.merges_batches:
            return output
        return TensorType((prod(output.shape[: self.batch_dims]), *output.shape[self.batch_dims :]), output.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, output = layouts
        if self.merges_batches:
            output = output.split(0, self.data.shape[: self.batch_dims])
        return super()._lower([data, indices, output])


def axis_of(values: Any) -> int:
    """Return an axis as an integer.

    `values`: an integer, or an array of one integer in host memory, with rank 0 or 1. Raises TypeError or ValueError for
    anything else.
    """
    if not hasattr(values, "dtype"):
        return whole("axis", values)
    if TYPES.name_of(values.dtype) not in INTEGERS:
        raise TypeError(f"axis has type {TYPES.name_of(values.dtype)}, but Gather takes {', '.join(INTEGERS)}")
    if values.size != 1 or values.ndim > 1:
        raise ValueError(f"axis has shape {tuple(values.shape)}, expected a scalar or one dimension of one element")
    return int(values.reshape(-1)[0])
