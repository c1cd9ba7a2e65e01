"""Gather-1, Gather-7 and Gather-8: rules and lowering. Source: the operations' pages in OpenVINO's documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dmlgather.dialects.element_types import ElementTypes
from dmlgather.dialects.lowering import gather
from dmlgather.dialects.problem import Problem, TensorType, check_axis, check_batch, whole
from dmlgather.plan import IndexPlan, Layout, OutOfBounds
from dmlgather.wording import alternatives

TYPES = ElementTypes(
    {
        "boolean": "bool",
        "bf16": "bfloat16",
        "f16": "float16",
        "f32": "float32",
        "f64": "float64",
        "f8e4m3": "float8_e4m3fn",
        "f8e5m2": "float8_e5m2",
        "f8e8m0": "float8_e8m0fnu",
        "i8": "int8",
        "i16": "int16",
        "i32": "int32",
        "i64": "int64",
        "u8": "uint8",
        "u16": "uint16",
        "u32": "uint32",
        "u64": "uint64",
    }
)
"""OpenVINO's element types of whole bytes: name in OpenVINO -> name in NumPy."""

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
"""What indices and the axis may be."""

VERSIONS = (1, 7, 8)
"""The operation sets that have their own Gather."""


@dataclass(frozen=True)
class OpenVINOGather(Problem):
    """output[b…, lead…, i…, trail…] = data[b…, lead…, indices[b…, i…], trail…], 0 where the index is out of range.

    data: of rank r >= 1. indices: of any rank q, of any integer type. axis: -r … r-1, stored as 0 … r-1. batch_dims: -q … axis,
    a negative one counts from q, stored as 0 … axis; 0 in version 1. version: in 8 negative indices count from the end, in 1 and
    7 they are out of range.
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
        if self.version not in VERSIONS or isinstance(self.version, bool | float):
            raise ValueError(f"version is {self.version!r}, expected {alternatives(VERSIONS)}")
        TYPES.check(self, "data", self.data.dtype, tuple(TYPES.names))
        TYPES.check(self, "indices", self.indices.dtype, INTEGERS)
        if not self.data.rank:
            raise ValueError(f"data is a scalar, but {self} takes data of rank >= 1: reshape it to (1,)")
        object.__setattr__(self, "axis", check_axis("axis", self.axis, self.data.rank, "data"))
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

    def __str__(self) -> str:
        return f"Gather-{self.version}"


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
