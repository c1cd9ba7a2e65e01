"""Signatures of arrays, and footprints. A footprint describes the memory that arrays with one signature occupy."""

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
"""Places of host arrays: the last items of their signatures."""

Signature: TypeAlias = tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...], int]
"""Data type, shape, strides (bytes), and place. On the host, the place is WRITEABLE or READ_ONLY. On a GPU, the place is 16 · the
GPU's number + pointer modulo 16: 0x15 = 21 for GPU 1 and a pointer that ends in 5. A signature is a plain tuple of few items,
because each call makes and compares a signature per array.
"""

FastPath: TypeAlias = Callable[..., bool]
"""Function that runs a call on arrays, inputs first, and returns True. It returns False if the slow path must run the call. The
reasons are an unexpected class or signature, a read-only output, an output that may overlap an input, and a bad index under
RAISE.
"""

_OVERLAP_WORK = 100_000
"""Maximum number of steps of NumPy's overlap solver. If it has no answer by then, arrays count as overlapping."""


def signature_on(device: Device, array: Any) -> Signature:
    """Return the signature of an array from `adopt`. The array's class may be a subclass."""
    where = device.index << 4 | array.data.ptr & 15 if device.on_gpu else WRITEABLE if array.flags.writeable else READ_ONLY
    return array.dtype, array.shape, array.strides, where


def packed_signature(dtype: np.dtype[Any], shape: tuple[int, ...], where: int) -> Signature:
    """Return the signature of a packed array. `where`: the place of the array."""
    return dtype, shape, tuple(step * dtype.itemsize for step in packed_strides(shape)), where


def new_place(memory: Device) -> int:
    """Return the place of a new array, which is writeable, and on a GPU aligned to 16 bytes."""
    return memory.index << 4 if memory.on_gpu else WRITEABLE


def device_of(signature: Signature) -> Device:
    """Return the device of arrays with this signature."""
    return CPU if signature[3] < 0 else Device("cuda", signature[3] >> 4)


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory that an array's elements occupy, for all arrays with one signature.

    `name`: name of the array in messages.
    `layout`: relative to the element with the lowest address.
    `start`: bytes from an array's pointer to that element, 0 or negative.
    `misaligned`: address of that element modulo 16; 0 on the host.
    `whole`: True if `array.ravel()` has exactly the elements of the layout, for arrays on the host.
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
        """Return the bytes from an array's pointer to the end of the last element."""
        return self.start + self.layout.extent * self.dtype.itemsize

    @property
    def alignment(self) -> int:
        """Return the largest power of two, at most 16, that divides the lowest element's address: 4 for 12, 16 for 0."""
        return self.misaligned & -self.misaligned or 16

    def flat(self, array: Any) -> NDArray[Any]:
        """Return a one-dimensional view of all elements of the layout. For arrays on the host only."""
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
        if not array.dtype.hasobject:  # as_strided needs the type's letter, which float8_e5m2 does not have
            low = low.view(f"V{array.itemsize}")
        flat = np.lib.stride_tricks.as_strided(low, (extent,), (array.itemsize,), writeable=array.flags.writeable)
        return np.asarray(flat).view(array.dtype)


def logical(name: str, signature: Signature) -> Footprint:
    """Return the footprint of arrays with their own shape and strides.

    Raise ValueError if a stride is not a whole number of elements.
    """
    dtype, shape, strides, where = signature
    itemsize, misaligned, writeable = dtype.itemsize, max(where, 0) & 15, where != READ_ONLY
    packed = packed_strides(shape)
    if 0 in shape or all(size == 1 or step == wide * itemsize for size, step, wide in zip(shape, strides, packed, strict=True)):
        return Footprint(name, dtype, Layout.packed(shape), 0, misaligned, writeable, whole=True)
    if itemsize == 0 or any(step % itemsize for size, step in zip(shape, strides, strict=True) if size > 1):
        raise ValueError(
            f"{name}: strides {strides} bytes are not whole elements of {itemsize} bytes; pass a copy (array.copy())"
        )
    steps = tuple(step // itemsize if size > 1 else 0 for size, step in zip(shape, strides, strict=True))
    low, high = reach(shape, steps)
    start = low * itemsize
    return Footprint(name, dtype, Layout(shape, steps, -low, high - low + 1), start, (misaligned + start) % 16, writeable)


def buffer(name: str, signature: Signature, layout: Layout, dtype: np.dtype[Any]) -> Footprint:
    """Return the footprint of one-dimensional contiguous arrays that are read as `layout` of `dtype` elements."""
    array_dtype, (size,), _, where = signature
    whole = (array_dtype, size) == (dtype, layout.extent)
    return Footprint(name, dtype, layout, 0, max(where, 0) & 15, where != READ_ONLY, whole)


def check_output(out: Footprint) -> None:
    """Raise ValueError if arrays with this footprint are read-only, or may have several elements at one address."""
    if not out.writeable:
        raise ValueError("out is read-only; pass a writeable array")
    layout = out.layout
    if overlaps(layout.sizes, layout.strides) is not False:
        raise ValueError(
            f"out has strides {layout.strides} (elements) for shape {layout.sizes}, so that elements share an address "
            "or may do so; pass an array without overlap"
        )


def check_indices(indices: Sequence[Footprint]) -> None:
    """Raise ValueError if index arrays are not aligned to their element size, as a GPU requires."""
    for footprint in indices:
        size = footprint.dtype.itemsize
        if past := footprint.misaligned % size:
            raise ValueError(
                f"{footprint.name}: the elements lie {counted(past, 'byte')} past a multiple of {size}, but a GPU reads "
                f"{footprint.dtype} at multiples of {size} bytes only; pass a copy (array.copy())"
            )


class _Addresses:
    """Stand-in for an array in NumPy's overlap solver. The solver reads no memory, so GPU addresses are allowed."""

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
    """Return True if elements of arrays with these footprints, at these addresses, share bytes or may share bytes."""
    if left_pointer + left.end <= right_pointer + right.start or right_pointer + right.end <= left_pointer + left.start:
        return False
    try:
        views = (np.asarray(_Addresses(left, left_pointer)), np.asarray(_Addresses(right, right_pointer)))
        return bool(np.shares_memory(*views, max_work=_OVERLAP_WORK))  # type: ignore[arg-type] # the stub knows 0 and -1 only
    except np.exceptions.TooHardError:
        return True
