"""Signatures of arrays, and footprints: the address ranges of arrays with one signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.devices import CPU, Device
from dmlgather.plan import Layout, overlaps, packed_strides, reach
from dmlgather.wording import counted

WRITEABLE, READ_ONLY = -1, -2
"""Places of arrays in host memory (see `Signature`)."""

Signature: TypeAlias = tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...], int]
"""Data type, shape, strides in bytes, and *place*: WRITEABLE or READ_ONLY in host memory.

On a GPU, the place is 16 · the GPU's number + the pointer modulo 16. Example: 0x15 = 21 for GPU 1 and a pointer that ends in 5.
A signature is a plain tuple, because each call makes and compares one per array.
"""

FastPath: TypeAlias = Callable[..., bool]
"""Function that runs a call on inputs and output. It returns False if the slow path must run."""

_OVERLAP_WORK = 100_000
"""Step limit of numpy.shares_memory. Beyond it, arrays count as overlapping."""


def signature_on(device: Device, array: Any) -> Signature:
    """Return the signature of a NumPy or CuPy array."""
    where = device.index << 4 | array.data.ptr & 15 if device.on_gpu else WRITEABLE if array.flags.writeable else READ_ONLY
    return array.dtype, array.shape, array.strides, where


def packed_signature(dtype: np.dtype[Any], shape: tuple[int, ...], where: int) -> Signature:
    """Return the signature of a packed array with this shape.

    `where`: the place of the array's memory (see `Signature`).
    """
    return dtype, shape, tuple(step * dtype.itemsize for step in packed_strides(shape)), where


def new_place(memory: Device) -> int:
    """Return the place (see `Signature`) of a new array in `memory`. It is writeable, and on a GPU aligned to 16 bytes."""
    return memory.index << 4 if memory.on_gpu else WRITEABLE


def device_of(signature: Signature) -> Device:
    """Return the device that holds arrays with this signature."""
    return CPU if signature[3] < 0 else Device("cuda", signature[3] >> 4)


@dataclass(frozen=True, slots=True)
class Footprint:
    """The address range of an array's elements, relative to its pointer. Arrays with equal signatures have equal footprints.

    `layout`: the layout of the array. The offset counts from the element with the lowest address.
    `start`: the distance in bytes from the array's pointer to its lowest address: 0, or negative if a stride is negative.
    `misaligned`: the lowest address modulo 16. In host memory it is 0.
    `whole`: True if `array.ravel()` has exactly the elements of the layout, in the order of memory.
    """

    name: str
    dtype: np.dtype[Any]
    layout: Layout
    start: int = 0
    misaligned: int = 0
    writeable: bool = True
    whole: bool = False

    @property
    def end(self) -> int:
        """The distance in bytes from the array's pointer to the end of its memory."""
        return self.start + self.layout.extent * self.dtype.itemsize

    @property
    def alignment(self) -> int:
        """The largest power of two, at most 16, that divides the lowest address: 4 for 12, 16 for 0."""
        return self.misaligned & -self.misaligned or 16

    def flat(self, array: Any) -> NDArray[Any]:
        """Return the memory of a host array as a one-dimensional array that begins at the lowest address."""
        if self.whole:
            return array.ravel()  # type: ignore[no-any-return] # a view, because the array is packed
        extent = self.layout.extent
        if extent == 0:
            return np.empty(0, self.dtype)
        if array.flags.c_contiguous:  # a buffer
            if array.dtype != self.dtype:
                array = array.view(np.uint8)[: extent * self.dtype.itemsize].view(self.dtype)
            return array[:extent]  # type: ignore[no-any-return]
        low = array[tuple(slice(None, None, -1) if step < 0 else slice(None) for step in array.strides)]
        if not array.dtype.hasobject:  # as_strided needs a type code of NumPy, and float8_e5m2 has none
            low = low.view(f"V{array.itemsize}")
        flat = np.lib.stride_tricks.as_strided(low, (extent,), (array.itemsize,), writeable=array.flags.writeable)
        return np.asarray(flat).view(array.dtype)


def logical(name: str, signature: Signature) -> Footprint:
    """Return the footprint of arrays with this signature, whose strides the call uses.

    Raises ValueError if a stride is not a multiple of the element size.
    """
    dtype, shape, strides, where = signature
    itemsize, misaligned, writeable = dtype.itemsize, max(where, 0) & 15, where != READ_ONLY
    packed = packed_strides(shape)
    if 0 in shape or all(size == 1 or step == wide * itemsize for size, step, wide in zip(shape, strides, packed, strict=True)):
        return Footprint(name, dtype, Layout.packed(shape), 0, misaligned, writeable, whole=True)
    if itemsize == 0 or any(step % itemsize for size, step in zip(shape, strides, strict=True) if size > 1):
        raise ValueError(
            f"{name}: strides {strides} (bytes) are not multiples of the element size, {counted(itemsize, 'byte')}; "
            "pass a copy (array.copy())"
        )
    steps = tuple(step // itemsize if size > 1 else 0 for size, step in zip(shape, strides, strict=True))
    low, high = reach(shape, steps)
    start = low * itemsize
    return Footprint(name, dtype, Layout(shape, steps, -low, high - low + 1), start, (misaligned + start) % 16, writeable)


def buffer(name: str, signature: Signature, layout: Layout, dtype: np.dtype[Any]) -> Footprint:
    """Return the footprint of contiguous one-dimensional arrays that hold a tensor with this layout.

    `dtype`: the data type of the tensor. The arrays may also have the type uint8.
    """
    array_dtype, (size,), _, where = signature
    whole = (array_dtype, size) == (dtype, layout.extent)
    return Footprint(name, dtype, layout, 0, max(where, 0) & 15, where != READ_ONLY, whole)


def check_output(out: Footprint) -> None:
    """Raise ValueError if an output is read-only, or if its elements may share an address."""
    if not out.writeable:
        raise ValueError("out is read-only; pass a writeable array")
    layout = out.layout
    if overlaps(layout.sizes, layout.strides) is not False:
        raise ValueError(
            f"out has strides {layout.strides} (elements) for shape {layout.sizes}, so that elements share an address "
            "or may do so; pass an array without overlap"
        )


def check_indices(indices: Sequence[Footprint]) -> None:
    """Raise ValueError if an index array is not aligned to its elements, as a GPU requires."""
    for footprint in indices:
        size = footprint.dtype.itemsize
        if past := footprint.misaligned % size:
            raise ValueError(
                f"{footprint.name}: the elements lie {counted(past, 'byte')} past a multiple of {size}, but a GPU reads "
                f"{footprint.dtype} at multiples of {size} bytes only; pass a copy (array.copy())"
            )


class _Addresses:
    """Addresses in the form of an array, for NumPy's overlap solver. The solver reads no memory."""

    def __init__(self, footprint: Footprint, pointer: int) -> None:
        layout, itemsize = footprint.layout, footprint.dtype.itemsize
        self.__array_interface__ = {
            "version": 3,
            "shape": layout.sizes,
            "strides": tuple(step * itemsize for step in layout.strides),
            "typestr": f"|V{itemsize}",
            "data": (pointer + footprint.start + layout.offset * itemsize, True),
        }


def share_memory(left: Footprint, left_pointer: int, right: Footprint, right_pointer: int) -> bool:
    """Return True if two arrays share bytes, or if NumPy's overlap solver gives up."""
    if left_pointer + left.end <= right_pointer + right.start or right_pointer + right.end <= left_pointer + left.start:
        return False
    try:
        views = (np.asarray(_Addresses(left, left_pointer)), np.asarray(_Addresses(right, right_pointer)))
        return bool(np.shares_memory(*views, max_work=_OVERLAP_WORK))  # type: ignore[arg-type] # the stub knows 0 and -1 only
    except np.exceptions.TooHardError:
        return True
