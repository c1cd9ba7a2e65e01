"""Adapters: what calls need of a library's arrays, by the same methods for each library.

NumPy and CuPy are here, and all that comes through DLPack or `__cuda_array_interface__`; `torch_tensors.py` and `jax_arrays.py`
hold those of PyTorch and JAX. `arrays.py` finds the adapter of an array.
"""

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
from dmlgather.backends.footprints import READ_ONLY, WRITEABLE, ArrayCall

if TYPE_CHECKING:
    from dmlgather.backends.prepared_call import PreparedCall

Again: TypeAlias = Callable[[Sequence[Any]], Any]
"""Takes the arrays of a call, then `out` or None, and returns the result. None where the call as a whole has to run."""

DLPACK_HOST = (1, 3)  # kDLCPU, kDLCUDAHost
DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged, which may state another number


class Adapter(ABC):
    """The arrays of one library. Each method takes arrays of that library alone; a *view* is NumPy's or CuPy's array over the
    same memory.
    """

    is_view = False
    """Whether arrays of the library's own class are their own views."""

    def signature(self, array: Any) -> tuple[Hashable, ...] | None:  # noqa: ARG002
        """Return all that a call depends on but address and elements: type, shape, strides, place. None where `view` has to look
        at the array, or refuses it. Signatures of two libraries differ.
        """
        return None

    def pointer(self, array: Any) -> int:
        """Return the address of the first element of an array that has a signature."""
        raise NotImplementedError

    def is_packed(self, array: Any) -> bool:
        """Return whether the elements lie one behind the other, in row-major order."""
        return bool(array.flags.c_contiguous)

    @abstractmethod
    def view(self, array: Any) -> tuple[Any, Device]:
        """Return the view of an array, and its device. On a GPU, CuPy's current stream waits for those who wrote the memory
        (`order`). TypeError for an array that cannot be used.
        """

    def output_view(self, out: Any) -> tuple[Any, Device]:
        """As `view`. TypeError for a scalar, which is no memory to write; ValueError for an array on a GPU that its library says
        must not be written.
        """
        return self.view(out)

    def home(self, array: Any) -> Device:
        """Return the device of `view`, where possible without an exchange, which makes a stream wait."""
        return self.view(array)[1]

    def order(self, array: Any, view: Any, number: int) -> None:  # noqa: B027 - NumPy and CuPy need none
        """Order a call on CuPy's current stream of GPU `number` with its library's use of the array, before the call and after
        it, and keep the memory until the call has run, as far as the library does not do so.
        """

    def stream(self, array: Any) -> int | None:  # noqa: ARG002
        """Return the address of the stream on which the library works on the array's GPU. None for CuPy's current stream, and for
        arrays in host memory.
        """
        return None

    def empty(self, like: Any, sizes: Sequence[int]) -> Any | None:  # noqa: ARG002
        """Return a new packed array of the type of `like`, beside it, which a call may write: of this library, or a view that
        `finished` makes one of. None where there is none.
        """
        return None

    def finished(self, out: Any, like: Any) -> Any:  # noqa: ARG002
        """Return what `empty` gave, once it is written, as an array of this library."""
        return out

    def again(self, call: PreparedCall, adapters: Sequence[Adapter]) -> Again:
        """Return what repeats the call on arrays whose signatures are known to be those that it was prepared for: the first is of
        this library. None, in the place of a result, where not all of it was written: the call as a whole does it, or says what
        is wrong.

        adapters: of all arrays.
        """
        run_at, shape, looks_up = call.run_at, call.shape, call.looks_up
        empty, finished, pointer, stream = self.empty, self.finished, self.pointer, self.stream
        index_pointer, out_pointer = adapters[1 if looks_up else 0].pointer, adapters[-1].pointer

        def again(given: Sequence[Any]) -> Any:
            first, out = given[0], given[-1]
            indices = index_pointer(given[1]) if looks_up else 0
            if out is not None:
                return out if run_at(pointer(first), indices, out_pointer(out), stream(first)) else None
            out = empty(first, shape)
            if out is None or not run_at(pointer(first), indices, pointer(out), stream(first)):
                return None
            return finished(out, first)

        return again

    def array_call(self, call: PreparedCall, arrays: Sequence[Any]) -> ArrayCall | None:
        """Return what runs the call at once on arrays with the signatures of these: all are of one class, inputs first, then
        output. None where each call has to be looked at.
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
        """Return a new packed view that `hand_back` need not copy."""
        return new_view(device, sizes, dtype)

    def hand_back(self, result: Any, like: Any) -> Any:  # noqa: ARG002
        """Return a view as an array of the kind of `like`, over the same memory where the library allows it."""
        return result


class NumpyArrays(Adapter):
    """NumPy's arrays, of which subclasses become plain arrays, and its scalars, which are copied."""

    is_view = True

    def signature(self, array: Any) -> tuple[Hashable, ...] | None:
        return array.dtype, array.shape, array.strides, WRITEABLE if array.flags.writeable else READ_ONLY

    def pointer(self, array: Any) -> int:
        return address_of(array)

    def view(self, array: Any) -> tuple[Any, Device]:
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError("expected a plain array, got a masked one, whose mask would be lost: pass array.filled(value)")
        return array.view(np.ndarray) if isinstance(array, np.ndarray) else np.asarray(array), CPU

    def output_view(self, out: Any) -> tuple[Any, Device]:
        if isinstance(out, np.generic):
            raise TypeError(f"expected an array, got a scalar of type {out.dtype}, which cannot be written")
        return self.view(out)

    def empty(self, like: Any, sizes: Sequence[int]) -> Any:
        return np.empty(tuple(sizes), like.dtype)


class CupyArrays(Adapter):
    """CuPy's arrays. Their order with a call is CuPy's own: that of its current stream."""

    is_view = True

    @cached_property
    def _made_by(self) -> tuple[Callable[..., Any], Callable[[], int]]:
        """CuPy's class, and its current device."""
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
        ndarray, current_device = self._made_by
        number = like.data.device_id
        if current_device() == number:
            return ndarray(sizes, like.dtype)  # cupy.empty does the same, and takes longer
        return new_view(Device("cuda", number), sizes, like.dtype)

    def again(self, call: PreparedCall, adapters: Sequence[Adapter]) -> Again:  # noqa: ARG002 - all are this
        """As declared. One frame, because each costs as much as reading an array."""
        run_at, shape, looks_up, number = call.run_at, call.shape, call.looks_up, call.device.index
        ndarray, current_device = self._made_by

        def again(given: Sequence[Any]) -> Any:
            first, out = given[0], given[-1]
            if out is None:
                out = ndarray(shape, first.dtype) if current_device() == number else self.empty(first, shape)
            done = run_at(first.data.ptr, given[1].data.ptr if looks_up else 0, out.data.ptr)
            return out if done else None

        return again

    def array_call(self, call: PreparedCall, arrays: Sequence[Any]) -> ArrayCall | None:
        """As declared. One frame, because each costs as much as reading an array."""
        kind, launch = self._made_by[0], call.run_at
        expected = tuple(item for array in arrays for item in self.signature(array) or ())

        def slice_(x: Any, out: Any = None, *more: Any) -> bool:
            if type(x) is not kind or type(out) is not kind or more:
                return False
            of_x, of_out = x.data, out.data
            data, target = of_x.ptr, of_out.ptr
            return (
                x.dtype, x.shape, x.strides, of_x.device_id << 4 | data & 15,
                out.dtype, out.shape, out.strides, of_out.device_id << 4 | target & 15,
            ) == expected and launch(data, 0, target)  # fmt: skip

        def gather(x: Any, ids: Any = None, out: Any = None, *more: Any) -> bool:
            if type(x) is not kind or type(ids) is not kind or type(out) is not kind or more:
                return False
            of_x, of_ids, of_out = x.data, ids.data, out.data
            data, indices, target = of_x.ptr, of_ids.ptr, of_out.ptr
            return (
                x.dtype, x.shape, x.strides, of_x.device_id << 4 | data & 15,
                ids.dtype, ids.shape, ids.strides, of_ids.device_id << 4 | indices & 15,
                out.dtype, out.shape, out.strides, of_out.device_id << 4 | target & 15,
            ) == expected and launch(data, indices, target)  # fmt: skip

        return gather if len(arrays) == 3 else slice_


CHUNKED = dict.fromkeys(
    ("dask", "zarr"), "dg.distributed.gather, slice and run read it in chunks; numpy.asarray(x) would load all of it"
)
"""Libraries of arrays in chunks, and what takes them."""


class ExchangedArrays(Adapter):
    """Arrays of any library, through DLPack, or `__cuda_array_interface__` where they have nothing else."""

    def view(self, array: Any) -> tuple[Any, Device]:
        if not hasattr(array, "__dlpack__"):
            if hasattr(array, "__cuda_array_interface__"):  # arrays of Numba, for one
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
            except (BufferError, RuntimeError, TypeError):  # a data type that NumPy's DLPack lacks, such as bfloat16
                return self._on_the_host(array), CPU
        if kind in DLPACK_CUDA:
            return self._on_a_gpu(array, number)
        raise TypeError(f"{type(array).__name__} lies on DLPack device type {kind}; only host and CUDA memory can be used")

    def output_view(self, out: Any) -> tuple[Any, Device]:
        view, device = self.view(out)
        interface = getattr(out, "__cuda_array_interface__", None) if device.on_gpu else None
        if interface is not None and interface["data"][1]:
            raise ValueError("out is read-only; pass a writeable array")  # which CuPy's view does not keep
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
            streams.meet(number, stream)
        streams.keep(number, view)

    def hand_back(self, result: Any, like: Any) -> Any:
        """As declared; the view itself where neither the array API's namespace of `like` nor its library has a `from_dlpack`."""
        namespace = like.__array_namespace__() if hasattr(like, "__array_namespace__") else None
        library = sys.modules.get(type(like).__module__.partition(".")[0])
        for module in (namespace, library, getattr(library, "dlpack", None)):
            if hasattr(module, "from_dlpack"):
                return module.from_dlpack(result)  # type: ignore[union-attr]
        return result

    def _on_the_host(self, array: Any) -> Any:
        """The view of an array in host memory that NumPy's DLPack refuses."""
        if not hasattr(array, "__array_interface__") and not hasattr(array, "__array__"):
            return np.from_dlpack(array)  # raises again
        return np.asarray(array)

    def _exported(self, array: Any) -> Any:
        """What CuPy takes by DLPack in the array's place."""
        return array

    def _ready(self, array: Any) -> None:
        """Wait for an array whose `__cuda_array_interface__` states no stream, if its library works on one."""

    def _on_a_gpu(self, array: Any, number: int) -> tuple[Any, Device]:
        cupy = require(number)
        try:
            view = cupy.from_dlpack(self._exported(array))
        except (BufferError, RuntimeError, TypeError) as error:
            if isinstance(error, cupy.cuda.runtime.CUDARuntimeError):  # of the device, not about the array
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
        with device.current():  # CuPy would copy it to another GPU
            view = cupy.asarray(_WithoutStream(array, {**interface, "stream": None}))
            self.order(array, view, device.index)
        return view, device


@dataclass(frozen=True, slots=True)
class _WithoutStream:
    """An array, with its interface for CuPy: for a stream that is stated there, CuPy makes the host wait, or nobody."""

    owner: Any
    __cuda_array_interface__: Mapping[str, Any]


NUMPY, CUPY, EXCHANGED = NumpyArrays(), CupyArrays(), ExchangedArrays()


def new_view(device: Device, sizes: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """A new packed array of NumPy's, or on a GPU of CuPy's, from its pool."""
    if not device.on_gpu:
        return np.empty(tuple(sizes), dtype)
    import cupy

    with device.current():
        return cupy.ndarray(tuple(sizes), dtype)  # cupy.empty does the same, and takes longer


def no_type(dtype: Any, error: Exception) -> TypeError:
    """The error for a type that CuPy lacks, to be raised."""
    return TypeError(f"CuPy has no type for {dtype} ({error}): pass a view of an integer type")


def require(number: int) -> Any:
    """CuPy, with a usable GPU. The backend is imported for arrays on a GPU alone."""
    from dmlgather.backends.cuda import require as required

    return required(number)
