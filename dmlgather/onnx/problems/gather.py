"""Gather, GatherElements and GatherND as problems: their rules and plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmlgather.dialects.gathers import GatherElementsProblem, GatherNDProblem
from dmlgather.dialects.problem import TensorType, check_axis, check_data_rank, gather, whole
from dmlgather.onnx.problems.data_types import check_type
from dmlgather.onnx.problems.operator_versions import OnnxProblem
from dmlgather.plan import IndexPlan, Layout


class GatherProblem(OnnxProblem):
    """Base class of Gather, GatherElements and GatherND."""

    indices: TensorType

    inputs = ("data", "indices")

    @property
    def wraps(self) -> bool:
        return True

    def _check_tensors(self) -> None:
        version = self.version
        check_type(version, "data", self.data.dtype, version.types)
        check_type(version, "indices", self.indices.dtype, version.index_types)
        check_data_rank(version, self.data)


@dataclass(frozen=True)
class Gather(GatherProblem):
    """output[lead…, i…, trail…] = data[lead…, indices[i…], trail…]."""

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
        return self.version.since > 1  # Gather-1 requires indices within bounds, and does not mention negative ones

    @property
    def output(self) -> TensorType:
        sizes = self.data.shape
        return TensorType(sizes[: self.axis] + self.indices.shape + sizes[self.axis + 1 :], self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return (self.axis,)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        return gather(self, layouts, self.axis, 0)


@dataclass(frozen=True)
class GatherElements(GatherProblem, GatherElementsProblem):
    """output[c] = data[c with c[axis] replaced by indices[c]].

    Except along `axis`, no dimension of indices is larger than in data.
    """

    data: TensorType
    indices: TensorType
    axis: int = 0
    opset: int = 13

    name = "GatherElements"
    smaller_indices = True

    def __post_init__(self) -> None:
        self._check_tensors()
        self._check_elements(self.version)


@dataclass(frozen=True)
class GatherND(GatherProblem, GatherNDProblem):
    """output[b…, i…, trail…] = data[b…, *indices[b…, i…, :], trail…]. `batch_dims`: the number of dimensions b…."""

    data: TensorType
    indices: TensorType
    batch_dims: int = 0
    opset: int = 13

    name = "GatherND"

    def __post_init__(self) -> None:
        self._check_tensors()
        if whole("batch_dims", self.batch_dims) and self.version.since < 12:
            raise ValueError(f"batch_dims is {self.batch_dims}, but {self.version} has no batch_dims; it came with opset 12")
        self._check_tuples(self.version)
