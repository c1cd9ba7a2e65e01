"""What PyTorch's functions take: data types, dimensions and integers, with its errors."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

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


# Integers and dimensions, as PyTorch takes them: the rules, and the types of the errors.


MOST = 2**63 - 1
"""The greatest integer that an argument may be."""


def integer(name: str, value: Any) -> int:
    """An integer of Python's or NumPy's, or a tensor of one without dimensions. TypeError for anything else, bool included;
    ValueError for more than 64 bits.
    """
    if not is_integer(value):
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, expected an integer")
    found = operator.index(value)
    if not -MOST - 1 <= found <= MOST:
        raise ValueError(f"{name} is {found}, which is no 64-bit integer: expected {-MOST - 1} … {MOST}")
    return found


def is_integer(value: Any) -> bool:
    """Whether PyTorch takes this for an integer."""
    if isinstance(value, bool | np.bool):
        return False
    if isinstance(value, int | np.integer):
        return True
    dtype = str(getattr(value, "dtype", ""))  # of a tensor
    return getattr(value, "shape", None) == () and "int" in dtype and hasattr(value, "__index__")


def integers(name: str, values: Any) -> tuple[int, ...]:
    """A list or tuple of integers. TypeError for anything else, integers of more than 64 bits included."""
    if not isinstance(values, list | tuple):
        raise TypeError(f"{name} is {values!r} of type {type(values).__name__}, expected a tuple or list of integers")
    try:
        return tuple(integer(f"{name}[{number}]", value) for number, value in enumerate(values))
    except ValueError as error:
        raise TypeError(str(error)) from None


def dim_of(name: str, value: Any, rank: int, *, scalar: bool = True) -> int:
    """The dimension, counted from the front. IndexError unless it is one of `rank`, counted from either end.

    scalar: whether a tensor without dimensions counts as one with a single one.
    """
    dim = integer(name, value)
    if not rank and not scalar:
        raise IndexError(f"{name} is {dim}, but input has no dimensions: reshape it to (1,)")
    count = max(rank, 1)
    if not -count <= dim < count:
        dimensions = f"{rank} dimension" + ("" if rank == 1 else "s")
        raise IndexError(f"{name} is {dim}, but input has {dimensions}: expected {-count} … {count - 1}")
    return dim + count if dim < 0 else dim


def dims_of(name: str, values: Sequence[int], rank: int) -> tuple[int, ...]:
    """Dimensions counted from the front. IndexError as `dim_of`; RuntimeError for one that is named twice."""
    dims = tuple(dim_of(f"{name}[{number}]", value, rank) for number, value in enumerate(values))
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"{name} is {tuple(values)}, which names a dimension more than once: expected each once at most")
    return dims
