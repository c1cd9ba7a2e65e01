"""Devices by name: "cpu", "cuda" (GPU 0), "cuda:N", and "reference", the reference backend in host memory."""

from __future__ import annotations

import platform
import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Device:
    """A device on which plans run. `kind`: "cpu", "cuda" or "reference"."""

    kind: str
    index: int = 0

    @classmethod
    def parse(cls, name: str | Device) -> Device:
        """Return the device called `name`. Raise ValueError for an unknown name."""
        if isinstance(name, Device):
            return name
        if not isinstance(name, str):
            raise TypeError(f"device is {name!r} of type {type(name).__name__}, expected a name such as 'cpu' or 'cuda:0'")
        match = re.fullmatch(r"cpu|reference|cuda(?::(\d+))?", name)
        if match is None:
            raise ValueError(f"device is {name!r}, expected 'cpu', 'cuda', 'cuda:N' (GPU number N, from 0) or 'reference'")
        return cls(name.partition(":")[0], int(match[1] or 0))

    @property
    def on_gpu(self) -> bool:
        """True for a GPU."""
        return self.kind == "cuda"

    @property
    def memory(self) -> Device:
        """The device whose memory holds the arrays. For the reference backend, this is the CPU."""
        return self if self.on_gpu else CPU

    def current(self) -> AbstractContextManager[Any]:
        """Return a context manager that makes this GPU CuPy's current device. It does nothing if this is no GPU.

        Raises DeviceError if the GPU or CuPy is missing.
        """
        if not self.on_gpu:
            return nullcontext()
        return _cupy_device_class(self.index)(self.index)  # type: ignore[no-any-return]

    def __str__(self) -> str:
        return f"cuda:{self.index}" if self.on_gpu else self.kind


@lru_cache
def _cupy_device_class(index: int) -> Any:
    """Return CuPy's class Device. The result is cached, because asking the driver takes time."""
    from dmlgather.backends.cuda.driver import require

    return require(index).cuda.Device


CPU = Device("cpu")

LEGACY, PER_THREAD = 1, 2
"""Addresses of cudaStreamLegacy, which is also stream 0, and of cudaStreamPerThread."""


def processor() -> str:
    """Return the name of this machine's processor, or else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or platform.machine()


def stream_pointer(stream: Any, device: Device) -> int:
    """Return the address of a stream, or 0 on the CPU. None means CuPy's current stream.

    Raises TypeError if `stream` is no stream of CUDA, or if there is a stream although the device is the CPU.
    """
    if not device.on_gpu:
        if stream is not None:
            given = _no_stream(stream)
            raise TypeError(f"stream is {given}, but the arrays are on the CPU, which has no streams: leave it out")
        return 0
    if stream is None:
        import cupy

        return int(cupy.cuda.get_current_stream(device.index).ptr)
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for address in ("ptr", "cuda_stream"):  # the attribute's name in CuPy, and in torch
        if hasattr(stream, address):
            return int(getattr(stream, address))
    raise TypeError(
        f"stream is {_no_stream(stream)}, expected a stream of CuPy or torch, an object with __cuda_stream__, or an int"
    )


def _no_stream(given: Any) -> str:
    array = hasattr(given, "__dlpack__") or hasattr(given, "__array__")
    return type(given).__name__ + (" (the arrays of a bound operator are fixed, and a call takes none)" if array else "")


_NO_SUCH_HANDLE = re.compile("INVALID_HANDLE|InvalidResourceHandle")


def refuse_stream(error: RuntimeError, stream: int, device: Device) -> None:
    """Raise TypeError if `error` says that the stream does not exist or belongs to another GPU."""
    if stream in (0, LEGACY, PER_THREAD) or not _NO_SUCH_HANDLE.search(str(error)):
        return
    from dmlgather.backends.cuda import nvidia_driver

    number = nvidia_driver.device_of(stream)
    if number is None:
        raise TypeError(
            f"stream is {stream:#x}, but no stream has this address: it was destroyed or never created; pass a stream of "
            f"{device}, and keep it until its work is done"
        ) from error
    if number != device.index:
        other = Device("cuda", number)
        raise TypeError(
            f"stream is of {other}, but the call runs on {device}: pass a stream of {device}, or run the call on {other} (pass "
            "arrays there, and no other device=)"
        ) from error
