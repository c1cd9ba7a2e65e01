"""Real arrays of CuPy over host memory, and a driver that is not one for calls on them."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.real_cupy.signatures import package
from tests.test_operator_devices import ArrayDriver


def over(array: np.ndarray[Any, Any], device: int = 0) -> Any:
    """A packed array's memory as a cupy.ndarray that says to lie on a GPU."""
    cupy = package()
    assert array.flags.c_contiguous
    memory = cupy.cuda.UnownedMemory(array.ctypes.data, array.nbytes, array, device_id=device)
    return cupy.ndarray(array.shape, array.dtype, memptr=cupy.cuda.MemoryPointer(memory, 0))


def under(array: Any) -> np.ndarray[Any, Any]:
    """The host memory that a cupy.ndarray lies over, with its shape, strides and type."""
    owner = array.data.mem._owner
    start = array.data.ptr - owner.ctypes.data
    flat = owner.reshape(-1).view(np.uint8)
    return np.ndarray(array.shape, array.dtype, flat, start, array.strides)


class RealArrayDriver(ArrayDriver):
    """An ArrayDriver whose arrays are CuPy's own."""

    def __init__(self) -> None:
        super().__init__()
        self.package = package()
        self.ndarray = self.package.ndarray
        self.CUDARuntimeError = self.package.cuda.runtime.CUDARuntimeError

    def empty(self, shape: Any, dtype: Any) -> Any:
        room = np.empty(int(np.prod(shape)) * np.dtype(dtype).itemsize + 16, np.uint8)
        start = -room.ctypes.data % 16
        return over(room[start : len(room) - 16 + start].view(dtype).reshape(shape), self.getDevice())

    def pointerGetAttributes(self, pointer: int) -> SimpleNamespace:  # noqa: N802 - CUDA's name
        return SimpleNamespace(device=1)

    def from_dlpack(self, array: Any) -> Any:
        """Below cupy.from_dlpack, which asks the driver for its devices first."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is deprecated
            return self.package.fromDlpack(array.__dlpack__(max_version=(1, 0)))
