"""Adapter for PyTorch. This module imports PyTorch only if the caller has imported it."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import streams
from dmlgather.backends.adapter import NUMPY, ExchangedArrays
from dmlgather.backends.devices import CPU, LEGACY, PER_THREAD, Device
from dmlgather.backends.footprints import WRITEABLE, FastPath

if TYPE_CHECKING:
    from dmlgather.backends.prepared_call import PreparedCall


def is_torch(array: Any) -> bool:
    """Return True for a torch.Tensor."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    return kind is not None and isinstance(array, kind)


def is_compiling() -> bool:
    """Return True if torch.compile or torch.export is tracing the caller."""
    compiler = sys.modules.get("torch.compiler")
    return compiler is not None and compiler.is_compiling()


def gpu_of(array: Any) -> int | None:
    """Return the number of a plain tensor's GPU, or None for a tensor in other memory and any other object."""
    return array.device.index if is_torch(array) and _is_plain(array) and array.device.type == "cuda" else None


def current_stream(number: int) -> int:
    """Return the address of PyTorch's current stream of a GPU."""
    return int(sys.modules["torch"].cuda.current_stream(number).cuda_stream)


def used_on(tensor: Any, stream: int) -> bool:
    """Tell PyTorch that a stream uses a tensor, so that PyTorch does not reuse its memory too early.

    Returns False for cudaStreamPerThread, for which PyTorch cannot record this.
    """
    cuda = sys.modules["torch"].cuda
    if stream == PER_THREAD:
        return False
    place = tensor.device
    tensor.record_stream(cuda.default_stream(place) if stream in (0, LEGACY) else cuda.ExternalStream(stream, device=place))
    return True


def plain(tensor: Any) -> Any:
    """Return the tensor without its autograd history, and a copy of a conjugate or negative view.

    Raise TypeError if the elements are not in host or CUDA memory, and RuntimeError if the tensor requires a gradient.
    """
    _check(tensor)
    return tensor.detach().resolve_conj().resolve_neg()


def check_written(tensor: Any) -> None:
    """Raise RuntimeError for a conjugate or negative view, which cannot be written. Also raise the errors of `plain`."""
    _check(tensor)
    if tensor.is_conj() or tensor.is_neg():
        raise RuntimeError("out is a conjugate or negative view, which cannot be written: pass a new tensor")


def _check(tensor: Any) -> None:
    torch, kind = sys.modules["torch"], type(tensor)
    if not _is_plain(tensor):
        raise TypeError(f"expected a torch.Tensor, got a tensor of the class {kind.__module__}.{kind.__qualname__}")
    if tensor.layout is not torch.strided:
        raise TypeError(f"expected a dense tensor, got a tensor of layout {tensor.layout}: pass tensor.to_dense()")
    if tensor.device.type not in ("cpu", "cuda"):
        raise TypeError(f"expected a tensor in host or CUDA memory, got a tensor on {tensor.device}")
    if not _has_elements(tensor):
        remedy = "pass tensor.clone()" if tensor._is_zerotensor() else "call this outside of it"
        raise TypeError(f"expected a tensor with elements in memory, got a tensor without elements, as inside vmap: {remedy}")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise RuntimeError(
            "the tensor requires grad, but no gradient is recorded here: pass tensor.detach(), or call this in torch.no_grad()"
        )


def _has_elements(tensor: Any) -> bool:
    try:
        # The address is 0 under functionalize, and for PyTorch's zero tensors.
        return bool(tensor.data_ptr()) or not tensor.numel()
    except RuntimeError:  # under vmap, a tensor has no address
        return False


def _is_plain(tensor: Any) -> bool:
    """Return True if the tensor has one of PyTorch's own classes. Other tensors, such as traced ones, behave differently."""
    torch = sys.modules["torch"]
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def bits(tensor: Any) -> Any:
    """Return the tensor. If NumPy lacks its data type, such as bfloat16, return a view of the tensor as integers."""
    torch = sys.modules["torch"]
    if hasattr(np, str(tensor.dtype).removeprefix("torch.")):
        return tensor
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.dtype.itemsize])


def host_view(tensor: Any) -> NDArray[Any] | None:
    """Return a NumPy array over a tensor's memory, or None if `tensor.numpy()` cannot make one without a copy."""
    torch = sys.modules.get("torch")
    if torch is None or type(tensor) is not torch.Tensor:
        return None
    try:
        view = tensor.numpy()
    except (RuntimeError, TypeError):
        return None
    return None if view.flags.owndata and view.size else view


def storage(tensor: Any) -> Any:
    """Return all memory of a tensor as a one-dimensional tensor. Raises the errors of `plain`."""
    _check(tensor)
    return tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.dtype.itemsize,), (1,), 0)


class TorchTensors(ExchangedArrays):
    """Adapter for PyTorch's tensors."""

    @cached_property
    def _strided(self) -> Any:
        return sys.modules["torch"].strided

    def signature(self, array: Any) -> tuple[Hashable, ...] | None:
        try:
            if array.layout is not self._strided or array.requires_grad or array.is_conj() or array.is_neg():
                return None
            pointer = array.data_ptr()
            if not pointer and not _has_elements(array):
                return None
            if array.is_cpu:
                return array.dtype, array.shape, array.stride(), WRITEABLE
            place = array.device
            if place.type != "cuda":
                return None
            return array.dtype, array.shape, array.stride(), place.index << 4 | pointer & 15
        except RuntimeError:
            return None

    def pointer(self, array: Any) -> int:
        return array.data_ptr()  # type: ignore[no-any-return]

    def is_packed(self, array: Any) -> bool:
        return bool(array.is_contiguous())

    def view(self, array: Any) -> tuple[Any, Device]:
        return super().view(plain(array))

    def output_view(self, out: Any) -> tuple[Any, Device]:
        check_written(out)
        return self.view(out)

    def home(self, array: Any) -> Device:
        """Return the device of a tensor. The result means nothing for tensors that `view` refuses."""
        place = array.device
        return Device("cuda", place.index) if place.type == "cuda" else CPU

    def order(self, array: Any, view: Any, number: int) -> None:
        if streams.order_with(number, current_stream(number)) and not used_on(array, streams.current(number)):
            streams.keep(number, view)

    def stream(self, array: Any) -> int | None:
        return None if array.is_cpu or (number := gpu_of(array)) is None else current_stream(number)

    def empty(self, like: Any, sizes: Sequence[int]) -> Any | None:
        """Return a new packed tensor. Returns None while PyTorch traces, because traced tensors have no elements."""
        out = empty(like, sizes)
        return out if type(out) is type(like) else None

    def fast_path(self, call: PreparedCall, arrays: Sequence[Any]) -> FastPath | None:
        """Return a function that checks tensors and runs `call` on them, faster than the general code.

        For tensors in host memory, the function works on NumPy views of them.
        """
        on_views = None if call.device.on_gpu or host_view(arrays[0]) is None else call.fast_path_on(NUMPY, arrays)
        if on_views is None:
            return super().fast_path(call, arrays)
        kind = sys.modules["torch"].Tensor

        def run(*tensors: Any) -> bool:
            try:
                # For a tensor without an address, `numpy` makes an array with memory of its own.
                return on_views(
                    *[None if type(tensor) is not kind or (view := tensor.numpy()).flags.owndata else view for tensor in tensors]
                )
            except (RuntimeError, TypeError):  # a tensor on a GPU, with history, of a type that NumPy lacks, …
                return False

        return run

    def hand_back(self, result: Any, like: Any) -> Any:
        torch = sys.modules["torch"]
        if result.dtype.isbuiltin == 1:
            return torch.from_numpy(result) if isinstance(result, np.ndarray) else torch.from_dlpack(result)
        return torch.from_dlpack(result.view(f"i{result.dtype.itemsize}")).view(like.dtype)

    def _on_the_host(self, array: Any) -> Any:
        try:
            import ml_dtypes

            dtype = np.dtype(getattr(ml_dtypes, str(array.dtype).removeprefix("torch.")))
        except (ImportError, AttributeError):
            raise TypeError(f"NumPy has no type for {array.dtype}: pass a view of an integer type") from None
        return bits(array).numpy().view(dtype)

    def _exported(self, array: Any) -> Any:
        return _InOrder(array)


class _InOrder:
    """A tensor on a GPU that exports itself through DLPack without a wait between streams.

    PyTorch cannot make its stream wait for cudaStreamPerThread. So `TorchTensors.order` orders the streams instead.
    """

    def __init__(self, tensor: Any) -> None:
        self._tensor, self.__dlpack_device__ = tensor, tensor.__dlpack_device__

    def __dlpack__(self, *, stream: int | None = None, **more: Any) -> Any:
        return self._tensor.__dlpack__(stream=-1, **more)


TORCH = TorchTensors()


def empty(like: Any, sizes: Sequence[int]) -> Any:
    """Return a new packed tensor with the data type and device of `like`."""
    torch = sys.modules["torch"]
    return torch.empty(tuple(sizes), dtype=like.dtype, device=like.device)
