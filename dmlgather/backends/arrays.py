"""Arrays as backends see them: memory with a layout. NumPy and CuPy directly, everything else through DLPack."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import jax_arrays
from dmlgather.backends.devices import CPU, Device, stream_pointer
from dmlgather.plan import Layout, overlaps, reach

_OVERLAP_WORK = 100_000
"""Steps that NumPy's overlap solver may take; arrays that it cannot tell apart in time count as overlapping."""

_DLPACK_HOST = (1, 3)  # kDLCPU, kDLCUDAHost
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged


@dataclass(frozen=True, slots=True)
class Operand:
    """One array ready to be bound.

    array: the NumPy or CuPy array whose memory is used (kept alive). layout: its elements, counted from `pointer`, the
    address in bytes of the lowest element. name: what messages call it.
    """

    array: Any
    device: Device
    layout: Layout
    pointer: int
    name: str = ""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of one element."""
        dtype: np.dtype[Any] = self.array.dtype
        return dtype

    @property
    def alignment(self) -> int:
        """The largest power of two, at most 16, that divides the pointer."""
        return 16 if self.pointer % 16 == 0 else self.pointer & -self.pointer

    def flat(self) -> NDArray[Any]:
        """Every element the layout owns as one NumPy dimension, shape [extent] (arrays on the CPU only)."""
        array = self.array
        if array.flags.c_contiguous and self.layout.extent == array.size:
            return array.reshape(-1)  # type: ignore[no-any-return]
        if self.layout.extent == 0:
            return np.empty(0, array.dtype)
        low = array[tuple(slice(None, None, -1) if step < 0 else slice(None) for step in array.strides)]
        if not array.dtype.hasobject:  # as_strided asks for a type by its letter, which float8_e5m2 lacks
            low = low.view(f"V{array.itemsize}")
        flat = np.lib.stride_tricks.as_strided(low, (self.layout.extent,), (array.itemsize,), writeable=array.flags.writeable)
        return np.asarray(flat).view(array.dtype)


def adopt(array: Any) -> tuple[Any, Device]:
    """The NumPy or CuPy array over the same memory as `array`, and its device. TypeError for anything without memory."""
    if type(array) is np.ndarray:
        return array, CPU
    if isinstance(array, np.ndarray):  # of a class with rules of its own, such as numpy.matrix
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError("expected a plain array, got a masked one, whose mask would be lost: pass array.filled(value)")
        return array.view(np.ndarray), CPU
    if _is_cupy(array):
        return array, Device("cuda", array.device.id)
    if jax_arrays.is_jax(array):
        jax_arrays.check_usable(array)
    if not hasattr(array, "__dlpack__"):
        raise TypeError(
            f"expected an array (NumPy, CuPy or any with __dlpack__), got {type(array).__name__}: "
            "wrap Python values with numpy.asarray(values, dtype=…)"
        )
    kind, number = array.__dlpack_device__()
    if kind in _DLPACK_HOST:
        try:
            return np.from_dlpack(array), CPU
        except (BufferError, RuntimeError, TypeError):  # a data type that NumPy's DLPack lacks, such as bfloat16
            if not hasattr(array, "__array_interface__") and not hasattr(array, "__array__"):
                raise
            return np.asarray(array), CPU
    if kind in _DLPACK_CUDA:
        from dmlgather.backends.cuda import require

        cupy = require(number)
        try:
            found = cupy.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError) as error:
            if not hasattr(array, "__cuda_array_interface__"):
                raise TypeError(f"CuPy has no type for {array.dtype} ({error}): pass a view of an integer type") from None
            found = cupy.asarray(array)
        return found, Device("cuda", found.device.id)  # managed memory may state another number
    raise TypeError(f"{type(array).__name__} lies on DLPack device type {kind}; only host and CUDA memory can be used")


def _is_cupy(array: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def logical(array: Any, device: Device, name: str) -> Operand:
    """`array` (NumPy or CuPy) with its own shape and strides. ValueError when a stride is not a whole number of elements."""
    pointer = int(array.ctypes.data) if device == CPU else int(array.data.ptr)
    if array.flags.c_contiguous:
        return Operand(array, device, _packed(array.shape), pointer, name)
    itemsize = array.dtype.itemsize
    if itemsize == 0 or any(step % itemsize for size, step in zip(array.shape, array.strides, strict=True) if size > 1):
        raise ValueError(
            f"{name}: strides {array.strides} bytes are not whole elements of {itemsize} bytes; pass a copy (array.copy())"
        )
    shape = tuple(array.shape)
    strides = tuple(step // itemsize if size > 1 else 0 for size, step in zip(shape, array.strides, strict=True))
    if 0 in shape:
        return Operand(array, device, Layout(shape, strides, 0, 0), pointer, name)
    low, high = reach(shape, strides)
    return Operand(array, device, Layout(shape, strides, -low, high - low + 1), pointer + low * itemsize, name)


@lru_cache(maxsize=1024)
def _packed(shape: tuple[int, ...]) -> Layout:
    return Layout.packed(shape)


def buffer(array: Any, device: Device, layout: Layout, dtype: np.dtype[Any]) -> Operand:
    """A one-dimensional contiguous array read as `layout` of `dtype` elements from its first byte on."""
    if array.dtype != dtype:
        array = array.view(np.uint8)[: layout.extent * dtype.itemsize].view(dtype)
    array = array[: layout.extent]
    pointer = int(array.ctypes.data) if device == CPU else int(array.data.ptr)
    return Operand(array, device, layout, pointer)


@dataclass(frozen=True, slots=True)
class _Bare:
    """Stands for the array of an operand that is only an address."""

    dtype: np.dtype[Any]


def at_address(pointer: int, device: Device, layout: Layout, dtype: np.dtype[Any]) -> Operand:
    """Device memory of which only the address is known; whoever gave it keeps it alive."""
    return Operand(_Bare(dtype), device, layout, pointer)


def allocate(device: Device, sizes: Sequence[int], dtype: np.dtype[Any], like: Any = None) -> Any:
    """A new packed array of shape `sizes` on `device`, such that `hand_back` need not copy it where `like` is an array of JAX."""
    if not device.on_gpu:
        return jax_arrays.empty(sizes, dtype) if jax_arrays.is_jax(like) else np.empty(tuple(sizes), dtype)
    import cupy

    with cupy.cuda.Device(device.index):
        return cupy.empty(tuple(sizes), dtype)


def move(array: Any, source: Device, target: Device) -> Any:
    """`array` on `target`: itself, or a copy when it lies on another device. Ordered with the devices' current streams; a copy
    from the host has read all of `array` on return.
    """
    if source == target:
        return array
    if not target.on_gpu:
        return array.get()
    from dmlgather.backends.cuda import require

    cupy = require(target.index)
    if source.on_gpu:  # CuPy copies only packed arrays from GPU to GPU, and on a stream that waits for no other GPU's
        with cupy.cuda.Device(source.index):
            array = cupy.asarray(array, order="C")
            cupy.cuda.get_current_stream(source.index).synchronize()
    with cupy.cuda.Device(target.index):
        return cupy.asarray(array, blocking=True)


def fill_from(target: Any, device: Device, array: Any) -> None:
    """Write `array`, of the same shape and on the same device, into `target`."""
    if not device.on_gpu:
        target[...] = array
        return
    import cupy

    with cupy.cuda.Device(device.index):
        target[...] = array


@contextmanager
def on_stream(stream: Any, device: Device) -> Iterator[None]:
    """Makes a stream that a caller gave CuPy's current one, so that copies, allocations and DLPack's exchange are ordered with
    the kernel. TypeError as `stream_pointer`.
    """
    pointer = stream_pointer(stream, device)
    import cupy

    with cupy.cuda.Device(device.index), cupy.cuda.Stream.from_external(_CudaStream(pointer)):
        yield


@dataclass(frozen=True, slots=True)
class _CudaStream:
    """An address as the object that the CUDA stream protocol asks for."""

    pointer: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer


def hand_back(result: Any, like: Any) -> Any:
    """`result` (NumPy or CuPy) as the kind of array that `like` is, over the same memory wherever that kind allows it; as it is
    where the library of `like` has no `from_dlpack`.
    """
    if isinstance(like, np.ndarray | np.generic) or _is_cupy(like):
        return result
    if jax_arrays.is_jax(like):
        return jax_arrays.hand_back(result, like)
    root = type(like).__module__.partition(".")[0]
    library = sys.modules.get(root)
    for module in (library, getattr(library, "dlpack", None)):
        if hasattr(module, "from_dlpack"):
            return module.from_dlpack(result)  # type: ignore[union-attr]
    return result


def check_output_layout(layout: Layout) -> None:
    """ValueError when elements of an output with this layout share addresses, or when that cannot be ruled out."""
    if overlaps(layout.sizes, layout.strides) is not False:
        raise ValueError(
            f"out has strides {layout.strides} (elements) for shape {layout.sizes}, so that elements share an address "
            "or may do so; pass an array without overlap"
        )


def check_output(out: Operand, inputs: Sequence[Operand]) -> None:
    """ValueError when `out` is read-only or overlaps an input."""
    if not out.device.on_gpu and not out.array.flags.writeable:
        raise ValueError("out is read-only; pass a writeable array")
    for number, operand in enumerate(inputs):
        if operand.device == out.device and _share_memory(operand, out):
            raise ValueError(f"out overlaps input {number}; DirectML has no in-place form of these operators: pass another array")


def check_indices(indices: Sequence[Operand]) -> None:
    """ValueError when an index array lies where a GPU cannot read its elements."""
    for operand in indices:
        size = operand.dtype.itemsize
        if operand.pointer % size:
            raise ValueError(
                f"{operand.name or 'indices'}: the elements lie at address {operand.pointer:#x}, but a GPU reads {operand.dtype} "
                f"at multiples of {size} bytes only; pass a copy (array.copy())"
            )


class _Addresses:
    """The addresses of an operand for NumPy's overlap solver, which looks at them and never at the memory."""

    def __init__(self, operand: Operand) -> None:
        layout, itemsize = operand.layout, operand.dtype.itemsize
        self.__array_interface__ = {
            "version": 3,
            "shape": layout.sizes,
            "strides": tuple(step * itemsize for step in layout.strides),
            "typestr": f"|V{itemsize}",
            "data": (operand.pointer + layout.offset * itemsize, True),
        }


def _share_memory(left: Operand, right: Operand) -> bool:
    ends = [(item.pointer, item.pointer + item.layout.extent * item.dtype.itemsize) for item in (left, right)]
    if max(ends[0][0], ends[1][0]) >= min(ends[0][1], ends[1][1]):
        return False
    try:
        views = (np.asarray(_Addresses(left)), np.asarray(_Addresses(right)))
        return bool(np.shares_memory(*views, max_work=_OVERLAP_WORK))  # type: ignore[arg-type] # the stub knows 0 and -1 only
    except np.exceptions.TooHardError:
        return True
