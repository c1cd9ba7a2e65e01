"""Signatures of arrays (all that a call depends on but addresses), and the footprints that follow from them."""

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
"""The last item of a signature on the host."""

Signature: TypeAlias = tuple[np.dtype[Any], tuple[int, ...], tuple[int, ...], int]
"""Data type, shape, strides (bytes), and where it lies: on a GPU, 16 · its number + pointer modulo 16; on the host, where nothing
depends on the pointer, WRITEABLE or READ_ONLY. A plain tuple of few items, because a call makes one per array and looks it up.
"""

ArrayCall: TypeAlias = Callable[..., bool]
"""Takes arrays, inputs first, and returns whether it did the call. It does not for arrays that are no numpy.ndarray of the
signatures that it was made for, for an output that cannot be written or may overlap an input, and for a bad index under RAISE.
"""

_OVERLAP_WORK = 100_000
"""Steps that NumPy's overlap solver may take; without an answer by then, arrays count as overlapping."""


def signature_on(device: Device, array: Any) -> Signature:
    """The signature of an array that `adopt` returned, and its device; the array may be of a subclass."""
    where = device.index << 4 | array.data.ptr & 15 if device.on_gpu else WRITEABLE if array.flags.writeable else READ_ONLY
    return array.dtype, array.shape, array.strides, where


def packed_signature(dtype: np.dtype[Any], shape: tuple[int, ...], where: int) -> Signature:
    """The signature of a packed array."""
    return dtype, shape, tuple(step * dtype.itemsize for step in packed_strides(shape)), where


def new_place(memory: Device) -> int:
    """The last item of the signature of a new array: writeable, and on a GPU at a multiple of 16 bytes."""
    return memory.index << 4 if memory.on_gpu else WRITEABLE


def device_of(found: Signature) -> Device:
    """Where arrays of this signature lie."""
    return CPU if found[3] < 0 else Device("cuda", found[3] >> 4)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Where the elements of every array of one signature lie.

    name: what messages call it. layout: counted from the lowest element in memory. start: bytes from an array's pointer to
    that element, 0 or less. misaligned: address of that element modulo 16 (0 on the host). whole: an array on the host,
    reshaped to one dimension, is exactly the elements that the layout owns.
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
        """Bytes from an array's pointer to the end of the last element."""
        return self.start + self.layout.extent * self.dtype.itemsize

    @property
    def alignment(self) -> int:
        """The largest power of two, at most 16, that divides the lowest element's address."""
        return self.misaligned & -self.misaligned or 16

    def flat(self, array: Any) -> NDArray[Any]:
        """Every element that the layout owns as one NumPy dimension, shape [extent] (arrays on the host only)."""
        if self.whole:
            return array.ravel()  # type: ignore[no-any-return] # a view, as the array is packed
        extent = self.layout.extent
        if extent == 0:
            return np.empty(0, self.dtype)
        if array.flags.c_contiguous:  # a buffer
            if array.dtype != self.dtype:
                array = array.view(np.uint8)[: extent * self.dtype.itemsize].view(self.dtype)
            return array[:extent]  # type: ignore[no-any-return]
        low = array[tuple(slice(None, None, -1) if step < 0 else slice(None) for step in array.strides)]
        if not array.dtype.hasobject:  # as_strided asks for a type by its letter, which float8_e5m2 lacks
            low = low.view(f"V{array.itemsize}")
        flat = np.lib.stride_tricks.as_strided(low, (extent,), (array.itemsize,), writeable=array.flags.writeable)
        return np.asarray(flat).view(array.dtype)


def logical(name: str, found: Signature) -> Footprint:
    """Arrays with their own shape and strides. ValueError when a stride is not a whole number of elements."""
    dtype, shape, strides, where = found
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


def buffer(name: str, found: Signature, layout: Layout, dtype: np.dtype[Any]) -> Footprint:
    """One-dimensional contiguous arrays read as `layout` of `dtype` elements from their first byte on."""
    given, (size,), _, where = found
    whole = (given, size) == (dtype, layout.extent)
    return Footprint(name, dtype, layout, 0, max(where, 0) & 15, where != READ_ONLY, whole)


def check_output(out: Footprint) -> None:
    """ValueError when arrays of this footprint cannot be written, or when elements share addresses or may do so."""
    if not out.writeable:
        raise ValueError("out is read-only; pass a writeable array")
    layout = out.layout
    if overlaps(layout.sizes, layout.strides) is not False:
        raise ValueError(
            f"out has strides {layout.strides} (elements) for shape {layout.sizes}, so that elements share an address "
            "or may do so; pass an array without overlap"
        )


def check_indices(indices: Sequence[Footprint]) -> None:
    """ValueError when index arrays lie where a GPU cannot read their elements."""
    for found in indices:
        size = found.dtype.itemsize
        if past := found.misaligned % size:
            raise ValueError(
                f"{found.name}: the elements lie {counted(past, 'byte')} past a multiple of {size}, but a GPU reads "
                f"{found.dtype} at multiples of {size} bytes only; pass a copy (array.copy())"
            )


class _Addresses:
    """The addresses of an array's elements for NumPy's overlap solver, which looks at them and never at the memory."""

    def __init__(self, found: Footprint, pointer: int) -> None:
        layout, itemsize = found.layout, found.dtype.itemsize
        self.__array_interface__ = {
            "version": 3,
            "shape": layout.sizes,
            "strides": tuple(step * itemsize for step in layout.strides),
            "typestr": f"|V{itemsize}",
            "data": (pointer + found.start + layout.offset * itemsize, True),
        }


def share_memory(left: Footprint, left_pointer: int, right: Footprint, right_pointer: int) -> bool:
    """Whether arrays of these footprints at these addresses have elements that share bytes, or may have."""
    if left_pointer + left.end <= right_pointer + right.start or right_pointer + right.end <= left_pointer + left.start:
        return False
    try:
        views = (np.asarray(_Addresses(left, left_pointer)), np.asarray(_Addresses(right, right_pointer)))
        return bool(np.shares_memory(*views, max_work=_OVERLAP_WORK))  # type: ignore[arg-type] # the stub knows 0 and -1 only
    except np.exceptions.TooHardError:
        return True
