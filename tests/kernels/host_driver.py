"""A driver that is not one: device memory is host memory, and a launch runs the kernel's PTX in the interpreter (`ptx/`).

Shows what surrounds the kernels (blocks, words, tables, threads, devices, streams), not that a GPU works; ci/gpu does that.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import pytest

from dmlgather.backends import streams
from dmlgather.backends.cuda import driver
from dmlgather.backends.cuda.driver import OPTIONS
from dmlgather.backends.cuda.launch import SHARED_BYTES, UNASKED_SHARED
from dmlgather.calls import prepared
from tests.kernels.ptx.machine import Module
from tests.kernels.ptx.runs import AS_WRITTEN, module_of

D = TypeVar("D", bound="HostDriver")


class HostDriver:
    """What `dmlgather.backends.cuda` uses of CuPy, over host memory. Keeps the current device per thread, as CUDA does.

    order: what was asked of streams and events, in order: ("launch", stream), ("record", event, stream), ("wait", stream, event),
    ("synchronize", event). busy: streams on which events do not pass. capturing: those on which a graph is captured.
    """

    memcpyHostToDevice, memcpyDeviceToHost = 1, 2  # noqa: N815 - CUDA's names
    cudaDevAttrMultiProcessorCount, cudaDevAttrMaxSharedMemoryPerBlockOptin = 16, 97  # noqa: N815

    def __init__(self, devices: int = 2, shared_limit: int = SHARED_BYTES) -> None:
        self.shared_limit = shared_limit
        self.devices, self.allocations, self.compiled = devices, 0, 0
        self.launched_on: list[int] = []
        self.order: list[tuple[Any, ...]] = []
        self.busy: set[int] = set()
        self.capturing: set[int] = set()
        self._recorded: dict[int, int] = {}
        self._current = threading.local()
        self._kernels: list[tuple[Module, str, _Kernel]] = []
        self.lock = threading.Lock()
        compiler = SimpleNamespace(CompileException=CompileException)
        self.cuda = SimpleNamespace(
            runtime=self, driver=self, Device=self._device, Memory=self._memory, Event=self._event, compiler=compiler
        )

    # cupy.cuda.runtime
    def getDeviceCount(self) -> int:  # noqa: N802
        return self.devices

    def getDevice(self) -> int:  # noqa: N802
        return int(getattr(self._current, "number", 0))

    def setDevice(self, number: int) -> None:  # noqa: N802
        self._current.number = number

    def deviceGetAttribute(self, attribute: int, device: int) -> int:  # noqa: N802
        assert device < self.devices
        return {self.cudaDevAttrMultiProcessorCount: 0, self.cudaDevAttrMaxSharedMemoryPerBlockOptin: self.shared_limit}[
            attribute
        ]

    def memcpy(self, to: int, source: int, count: int, kind: int) -> None:
        ctypes.memmove(to, source, count)

    def memcpyAsync(self, to: int, source: int, count: int, kind: int, stream: int) -> None:  # noqa: N802
        ctypes.memmove(to, source, count)

    def memsetAsync(self, to: int, value: int, count: int, stream: int) -> None:  # noqa: N802
        ctypes.memset(to, value, count)

    def streamSynchronize(self, stream: int) -> None:  # noqa: N802
        pass

    def deviceSynchronize(self) -> None:  # noqa: N802
        pass

    def eventRecord(self, event: int, stream: int) -> None:  # noqa: N802
        self._recorded[event] = stream
        self.order.append(("record", event, stream))

    def streamWaitEvent(self, stream: int, event: int, flags: int) -> None:  # noqa: N802
        assert event in self._recorded
        assert flags == 0
        self.order.append(("wait", stream, event))

    def streamIsCapturing(self, stream: int) -> bool:  # noqa: N802
        return stream in self.capturing

    # cupy.cuda.driver: the parameters are an array of pointers to arguments
    def launchKernel(self, function: int, *numbers: int) -> None:  # noqa: N802
        grid, *ones, shared, stream, parameters, extra = numbers
        module, name, compiled = self._kernels[function]
        ones[2], block = 1, ones[2]
        assert (ones, extra) == ([1] * 5, 0)
        arguments = ctypes.string_at(ctypes.c_void_p.from_address(parameters).value or 0, module.routine(name).parameter_bytes)
        with self.lock:  # an atomic operation of the interpreter is one only within a launch
            self.launched_on.append(self.getDevice())
            self.order.append(("launch", stream))
            asked = compiled.max_dynamic_shared_size_bytes
            module.launch(name, grid, arguments, None, block=block, shared_bytes=shared, shared_limit=asked)

    # cupy
    def RawModule(self, *, code: str, options: tuple[str, ...]) -> Any:  # noqa: N802
        assert options == OPTIONS
        module = module_of(code, AS_WRITTEN.architecture)

        def get_function(name: str) -> Any:
            assert module.kernels == (name,)
            self.compiled += 1
            kernel = _Kernel(self, SimpleNamespace(ptr=len(self._kernels)))
            self._kernels.append((module, name, kernel))
            return kernel

        return SimpleNamespace(get_function=get_function)

    def _memory(self, size: int) -> Any:
        self.allocations += 1
        content = np.full(size + 32, 0xCD, np.uint8)
        return SimpleNamespace(ptr=int(content.ctypes.data + -content.ctypes.data % 16), content=content)

    def _event(self, *, disable_timing: bool = False) -> Any:
        outer, number = self, len(self._recorded) + 1
        self._recorded[number] = -1

        class Event:
            ptr = number

            @property
            def done(self) -> bool:
                return outer._recorded[number] not in outer.busy

            def synchronize(self) -> None:
                outer.order.append(("synchronize", number))
                outer.busy.discard(outer._recorded[number])

        return Event()

    def _device(self, number: int) -> Any:
        outer = self

        class Current:
            def __enter__(self) -> None:
                self.before = outer.getDevice()
                outer.setDevice(number)

            def __exit__(self, *_: object) -> None:
                outer.setDevice(self.before)

        return Current()


class _Kernel:
    """Stands in for a cupy.RawKernel."""

    num_regs = 32

    def __init__(self, driver: HostDriver, kernel: Any) -> None:
        self._driver, self.kernel, self._asked = driver, kernel, UNASKED_SHARED

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        return self._asked

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        if size > self._driver.shared_limit:
            raise RuntimeError(f"CUDA_ERROR_INVALID_VALUE: invalid argument: {size}")
        self._asked = size


class CompileException(Exception):  # noqa: N818 - CuPy's name
    """Stands in for cupy.cuda.compiler.CompileException."""


@contextmanager
def installed(stand_in: D) -> Iterator[D]:
    """`stand_in` as the cupy module, with nothing kept of what was prepared before or meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", stand_in)
        forget()
        yield stand_in
    forget()


def forget() -> None:
    """Let the next preparation look for CuPy and compile again."""
    driver.require.cache_clear()
    driver._compiled.cache_clear()
    prepared.forget()
    streams.KEPT.finish()
