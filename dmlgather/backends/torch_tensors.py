"""Tensors of PyTorch: which of them can be used, and how. PyTorch is imported only if the caller did so."""

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
from dmlgather.backends.footprints import WRITEABLE, ArrayCall

if TYPE_CHECKING:
    from dmlgather.backends.prepared_call import PreparedCall


def is_torch(array: Any) -> bool:
    """Whether this is a torch.Tensor."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    return kind is not None and isinstance(array, kind)


def is_compiling() -> bool:
    """Whether PyTorch makes a graph: torch.compile of the code that asks, or torch.export."""
    compiler = sys.modules.get("torch.compiler")
    return compiler is not None and compiler.is_compiling()


def gpu_of(array: Any) -> int | None:
    """The number of the GPU on which a tensor lies; None for tensors elsewhere or of a class of their own, and for all else."""
    return array.device.index if is_torch(array) and _is_plain(array) and array.device.type == "cuda" else None


def current_stream(number: int) -> int:
    """The address of PyTorch's current stream of a GPU, in this thread."""
    return int(sys.modules["torch"].cuda.current_stream(number).cuda_stream)


def used_on(tensor: Any, stream: int) -> bool:
    """Tell PyTorch that a tensor on a GPU is used on this stream, so that its memory is not used again before that has run. False
    for a stream that each thread has of its own, of which PyTorch cannot be told.
    """
    cuda = sys.modules["torch"].cuda
    if stream == PER_THREAD:
        return False
    place = tensor.device
    tensor.record_stream(cuda.default_stream(place) if stream in (0, LEGACY) else cuda.ExternalStream(stream, device=place))
    return True


def plain(tensor: Any) -> Any:
    """The tensor without history, and with the elements that it stands for in memory: a conjugate or negative view is copied,
    because DLPack hands on what is copied from.

    Raises TypeError for a tensor without elements of its own in host or CUDA memory, RuntimeError, as PyTorch, for one whose
    gradient is wanted.
    """
    _check(tensor)
    return tensor.detach().resolve_conj().resolve_neg()


def check_written(tensor: Any) -> None:
    """TypeError and RuntimeError as `plain`, and RuntimeError for a conjugate or negative view, which cannot be written."""
    _check(tensor)
    if tensor.is_conj() or tensor.is_neg():
        raise RuntimeError("out is a conjugate or negative view: pass a tensor of its own")


def _check(tensor: Any) -> None:
    torch, found = sys.modules["torch"], type(tensor)
    if not _is_plain(tensor):
        raise TypeError(f"expected a torch.Tensor, got one of the class {found.__module__}.{found.__qualname__}")
    if tensor.layout is not torch.strided:
        raise TypeError(f"expected a dense tensor, got one of layout {tensor.layout}: pass tensor.to_dense()")
    if tensor.device.type not in ("cpu", "cuda"):
        raise TypeError(f"expected a tensor in host or CUDA memory, got one on {tensor.device}")
    if not _has_elements(tensor):
        mend = "pass tensor.clone()" if tensor._is_zerotensor() else "call this outside of it"
        raise TypeError(f"expected a tensor with elements, got one without, as vmap makes: {mend}")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise RuntimeError(
            "the tensor requires grad, but no gradient is recorded here: pass tensor.detach(), or call this in torch.no_grad()"
        )


def _has_elements(tensor: Any) -> bool:
    """Whether there is memory for the elements, if any: a tensor inside of vmap has no address, and that of one inside of
    functionalize, or of one that stands for zeros, is 0.
    """
    try:
        return bool(tensor.data_ptr()) or not tensor.numel()
    except RuntimeError:
        return False


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor is of no class with rules of its own, such as one that is being traced."""
    torch = sys.modules["torch"]
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def bits(tensor: Any) -> Any:
    """The tensor, as one of integers over the same memory where NumPy lacks its type, such as bfloat16; on every device."""
    torch = sys.modules["torch"]
    if hasattr(np, str(tensor.dtype).removeprefix("torch.")):
        return tensor
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.dtype.itemsize])


def host_array(tensor: Any) -> NDArray[Any]:
    """The array over a plain tensor in host memory of a type that ml_dtypes adds to NumPy's. TypeError for another type."""
    try:
        import ml_dtypes

        dtype = np.dtype(getattr(ml_dtypes, str(tensor.dtype).removeprefix("torch.")))
    except (ImportError, AttributeError):
        raise TypeError(f"NumPy has no type for {tensor.dtype}: pass a view of an integer type") from None
    return bits(tensor).numpy().view(dtype)  # type: ignore[no-any-return]


def host_view(tensor: Any) -> NDArray[Any] | None:
    """The array over a tensor, without DLPack's exchange. None for tensors outside of host memory, for those with which `plain`
    would do something, and for types that NumPy lacks.
    """
    torch = sys.modules.get("torch")
    if torch is None or type(tensor) is not torch.Tensor:
        return None
    try:
        view = tensor.numpy()  # which refuses whatever is not such a tensor
    except (RuntimeError, TypeError):
        return None
    return None if view.flags.owndata and view.size else view


def storage(tensor: Any) -> Any:
    """All elements of the memory of which a tensor is a view, as one dimension. TypeError and RuntimeError as `plain`."""
    _check(tensor)
    return tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.dtype.itemsize,), (1,), 0)


class TorchTensors(ExchangedArrays):
    """Tensors. In host memory, and on a GPU where every array of a call is one, they have signatures."""

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
        """As declared, for tensors that `view` takes: it refuses those of other devices."""
        place = array.device
        return Device("cuda", place.index) if place.type == "cuda" else CPU

    def order(self, array: Any, view: Any, number: int) -> None:
        if streams.meet(number, current_stream(number)) and not used_on(array, streams.current(number)):
            streams.keep(number, view)

    def stream(self, array: Any) -> int | None:
        return None if array.is_cpu or (number := gpu_of(array)) is None else current_stream(number)

    def empty(self, like: Any, sizes: Sequence[int]) -> Any | None:
        """As declared; None while PyTorch traces, where tensors have no elements."""
        out = empty(like, sizes)
        return out if type(out) is type(like) else None

    def array_call(self, call: PreparedCall, arrays: Sequence[Any]) -> ArrayCall | None:
        """As declared. NumPy's view of a tensor in host memory says as much as the tensor, and at once."""
        on_views = None if call.device.on_gpu or host_view(arrays[0]) is None else call.array_call_on(NUMPY, arrays)
        if on_views is None:
            return super().array_call(call, arrays)
        kind = sys.modules["torch"].Tensor

        def run(*tensors: Any) -> bool:
            try:
                # Of a tensor without an address, `numpy` makes an array of its own.
                return on_views(
                    *[None if type(each) is not kind or (view := each.numpy()).flags.owndata else view for each in tensors]
                )
            except (RuntimeError, TypeError):  # not in host memory, with history, conjugate, of a type that NumPy lacks, …
                return False

        return run

    def hand_back(self, result: Any, like: Any) -> Any:
        torch = sys.modules["torch"]
        if result.dtype.isbuiltin == 1:
            return torch.from_numpy(result) if isinstance(result, np.ndarray) else torch.from_dlpack(result)
        return torch.from_dlpack(result.view(f"i{result.dtype.itemsize}")).view(like.dtype)

    def _on_the_host(self, array: Any) -> Any:
        return host_array(array)

    def _exported(self, array: Any) -> Any:
        return _InOrder(array)


class _InOrder:
    """A tensor on a GPU for DLPack, without the exchange of streams, which PyTorch refuses for one that each thread has of its
    own. Whoever takes it orders them.
    """

    def __init__(self, tensor: Any) -> None:
        self._tensor, self.__dlpack_device__ = tensor, tensor.__dlpack_device__

    def __dlpack__(self, *, stream: int | None = None, **more: Any) -> Any:
        return self._tensor.__dlpack__(stream=-1, **more)


TORCH = TorchTensors()


def empty(like: Any, sizes: Sequence[int]) -> Any:
    """A new packed tensor of the type of `like`, beside it."""
    torch = sys.modules["torch"]
    return torch.empty(tuple(sizes), dtype=like.dtype, device=like.device)
