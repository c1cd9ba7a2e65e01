"""Types of tensors in a model. The data type, the rank or some sizes may be unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.onnx.problems.data_types import data_type, type_name, type_number
from dmlgather.wording import typed

if TYPE_CHECKING:
    from onnx import SparseTensorProto, TensorProto, ValueInfoProto


MOST_DIMENSIONS = 64
"""Largest rank that is read. NumPy has the same limit."""

Size = int | str | None
"""Size of a dimension: a number, a symbol such as "batch", or None if unknown."""


@dataclass(frozen=True, slots=True)
class PartialType:
    """The known part of a value's type. None means unknown.

    `dtype`: the data type; None also if the value is not a tensor. `kind`: the kind of a value that is not a tensor, such as
    "sequence"; None for a tensor. `excessive`: True if the rank is above MOST_DIMENSIONS; then `shape` is None.
    """

    dtype: np.dtype[Any] | None = None
    shape: tuple[Size, ...] | None = None
    kind: str | None = None
    excessive: bool = False

    def __eq__(self, other: object) -> bool:
        # np.dtype("float64") == None is true, so None is compared separately.
        if not isinstance(other, PartialType) or (self.dtype is None) != (other.dtype is None):
            return False
        return (self.dtype, self.shape, self.kind, self.excessive) == (other.dtype, other.shape, other.kind, other.excessive)

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape, self.kind, self.excessive))

    @property
    def name(self) -> str | None:
        """ONNX's name of the data type, or `kind` if the value is not a tensor."""
        return self.kind if self.dtype is None else type_name(self.dtype)

    def __str__(self) -> str:
        if self.excessive:
            return f"{self.name or '?'}[more than {MOST_DIMENSIONS} dimensions, which are not read]"
        return typed(self.name, self.shape)

    def sized(self, shape: Sequence[Size] | None) -> PartialType:
        """Return a copy of the type with another shape."""
        return PartialType(self.dtype, None if shape is None else tuple(shape), self.kind, self.excessive)

    def each_size(self, rule: Callable[[Size], Size]) -> PartialType:
        """Return a copy of the type with `rule` applied to each size."""
        return self if self.shape is None else self.sized([rule(size) for size in self.shape])

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The shape if all sizes are numbers, else None."""
        numbers = tuple(size for size in self.shape or () if isinstance(size, int))
        return None if self.shape is None or len(numbers) < len(self.shape) else numbers

    def merged(self, better: PartialType, join: Callable[[Size, Size], Size]) -> PartialType:
        """Complete this type from another type of the same value. `join` chooses between two sizes."""
        if self.kind is not None or self.excessive:
            return self
        if self.dtype is None and self.shape is None:
            return better
        dtype = self.dtype if self.dtype is not None else better.dtype
        if self.shape is None or better.shape is None or len(self.shape) != len(better.shape):
            return PartialType(dtype, better.shape if self.shape is None else self.shape)
        return PartialType(dtype, tuple(join(*sizes) for sizes in zip(self.shape, better.shape, strict=True)))

    def joined(self, other: PartialType) -> PartialType:
        """Return what two types have in common. For example, float[2, 3] and float[2, 4] give float[2, ?]."""
        shape = None
        if self.shape is not None and other.shape is not None and len(self.shape) == len(other.shape):
            shape = tuple(size if size == other_size else None for size, other_size in zip(self.shape, other.shape, strict=True))
        return PartialType(self.dtype, shape, self.kind) if self.name == other.name else PartialType(shape=shape)


NOTHING = PartialType()


def type_of_value(value: ValueInfoProto) -> PartialType:
    """Return the type that a ValueInfoProto declares."""
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return PartialType(kind=kind and kind.removesuffix("_type"))
    tensor = value.type.tensor_type
    sizes = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim]
    return _tensor_type(tensor.elem_type, sizes if tensor.HasField("shape") else None)


def type_of_tensor(tensor: TensorProto | SparseTensorProto) -> PartialType:
    """Return the data type and shape of a TensorProto or SparseTensorProto."""
    values = tensor.values if hasattr(tensor, "values") else tensor
    return _tensor_type(values.data_type, tensor.dims)


def _tensor_type(number: int, sizes: Sequence[Size] | None) -> PartialType:
    """Return the type of a tensor. `number`: the data type's number in TensorProto.DataType. Negative sizes become unknown."""
    if sizes is not None and len(sizes) > MOST_DIMENSIONS:
        return PartialType(data_type(number), excessive=True)
    shape = None if sizes is None else tuple(None if isinstance(size, int) and size < 0 else size for size in sizes)
    return PartialType(data_type(number), shape)


def value_of_type(name: str, partial_type: PartialType) -> ValueInfoProto:
    """Return a ValueInfoProto with this name and type."""
    from onnx import ValueInfoProto, helper

    if partial_type.dtype is None:
        return ValueInfoProto(name=name)
    return helper.make_tensor_value_info(name, type_number(partial_type.dtype), partial_type.shape)
