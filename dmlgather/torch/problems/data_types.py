"""PyTorch's data types: their names are NumPy's, or those of ml_dtypes."""

from __future__ import annotations

from collections.abc import Sequence

from dmlgather.dialects.element_types import ElementTypes
from dmlgather.dialects.problem import TensorType
from dmlgather.wording import alternatives

DATA = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("bfloat16", "float16", "float32", "float64"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("complex64", "complex128"),
)
"""What elements may be: all of PyTorch's types but complex32, the quantised ones and those of less than a byte."""

TYPES = ElementTypes({name: name for name in DATA})


def check_data(operation: str, name: str, tensor: TensorType) -> None:
    """TypeError for elements of a type that PyTorch does not have, or that NumPy has no type for."""
    if TYPES.name_of(tensor.dtype) not in DATA:
        raise TypeError(f"{name} has type {tensor.dtype}, but torch.{operation} takes {alternatives(DATA)}")


def check_index(operation: str, name: str, tensor: TensorType, allowed: Sequence[str]) -> None:
    """RuntimeError, as PyTorch, for an index of another type; TypeError for another byte order."""
    if tensor.dtype.name not in allowed:
        raise RuntimeError(f"{name} has type {tensor.dtype}, but torch.{operation} takes {alternatives(allowed)}")
    if not tensor.dtype.isnative:
        raise TypeError(f"{name} has type {tensor.dtype.str!r} with the other byte order; convert with .astype({allowed[-1]!r})")
