"""Arrays in and out: the adapter of each, new arrays, copies from device to device, and the stream on which a call runs."""

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
"""The classes whose arrays have signatures: NumPy's own, and those of the libraries that the caller has imported."""


def signature(array: Any) -> tuple[Hashable, ...] | None:
    """Return all that a call depends on but address and elements: `Adapter.signature`. None for an array of a class with rules of
    its own, and for one that nobody has adopted before.
    """
    adapter = _BY_CLASS.get(type(array))
    return None if adapter is None else adapter.signature(array)


def is_view(array: Any) -> bool:
    """Whether an array is its own view: one of NumPy's or CuPy's own class."""
    return _BY_CLASS.get(type(array), EXCHANGED).is_view


def signed_by(kind: type) -> Adapter | None:
    """Return the adapter whose arrays of this class have signatures; None for any other class."""
    return _BY_CLASS.get(kind)


def view_signatures(given: Sequence[Any]) -> list[Any]:
    """Return `signature` of each array that is its own view: one of NumPy's or CuPy's own class. None for all others."""
    found = _BY_CLASS.get
    return [adapter.signature(array) if (adapter := found(type(array), EXCHANGED)).is_view else None for array in given]


def adapter_of(array: Any) -> Adapter:
    """Return the adapter for an array; for anything else the one that refuses it by name."""
    kind = type(array)
    if (known := _BY_CLASS.get(kind)) is not None:
        return known
    if isinstance(array, np.ndarray | np.generic):
        return NUMPY
    if _is_cupy(array):
        return _entered(kind, CUPY, kind is sys.modules["cupy"].ndarray)
    if torch_tensors.is_torch(array):
        return _entered(kind, torch_tensors.TORCH, kind is sys.modules["torch"].Tensor)
    if jax_arrays.is_jax(array):
        return _entered(kind, jax_arrays.JAX, jax_arrays.is_concrete(array))
    return EXCHANGED


def _entered(kind: type, adapter: Adapter, plain: bool) -> Adapter:
    if plain:
        _BY_CLASS[kind] = adapter
    return adapter


def adopt(array: Any) -> tuple[Any, Device]:
    """The NumPy or CuPy array over the same memory as `array`, and its device; NumPy's scalars are copied. TypeError for
    anything without memory.

    On a GPU, CuPy's current stream waits for those who wrote the memory. In a call (`in_order`), those who use it next wait for
    the call, and nobody gets the memory for something else before the call has run.
    """
    return (array, CPU) if type(array) is np.ndarray else adapter_of(array).view(array)


def adopt_output(out: Any) -> tuple[Any, Device]:
    """As `adopt`. ValueError for an array on a GPU that its library says must not be written: CuPy's view does not keep that."""
    return adapter_of(out).output_view(out)


def home_of(array: Any) -> Device:
    """The device of `adopt`, where possible without DLPack's exchange, which makes a stream wait. TypeError as `adopt`."""
    return adapter_of(array).home(array)


def allocate(device: Device, sizes: Sequence[int], dtype: np.dtype[Any], like: Any = None) -> Any:
    """A new packed array of shape `sizes` on `device`, of NumPy's or CuPy's, such that `hand_back` need not copy it where it
    becomes an array like `like`.

    ValueError as `check_size`.
    """
    check_size(sizes, dtype)
    return (NUMPY if like is None else adapter_of(like)).memory(device, sizes, dtype)


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
        if "captur" in str(error).lower():  # CuPy's words, and CUDA's
            raise _no_copy(source, target) from error
        raise


def _from_gpu_to_gpu(array: Any, source: Device, target: Device) -> Any:
    """A packed copy, made on the target's current stream. CuPy's own copy waits for no stream of the source, and its pool gives
    the source's memory away before the copy has run: so the streams meet, as with other libraries', and the source is kept.
    """
    cupy = require(target.index)
    if any(map(_captures, (target, source))):
        raise _no_copy(source, target)
    with source.current():
        packed = cupy.ascontiguousarray(array)
    with streams.handover(within=True), target.current():
        found = cupy.empty(array.shape, array.dtype)
        streams.meet(target.index, streams.current(source.index), source.index)
        if packed.nbytes:
            ends = found.data.ptr, target.index, packed.data.ptr, source.index
            cupy.cuda.runtime.memcpyPeerAsync(*ends, packed.nbytes, streams.current(target.index))
        streams.keep(target.index, packed)
    return found


def _no_copy(source: Device, target: Device) -> RuntimeError:
    """The error for an array that lies elsewhere while a graph is captured, to be raised."""
    return RuntimeError(
        f"a graph is captured, but an array has to be copied from {source} to {target}: a captured call takes arrays, and an "
        "out, that lie where it runs; copy them before the capture"
    )


def together(given: Sequence[Any], memory: Device) -> tuple[list[Any], Device]:
    """Arrays of NumPy and CuPy in one place, and where that is: those of the host are moved to the GPU on which others lie; where
    none does, to `memory`. TypeError for arrays on several GPUs.
    """
    homes = [home_of(array) for array in given]
    gpus = list(dict.fromkeys(home for home in homes if home.on_gpu))
    if len(gpus) > 1:
        raise TypeError(f"index arrays lie on different devices ({', '.join(map(str, gpus))}); move them to one")
    (place,) = gpus or (memory,)
    return [move(array, home, place) for array, home in zip(given, homes, strict=True)], place


def _captures(device: Device) -> bool:
    """Whether a graph is captured on the current stream of a GPU; also where CUDA refuses to say, as it does of the legacy stream
    while another one captures.
    """
    try:
        return streams.is_capturing(device.index, streams.current(device.index))
    except RuntimeError:
        return True


def fill_from(target: Any, device: Device, array: Any) -> None:
    """Write `array`, of the same shape and on the same device, into `target`."""
    with device.current():
        target[...] = array


def _is_cupy(array: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


@contextmanager
def in_order(given: Sequence[Any], stream: Any = None, device: Device | None = None) -> Iterator[None]:
    """A call on these arrays, of any kind: inputs first, then outputs, None for those that are still to be made.

    It runs on `stream`; left out, on PyTorch's current stream if the first array is a tensor on a GPU, else on CuPy's. Inside,
    this is CuPy's current stream, so that copies, allocations and DLPack's exchange are ordered with the kernel. `adopt` orders
    it with the streams of other libraries' arrays. Where it runs on PyTorch's, CuPy's stream and it wait for each other if there
    are arrays of CuPy. Where the caller gave it, its order with CuPy's is the caller's, as for CuPy's own kernels.

    device: where the call runs, None for where the first array lies. TypeError for a stream as `stream_pointer`.
    """
    chosen = _chosen(given, stream, device)
    if chosen is None:
        with streams.handover():
            yield
        return
    where, pointer = chosen
    before = streams.current(where.index)
    try:
        with streams.on_stream(pointer, where), streams.handover():
            if stream is None and any(_is_cupy(array) and array.data.device_id == where.index for array in given):
                streams.meet(where.index, before)
            yield
    except RuntimeError as error:
        refuse_stream(error, pointer, where)
        raise


def _chosen(given: Sequence[Any], stream: Any, device: Device | None) -> tuple[Device, int] | None:
    """The GPU and the stream on which a call runs, None for CuPy's current one."""
    first = given[0] if given else None
    if stream is not None:
        where = device or (home_of(first) if given else CPU)
        if where.on_gpu:
            require(where.index)
        return where, stream_pointer(stream, where)
    pointer = None if first is None else adapter_of(first).stream(first)
    if pointer is None:
        return None
    where = adapter_of(first).home(first)
    require(where.index)
    return None if streams.is_same(streams.current(where.index), pointer) else (where, pointer)


def again(given: Sequence[Any], views: Sequence[Any], device: Device, run: Callable[[Any], T]) -> Callable[[Any], T]:
    """`run`, which takes a stream of the GPU `device`, as a call on `given`. `adopt` has made the views, and the streams of other
    libraries have gone on since.
    """
    adapters = [adapter_of(array) for array in given]

    def call(stream: Any = None) -> T:
        with in_order(given, stream, device):
            for adapter, array, view in zip(adapters, given, views, strict=True):
                if array is not view:
                    adapter.order(array, view, device.index)
            return run(stream)

    return call


def hand_back(result: Any, like: Any) -> Any:
    """`result` (NumPy or CuPy) as the kind of array that `like` is, over the same memory wherever that kind allows it; as it is
    where neither the array API's namespace of `like` nor its library has a `from_dlpack`.
    """
    return adapter_of(like).hand_back(result, like)


def wait(array: Any, *, for_all: bool = False) -> None:
    """Wait until this thread's work on the array's GPU has run; for_all: the work of everybody. It takes any array; nothing is
    waited for in host memory.
    """
    device = home_of(array)
    if device.on_gpu:
        with in_order([array]), device.current():
            runtime = require(device.index).cuda.runtime
            if for_all:
                runtime.deviceSynchronize()
            else:
                runtime.streamSynchronize(streams.current(device.index))
