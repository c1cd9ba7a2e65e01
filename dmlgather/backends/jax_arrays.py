"""Adapter for JAX. This module imports JAX only if the caller has imported it."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import streams
from dmlgather.backends.adapter import ExchangedArrays
from dmlgather.backends.addresses import address_of
from dmlgather.backends.devices import Device
from dmlgather.backends.footprints import FastPath

if TYPE_CHECKING:
    from dmlgather.backends.prepared_call import PreparedCall

ALIGNMENT = 64
"""Bytes. JAX copies host memory with less alignment."""


def is_jax(array: Any) -> bool:
    """Return True for a jax.Array, including traced arrays and arrays of random keys."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


def is_concrete(array: Any) -> bool:
    """Return True if a jax.Array holds numbers. Traced arrays and random keys do not."""
    import jax

    return not isinstance(array, jax.core.Tracer) and not jax.numpy.issubdtype(array.dtype, jax.dtypes.extended)


def check_usable(array: Any) -> None:
    """Raise an error for a JAX array that a call cannot use.

    Raises TypeError if the array is traced, holds random keys, or is on several devices; RuntimeError if it is deleted.
    """
    import jax

    if isinstance(array, jax.core.Tracer):
        raise TypeError(
            f"expected an array, got a traced array ({array.aval}), which has no elements: call this outside of jax.jit"
        )
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.extended):
        raise TypeError(f"expected an array of numbers, got an array of type {array.dtype}: pass jax.random.key_data(keys)")
    if array.is_deleted():
        raise RuntimeError("expected an array, got a deleted or donated array")
    devices = sorted(map(str, array.devices()))
    if len(devices) > 1:
        shown = f"{len(devices)} devices ({', '.join(devices)})"
        raise TypeError(f"expected an array on one device, got an array on {shown}: use jax.device_put")


class JaxArrays(ExchangedArrays):
    """Adapter for JAX's arrays. Only arrays in host memory have signatures."""

    def signature(self, array: Any) -> tuple[Hashable, ...] | None:
        devices = () if array.is_deleted() else tuple(array.devices())
        if len(devices) != 1 or devices[0].platform != "cpu":
            return None
        view = np.asarray(array)  # JAX caches it
        return devices, view.dtype, view.shape, view.strides

    def pointer(self, array: Any) -> int:
        return address_of(np.asarray(array))

    def view(self, array: Any) -> tuple[Any, Device]:
        check_usable(array)
        return super().view(array)

    def output_view(self, out: Any) -> tuple[Any, Device]:
        view, device = self.view(out)
        if device.on_gpu:
            raise ValueError("out is read-only; pass a writeable array")  # CuPy would write through its view
        return view, device

    def home(self, array: Any) -> Device:
        check_usable(array)
        return super().home(array)

    def order(self, array: Any, view: Any, number: int) -> None:  # noqa: ARG002
        streams.keep(number, view)

    def empty(self, like: Any, sizes: Sequence[int]) -> Any:
        return aligned(sizes, like.dtype)

    def converted(self, out: Any, like: Any) -> Any:
        return self.hand_back(out, like)

    def fast_path(self, call: PreparedCall, arrays: Sequence[Any]) -> FastPath | None:  # noqa: ARG002
        return None  # a JAX array cannot be an output

    def memory(self, device: Device, sizes: Sequence[int], dtype: np.dtype[Any]) -> Any:
        return super().memory(device, sizes, dtype) if device.on_gpu else aligned(sizes, dtype)

    def hand_back(self, result: Any, like: Any) -> Any:
        """Convert a NumPy or CuPy array to a JAX array.

        JAX copies it if its data type has less than 8 bits, and host memory that is not aligned to `ALIGNMENT` bytes.
        """
        import jax

        (device,) = like.devices()
        with jax.enable_x64(True):  # 64-bit types stay, even if JAX's 64-bit mode is now off
            if isinstance(result, np.ndarray):
                return jax.device_put(result, device, may_alias=True)
            return jax.dlpack.from_dlpack(result)

    def _ready(self, array: Any) -> None:
        array.block_until_ready()


JAX = JaxArrays()


def aligned(sizes: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a new packed array that JAX can use without a copy."""
    count = prod(sizes) * dtype.itemsize
    room = np.empty(count + ALIGNMENT, np.uint8)
    start = -address_of(room) % ALIGNMENT
    return room[start : start + count].view(dtype).reshape(tuple(sizes))
