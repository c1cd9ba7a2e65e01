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
    """Return the signature of an array, or None if it has none."""
    adapter = _BY_CLASS.get(type(array))
    return None if adapter is None else adapter.signature(array)


def is_view(array: Any) -> bool:
    """Return True for an array of NumPy's or CuPy's own class, which calls use directly."""
    return _BY_CLASS.get(type(array), EXCHANGED).is_view


def signed_by(kind: type) -> Adapter | None:
    """Return the adapter of an array class, or None if its arrays have no signatures."""
    return _BY_CLASS.get(kind)


def view_signatures(args: Sequence[Any]) -> list[Any]:
    """Return the signatures of NumPy's and CuPy's arrays, and None for other arguments."""
    lookup = _BY_CLASS.get
    return [adapter.signature(array) if (adapter := lookup(type(array), EXCHANGED)).is_view else None for array in args]


def adapter_of(array: Any) -> Adapter:
    """Return the adapter for an array. For an object that is no array, the adapter's methods raise TypeError."""
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
    """Return a NumPy or CuPy array over the memory of `array` (its view), and its device.

    In the body of `in_order`, the call is also ordered with other work on the array. Raises TypeError if `array` has no view.
    """
    return (array, CPU) if type(array) is np.ndarray else adapter_of(array).view(array)


def adopt_output(out: Any) -> tuple[Any, Device]:
    """Return a NumPy or CuPy array over the memory of `out`, and its device, like `adopt`.

    Raises ValueError if `out` is a read-only array on a GPU.
    """
    return adapter_of(out).output_view(out)


def home_of(array: Any) -> Device:
    """Return the device of an array. Raises TypeError if `array` is no array."""
    return adapter_of(array).home(array)


def allocate(device: Device, sizes: Sequence[int], dtype: np.dtype[Any], like: Any = None) -> Any:
    """Return a new packed NumPy or CuPy array. Raises ValueError like `check_size`.

    `like`: an array of the library to which `hand_back` will convert the new array; None for NumPy or CuPy.
    """
    check_size(sizes, dtype)
    return (NUMPY if like is None else adapter_of(like)).memory(device, sizes, dtype)


def check_size(sizes: Sequence[int], dtype: np.dtype[Any]) -> None:
    """Raise ValueError if an array of this shape has more bytes than NumPy allows. Sizes of 0 count as 1, as in NumPy."""
    if prod(max(size, 1) for size in sizes) * dtype.itemsize > sys.maxsize:
        raise ValueError(
            f"the result has shape {tuple(sizes)} of {dtype}, but an array spans at most {sys.maxsize} bytes, where sizes of 0 "
            "count as 1: choose smaller sizes"
        )


def move(array: Any, source: Device, target: Device) -> Any:
    """Return the array on device `target`. The copy is ordered with the current streams of both devices.

    Raises TypeError if CuPy lacks the data type.
    """
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
        if "captur" in str(error).lower():  # CuPy's and CUDA's errors about a graph capture contain this
            raise _no_copy(source, target) from error
        raise


def _from_gpu_to_gpu(array: Any, source: Device, target: Device) -> Any:
    """Copy an array from one GPU to another.

    Replaces CuPy's own copy, which neither waits for the source GPU nor keeps the source until it has been read.
    """
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
    except RuntimeError:  # CUDA raises for the legacy stream while another stream is captured
        return True


def fill_from(target: Any, device: Device, array: Any) -> None:
    """Copy the elements of `array` into `target`, which has the same shape and lies on the same device."""
    with device.current():
        target[...] = array


def _is_cupy(array: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


@contextmanager
def in_order(arrays: Sequence[Any], stream: Any = None, device: Device | None = None) -> Iterator[None]:
    """Run the body as one call on one stream, ordered with all other work on the arrays.

    The call runs on `stream`. If it is None, the call runs on PyTorch's current stream if the first array is a tensor on a GPU,
    or else on CuPy's. In the body, this stream is CuPy's current one, so copies and allocations are ordered with the kernel. If
    you pass `stream`, order it with CuPy's stream yourself.

    `arrays`: the inputs, then the outputs or None. `device`: the device of the call; None for the device of the first array.

    Raises TypeError if `stream` is no stream of the device.
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
    """Return the device and the address of the stream on which a call runs, or None for CuPy's current stream."""
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
    """Return a function that calls `run`, ordered with the work of other libraries on `arrays`.

    `views`: the NumPy or CuPy arrays that `adopt` returned for `arrays`.
    """
    adapters = [adapter_of(array) for array in arrays]

    def call(stream: Any = None) -> T:
        with in_order(arrays, stream, device):
            for adapter, array, view in zip(adapters, arrays, views, strict=True):
                if array is not view:
                    adapter.order(array, view, device.index)
            return run(stream)

    return call


def hand_back(result: Any, like: Any) -> Any:
    """Convert a NumPy or CuPy array to the class of `like`, if the library of `like` has `from_dlpack`."""
    return adapter_of(like).hand_back(result, like)


def wait(array: Any, *, for_all: bool = False) -> None:
    """Wait for the current stream of the array's GPU. With `for_all`, wait for all streams of this GPU."""
    device = home_of(array)
    if device.on_gpu:
        with in_order([array]), device.current():
            runtime = require(device.index).cuda.runtime
            if for_all:
                runtime.deviceSynchronize()
            else:
                runtime.streamSynchronize(streams.current(device.index))
