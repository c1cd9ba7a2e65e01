"""Array objects of NumPy's, read where they lie: asking NumPy for three addresses costs as much as a call on small arrays."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

_FIELD = object.__basicsize__
"""Bytes from an array object to its first field, the pointer: what NumPy's C interface compiles into its users (PyArray_DATA)."""
_WRITEABLE = 0x400

_word_at = ctypes.c_size_t.from_address


def _read(array: Any) -> int:
    return _word_at(id(array) + _FIELD).value


def _ask(array: Any) -> int:
    address: int = array.ctypes.data  # ten times as slow
    return address


def _reader() -> Callable[[Any], int]:
    """What reads addresses: only CPython's `id` is one, and what it leads to is compared with NumPy's own answer."""
    probes = (np.empty(1), np.empty((3, 4), np.int8)[1:, ::-2], np.empty(0))
    if sys.implementation.name == "cpython" and all(_read(probe) == _ask(probe) for probe in probes):
        return _read
    return _ask


address_of: Callable[[Any], int] = _reader()
"""The address of the first element of a numpy.ndarray, as `array.ctypes.data`."""


class ArrayObject(ctypes.Structure):
    """An array as it lies in memory, for the engine, which has these fields too (`array_object` in cpu_kernels/arrays.c)."""

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
    """Whether array objects lie in memory as `ArrayObject` says, and no thread changes one while another reads it: what is read
    is compared with NumPy's own answers. Not on builds of CPython without an interpreter lock, whose objects begin otherwise.
    """
    frozen = np.arange(24, dtype=np.int16).reshape(2, 3, 4)[:, ::-2]
    frozen.setflags(write=False)
    probes = (np.empty(1), np.empty((3, 4), np.int8)[1:, ::-2], np.empty((0, 5), ">i4"), np.array(1.5), frozen)
    return address_of is _read and ArrayObject.data.offset == _FIELD and all(map(_is_read_well, probes))


def _is_read_well(array: Any) -> bool:
    found = ArrayObject.from_address(id(array))
    own = (id(type(array)), array.ndim, id(array.dtype), array.flags.writeable)
    if (found.type, found.rank, found.element_type, bool(found.flags & _WRITEABLE)) != own:
        return False  # before pointers are followed
    return (tuple(found.sizes[: array.ndim]), tuple(found.strides[: array.ndim])) == (array.shape, array.strides)
