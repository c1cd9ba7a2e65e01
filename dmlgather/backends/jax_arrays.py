"""Arrays of JAX: which of them can be used, and how results become such arrays. JAX is imported only if the caller did so."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.addresses import address_of

ALIGNMENT = 64
"""Bytes. JAX uses host memory at a multiple of this without a copy."""


def is_jax(array: Any) -> bool:
    """Whether this is a jax.Array, traced ones and keys of random numbers included."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(array, jax.Array)


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


def empty(sizes: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A new packed array that JAX can use without a copy."""
    count = prod(sizes) * dtype.itemsize
    room = np.empty(count + ALIGNMENT, np.uint8)
    start = -address_of(room) % ALIGNMENT
    return room[start : start + count].view(dtype).reshape(tuple(sizes))


def hand_back(result: Any, like: Any) -> Any:
    """`result` (NumPy or CuPy) as a jax.Array on the device of `like`, over the same memory where JAX can.

    JAX copies types of less than a byte, which it packs, and host memory that does not lie at a multiple of `ALIGNMENT`.
    """
    import jax

    (device,) = like.devices()
    with jax.enable_x64(True):  # a 64-bit result of 64-bit input, whatever is the mode by now
        if isinstance(result, np.ndarray):
            return jax.device_put(result, device, may_alias=True)
        return jax.dlpack.from_dlpack(result)
