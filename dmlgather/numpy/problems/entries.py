"""The entries of an index expression as NumPy reads them: which are integers, which are index arrays, and which are masks."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dmlgather.dialects.advanced_indexing import POSITIONS, Entry, Mask
from dmlgather.dialects.element_types import is_type
from dmlgather.dialects.problem import TensorType


@dataclass(frozen=True, slots=True)
class WrittenEntry:
    """An entry as it was written. arrays: the index arrays that it stands for, of a mask `mask.nonzero()`; None for those of
    which only shape and type are known.
    """

    entry: Entry
    arrays: tuple[Any, ...] | None = ()

    @property
    def is_array(self) -> bool:
        """Whether it is an index array or a mask."""
        return isinstance(self.entry, TensorType | Mask)

    def __str__(self) -> str:
        entry = self.entry
        if isinstance(entry, slice):
            bounds = ["" if bound is None else str(bound) for bound in (entry.start, entry.stop, entry.step)]
            return ":".join(bounds if bounds[2] else bounds[:2])
        if isinstance(entry, Mask):
            return f"bool {list(entry.shape)}"
        return "..." if entry is ... else str(entry)


def is_placeholder(item: Any) -> bool:
    """Whether `item` stands for an index array of which only shape and type are known: a pair (shape, dtype), or anything that
    has `shape` and `dtype` and is no array. No pair of a tuple and a type is an index expression of NumPy's.
    """
    if hasattr(item, "shape") and hasattr(item, "dtype"):
        return not any(hasattr(item, name) for name in ("__array__", "__dlpack__", "__cuda_array_interface__"))
    return type(item) is tuple and len(item) == 2 and isinstance(item[0], tuple) and is_type(item[1])


def written(items: Iterable[Any]) -> tuple[WrittenEntry, ...]:
    """The entries. Arrays of CuPy hold integers and have at least one dimension.

    Raises IndexError for what NumPy takes for no index; OverflowError for integers from 2^63 to 2^64 - 1, as NumPy does;
    ValueError for nested lists of unequal lengths; TypeError for placeholders of masks, whose values decide the shape.
    """
    return tuple(_written(number, item) for number, item in enumerate(items))


def written_array(item: Any) -> WrittenEntry:
    """An array of integers, as an argument that is no entry. IndexError, as NumPy, for any other type; otherwise as `written`."""
    if not is_placeholder(item):
        item = item if isinstance(item, np.ndarray) or hasattr(item, "__cuda_array_interface__") else np.asarray(item)
        if item.dtype.kind not in "iu":
            raise IndexError(f"indices has type {item.dtype}, but must be an array of integers")
        if not item.ndim:
            return WrittenEntry(TensorType((), _index_type(item.dtype)), (item,))
    return _written(0, item)


def _written(number: int, item: Any) -> WrittenEntry:
    if item is None or item is ... or isinstance(item, slice):
        return WrittenEntry(item)
    if is_placeholder(item):
        return _placeholder(number, item)
    if not isinstance(item, np.ndarray | np.generic) and not hasattr(item, "__cuda_array_interface__"):
        if not isinstance(item, bool) and hasattr(item, "__index__"):
            return WrittenEntry(_position(number, operator.index(item)))
        item = _converted(number, item)
    if item.dtype.kind not in "biu":
        what = f"of type {item.dtype} and shape {list(item.shape)}" if item.ndim else repr(item.item())
        raise IndexError(
            f"entry {number} is {what}, but must be an integer, a slice, ..., None, or an array of integers or bools"
        )
    if item.dtype.kind == "b":
        return WrittenEntry(Mask.of(item), item.nonzero() if item.ndim else ())
    if not item.ndim:
        return WrittenEntry(_position(number, int(item)))
    # As NumPy: unsigned 64-bit integers are read as signed ones.
    item = item.astype(_index_type(item.dtype), copy=False)
    return WrittenEntry(TensorType(item.shape, item.dtype), (item,))


def _index_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return POSITIONS if dtype == np.uint64 else dtype.newbyteorder("=")


def _placeholder(number: int, item: Any) -> WrittenEntry:
    try:
        found = TensorType.stated(*((item.shape, item.dtype) if hasattr(item, "shape") else item))
    except TypeError as error:
        raise TypeError(f"entry {number} is {item!r}: {error}") from None
    shape, dtype = found.shape, found.dtype
    if dtype.kind == "b":
        raise TypeError(f"entry {number} is {item!r}, but a mask's values decide the result's shape: write the mask itself")
    if dtype.kind not in "iu":
        raise IndexError(f"entry {number} is {item!r}, but an index array must have an integer type")
    if not shape or min(shape) < 0:
        raise ValueError(f"entry {number} is {item!r}, but an index array has at least one dimension, and sizes of 0 or more")
    return WrittenEntry(TensorType(shape, _index_type(dtype)), None)


def _position(number: int, value: int) -> int:
    if 2**63 <= value < 2**64:
        raise OverflowError(f"entry {number} is {value}, which is no 64-bit integer: expected at most {2**63 - 1}")
    if not -(2**63) <= value < 2**63:
        raise IndexError(f"entry {number} is {value}, which is no 64-bit integer: expected {-(2**63)} … {2**63 - 1}")
    return value


def _converted(number: int, item: Any) -> np.ndarray[Any, Any]:
    """A list, or whatever else NumPy makes an array of. Without elements it is one of integers."""
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise ValueError(f"entry {number} is {item!r}, of which NumPy makes no array: {error}") from None
    return array if array.size else array.astype(POSITIONS)
