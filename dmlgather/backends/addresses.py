"""Fields of NumPy's array objects, read from memory, because asking NumPy for three addresses takes as long as a small call."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

_FIELD = object.__basicsize__
"""Offset of the data pointer in bytes, as in NumPy's macro PyArray_DATA."""
_WRITEABLE = 0x400  # NPY_ARRAY_WRITEABLE

_word_at = ctypes.c_size_t.from_address


def _read(array: Any) -> int:
    return _word_at(id(array) + _FIELD).value


def _ask(array: Any) -> int:
    address: int = array.ctypes.data  # takes ten times as long as `_read`
    return address


def _reader() -> Callable[[Any], int]:
    """Return the fastest function that gives an array's address: a read from memory if this works, else NumPy's attribute."""
    probes = (np.empty(1), np.empty((3, 4), np.int8)[1:, ::-2], np.empty(0))
    if sys.implementation.name == "cpython" and all(_read(probe) == _ask(probe) for probe in probes):
        return _read
    return _ask


address_of: Callable[[Any], int] = _reader()
"""Function that returns the address of an array's first element."""


class ArrayObject(ctypes.Structure):
    """The fields of a NumPy array object in memory, as in the struct `array_object` of cpu_kernels/arrays.c."""

    _fields_ = (
        ("references", ctypes.c_ssize_t),
        ("type", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("base", ctypes.c_void_p),
        ("element_type", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


def has_known_fields() -> bool:
    """Return True if NumPy's array objects have the fields of `ArrayObject` in memory.

    In CPython without an interpreter lock, they have others.
    """
    frozen = np.arange(24, dtype=np.int16).reshape(2, 3, 4)[:, ::-2]
    frozen.setflags(write=False)
    probes = (np.empty(1), np.empty((3, 4), np.int8)[1:, ::-2], np.empty((0, 5), ">i4"), np.array(1.5), frozen)
    return address_of is _read and ArrayObject.data.offset == _FIELD and all(map(_is_read_well, probes))


def _is_read_well(array: Any) -> bool:
    fields = ArrayObject.from_address(id(array))
    expected = (id(type(array)), array.ndim, id(array.dtype), array.flags.writeable)
    if (fields.type, fields.rank, fields.element_type, bool(fields.flags & _WRITEABLE)) != expected:
        return False  # do not follow pointers of an unknown object
    return (tuple(fields.sizes[: array.ndim]), tuple(fields.strides[: array.ndim])) == (array.shape, array.strides)
