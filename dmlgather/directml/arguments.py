"""What callers pass where a tensor is described: arrays and the like, and exact integers within limits."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dmlgather.directml.tensor import BufferTensorDesc
from dmlgather.directml.types import DataType

UINT = (0, 2**32 - 1)
"""The limits of a UINT, both included."""

INT = (-(2**31), 2**31 - 1)
"""The limits of an INT, both included."""


def packed(name: str, sizes: Sequence[int], data_type: DataType) -> BufferTensorDesc:
    """A packed tensor. TypeError and ValueError for other sizes than a UINT holds."""
    return BufferTensorDesc(data_type=data_type, sizes=integers(f"{name}.sizes", sizes, UINT, "split a tensor that is larger"))


def tensor_of(name: str, given: Any) -> BufferTensorDesc:
    """The packed tensor descriptor of an array, of anything with `shape` and `dtype`, or of a pair (sizes, type); a
    BufferTensorDesc as it is. TypeError for anything else and for types that DirectML lacks, ValueError for other sizes.
    """
    if isinstance(given, BufferTensorDesc):
        return given
    if hasattr(given, "shape") and hasattr(given, "dtype"):
        sizes, data_type = given.shape, given.dtype
    elif isinstance(given, tuple) and len(given) == 2:
        sizes, data_type = given
        if not isinstance(sizes, Iterable):
            raise TypeError(
                f"{name} is {given!r}: a tuple of two is read as a pair (sizes, type), and its sizes are of type "
                f"{type(sizes).__name__}, expected a list of integers; write ({given!r}, 'float32') for these sizes"
            )
    elif hasattr(given, "__dlpack__"):
        array = np.from_dlpack(given)  # in host memory: arrays of GPUs have shape and dtype
        sizes, data_type = array.shape, array.dtype
    else:
        raise TypeError(
            f"{name} is of type {type(given).__name__}, expected an array, a BufferTensorDesc or a pair (sizes, type): "
            "wrap Python values with numpy.asarray(values, dtype=…)"
        )
    try:
        found = DataType.parse(data_type)
    except ValueError as error:
        raise TypeError(f"{name}: {error}") from None
    return packed(name, sizes, found)


def indices_of(given: Any) -> BufferTensorDesc:
    """`tensor_of` for indices. TypeError for types other than integers."""
    found = tensor_of("indices", given)
    if found.data_type.index_type is None:
        raise TypeError(f"indices has data type {found.data_type}, expected integers: convert with .astype('int64')")
    return found


def integer(name: str, value: Any, limits: tuple[int, int] = UINT, reason: str = "") -> int:
    """`value` as a Python integer. TypeError for anything else, ValueError outside `limits`, both included, for a `reason`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        found = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, expected an integer") from None
    low, high = limits
    if not low <= found <= high:
        shown = found if found.bit_length() <= 64 else f"an integer of {found.bit_length()} bits"
        raise ValueError(f"{name} is {shown}, expected {low} … {high}" + (f": {reason}" if reason else ""))
    return found


def integers(name: str, values: Any, limits: tuple[int, int], reason: str) -> tuple[int, ...]:
    """`values` as Python integers. TypeError and ValueError as `integer`, naming the entry."""
    try:
        entries = tuple(values)
    except TypeError:
        raise TypeError(f"{name} is of type {type(values).__name__}, expected a list of integers") from None
    return tuple(integer(f"{name}[{number}]", value, limits, reason) for number, value in enumerate(entries))
