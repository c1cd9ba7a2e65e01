"""Arrays in and out: NumPy's and CuPy's directly, everything else through DLPack, or `__cuda_array_interface__` where it has
nothing else; copies from device to device.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from dmlgather.backends import jax_arrays, torch_tensors
from dmlgather.backends.devices import CPU, Device, stream_pointer

_DLPACK_HOST = (1, 3)  # kDLCPU, kDLCUDAHost
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged, which may state another number


def adopt(array: Any) -> tuple[Any, Device]:
    """The NumPy or CuPy array over the same memory as `array`, and its device; NumPy's scalars are copied. TypeError for
    anything without memory.
    """
    if type(array) is np.ndarray:
        return array, CPU
    if isinstance(array, np.generic):
        return np.asarray(array), CPU
    if isinstance(array, np.ndarray):  # of a class with rules of its own, such as numpy.matrix
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError("expected a plain array, got a masked one, whose mask would be lost: pass array.filled(value)")
        return array.view(np.ndarray), CPU
    if _is_cupy(array):
        return array, Device("cuda", array.device.id)
    if jax_arrays.is_jax(array):
        jax_arrays.check_usable(array)
    elif torch_tensors.is_torch(array):
        array = torch_tensors.plain(array)
    if not hasattr(array, "__dlpack__"):
        if hasattr(array, "__cuda_array_interface__"):  # arrays of Numba, for one
            return _by_cuda_array_interface(array)
        raise TypeError(
            f"expected an array (NumPy, CuPy, or any with __dlpack__ or __cuda_array_interface__), got {type(array).__name__}: "
            "wrap Python values with numpy.asarray(values, dtype=…)"
        )
    kind, number = array.__dlpack_device__()
    if kind in _DLPACK_HOST:
        try:
            return np.from_dlpack(array), CPU
        except (BufferError, RuntimeError, TypeError):  # a data type that NumPy's DLPack lacks, such as bfloat16
            if torch_tensors.is_torch(array):
                return torch_tensors.host_array(array), CPU
            if not hasattr(array, "__array_interface__") and not hasattr(array, "__array__"):
                raise
            return np.asarray(array), CPU
    if kind in _DLPACK_CUDA:
        from dmlgather.backends.cuda import require

        cupy = require(number)
        try:
            found = cupy.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError) as error:
            if isinstance(error, cupy.cuda.runtime.CUDARuntimeError):  # of the device, not about the array
                raise
            if not hasattr(array, "__cuda_array_interface__"):
                raise _no_type(array.dtype, error) from None
            return _by_cuda_array_interface(array)
        return found, Device("cuda", found.device.id)
    raise TypeError(f"{type(array).__name__} lies on DLPack device type {kind}; only host and CUDA memory can be used")


def adopt_output(out: Any) -> tuple[Any, Device]:
    """As `adopt`. ValueError for an array on a GPU that its library says must not be written: CuPy's view does not keep that."""
    if torch_tensors.is_torch(out):
        torch_tensors.check_written(out)
    adopted, device = adopt(out)
    if device.on_gpu and adopted is not out:
        interface = getattr(out, "__cuda_array_interface__", None)
        if jax_arrays.is_jax(out) or (interface is not None and interface["data"][1]):
            raise ValueError("out is read-only; pass a writeable array")
    return adopted, device


def home_of(array: Any) -> Device:
    """The device of `adopt`, where possible without DLPack's exchange, which makes a stream wait. TypeError as `adopt`."""
    if not jax_arrays.is_jax(array) and hasattr(array, "__dlpack_device__"):
        kind, number = array.__dlpack_device__()
        if kind == _DLPACK_CUDA[0]:
            return Device("cuda", number)
    return adopt(array)[1]


def _by_cuda_array_interface(array: Any) -> tuple[Any, Device]:
    from dmlgather.backends.cuda import require

    cupy = require(0)
    runtime, pointer = cupy.cuda.runtime, array.__cuda_array_interface__["data"][0]
    device = Device("cuda", runtime.pointerGetAttributes(pointer).device if pointer else runtime.getDevice())
    with device.current():  # CuPy would copy it to another GPU
        return cupy.asarray(array), device


def _no_type(dtype: Any, error: Exception) -> TypeError:
    return TypeError(f"CuPy has no type for {dtype} ({error}): pass a view of an integer type")


def _is_cupy(array: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def allocate(device: Device, sizes: Sequence[int], dtype: np.dtype[Any], like: Any = None) -> Any:
    """A new packed array of shape `sizes` on `device`, such that `hand_back` need not copy it where `like` is an array of JAX.

    ValueError as `check_size`.
    """
    check_size(sizes, dtype)
    if not device.on_gpu:
        return jax_arrays.empty(sizes, dtype) if jax_arrays.is_jax(like) else np.empty(tuple(sizes), dtype)
    import cupy

    with device.current():
        return cupy.empty(tuple(sizes), dtype)


def check_size(sizes: Sequence[int], dtype: np.dtype[Any]) -> None:
    """ValueError for a result of more bytes than an address can count, where sizes of 0 count as 1, as NumPy's do."""
    if prod(max(size, 1) for size in sizes) * dtype.itemsize > sys.maxsize:
        raise ValueError(
            f"the result has shape {tuple(sizes)} of {dtype}, but an array spans at most {sys.maxsize} bytes, where sizes of 0 "
            "count as 1: choose smaller sizes"
        )


def move(array: Any, source: Device, target: Device) -> Any:
    """`array` on `target`: itself, or a copy when it lies on another device. Ordered with the devices' current streams; a copy
    from the host has read all of `array` on return. TypeError for a type that CuPy lacks.
    """
    if source == target:
        return array
    if not target.on_gpu:
        return array.get()
    from dmlgather.backends.cuda import require

    cupy = require(target.index)
    if source.on_gpu:  # CuPy copies only packed arrays from GPU to GPU, and on a stream that waits for no other GPU's
        with source.current():
            array = cupy.asarray(array, order="C")
            cupy.cuda.get_current_stream(source.index).synchronize()
    with target.current():
        try:
            return cupy.asarray(array, blocking=True)
        except ValueError as error:
            raise _no_type(array.dtype, error) from None


def fill_from(target: Any, device: Device, array: Any) -> None:
    """Write `array`, of the same shape and on the same device, into `target`."""
    with device.current():
        target[...] = array


@contextmanager
def on_stream(stream: Any, device: Device) -> Iterator[None]:
    """Makes a stream that a caller gave CuPy's current one, so that copies, allocations and DLPack's exchange are ordered with
    the kernel. TypeError as `stream_pointer`.
    """
    pointer = stream_pointer(stream, device)
    import cupy

    with device.current(), cupy.cuda.Stream.from_external(_CudaStream(pointer)):
        yield


@dataclass(frozen=True, slots=True)
class _CudaStream:
    """An address as the object that the CUDA stream protocol asks for."""

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


def hand_back(result: Any, like: Any) -> Any:
    """`result` (NumPy or CuPy) as the kind of array that `like` is, over the same memory wherever that kind allows it; as it is
    where neither the array API's namespace of `like` nor its library has a `from_dlpack`.
    """
    if isinstance(like, np.ndarray | np.generic) or _is_cupy(like):
        return result
    if jax_arrays.is_jax(like):
        return jax_arrays.hand_back(result, like)
    if torch_tensors.is_torch(like):
        return torch_tensors.hand_back(result, like)
    namespace = like.__array_namespace__() if hasattr(like, "__array_namespace__") else None
    library = sys.modules.get(type(like).__module__.partition(".")[0])
    for module in (namespace, library, getattr(library, "dlpack", None)):
        if hasattr(module, "from_dlpack"):
            return module.from_dlpack(result)  # type: ignore[union-attr]
    return result
