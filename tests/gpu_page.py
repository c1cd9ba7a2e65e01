"""What stands in for CuPy and torch while the blocks of docs/gpu.md run: memory, streams, graphs and tensors of the host.

It shows that the page's calls are taken, do what it says, and in which order streams see them; ci/gpu runs the page on a GPU.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dmlgather.backends.cuda.arguments import LAYOUT
from tests import seeds
from tests.kernels.host_driver import installed
from tests.test_model_devices import ModelDriver
from tests.test_operator_devices import DeviceArray

ARGUMENT_BYTES = struct.calcsize("<" + "".join(code for _, code in LAYOUT))


class PageDriver(ModelDriver):
    """A driver with streams that can be captured. As CUDA does, a graph keeps a copy of each launch's arguments."""

    def __init__(self) -> None:
        super().__init__()
        driver = self
        self.captures: dict[int, list[Callable[[], None]]] = {}
        self._default = 1  # what CuPy hands on for stream 0: 2 where its default stream is each thread's own
        made_current = self.cuda.Stream.from_external

        class Stream:
            from_external = staticmethod(made_current)

            def __init__(self, *, non_blocking: bool = False) -> None:
                self.ptr = id(self)

            def __enter__(self) -> Stream:
                driver.current[driver.getDevice()] = self.ptr
                return self

            def __exit__(self, *_: object) -> None:
                del driver.current[driver.getDevice()]

            def synchronize(self) -> None:
                assert self.ptr not in driver.captures, "a capture allows no wait"

            def begin_capture(self) -> None:
                driver.captures[self.ptr] = []

            def end_capture(self) -> Any:
                steps = driver.captures.pop(self.ptr)

                def launch(stream: Any = None) -> None:
                    for step in steps:
                        step()

                return SimpleNamespace(launch=launch)

        self.cuda.Stream = Stream

    # cupy
    def asarray(self, array: Any, *, order: str = "K", blocking: bool = False) -> DeviceArray:
        if hasattr(array, "__cuda_array_interface__"):
            assert array.__cuda_array_interface__["stream"] is None, "CuPy makes the host wait for a stream that is stated"
            return DeviceArray(array.owner.held, self.getDevice())
        return super().asarray(array, order=order, blocking=blocking or isinstance(array, np.ndarray))

    def from_dlpack(self, array: Any) -> DeviceArray:
        kind, number = array.__dlpack_device__()
        assert kind == 2
        return DeviceArray(array.__dlpack__(stream=self._stream_of(number).ptr or self._default), number)

    # cupy.cuda.runtime
    def pointerGetAttributes(self, pointer: int) -> Any:  # noqa: N802 - CUDA's name
        return SimpleNamespace(device=0)

    def memsetAsync(self, to: int, value: int, count: int, stream: int) -> None:  # noqa: N802
        plain = super().memsetAsync
        self._now_or_later(stream, lambda: plain(to, value, count, stream))

    def streamIsCapturing(self, stream: int) -> bool:  # noqa: N802
        return stream in self.captures

    # cupy.cuda.driver
    def launchKernel(self, function: int, *numbers: int) -> None:  # noqa: N802
        *first, stream, parameters, extra = numbers
        plain = super().launchKernel
        block = ctypes.create_string_buffer(ctypes.string_at(ctypes.c_void_p.from_address(parameters).value or 0, ARGUMENT_BYTES))
        held = (ctypes.c_void_p * 1)(ctypes.addressof(block))

        def launch(keep: Any = block) -> None:
            plain(function, *first, stream, ctypes.addressof(held), extra)

        self._now_or_later(stream, launch)

    def _now_or_later(self, stream: int, step: Callable[[], None]) -> None:
        steps = self.captures.get(stream)
        if steps is None:
            step()
        else:
            steps.append(step)


@dataclass(frozen=True)
class TorchDevice:
    """What dmlgather uses of a torch.device."""

    type: str
    index: int


class Tensor:
    """What the page and dmlgather use of a torch.Tensor on a GPU."""

    def __init__(self, held: np.ndarray[Any, Any]) -> None:
        self.held = held

    dtype = property(lambda self: self.held.dtype)
    shape = property(lambda self: self.held.shape)
    layout = "strided"
    device = TorchDevice("cuda", 0)
    is_cpu = requires_grad = False

    def data_ptr(self) -> int:
        return self.held.ctypes.data

    def is_conj(self) -> bool:
        return False

    def detach(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    is_neg, resolve_conj, resolve_neg = is_conj, detach, detach

    def record_stream(self, stream: Any) -> None:
        sys.modules["torch"].driver.order.append(("record_stream", self.held.ctypes.data, stream.cuda_stream))

    def __dlpack__(self, *, stream: int) -> np.ndarray[Any, Any]:
        assert stream == -1, "PyTorch refuses some streams, and orders no other than its own"
        return self.held

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __getitem__(self, key: Tensor) -> Tensor:
        return Tensor(self.held[key.held])


Tensor.__module__ = "torch"


class TorchStandIn:
    """What the page and dmlgather use of torch. driver: whose streams it uses; what tensors ask of them stands in its `order`."""

    def __init__(self, driver: PageDriver) -> None:
        self.driver = driver
        self.Tensor, self.strided = Tensor, Tensor.layout
        self.nn = SimpleNamespace(Parameter=Tensor)
        self._current = SimpleNamespace(cuda_stream=7)
        self.cuda = SimpleNamespace(
            Stream=self._made,
            stream=self._entered,
            current_stream=lambda device=None: self._current,
            default_stream=lambda device=None: SimpleNamespace(cuda_stream=0),
            ExternalStream=lambda stream_ptr, device=None: SimpleNamespace(cuda_stream=stream_ptr),
        )

    def rand(self, *sizes: int, device: str) -> Tensor:
        assert device == "cuda"
        return Tensor(seeds.numpy_rng().random(sizes, np.float32))

    def randint(self, high: int, sizes: tuple[int, ...], *, device: str) -> Tensor:
        assert device == "cuda"
        return Tensor(seeds.numpy_rng().integers(0, high, sizes))

    def empty(self, *sizes: Any, device: Any, dtype: Any = np.float32) -> Tensor:
        assert device in ("cuda", Tensor.device)
        shape = sizes[0] if sizes and isinstance(sizes[0], tuple) else sizes
        return Tensor(np.full(shape, 77, dtype))

    def from_dlpack(self, array: DeviceArray) -> Tensor:
        return Tensor(array.held)

    def equal(self, left: Tensor, right: Tensor) -> bool:
        return np.array_equal(left.held, right.held)

    def _made(self) -> Any:
        return SimpleNamespace(cuda_stream=8)

    @contextmanager
    def _entered(self, stream: Any) -> Any:
        before, self._current = self._current, stream
        yield
        self._current = before


def stand_in(stack: ExitStack) -> PageDriver:
    """Put CuPy and torch in place until the stack ends."""
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    driver = PageDriver()
    patch.setitem(sys.modules, "torch", TorchStandIn(driver))
    stack.enter_context(installed(driver))
    return driver
