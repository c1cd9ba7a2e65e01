"""DML_BUFFER_TENSOR_DESC, the description of a tensor in a buffer: data type, sizes and strides."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any

from pydantic import Field, model_validator

from dmlgather.directml.fields import DerivedCount, Structure, UInt32, UInt32s, UInt64, fill_count, unstated
from dmlgather.directml.types import DataTypeField, TensorFlags, TensorFlagsField
from dmlgather.plan import Layout, packed_strides
from dmlgather.record import refusal
from dmlgather.wording import braces

SIZE_GRANULE = 4
"""Sizes of tensors and buffers are multiples of this number of bytes."""

BASE_ALIGNMENT = 16
"""Offsets of bindings are multiples of this number of bytes (DML_MINIMUM_BUFFER_TENSOR_ALIGNMENT)."""


def rounded_up(count: int, granule: int = SIZE_GRANULE) -> int:
    """Return the smallest multiple of `granule` that is at least `count`."""
    return -(-count // granule) * granule


@lru_cache(maxsize=64)  # several rules of one descriptor need it
def _span(sizes: tuple[int, ...], strides: tuple[int, ...] | None) -> int:
    if 0 in sizes:
        return 0
    if strides is None:
        return prod(sizes)
    return 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=False))


class BufferTensorDesc(Structure):
    """The description of a tensor in a buffer (DML_BUFFER_TENSOR_DESC).

    The constructor does not check DirectML's rules, because `validate` does. JSON may also have DxDispatch's form: "Type":
    "BUFFER" beside the fields, or {"Type": "BUFFER", "Desc": {...}}.

    >>> padded = dg.BufferTensorDesc(data_type="FLOAT16", sizes=[2, 3], strides=[4, 1])
    >>> padded.dimension_count, padded.span, padded.minimum_bytes
    (2, 7, 16)
    """

    data_type: DataTypeField
    """Type of one element. The field may be UNKNOWN, UINT4 or INT4, but no operator accepts these. Source: [BTD], [HDR]."""

    flags: TensorFlagsField = TensorFlags.NONE
    """NONE, or OWNED_BY_DML for an input that DirectML copies at initialisation. Source: [TF]."""

    dimension_count: DerivedCount = Field(default_factory=unstated)
    """Number of dimensions, 1 to 8. A feature level or an operator may allow fewer dimensions. Default: the number of Sizes.
    Source: [BTD]."""

    sizes: UInt32s
    """Elements in each dimension, at least 1. The tensor has at most 2^32 - 1 elements. Source: [BTD]."""

    strides: UInt32s | None = None
    """Distance between neighbouring elements along each dimension, in elements. A stride of 0 repeats one element. Default: the
    strides of a tensor in row-major order without gaps. Source: [BTD], [STR]."""

    total_tensor_size_in_bytes: UInt64 | None = None
    """Size of the tensor in the buffer, in bytes. It is at least `minimum_bytes`, which is also the default. If the tensor is
    an output, DirectML may write any of these bytes, also those between elements. Source: [BTD], [HELP]."""

    guaranteed_base_offset_alignment: UInt32 = 0
    """The caller's guarantee that the tensor's offset in its resource is a multiple of this number of bytes. It is a power of
    two, and at least the size of an element. 0 means 16, because every offset is a multiple of 16. Source: [BTD], [CONST]."""

    @model_validator(mode="before")
    @classmethod
    def _unwrap(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or "Type" not in value:
            return value
        if value["Type"] not in ("BUFFER", "DML_TENSOR_TYPE_BUFFER"):
            raise refusal(f"tensor Type is {value['Type']!r}; expected BUFFER")
        if "Desc" not in value:
            return {key: entry for key, entry in value.items() if key != "Type"}
        if value["Desc"] is None:
            raise refusal("Desc must not be null")
        if not isinstance(value["Desc"], Mapping) or len(value) > 2:
            raise refusal(f"expected {{'Type': 'BUFFER', 'Desc': {{…}}}}, got the fields {list(value)}")
        return dict(value["Desc"])

    @model_validator(mode="after")
    def _fill_in(self) -> BufferTensorDesc:
        fill_count(self, "dimension_count", self.sizes)
        return self

    def __str__(self) -> str:
        return self.text()

    def text(self, dimensions: int | None = None) -> str:
        """Return data type, sizes and strides as a text: "float32[2,3] strides {4,1}".

        `dimensions`: number of trailing dimensions that are shown, or None for all.
        """
        first = 0 if dimensions is None else self.rank - dimensions
        sizes = ",".join(map(str, self.sizes[first:]))
        strides = "" if self.strides is None else f" strides {braces(self.strides[first:])}"
        return f"{self.data_type.name.lower()}[{sizes}]{strides}"

    @property
    def rank(self) -> int:
        """Number of dimensions: the length of Sizes."""
        return len(self.sizes)

    @property
    def elements(self) -> int:
        """Number of elements: the product of Sizes."""
        return prod(self.sizes)

    @property
    def element_strides(self) -> tuple[int, ...]:
        """Strides in elements: Strides, or row-major strides without gaps if Strides is left out."""
        return packed_strides(self.sizes) if self.strides is None else self.strides

    @property
    def span(self) -> int:
        """Number of elements from the lowest to the highest address, both included. It is 0 if a size is 0."""
        return _span(self.sizes, self.strides)

    @property
    def minimum_bytes(self) -> int:
        """Smallest legal TotalTensorSizeInBytes: the bytes of `span`, rounded up to a multiple of 4.

        Unlike DMLCalcBufferTensorSize, it does not overflow at 32 bits. Raises ValueError for UNKNOWN, UINT4 and INT4.
        """
        return rounded_up(self.span * self.data_type.bytes)

    @property
    def total_bytes(self) -> int:
        """TotalTensorSizeInBytes, or `minimum_bytes` if it is left out."""
        return self.minimum_bytes if self.total_tensor_size_in_bytes is None else self.total_tensor_size_in_bytes

    def layout(self) -> Layout:
        """Return the Layout in a buffer of `total_bytes` bytes. Raises ValueError for UNKNOWN, UINT4 and INT4."""
        return Layout(self.sizes, self.element_strides, 0, self.total_bytes // self.data_type.bytes)

    def is_logical(self, shape: tuple[int, ...]) -> bool:
        """Return True if an array of `shape` holds exactly the tensor's elements, False if it must be the whole buffer.

        It holds the elements if `shape` is equal to Sizes, with or without leading 1s. There is one exception. If Strides are
        stated and there are several Sizes, an array of one dimension is the buffer.
        """
        if len(shape) == 1 and self.strides is not None:
            return shape == self.sizes
        return (1,) * (self.rank - len(shape)) + shape == self.sizes
