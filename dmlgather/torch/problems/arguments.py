"""Checks of data types, integers and dimensions. They raise the same exceptions as PyTorch."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlgather.dialects.element_types import ElementTypes
from dmlgather.dialects.problem import TensorType
from dmlgather.wording import alternatives, counted

DATA = (
    "bool",
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("bfloat16", "float16", "float32", "float64"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("complex64", "complex128"),
)
"""PyTorch's types of at least one byte, except complex32 and quantised types."""

TYPES = ElementTypes({name: name for name in DATA})


def check_data(operation: str, name: str, tensor: TensorType) -> None:
    """Raise TypeError if the data type of the tensor is not in DATA."""
    if TYPES.name_of(tensor.dtype) not in DATA:
        raise TypeError(f"{name} has type {tensor.dtype}, but torch.{operation} takes {alternatives(DATA)}")


def check_index(operation: str, name: str, tensor: TensorType, allowed: Sequence[str]) -> None:
    """Check that an index tensor has one of the allowed data types. Like PyTorch, raise RuntimeError."""
    if tensor.dtype.name not in allowed:
        raise RuntimeError(f"{name} has type {tensor.dtype}, but torch.{operation} takes {alternatives(allowed)}")
    if not tensor.dtype.isnative:
        raise TypeError(f"{name} has type {tensor.dtype.str!r} with the other byte order; convert with .astype({allowed[-1]!r})")


MOST = 2**63 - 1
"""The largest 64-bit integer."""


def integer(name: str, value: Any) -> int:
    """Convert an integer, or an integer tensor of rank 0, to int. A bool raises TypeError."""
    if not is_integer(value):
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, expected an integer")
    number = operator.index(value)
    if not -MOST - 1 <= number <= MOST:
        raise ValueError(f"{name} is {number}, which is no 64-bit integer: expected {-MOST - 1} … {MOST}")
    return number


def is_integer(value: Any) -> bool:
    """Return True if PyTorch accepts `value` as an integer."""
    if isinstance(value, bool | np.bool):
        return False
    if isinstance(value, int | np.integer):
        return True
    dtype = str(getattr(value, "dtype", ""))
    return getattr(value, "shape", None) == () and "int" in dtype and hasattr(value, "__index__")


def integers(name: str, values: Any) -> tuple[int, ...]:
    """Convert a list or tuple of integers to a tuple of int."""
    if not isinstance(values, list | tuple):
        raise TypeError(f"{name} is {values!r} of type {type(values).__name__}, expected a tuple or list of integers")
    try:
        return tuple(integer(f"{name}[{number}]", value) for number, value in enumerate(values))
    except ValueError as error:
        raise TypeError(str(error)) from None


def dim_of(name: str, value: Any, rank: int, *, scalar: bool = True) -> int:
    """Return a dimension as a number of 0 or more: -1 becomes rank - 1. Raise IndexError if it is out of range.

    `scalar`: True treats rank 0 like rank 1. False raises IndexError for rank 0.
    """
    dim = integer(name, value)
    if not rank and not scalar:
        raise IndexError(f"{name} is {dim}, but input has no dimensions: reshape it to (1,)")
    count = max(rank, 1)
    if not -count <= dim < count:
        raise IndexError(f"{name} is {dim}, but input has {counted(rank, 'dimension')}: expected {-count} … {count - 1}")
    return dim + count if dim < 0 else dim


def dims_of(values: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return dimensions as numbers of 0 or more: -1 becomes rank - 1.

    Raise IndexError if a dimension is out of range, RuntimeError if a dimension is repeated.
    """
    dims = tuple(dim_of(f"dims[{number}]", value, rank) for number, value in enumerate(values))
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"dims is {tuple(values)}, but must have each dimension at most once")
    return dims
