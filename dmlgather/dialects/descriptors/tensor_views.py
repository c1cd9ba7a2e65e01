"""Views: tensors with sizes and strides, for which descriptors are to be built."""

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
    """A dimension: its size, and its stride in elements."""

    size: int
    stride: int


Dims = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A tensor with strides that a descriptor is to describe. Element (0, …, 0) is the first element of its buffer.

    `name`: name of the tensor in messages, such as "data". `dims`: the dimensions, outermost first.
    """

    name: str
    data_type: DataType
    dims: Dims

    @classmethod
    def packed(cls, name: str, data_type: DataType, sizes: Sequence[int]) -> View:
        """Return a packed tensor, in row-major order."""
        return cls(name, data_type, tuple(map(Dim, sizes, packed_strides(sizes))))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return tuple(dim.size for dim in self.dims)

    @property
    def span(self) -> int:
        """The number of elements from the first to the last address, inclusive. No size may be 0."""
        return 1 + sum((size - 1) * stride for size, stride in self.dims)

    def tensor_desc(self, rank: int) -> BufferTensorDesc:
        """Return the tensor's descriptor, padded with leading 1s to `rank` dimensions. A packed tensor gets no Strides.

        The tensor must have at most `rank` dimensions, no size of 0, and at most 2^32 - 1 elements from its first to its last
        address.
        """
        dims = (Dim(1, 0),) * (rank - self.rank) + self.dims
        sizes = tuple(dim.size for dim in dims)
        strides = tuple(stride if size > 1 else 0 for size, stride in dims)
        packed = tuple(step if size > 1 else 0 for size, step in zip(sizes, packed_strides(sizes), strict=True))
        return BufferTensorDesc(data_type=self.data_type, sizes=sizes, strides=None if strides == packed else strides)


def merge(*tensors: Dims) -> list[Dims]:
    """Merge the dimensions of several tensors of equal sizes into as few dimensions as possible, equally for all tensors.

    Dimensions of size 1 are dropped. Adjacent dimensions become one if the strides of all tensors allow it.
    """
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
    """Return the DirectML type that can store elements of `dtype`, and the sizes of additional last dimensions, () or (2,).

    If DirectML lacks the type, an unsigned integer of the same width stores its bits: UINT8 for bool, UINT16 for bfloat16,
    UINT64 for complex64. An element of complex128 is stored as two UINT64, so the tensor gets an additional dimension (2,).
    Return None for strings, for elements of another size than 1, 2, 4, 8 or 16 bytes, and for types smaller than a byte,
    because NumPy does not pack them.
    """
    named = DataType.__members__.get(dtype.name.upper(), DataType.UNKNOWN)
    if named.whole_bytes:
        return named, ()
    if dtype.kind in STRING_KINDS or dtype.itemsize not in ELEMENT_BYTES or dtype.name.startswith(BELOW_A_BYTE):
        return None
    parts = (2,) if dtype.itemsize == 16 else ()
    return DataType[f"UINT{8 * dtype.itemsize // prod(parts)}"], parts
