"""Arrays of calls: their adapters, new arrays, copies between devices, and the call's stream."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, TypeVar

import numpy as np

from dmlgather.backends import jax_arrays, streams, torch_tensors
from dmlgather.backends.adapter import CUPY, EXCHANGED, NUMPY, Adapter, no_type, require
from dmlgather.backends.devices import CPU, Device, refuse_stream, stream_pointer

T = TypeVar("T")


_BY_CLASS: dict[type, Adapter] = {np.ndarray: NUMPY}
"""Adapters of array classes that have signatures. `adapter_of` adds to it."""


def signature(array: Any) -> tuple[Hashable, ...] | None:
    """Return the signature of an array. Return None if the array, or its class, has no signature."""
    adapter = _BY_CLASS.get(type(array))
    return None if adapter is None else adapter.signature(array)


def is_view(array: Any) -> bool:
    """Return True for an array of NumPy's or CuPy's own class."""
    return _BY_CLASS.get(type(array), EXCHANGED).is_view


def signed_by(kind: type) -> Adapter | None:
    """Return the adapter of an array class, or None if its arrays have no signatures."""
    return _BY_CLASS.get(kind)


def view_signatures(args: Sequence[Any]) -> list[Any]:
    """Return the signatures of NumPy's and CuPy's arrays, and None for other arguments."""
    lookup = _BY_CLASS.get
    return [adapter.signature(array) if (adapter := lookup(type(array), EXCHANGED)).is_view else None for array in args]


def adapter_of(array: Any) -> Adapter:
    """Return the adapter for an array. For other objects, its methods raise TypeError."""
    kind = type(array)
    if (adapter := _BY_CLASS.get(kind)) is not None:
        return adapter
    if isinstance(array, np.ndarray | np.generic):
        return NUMPY
    if _is_cupy(array):
        return _registered(kind, CUPY, kind is sys.modules["cupy"].ndarray)
    if torch_tensors.is_torch(array):
        return _registered(kind, torch_tensors.TORCH, kind is sys.modules["torch"].Tensor)
    if jax_arrays.is_jax(array):
        return _registered(kind, jax_arrays.JAX, jax_arrays.is_concrete(array))
    return EXCHANGED


def _registered(kind: type, adapter: Adapter, plain: bool) -> Adapter:
    if plain:
        _BY_CLASS[kind] = adapter
    return adapter


def adopt(array: Any) -> tuple[Any, Device]:
    """Return the view of an array, and its device. Raise TypeError for other objects.

    In a call (`in_order`), the view is ordered with other work on the array.
    """
    return (array, CPU) if type(array) is np.ndarray else adapter_of(array).view(array)


def adopt_output(out: Any) -> tuple[Any, Device]:
    """Adopt an array to be written. Raise ValueError for a read-only array on a GPU."""
    return adapter_of(out).output_view(out)


def home_of(array: Any) -> Device:
    """Return the device of an array. Raise TypeError for other objects."""
    return adapter_of(array).home(array)


def allocate(device: Device, sizes: Sequence[int], dtype: np.dtype[Any], like: Any = None) -> Any:
    """Return a new packed NumPy or CuPy array. `like`: an array of the caller's library."""
    check_size(sizes, dtype)
    return (NUMPY if like is None else adapter_of(like)).memory(device, sizes, dtype)


def check_size(sizes: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Raise ValueError if an array has too many bytes. Sizes of 0 count as 1, as in NumPy."""
    if prod(max(size, 1) for size in sizes) * dtype.itemsize > sys.maxsize:
        raise ValueError(
            f"the result has shape {tuple(sizes)} of {dtype}, but an array spans at most {sys.maxsize} bytes, where sizes of 0 "
            "count as 1: choose smaller sizes"
        )


def move(array: Any, source: Device, target: Device) -> Any:
    """Return the array on another device, in order with both current streams. Raise TypeError for a type unknown to CuPy."""
    if source == target:
        return array
    if source.on_gpu and target.on_gpu:
        return _from_gpu_to_gpu(array, source, target)
    try:
        if source.on_gpu:
            return array.get()
        with target.current():
            return require(target.index).asarray(array, blocking=True)
    except ValueError as error:
        raise no_type(array.dtype, error) from None
    except RuntimeError as error:
        if "captur" in str(error).lower():  # in errors of CuPy and of CUDA about a graph capture
            raise _no_copy(source, target) from error
        raise


def _from_gpu_to_gpu(array: Any, source: Device, target: Device) -> Any:
    """Copy between GPUs. CuPy's own copy does not wait for the source GPU, and may reuse the source too early."""
    cupy = require(target.index)
    if any(map(_captures, (target, source))):
        raise _no_copy(source, target)
    with source.current():
        packed = cupy.ascontiguousarray(array)
    with streams.ordered_call(within=True), target.current():
        copy = cupy.empty(array.shape, array.dtype)
        streams.order_with(target.index, streams.current(source.index), source.index)
        if packed.nbytes:
            ends = copy.data.ptr, target.index, packed.data.ptr, source.index
            cupy.cuda.runtime.memcpyPeerAsync(*ends, packed.nbytes, streams.current(target.index))
        streams.keep(target.index, packed)
    return copy


def _no_copy(source: Device, target: Device) -> RuntimeError:
    return RuntimeError(
        f"a graph is captured, but an array has to be copied from {source} to {target}: a captured call takes arrays, and an "
        "out, that lie where it runs; copy them before the capture"
    )


def together(arrays: Sequence[Any], memory: Device) -> tuple[list[Any], Device]:
    """Move views to one device: a GPU that holds one of them, or else `memory`. Raise TypeError for several GPUs."""
    homes = [home_of(array) for array in arrays]
    gpus = list(dict.fromkeys(home for home in homes if home.on_gpu))
    if len(gpus) > 1:
        raise TypeError(f"index arrays lie on different devices ({', '.join(map(str, gpus))}); move them to one")
    (place,) = gpus or (memory,)
    return [move(array, home, place) for array, home in zip(arrays, homes, strict=True)], place


def _captures(device: Device) -> bool:
    try:
        return streams.is_capturing(device.index, streams.current(device.index))
    except RuntimeError:  # as for the legacy stream while any other stream is captured
        return True


def fill_from(target: Any, device: Device, array: Any) -> None:
    """Copy `array` into `target`, which has the same shape and device."""
    with device.current():
        target[...] = array


def _is_cupy(array: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


@contextmanager
def in_order(arrays: Sequence[Any], stream: Any = None, device: Device | None = None) -> Iterator[None]:
    """Run the body as one call on one stream, in order with all other work on the arrays.

    The stream is `stream`, or PyTorch's if the first array is a tensor on a GPU, or else CuPy's. In the body, it is CuPy's
    current stream, so copies and allocations are ordered with the kernel. A caller who passes `stream` must order it with
    CuPy's stream.
    `arrays`: inputs, then outputs or None. `device`: None for the device of the first array.
    Raise TypeError for a wrong stream.
    """
    chosen = _chosen(arrays, stream, device)
    if chosen is None:
        with streams.ordered_call():
            yield
        return
    where, pointer = chosen
    before = streams.current(where.index)
    try:
        with streams.on_stream(pointer, where), streams.ordered_call():
            if stream is None and any(_is_cupy(array) and array.data.device_id == where.index for array in arrays):
                streams.order_with(where.index, before)
            yield
    except RuntimeError as error:
        refuse_stream(error, pointer, where)
        raise


def _chosen(arrays: Sequence[Any], stream: Any, device: Device | None) -> tuple[Device, int] | None:
    """Return the device and stream for a call, or None for CuPy's current stream."""
    first = arrays[0] if arrays else None
    if stream is not None:
        where = device or (home_of(first) if arrays else CPU)
        if where.on_gpu:
            require(where.index)
        return where, stream_pointer(stream, where)
    pointer = None if first is None else adapter_of(first).stream(first)
    if pointer is None:
        return None
    where = adapter_of(first).home(first)
    require(where.index)
    return None if streams.is_same(streams.current(where.index), pointer) else (where, pointer)


def ordered_run(arrays: Sequence[Any], views: Sequence[Any], device: Device, run: Callable[[Any], T]) -> Callable[[Any], T]:
    """Return a function that calls `run` in order with other libraries' work on `arrays`. `views`: the adopted arrays."""
    adapters = [adapter_of(array) for array in arrays]

    def call(stream: Any = None) -> T:
        with in_order(arrays, stream, device):
            for adapter, array, view in zip(adapters, arrays, views, strict=True):
                if array is not view:
                    adapter.order(array, view, device.index)
            return run(stream)

    return call


def hand_back(result: Any, like: Any) -> Any:
    """Convert a view to the array type of `like`, if its library has `from_dlpack`."""
    return adapter_of(like).hand_back(result, like)


def wait(array: Any, *, for_all: bool = False) -> None:
    """Wait for the current stream of the array's GPU, or with `for_all` for all streams."""
    device = home_of(array)
    if device.on_gpu:
        with in_order([array]), device.current():
            runtime = require(device.index).cuda.runtime
            if for_all:
                runtime.deviceSynchronize()
            else:
                runtime.streamSynchronize(streams.current(device.index))
