"""Arrays of JAX: which of them can be used, and how results become such arrays. JAX is imported only if the caller did so."""

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
from dmlgather.backends.footprints import ArrayCall

if TYPE_CHECKING:
    from dmlgather.backends.prepared_call import PreparedCall

ALIGNMENT = 64
"""Bytes. JAX uses host memory at a multiple of this without a copy."""


def is_jax(array: Any) -> bool:
    """Whether this is a jax.Array, traced ones and keys of random numbers included."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


def is_concrete(array: Any) -> bool:
    """Whether an array of JAX is one of numbers in memory, as all of its class are: not traced, and no keys."""
    import jax

    return not isinstance(array, jax.core.Tracer) and not jax.numpy.issubdtype(array.dtype, jax.dtypes.extended)


def check_usable(array: Any) -> None:
    """TypeError for a jax.Array without memory of its own on one device, RuntimeError for a deleted one, as JAX."""
    import jax

    if isinstance(array, jax.core.Tracer):
        raise TypeError(
            f"expected an array, got one that is being traced ({array.aval}), which has no elements: call this outside of jax.jit"
        )
    if jax.numpy.issubdtype(array.dtype, jax.dtypes.extended):
        raise TypeError(f"expected an array of numbers, got one of type {array.dtype}: pass jax.random.key_data(keys)")
    if array.is_deleted():
        raise RuntimeError("expected an array, got one that was deleted or donated")
    devices = sorted(map(str, array.devices()))
    if len(devices) > 1:
        raise TypeError(f"expected an array on one device, got one on {len(devices)} ({', '.join(devices)}): use jax.device_put")


class JaxArrays(ExchangedArrays):
    """Arrays of JAX, which never change. Those in host memory have signatures."""

    def signature(self, array: Any) -> tuple[Hashable, ...] | None:
        places = () if array.is_deleted() else tuple(array.devices())
        if len(places) != 1 or places[0].platform != "cpu":
            return None
        view = np.asarray(array)  # which JAX keeps
        return places, view.dtype, view.shape, view.strides

    def pointer(self, array: Any) -> int:
        return address_of(np.asarray(array))

    def view(self, array: Any) -> tuple[Any, Device]:
        check_usable(array)
        return super().view(array)

    def output_view(self, out: Any) -> tuple[Any, Device]:
        view, device = self.view(out)
        if device.on_gpu:
            raise ValueError("out is read-only; pass a writeable array")  # which CuPy's view does not keep
        return view, device

    def home(self, array: Any) -> Device:
        check_usable(array)
        return super().home(array)

    def order(self, array: Any, view: Any, number: int) -> None:  # noqa: ARG002
        streams.keep(number, view)

    def empty(self, like: Any, sizes: Sequence[int]) -> Any:
        return aligned(sizes, like.dtype)

    def finished(self, out: Any, like: Any) -> Any:
        return self.hand_back(out, like)

    def array_call(self, call: PreparedCall, arrays: Sequence[Any]) -> ArrayCall | None:  # noqa: ARG002
        return None  # nothing writes an array of JAX

    def memory(self, device: Device, sizes: Sequence[int], dtype: np.dtype[Any]) -> Any:
        return super().memory(device, sizes, dtype) if device.on_gpu else aligned(sizes, dtype)

    def hand_back(self, result: Any, like: Any) -> Any:
        """As declared. JAX copies types of less than a byte, which it packs, and host memory that does not lie at a multiple of
        `ALIGNMENT`.
        """
        import jax

        (device,) = like.devices()
        with jax.enable_x64(True):  # a 64-bit result of 64-bit input, whatever is the mode by now
            if isinstance(result, np.ndarray):
                return jax.device_put(result, device, may_alias=True)
            return jax.dlpack.from_dlpack(result)

    def _ready(self, array: Any) -> None:
        array.block_until_ready()


JAX = JaxArrays()


def aligned(sizes: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A new packed array that JAX can use without a copy."""
    count = prod(sizes) * dtype.itemsize
    room = np.empty(count + ALIGNMENT, np.uint8)
    start = -address_of(room) % ALIGNMENT
    return room[start : start + count].view(dtype).reshape(tuple(sizes))
