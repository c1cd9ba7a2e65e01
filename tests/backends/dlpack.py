"""DLPack capsules of any device, type and flags, according to dlpack.h, as libraries export them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

CPU, CUDA, CUDA_HOST, CUDA_MANAGED, ROCM = 1, 2, 3, 13, 10
"""Values of DLDeviceType."""
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
"""DLDataTypeCode by NumPy's kind."""
BFLOAT16, FLOAT8_E4M3FN = 4, 10
READ_ONLY = 1
"""DLPACK_FLAG_BITMASK_READ_ONLY."""


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


_NOTHING = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
"""A C function without effect, called when a consumer is done. A function of Python may be gone by then."""

_exported: list[Exported] = []
"""All exported arrays. Consumers read them at any time, so they are kept forever."""


class Exported:
    """An array of NumPy or CuPy on `device` (type, number), with DLPack as its only interface.

    code: the DLDataTypeCode to state instead of the array's. flags: the flags of the capsule.
    """

    def __init__(self, array: Any, device: tuple[int, int], code: int | None = None, flags: int = 0) -> None:
        self._array, self._device = array, device
        self.dtype, self.shape = array.dtype, array.shape
        code = CODES[array.dtype.kind] if code is None else code
        self._sizes = (ctypes.c_int64 * array.ndim)(*array.shape)
        self._steps = (ctypes.c_int64 * array.ndim)(*(step // array.itemsize for step in array.strides))
        tensor = _Tensor(
            array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr,
            *device,
            array.ndim,
            code,
            array.itemsize * 8,
            1,
            *map(ctypes.addressof, (self._sizes, self._steps)),
            0,
        )
        self._managed = _Managed(1, 0, None, _NOTHING, flags, tensor)
        _exported.append(self)

    def __dlpack__(self, **asked: Any) -> Any:
        return _new(ctypes.addressof(self._managed), b"dltensor_versioned", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device
