"""Types as far as a model states them: a data type, a rank and sizes may each be missing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dmlgather.onnx.problems.operators import DTYPES, STRING
from dmlgather.wording import printable

if TYPE_CHECKING:
    from onnx import SparseTensorProto, TensorProto, TypeProto, ValueInfoProto

Size = int | str | None
"""Elements along a dimension: a number, a symbolic name, or None where nothing is known."""


@dataclass(frozen=True, slots=True)
class PartialType:
    """What is known of a value's type. dtype: None where it is not known, or has no NumPy type (a sequence, say).

    name: ONNX's name of the data type, or of the kind of a value that is no tensor ("sequence"). shape: None where the rank is
    not known.
    """

    dtype: np.dtype[Any] | None = None
    name: str | None = None
    shape: tuple[Size, ...] | None = None

    def __str__(self) -> str:
        sizes = "..." if self.shape is None else ",".join("?" if size is None else printable(str(size)) for size in self.shape)
        return f"{self.name or '?'}[{sizes}]"

    def joined(self, other: PartialType) -> PartialType:
        """What holds for a value that is of one of both types."""
        shape = None
        if self.shape is not None and other.shape is not None and len(self.shape) == len(other.shape):
            shape = tuple(one if one == two else None for one, two in zip(self.shape, other.shape, strict=True))
        same = self.name == other.name
        return PartialType(self.dtype if same else None, self.name if same else None, shape)


NOTHING = PartialType()
"""Nothing is known."""


def type_of_value(value: ValueInfoProto) -> PartialType:
    """The type that a ValueInfoProto states."""
    return _type(value.type)


def type_of_tensor(tensor: TensorProto) -> PartialType:
    """The type of a TensorProto, whose elements may lie elsewhere."""
    return _tensor(tensor.data_type, tensor.dims)


def type_of_sparse(tensor: SparseTensorProto) -> PartialType:
    """The type of the tensor that a SparseTensorProto stands for."""
    return _tensor(tensor.values.data_type, tensor.dims)


def _type(stated: TypeProto) -> PartialType:
    kind = stated.WhichOneof("value")
    if kind is None:
        return NOTHING
    if kind != "tensor_type":
        return PartialType(name=kind.removesuffix("_type"))
    tensor = stated.tensor_type
    if not tensor.HasField("shape"):
        return _tensor(tensor.elem_type, None)
    sizes: list[Size] = []
    for dim in tensor.shape.dim:
        if dim.HasField("dim_value"):
            sizes.append(dim.dim_value)
        else:
            sizes.append(dim.dim_param or None)
    return _tensor(tensor.elem_type, sizes)


def _tensor(number: int, sizes: Iterable[Size] | None) -> PartialType:
    """The type with the data type of that TensorProto.DataType. A negative size, as some exporters write, is not known."""
    name, dtype = data_type(number)
    shape = None if sizes is None else tuple(None if isinstance(size, int) and size < 0 else size for size in sizes)
    return PartialType(dtype, name, shape)


def data_type(number: int) -> tuple[str | None, np.dtype[Any] | None]:
    """Name and NumPy type of a TensorProto.DataType; None for both where it is undefined or unknown."""
    from onnx import TensorProto, helper

    try:
        name = TensorProto.DataType.Name(number).lower()
        if name not in DTYPES:
            return (None, None) if name == "undefined" else (name, np.dtype(helper.tensor_dtype_to_np_dtype(number)))
        return name, STRING if name == "string" else np.dtype(helper.tensor_dtype_to_np_dtype(number))
    except (ValueError, KeyError):
        return None, None


def value_of_type(name: str, known: PartialType) -> ValueInfoProto:
    """The ValueInfoProto that states what is known of a type."""
    from onnx import TensorProto, ValueInfoProto

    value = ValueInfoProto(name=name)
    if known.dtype is not None and known.name is not None:
        tensor = value.type.tensor_type
        tensor.elem_type = TensorProto.DataType.Value(known.name.upper())
        if known.shape is not None:
            tensor.shape.SetInParent()
            for size in known.shape:
                dim = tensor.shape.dim.add()
                if isinstance(size, int):
                    dim.dim_value = size
                elif size is not None:
                    dim.dim_param = size
    return value
