"""Stand-ins for PyTorch, JAX and other libraries, over memory of CuPy. The libraries themselves cannot use the simulated GPU.

Each library works on a non-blocking stream of its own. Freed memory is overwritten at once, after the work of those streams that
the library knows to use it. So a call in the wrong order gives a wrong result.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from dmlgather.backends.cuda.driver import require
from tests import seeds

SPOILT = 0xEE
"""Value of each byte of overwritten memory."""


_lanes: list[Any] = []


def lane() -> Any:
    """Return a new non-blocking stream. It is never destroyed, so its address stays unique."""
    _lanes.append(require(0).cuda.Stream(non_blocking=True))
    return _lanes[-1]


def follow(stream: int, other: int) -> None:
    """Let `stream` wait for the current work of the stream `other`."""
    cupy = require(0)
    event = cupy.cuda.Event(disable_timing=True)
    cupy.cuda.runtime.eventRecord(event.ptr, other)
    cupy.cuda.runtime.streamWaitEvent(stream, event.ptr, 0)


class Storage:
    """Memory of a library whose allocator works on the stream `home`. `recorded`: other streams that use the memory."""

    alive: ClassVar = weakref.WeakSet["Storage"]()
    """All memory that is still referenced."""

    def __init__(self, base: Any, home: Any) -> None:
        self.base, self.home, self.recorded = base, home, set[int]()
        Storage.alive.add(self)

    def __del__(self) -> None:
        for stream in self.recorded:
            follow(self.home.ptr, stream)
        self.base.data.memset_async(SPOILT, self.base.nbytes, self.home)

    @staticmethod
    def of(array: np.ndarray[Any, Any], home: Any, number: int = 0) -> Any:
        """Return a packed copy of an array in such memory on GPU `number`, as a CuPy array."""
        cupy = require(number)
        with cupy.cuda.Device(number), home:
            base = cupy.asarray(np.frombuffer(array.tobytes() or b"\0", np.uint8))
        memory = cupy.cuda.UnownedMemory(base.data.ptr, base.nbytes, Storage(base, home), device_id=number)
        return cupy.ndarray(array.shape, array.dtype, memptr=cupy.cuda.MemoryPointer(memory, 0))


@dataclass(frozen=True)
class TorchDevice:
    """The part of torch.device that dmlgather uses."""

    type: str
    index: int


class TorchStream:
    """A torch.cuda.Stream over a stream of CuPy."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.cuda_stream = stream, int(stream.ptr)


class Tensor:
    """The part of torch.Tensor that docs/gpu.md and dmlgather use. `held`: its memory, as a CuPy array."""

    def __init__(self, held: Any) -> None:
        self.held = held

    dtype = property(lambda self: self.held.dtype)
    shape = property(lambda self: self.held.shape)
    device = property(lambda self: TorchDevice("cuda", self.held.device.id))
    layout = "strided"
    is_cpu = requires_grad = False

    def stride(self) -> tuple[int, ...]:
        return tuple(step // self.held.itemsize for step in self.held.strides)

    def data_ptr(self) -> int:
        return int(self.held.data.ptr)

    def is_conj(self) -> bool:
        return False

    def detach(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    is_neg, resolve_conj, resolve_neg = is_conj, detach, detach

    def record_stream(self, stream: Any) -> None:
        self.held.data.mem._owner.recorded.add(stream.cuda_stream)

    def __dlpack__(self, *, stream: int, **more: Any) -> Any:
        assert stream == -1, "PyTorch refuses some streams, and orders only its own"
        return self.held.__dlpack__(stream=-1, **more)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.device.index)

    def __getitem__(self, key: Tensor) -> Tensor:
        with sys.modules["torch"].now:
            return Tensor(self.held[key.held])


Tensor.__module__ = "torch"


class Torch:
    """The part of PyTorch that docs/gpu.md and dmlgather use. `now`: the current stream, at first not the default stream."""

    def __init__(self) -> None:
        self.Tensor, self.strided = Tensor, Tensor.layout
        self.nn = SimpleNamespace(Parameter=Tensor)
        self._now: Any = None
        self.cuda = SimpleNamespace(
            Stream=lambda: TorchStream(lane()),
            stream=self._entered,
            current_stream=lambda device=None: TorchStream(self.now),
            default_stream=lambda device=None: SimpleNamespace(cuda_stream=0),
            ExternalStream=lambda stream_ptr, device=None: SimpleNamespace(cuda_stream=stream_ptr),
        )

    @property
    def now(self) -> Any:
        if self._now is None:
            self._now = lane()
        return self._now

    @contextmanager
    def _entered(self, stream: TorchStream) -> Iterator[None]:
        before, self._now = self.now, stream.stream
        yield
        self._now = before

    def rand(self, *sizes: int, device: str) -> Tensor:
        assert device == "cuda"
        return Tensor(Storage.of(seeds.numpy_rng().random(sizes, np.float32), self.now))

    def randint(self, high: int, sizes: tuple[int, ...], *, device: str) -> Tensor:
        assert device == "cuda"
        return Tensor(Storage.of(seeds.numpy_rng().integers(0, high, sizes), self.now))

    def empty(self, *sizes: Any, device: Any, dtype: Any = np.float32) -> Tensor:
        assert device in ("cuda", TorchDevice("cuda", 0))
        shape = sizes[0] if sizes and isinstance(sizes[0], tuple) else sizes
        cupy = require(0)
        with self.now:
            base = cupy.empty(int(np.prod(shape)) * np.dtype(dtype).itemsize, np.uint8)
            base.data.memset_async(SPOILT, base.nbytes, self.now)
        memory = cupy.cuda.UnownedMemory(base.data.ptr, base.nbytes, Storage(base, self.now))
        return Tensor(cupy.ndarray(shape, dtype, memptr=cupy.cuda.MemoryPointer(memory, 0)))

    def from_dlpack(self, array: Any) -> Tensor:
        follow(self.now.ptr, require(0).cuda.get_current_stream().ptr)
        return Tensor(array)

    def equal(self, left: Tensor, right: Tensor) -> bool:
        with self.now:
            return bool(left.held.get().tobytes() == right.held.get().tobytes())


class JaxDevice:
    """The part of jax.Device that dmlgather uses."""

    platform = "gpu"


JAX_DEVICE = JaxDevice()


class JaxArray:
    """The part of jax.Array that dmlgather uses. `held`: its memory. `writer`: the stream that writes it."""

    def __init__(self, held: Any, writer: Any) -> None:
        self.held, self._writer = held, writer
        self.shape, self.dtype = held.shape, held.dtype

    def is_deleted(self) -> bool:
        return False

    def devices(self) -> set[Any]:
        return {JAX_DEVICE}

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.held.device.id)

    def __dlpack__(self, *, stream: int, **more: Any) -> Any:
        follow(stream, self._writer.ptr)
        return self.held.__dlpack__(stream=-1, **more)


class Jax:
    """The part of JAX that dmlgather uses. The two streams do not wait for each other.

    `xla`: the stream on which JAX uses arrays from DLPack. `home`: the stream on which it makes arrays and reuses memory.
    """

    def __init__(self) -> None:
        self.xla, self.home = lane(), lane()
        self.Array, self.core = JaxArray, SimpleNamespace(Tracer=type(None))
        self.numpy = SimpleNamespace(issubdtype=lambda *_: False)
        self.dtypes = SimpleNamespace(extended=None)
        self.dlpack = SimpleNamespace(from_dlpack=self._from_dlpack)

    def enable_x64(self, on: bool) -> Any:
        return nullcontext()

    def _from_dlpack(self, array: Any) -> JaxArray:
        follow(self.xla.ptr, require(0).cuda.get_current_stream().ptr)
        return JaxArray(array, self.xla)


class Interfaced:
    """An array with `__cuda_array_interface__` alone, version 3. `more`: further fields of it, such as `stream`."""

    def __init__(self, held: Any, **more: Any) -> None:
        self.held = held
        self.__cuda_array_interface__ = {**held.__cuda_array_interface__, "version": 3, **more}
        if not more:
            self.__cuda_array_interface__.pop("stream", None)


@contextmanager
def torch_in_place() -> Iterator[Torch]:
    """Let `import torch` give the stand-in for PyTorch."""
    with pytest.MonkeyPatch.context() as patch:
        torch = Torch()
        patch.setitem(sys.modules, "torch", torch)
        yield torch


class Library:
    """A library with its arrays, and the stream that writes them.

    `known`: True if the library also uses and frees the arrays on that stream. Otherwise their memory may be overwritten
    without a reference.
    """

    def __init__(self, make: Callable[[Any], Any], stream: Any, *, known: bool = True) -> None:
        self._make, self.stream, self.known = make, stream, known

    def array(self, array: np.ndarray[Any, Any]) -> Any:
        """Return the array as one of this library, written late."""
        return self._make(Storage.of(array, self.stream))


class Rig:
    """All libraries in one process, until the stack ends.

    `now`: CuPy's current stream. `per_thread`: CuPy's current stream is the per-thread default stream, and PyTorch's is the
    default stream.
    """

    def __init__(self, stack: ExitStack, *, per_thread: bool = False) -> None:
        cupy = require(0)
        self.torch, self.jax = stack.enter_context(torch_in_place()), Jax()
        stack.enter_context(pytest.MonkeyPatch.context()).setitem(sys.modules, "jax", self.jax)
        self.now, other = cupy.cuda.get_current_stream(), lane()
        if per_thread:
            self.now = stack.enter_context(cupy.cuda.Stream.ptds)
            stack.enter_context(self.torch.cuda.stream(TorchStream(cupy.cuda.Stream.null)))
        null, thread = cupy.cuda.Stream.null, cupy.cuda.Stream.ptds
        self.libraries = {
            "cupy": Library(lambda held: held, self.now),
            "torch": Library(Tensor, self.torch.now),
            "jax": Library(lambda held: JaxArray(held, self.jax.home), self.jax.home, known=False),
            "interface, stream": Library(lambda held: Interfaced(held, stream=other.ptr), other),
            "interface, legacy": Library(lambda held: Interfaced(held, stream=1), null),
            "interface, per thread": Library(lambda held: Interfaced(held, stream=2), thread),
            "interface, no stream": Library(Interfaced, lane(), known=False),
        }

    def spoil(self) -> None:
        """Wait until freed memory is overwritten."""
        for library in self.libraries.values():
            if not library.known:
                library.stream.synchronize()
