"""Tensors with sizes and strides, from which descriptors are built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np

from dmlgather.dialects.element_types import BELOW_A_BYTE, STRING_KINDS
from dmlgather.directml import BufferTensorDesc, DataType
from dmlgather.plan import ELEMENT_BYTES, packed_strides


class Dim(NamedTuple):
    """Size of a dimension, and its stride in elements."""

    size: int
    stride: int


Dims = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A tensor with strides, which starts at the first element of its buffer. `name`: used in messages."""

    name: str
    data_type: DataType
    dims: Dims

    @classmethod
    def packed(cls, name: str, data_type: DataType, sizes: Sequence[int]) -> View:
        """Return a packed tensor."""
        return cls(name, data_type, tuple(map(Dim, sizes, packed_strides(sizes))))

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return tuple(dim.size for dim in self.dims)

    @property
    def span(self) -> int:
        """Number of elements from the first to the last address, both included. No size may be 0."""
        return 1 + sum((size - 1) * stride for size, stride in self.dims)

    def tensor_desc(self, rank: int) -> BufferTensorDesc:
        """Return the descriptor, padded with leading 1s to `rank` dimensions. A packed tensor gets no Strides."""
        dims = (Dim(1, 0),) * (rank - self.rank) + self.dims
        sizes = tuple(dim.size for dim in dims)
        strides = tuple(stride if size > 1 else 0 for size, stride in dims)
        packed = tuple(step if size > 1 else 0 for size, step in zip(sizes, packed_strides(sizes), strict=True))
        return BufferTensorDesc(data_type=self.data_type, sizes=sizes, strides=None if strides == packed else strides)


def merge(*tensors: Dims) -> list[Dims]:
    """Merge neighbouring dimensions that are contiguous in all tensors: {1,4,6} becomes {24}. All tensors have equal sizes."""
    merged: list[tuple[Dim, ...]] = []
    for dims in zip(*tensors, strict=True):
        if dims[0].size == 1:
            continue
        if merged and all(outer.stride == inner.size * inner.stride for outer, inner in zip(merged[-1], dims, strict=True)):
            merged[-1] = tuple(Dim(outer.size * inner.size, inner.stride) for outer, inner in zip(merged[-1], dims, strict=True))
        else:
            merged.append(dims)
    return [tuple(dims) for dims in zip(*merged, strict=True)] or [() for _ in tensors]


def storage_type(dtype: np.dtype[Any]) -> tuple[DataType, tuple[int, ...]] | None:
    """Return the DirectML type that can store elements of `dtype`, and the shape of one element in this type: () or (2,).

    Unsigned integers store the bits of other types: UINT8 for bool, UINT64 for complex64, two UINT64 for complex128. Return
    None for strings, types smaller than a byte, and elements of other sizes than 1, 2, 4, 8 or 16 bytes.
    """
    named = DataType.__members__.get(dtype.name.upper(), DataType.UNKNOWN)
    if named.whole_bytes:
        return named, ()
    if dtype.kind in STRING_KINDS or dtype.itemsize not in ELEMENT_BYTES or dtype.name.startswith(BELOW_A_BYTE):
        return None
    parts = (2,) if dtype.itemsize == 16 else ()
    return DataType[f"UINT{8 * dtype.itemsize // prod(parts)}"], parts
