"""Arrays in and out: NumPy's and CuPy's directly, everything else through DLPack, or `__cuda_array_interface__` where it has
nothing else; copies from device to device.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np

from dmlgather.backends import jax_arrays, streams, torch_tensors
from dmlgather.backends.devices import CPU, Device, refuse_stream, stream_pointer

T = TypeVar("T")

_DLPACK_HOST = (1, 3)  # kDLCPU, kDLCUDAHost
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged, which may state another number


def adopt(array: Any) -> tuple[Any, Device]:
    """The NumPy or CuPy array over the same memory as `array`, and its device; NumPy's scalars are copied. TypeError for
    anything without memory.

    On a GPU, CuPy's current stream waits for those who wrote the memory. In a call (`in_order`), those who use it next wait for
    the call, and nobody gets the memory for something else before the call has run.
    """
    if type(array) is np.ndarray:
        return array, CPU
    if isinstance(array, np.generic):
        return np.asarray(array), CPU
    if isinstance(array, np.ndarray):  # of a class with rules of its own, such as numpy.matrix
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError("expected a plain array, got a masked one, whose mask would be lost: pass array.filled(value)")
        return array.view(np.ndarray), CPU
    if _is_cupy(array):
        return array, Device("cuda", array.device.id)
    if jax_arrays.is_jax(array):
        jax_arrays.check_usable(array)
    elif torch_tensors.is_torch(array):
        array = torch_tensors.plain(array)
    if not hasattr(array, "__dlpack__"):
        if hasattr(array, "__cuda_array_interface__"):  # arrays of Numba, for one
            return _by_cuda_array_interface(array)
        raise TypeError(
            f"expected an array (NumPy, CuPy, or any with __dlpack__ or __cuda_array_interface__), got {type(array).__name__}: "
            "wrap Python values with numpy.asarray(values, dtype=…)"
        )
    kind, number = array.__dlpack_device__()
    if kind in _DLPACK_HOST:
        try:
            return np.from_dlpack(array), CPU
        except (BufferError, RuntimeError, TypeError):  # a data type that NumPy's DLPack lacks, such as bfloat16
            if torch_tensors.is_torch(array):
                return torch_tensors.host_array(array), CPU
            if not hasattr(array, "__array_interface__") and not hasattr(array, "__array__"):
                raise
            return np.asarray(array), CPU
    if kind in _DLPACK_CUDA:
        cupy = _require(number)
        try:
            found = cupy.from_dlpack(torch_tensors.InOrder(array) if torch_tensors.is_torch(array) else array)
        except (BufferError, RuntimeError, TypeError) as error:
            if isinstance(error, cupy.cuda.runtime.CUDARuntimeError):  # of the device, not about the array
                raise
            if not hasattr(array, "__cuda_array_interface__"):
                raise _no_type(array.dtype, error) from None
            return _by_cuda_array_interface(array)
        return _attended(array, found, found.device.id), Device("cuda", found.device.id)
    raise TypeError(f"{type(array).__name__} lies on DLPack device type {kind}; only host and CUDA memory can be used")


def adopt_output(out: Any) -> tuple[Any, Device]:
    """As `adopt`. ValueError for an array on a GPU that its library says must not be written: CuPy's view does not keep that."""
    if torch_tensors.is_torch(out):
        torch_tensors.check_written(out)
    adopted, device = adopt(out)
    if device.on_gpu and adopted is not out:
        interface = getattr(out, "__cuda_array_interface__", None)
        if jax_arrays.is_jax(out) or (interface is not None and interface["data"][1]):
            raise ValueError("out is read-only; pass a writeable array")
    return adopted, device


def home_of(array: Any) -> Device:
    """The device of `adopt`, where possible without DLPack's exchange, which makes a stream wait. TypeError as `adopt`."""
    if jax_arrays.is_jax(array):
        jax_arrays.check_usable(array)
    if hasattr(array, "__dlpack_device__"):
        kind, number = array.__dlpack_device__()
        if kind == _DLPACK_CUDA[0]:
            return Device("cuda", number)
        if kind in _DLPACK_HOST:
            return CPU
    return adopt(array)[1]


def _by_cuda_array_interface(array: Any) -> tuple[Any, Device]:
    cupy = _require(0)
    if jax_arrays.is_jax(array):
        array.block_until_ready()  # JAX's interface states no stream
    interface = array.__cuda_array_interface__
    runtime, pointer = cupy.cuda.runtime, interface["data"][0]
    device = Device("cuda", runtime.pointerGetAttributes(pointer).device if pointer else runtime.getDevice())
    with device.current():  # CuPy would copy it to another GPU
        return _attended(array, cupy.asarray(_WithoutStream(array, {**interface, "stream": None})), device.index), device


@dataclass(frozen=True, slots=True)
class _WithoutStream:
    """An array, with its interface for CuPy: for a stream that is stated there, CuPy makes the host wait, or nobody."""

    owner: Any
    __cuda_array_interface__: Mapping[str, Any]


def _attended(array: Any, view: Any, number: int) -> Any:
    """CuPy's view of another library's array on GPU `number`, with the streams in order."""
    if torch_tensors.is_torch(array):
        if streams.meet(number, torch_tensors.current_stream(number)):
            told = torch_tensors.used_on(array, streams.current(number))
            if not told:
                streams.keep(number, view)
        return view
    stream = None if jax_arrays.is_jax(array) else getattr(array, "__cuda_array_interface__", {}).get("stream")
    if stream is not None:
        streams.meet(number, stream)
    streams.keep(number, view)
    return view


def _no_type(dtype: Any, error: Exception) -> TypeError:
    return TypeError(f"CuPy has no type for {dtype} ({error}): pass a view of an integer type")


def _is_cupy(array: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def allocate(device: Device, sizes: Sequence[int], dtype: np.dtype[Any], like: Any = None) -> Any:
    """A new packed array of shape `sizes` on `device`, such that `hand_back` need not copy it where `like` is an array of JAX.

    ValueError as `check_size`.
    """
    check_size(sizes, dtype)
    if not device.on_gpu:
        return jax_arrays.empty(sizes, dtype) if jax_arrays.is_jax(like) else np.empty(tuple(sizes), dtype)
    import cupy

    with device.current():
        return cupy.empty(tuple(sizes), dtype)


def new_tensor(device: Device, sizes: Sequence[int], dtype: np.dtype[Any], like: Any) -> Any:
    """A new tensor of shape `sizes`, whose memory PyTorch knows, where `like` is one of this type on this GPU; else None."""
    if not device.on_gpu or torch_tensors.gpu_of(like) != device.index or str(like.dtype).removeprefix("torch.") != dtype.name:
        return None
    return torch_tensors.empty(like, sizes)


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
    if not target.on_gpu:
        return array.get()
    cupy = _require(target.index)
    if source.on_gpu:  # CuPy copies only packed arrays from GPU to GPU, and on a stream that waits for no other GPU's
        with source.current():
            array = cupy.asarray(array, order="C")
            cupy.cuda.get_current_stream(source.index).synchronize()
    with target.current():
        try:
            return cupy.asarray(array, blocking=True)
        except ValueError as error:
            raise _no_type(array.dtype, error) from None


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


def fill_from(target: Any, device: Device, array: Any) -> None:
    """Write `array`, of the same shape and on the same device, into `target`."""
    with device.current():
        target[...] = array


def _require(number: int) -> Any:
    """CuPy, with a usable GPU. The backend is imported for arrays on a GPU alone."""
    from dmlgather.backends.cuda import require

    return require(number)


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
    number = torch_tensors.gpu_of(first)
    if stream is not None:
        where = device or (home_of(first) if given else CPU)
        if where.on_gpu:
            _require(where.index)
        return where, stream_pointer(stream, where)
    if number is None:
        return None
    _require(number)
    pointer = torch_tensors.current_stream(number)
    return None if streams.is_same(streams.current(number), pointer) else (Device("cuda", number), pointer)


def again(given: Sequence[Any], views: Sequence[Any], device: Device, run: Callable[[Any], T]) -> Callable[[Any], T]:
    """`run`, which takes a stream of the GPU `device`, as a call on `given`. `adopt` has made the views, and the streams of other
    libraries have gone on since.
    """

    def call(stream: Any = None) -> T:
        with in_order(given, stream, device):
            for array, view in zip(given, views, strict=True):
                if array is not view:
                    _attended(array, view, device.index)
            return run(stream)

    return call


def hand_back(result: Any, like: Any) -> Any:
    """`result` (NumPy or CuPy) as the kind of array that `like` is, over the same memory wherever that kind allows it; as it is
    where neither the array API's namespace of `like` nor its library has a `from_dlpack`.
    """
    if isinstance(like, np.ndarray | np.generic) or _is_cupy(like):
        return result
    if jax_arrays.is_jax(like):
        return jax_arrays.hand_back(result, like)
    if torch_tensors.is_torch(like):
        return torch_tensors.hand_back(result, like)
    namespace = like.__array_namespace__() if hasattr(like, "__array_namespace__") else None
    library = sys.modules.get(type(like).__module__.partition(".")[0])
    for module in (namespace, library, getattr(library, "dlpack", None)):
        if hasattr(module, "from_dlpack"):
            return module.from_dlpack(result)  # type: ignore[union-attr]
    return result


def wait(array: Any, *, for_all: bool = False) -> None:
    """Wait until this thread's work on the array's GPU has run; for_all: the work of everybody. It takes any array; nothing is
    waited for in host memory.
    """
    if isinstance(array, np.ndarray):
        return
    device = home_of(array)
    if device.on_gpu:
        with in_order([array]), device.current():
            runtime = _require(device.index).cuda.runtime
            if for_all:
                runtime.deviceSynchronize()
            else:
                runtime.streamSynchronize(streams.current(device.index))
