"""Adapters: one interface to the arrays of NumPy, CuPy, and all libraries with DLPack or `__cuda_array_interface__`."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dmlgather.backends import streams
from dmlgather.backends.addresses import address_of
from dmlgather.backends.devices import CPU, Device
from dmlgather.backends.footprints import READ_ONLY, WRITEABLE, FastPath

if TYPE_CHECKING:
    from dmlgather.backends.prepared_call import PreparedCall

Repeater: TypeAlias = Callable[[Sequence[Any]], Any]
"""Function that repeats a prepared call on other arrays, a list of the inputs and then `out` or None.

It returns None if the slow path must run.
"""

DLPACK_HOST = (1, 3)  # kDLCPU, kDLCUDAHost
DLPACK_CUDA = (2, 13)  # kDLCUDA, and kDLCUDAManaged, whose device number may be wrong


class Adapter(ABC):
    """Base class of the adapters. An adapter says how to use the arrays of one library.

    A *view* of an array is a NumPy or CuPy array over the same memory.
    """

    is_view = False
    """True for NumPy and CuPy, because calls use their arrays directly."""

    def signature(self, array: Any) -> tuple[Hashable, ...] | None:  # noqa: ARG002
        """Return the signature of an array. Returns None if it has none, such as a tensor that requires a gradient."""
        return None

    def pointer(self, array: Any) -> int:
        """Return the address of the array's first element."""
        raise NotImplementedError

    def is_packed(self, array: Any) -> bool:
        """Return True if the array is contiguous in row-major order."""
        return bool(array.flags.c_contiguous)

    @abstractmethod
    def view(self, array: Any) -> tuple[Any, Device]:
        """Return the view of an array, and the array's device.

        On a GPU, also orders the call with the library's work on the array (`order`). Raises TypeError if `array` has no view.
        """

    def output_view(self, out: Any) -> tuple[Any, Device]:
        """Return the view of an output array, and the array's device.

        Raises TypeError or ValueError if `out` cannot be written.
        """
        return self.view(out)

    def home(self, array: Any) -> Device:
        """Return the device of an array. Avoids DLPack if possible, because DLPack makes a stream wait."""
        return self.view(array)[1]

    def order(self, array: Any, view: Any, number: int) -> None:  # noqa: B027 - NumPy and CuPy need none
        """Let the call wait for the library's earlier work on the array, and the library's later work wait for the call.

        Keep the array's memory until the call has run.
        """

    def stream(self, array: Any) -> int | None:  # noqa: ARG002
        """Return the address of the stream on which the library works with the array.

        Returns None if a call needs no other stream than CuPy's current one, as for host memory.
        """
        return None

    def empty(self, like: Any, sizes: Sequence[int]) -> Any | None:  # noqa: ARG002
        """Return a new packed array for a result, or None if the adapter cannot make one. `converted` completes it."""
        return None

    def converted(self, out: Any, like: Any) -> Any:  # noqa: ARG002
        """Convert an array that `empty` has made, and that the call has written, to the class of `like`."""
        return out

    def repeater(self, call: PreparedCall, adapters: Sequence[Adapter]) -> Repeater:
        """Return a function that repeats a call on other arrays.

        The returned function checks nothing. Pass only arrays that have the signatures of `call`.
        """
        run_at, shape, looks_up = call.run_at, call.shape, call.looks_up
        empty, converted, pointer, stream = self.empty, self.converted, self.pointer, self.stream
        index_pointer, out_pointer = adapters[1 if looks_up else 0].pointer, adapters[-1].pointer

        def repeat(arrays: Sequence[Any]) -> Any:
            first, out = arrays[0], arrays[-1]
            indices = index_pointer(arrays[1]) if looks_up else 0
            if out is not None:
                return out if run_at(pointer(first), indices, out_pointer(out), stream(first)) else None
            out = empty(first, shape)
            if out is None or not run_at(pointer(first), indices, pointer(out), stream(first)):
                return None
            return converted(out, first)

        return repeat

    def fast_path(self, call: PreparedCall, arrays: Sequence[Any]) -> FastPath | None:
        """Return a function that checks the signatures of arrays and runs `call` on them, faster than the general code.

        Returns None if there is no such function for arrays like `arrays`.
        """
        expected, kind, signature, pointer = [*map(self.signature, arrays)], type(arrays[0]), self.signature, self.pointer
        run_at, stream = call.run_at, self.stream
        if None in expected:
            return None

        def run(*arrays: Any) -> bool:
            if [signature(array) if type(array) is kind else None for array in arrays] != expected:
                return False
            data, *indices, out = map(pointer, arrays)
            return run_at(data, indices[0] if indices else 0, out, stream(arrays[0]))

        return run

    def memory(self, device: Device, sizes: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Return a new packed NumPy or CuPy array that `hand_back` can convert without a copy."""
        return new_view(device, sizes, dtype)

    def hand_back(self, result: Any, like: Any) -> Any:  # noqa: ARG002
        """Convert a NumPy or CuPy array to the class of `like`, over the same memory if possible."""
        return result


class NumpyArrays(Adapter):
    """Adapter for NumPy."""

    is_view = True

    def signature(self, array: Any) -> tuple[Hashable, ...] | None:
        return array.dtype, array.shape, array.strides, WRITEABLE if array.flags.writeable else READ_ONLY

    def pointer(self, array: Any) -> int:
        return address_of(array)

    def view(self, array: Any) -> tuple[Any, Device]:
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError("expected a plain array, got a masked array, whose mask would be lost: pass array.filled(value)")
        return array.view(np.ndarray) if isinstance(array, np.ndarray) else np.asarray(array), CPU

    def output_view(self, out: Any) -> tuple[Any, Device]:
        if isinstance(out, np.generic):
            raise TypeError(f"expected an array, got a scalar of type {out.dtype}, which cannot be written")
        return self.view(out)

    def empty(self, like: Any, sizes: Sequence[int]) -> Any:
        return np.empty(tuple(sizes), like.dtype)


class CupyArrays(Adapter):
    """Adapter for CuPy. Calls run on CuPy's current stream, so no stream has to wait for another."""

    is_view = True

    @cached_property
    def _functions(self) -> tuple[Callable[..., Any], Callable[[], int]]:
        cupy = sys.modules["cupy"]
        return cupy.ndarray, cupy.cuda.runtime.getDevice

    def signature(self, array: Any) -> tuple[Hashable, ...] | None:
        memory = array.data
        return array.dtype, array.shape, array.strides, memory.device_id << 4 | memory.ptr & 15

    def pointer(self, array: Any) -> int:
        return array.data.ptr  # type: ignore[no-any-return]

    def view(self, array: Any) -> tuple[Any, Device]:
        return array, Device("cuda", array.data.device_id)

    def empty(self, like: Any, sizes: Sequence[int]) -> Any:
        ndarray, current_device = self._functions
        number = like.data.device_id
        if current_device() == number:
            return ndarray(sizes, like.dtype)  # like cupy.empty, but faster
        return new_view(Device("cuda", number), sizes, like.dtype)

    def repeater(self, call: PreparedCall, adapters: Sequence[Adapter]) -> Repeater:  # noqa: ARG002 - all are this
        run_at, shape, looks_up, number = call.run_at, call.shape, call.looks_up, call.device.index
        ndarray, current_device = self._functions

        # `repeat` calls no Python function, because each Python frame costs as much as reading an array.
        def repeat(arrays: Sequence[Any]) -> Any:
            first, out = arrays[0], arrays[-1]
            if out is None:
                out = ndarray(shape, first.dtype) if current_device() == number else self.empty(first, shape)
            done = run_at(first.data.ptr, arrays[1].data.ptr if looks_up else 0, out.data.ptr)
            return out if done else None

        return repeat

    def fast_path(self, call: PreparedCall, arrays: Sequence[Any]) -> FastPath | None:
        # Like `repeat`, the fast path calls no Python function, except `launch`.
        kind, launch = self._functions[0], call.run_at
        expected = tuple(item for array in arrays for item in self.signature(array) or ())

        def slice_(x: Any, out: Any = None, *more: Any) -> bool:
            if type(x) is not kind or type(out) is not kind or more:
                return False
            x_memory, out_memory = x.data, out.data
            data, target = x_memory.ptr, out_memory.ptr
            return (
                x.dtype, x.shape, x.strides, x_memory.device_id << 4 | data & 15,
                out.dtype, out.shape, out.strides, out_memory.device_id << 4 | target & 15,
            ) == expected and launch(data, 0, target)  # fmt: skip

        def gather(x: Any, ids: Any = None, out: Any = None, *more: Any) -> bool:
            if type(x) is not kind or type(ids) is not kind or type(out) is not kind or more:
                return False
            x_memory, ids_memory, out_memory = x.data, ids.data, out.data
            data, indices, target = x_memory.ptr, ids_memory.ptr, out_memory.ptr
            return (
                x.dtype, x.shape, x.strides, x_memory.device_id << 4 | data & 15,
                ids.dtype, ids.shape, ids.strides, ids_memory.device_id << 4 | indices & 15,
                out.dtype, out.shape, out.strides, out_memory.device_id << 4 | target & 15,
            ) == expected and launch(data, indices, target)  # fmt: skip

        return gather if len(arrays) == 3 else slice_


CHUNKED = dict.fromkeys(
    ("dask", "zarr"), "dg.distributed.gather, slice and run read it in chunks; numpy.asarray(x) would load all of it"
)
"""Libraries of chunked arrays, which calls refuse, and the remedies."""


class ExchangedArrays(Adapter):
    """Adapter for all libraries without an adapter of their own, by DLPack or `__cuda_array_interface__`."""

    def view(self, array: Any) -> tuple[Any, Device]:
        if not hasattr(array, "__dlpack__"):
            if hasattr(array, "__cuda_array_interface__"):  # Numba's arrays, for example
                return self._by_cuda_array_interface(array)
            library = type(array).__module__.partition(".")[0]
            remedy = CHUNKED.get(library, "wrap Python values with numpy.asarray(values, dtype=…)")
            raise TypeError(
                "expected an array (NumPy, CuPy, or any with __dlpack__ or __cuda_array_interface__), got "
                f"{type(array).__name__}{f' of {library}' if library in CHUNKED else ''}: {remedy}"
            )
        kind, number = array.__dlpack_device__()
        if kind in DLPACK_HOST:
            try:
                return np.from_dlpack(array), CPU
            except (BufferError, RuntimeError, TypeError):  # a data type that NumPy's DLPack does not support: bfloat16, …
                return self._on_the_host(array), CPU
        if kind in DLPACK_CUDA:
            return self._on_a_gpu(array, number)
        raise TypeError(f"{type(array).__name__} lies on DLPack device type {kind}; only host and CUDA memory can be used")

    def output_view(self, out: Any) -> tuple[Any, Device]:
        view, device = self.view(out)
        interface = getattr(out, "__cuda_array_interface__", None) if device.on_gpu else None
        if interface is not None and interface["data"][1]:
            raise ValueError("out is read-only; pass a writeable array")  # CuPy would write through its view
        return view, device

    def home(self, array: Any) -> Device:
        if hasattr(array, "__dlpack_device__"):
            kind, number = array.__dlpack_device__()
            if kind == DLPACK_CUDA[0]:
                return Device("cuda", number)
            if kind in DLPACK_HOST:
                return CPU
        return self.view(array)[1]

    def order(self, array: Any, view: Any, number: int) -> None:
        stream = getattr(array, "__cuda_array_interface__", {}).get("stream")
        if stream is not None:
            streams.order_with(number, stream)
        streams.keep(number, view)

    def hand_back(self, result: Any, like: Any) -> Any:
        """Convert a NumPy or CuPy array by `from_dlpack` of the library of `like`, if it has this function."""
        namespace = like.__array_namespace__() if hasattr(like, "__array_namespace__") else None
        library = sys.modules.get(type(like).__module__.partition(".")[0])
        for module in (namespace, library, getattr(library, "dlpack", None)):
            if hasattr(module, "from_dlpack"):
                return module.from_dlpack(result)  # type: ignore[union-attr]
        return result

    def _on_the_host(self, array: Any) -> Any:
        if not hasattr(array, "__array_interface__") and not hasattr(array, "__array__"):
            return np.from_dlpack(array)  # raises the error again
        return np.asarray(array)

    def _exported(self, array: Any) -> Any:
        """Return the object to pass to CuPy's `from_dlpack` for this array."""
        return array

    def _ready(self, array: Any) -> None:
        """Wait for the library's work on an array if its `__cuda_array_interface__` names no stream."""

    def _on_a_gpu(self, array: Any, number: int) -> tuple[Any, Device]:
        cupy = require(number)
        try:
            view = cupy.from_dlpack(self._exported(array))
        except (BufferError, RuntimeError, TypeError) as error:
            if isinstance(error, cupy.cuda.runtime.CUDARuntimeError):  # the array is not the cause
                raise
            if not hasattr(array, "__cuda_array_interface__"):
                raise no_type(array.dtype, error) from None
            return self._by_cuda_array_interface(array)
        self.order(array, view, view.device.id)
        return view, Device("cuda", view.device.id)

    def _by_cuda_array_interface(self, array: Any) -> tuple[Any, Device]:
        cupy = require(0)
        self._ready(array)
        interface = array.__cuda_array_interface__
        runtime, pointer = cupy.cuda.runtime, interface["data"][0]
        device = Device("cuda", runtime.pointerGetAttributes(pointer).device if pointer else runtime.getDevice())
        with device.current():  # CuPy would copy the array if another GPU were current
            view = cupy.asarray(_WithoutStream(array, {**interface, "stream": None}))
            self.order(array, view, device.index)
        return view, device


@dataclass(frozen=True, slots=True)
class _WithoutStream:
    """An array's `__cuda_array_interface__` without the stream, for which CuPy would make the host wait."""

    owner: Any
    __cuda_array_interface__: Mapping[str, Any]


NUMPY, CUPY, EXCHANGED = NumpyArrays(), CupyArrays(), ExchangedArrays()


def new_view(device: Device, sizes: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """Return a new packed NumPy array, or on a GPU a CuPy array."""
    if not device.on_gpu:
        return np.empty(tuple(sizes), dtype)
    import cupy

    with device.current():
        return cupy.ndarray(tuple(sizes), dtype)  # like cupy.empty, but faster


def no_type(dtype: Any, error: Exception) -> TypeError:
    """Return the TypeError that says that CuPy lacks the data type `dtype`."""
    return TypeError(f"CuPy has no type for {dtype} ({error}): pass a view of an integer type")


def require(number: int) -> Any:
    """Return the module cupy. Raises DeviceError if GPU `number` cannot be used."""
    from dmlgather.backends.cuda import require as required

    return required(number)
