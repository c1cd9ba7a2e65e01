"""Tensors to describe, as named and typed lists of dimensions with sizes and strides."""

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
    """One dimension: size, and stride in elements."""

    size: int
    stride: int


Dims = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A tensor to describe.

    name: of the problem's tensor, "data", for messages. dims: outermost first, over a buffer of `data_type` elements whose first
    element is (0, …, 0).
    """

    name: str
    data_type: DataType
    dims: Dims

    @classmethod
    def packed(cls, name: str, data_type: DataType, sizes: Sequence[int]) -> View:
        """The tensor in row-major order without gaps."""
        return cls(name, data_type, tuple(map(Dim, sizes, packed_strides(sizes))))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements per dimension."""
        return tuple(dim.size for dim in self.dims)

    @property
    def span(self) -> int:
        """Elements from the first to the last, both included. No size is 0."""
        return 1 + sum((size - 1) * stride for size, stride in self.dims)

    def tensor_desc(self, rank: int) -> BufferTensorDesc:
        """The tensor with leading 1s up to `rank` dimensions. It has Strides unless it is packed.

        Precondition: it spans at most 2^32 - 1 elements, none of its sizes is 0, and it has at most `rank` dimensions.
        """
        dims = (Dim(1, 0),) * (rank - self.rank) + self.dims
        sizes = tuple(dim.size for dim in dims)
        strides = tuple(stride if size > 1 else 0 for size, stride in dims)
        packed = tuple(step if size > 1 else 0 for size, step in zip(sizes, packed_strides(sizes), strict=True))
        return BufferTensorDesc(data_type=self.data_type, sizes=sizes, strides=None if strides == packed else strides)


def merge(*tensors: Dims) -> list[Dims]:
    """The dimensions that several tensors share, in as few as possible. The tensors have the same sizes, before and after.

    Dimensions of size 1 are dropped. Neighbours become one dimension where every tensor's strides allow it.
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
    """The DirectML type that holds an element's bits, and the sizes of the dimensions that it adds behind the others.

    The type of the same name where DirectML has it; else the unsigned integer of the same width: UINT8 for bool, UINT16 for
    bfloat16, UINT64 for complex64, and two UINT64, (2,), for complex128. None for strings and for elements that are not 1, 2, 4,
    8 or 16 bytes; None also for types of less than a byte, which NumPy pads and other libraries pack.
    """
    named = DataType.__members__.get(dtype.name.upper(), DataType.UNKNOWN)
    if named.whole_bytes:
        return named, ()
    if dtype.kind in STRING_KINDS or dtype.itemsize not in ELEMENT_BYTES or dtype.name.startswith(BELOW_A_BYTE):
        return None
    parts = (2,) if dtype.itemsize == 16 else ()
    return DataType[f"UINT{8 * dtype.itemsize // prod(parts)}"], parts
