"""What this backend uses of CuPy: finding a device, compiling kernels from their sources, device memory."""

from __future__ import annotations

import ctypes
import functools
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from dmlgather.backends.cuda import nvidia_driver, wheels
from dmlgather.backends.cuda.variants import Variant
from dmlgather.files import shipped

OPTIONS = ("-std=c++17",)
"""Compiler options of every kernel, beside the architecture."""

_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)
_ENTRY = re.compile(r"^[A-Z]+\((\w+)\b.*\)$")


def kernel_folder() -> Path:
    """`cuda_kernels/` inside the installed wheel, else of the checkout that this package is imported from."""
    return shipped("cuda_kernels")


@functools.cache
def unit_source(unit: str) -> str:
    """A unit with its headers included, each once: CuPy's cache compares the whole text to find out if a kernel changed."""
    seen: set[str] = set()

    def expanded(name: str) -> str:
        text = (kernel_folder() / name).read_text(encoding="utf-8").replace("#pragma once\n", "")

        def header(match: re.Match[str]) -> str:
            if match[1] in seen:
                return ""
            seen.add(match[1])
            return expanded(match[1])

        return _INCLUDE.sub(header, text)

    return expanded(unit)


def kernel_source(variant: Variant) -> str:
    """The unit of `variant` with the other entry points left out, so that a first call compiles one kernel."""
    lines = unit_source(variant.unit).splitlines()
    kept = [line for line in lines if (entry := _ENTRY.match(line)) is None or entry[1] == variant.name]
    if variant.line not in kept:
        raise ValueError(f"{variant.unit} in {kernel_folder()} has no line {variant.line}")
    return "\n".join(kept) + "\n"


_CACHE = "set CUPY_CACHE_DIR to a folder that can be written"

_compiling = threading.Lock()


class DeviceError(RuntimeError):
    """A GPU cannot be used, or not now. The message says what is missing or does not fit (driver, CuPy, NVRTC), and a remedy."""


@functools.cache
def require(device: int) -> Any:
    """The cupy module, for a machine that has GPU number `device`. DeviceError names what is missing."""
    try:
        import cupy

        if not hasattr(cupy, "cuda"):  # a folder that is left of a package
            del sys.modules["cupy"]
            raise ImportError("its files are gone")
        count = cupy.cuda.runtime.getDeviceCount()
    except (ImportError, OSError, RuntimeError) as error:
        raise DeviceError(_missing(error)) from None
    if device >= count:
        raise DeviceError(f"there is no cuda:{device}: this machine has {count} GPU{'s' * (count != 1)}, counted from cuda:0")
    return cupy


def _missing(error: ImportError | OSError | RuntimeError) -> str:
    """Why CuPy cannot be imported, or counts no GPUs. Without a driver nothing else helps, so that it comes first."""
    driver = nvidia_driver.ask()
    if driver.error is not None:
        return f"{driver.error}; {nvidia_driver.remedy(driver)}"
    found = wheels.misfit(driver)
    install = f"{wheels.advice(driver)}; or update the driver"
    remedy = f"for this driver (CUDA {driver.cuda}): {found.remedy if found is not None else install}"
    match error:
        case ImportError():  # CuPy wraps the reason in a page of advice
            return f"CuPy cannot be imported ({_first_line(error.__cause__ or error)}); {remedy}"
        case OSError():  # from 14.1 on, importing CuPy makes the folder for compiled kernels
            return f"CuPy cannot make its folder for compiled kernels ({_first_line(error)}); {_CACHE}"
    return f"CuPy finds no usable GPU ({_first_line(error)}); {remedy}"  # CUDARuntimeError


class Nvrtc(NamedTuple):
    """NVRTC: its version, and the file that it was loaded from, None where the system does not tell."""

    version: wheels.Version
    file: str | None

    def __str__(self) -> str:
        return ".".join(map(str, self.version)) + (f", {self.file}" if self.file else "")


def nvrtc() -> Nvrtc:
    """The NVRTC that CuPy compiles with. DeviceError without a usable GPU, and where CuPy loads none."""
    try:
        major, minor = require(0).cuda.nvrtc.getVersion()
    except DeviceError:
        raise
    except (RuntimeError, ImportError, OSError) as error:
        remedy = wheels.advice(nvidia_driver.ask())
        raise DeviceError(f"CuPy loads no NVRTC ({_first_line(error)}); it comes with CuPy's wheel: {remedy}") from error
    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        mapped = []
    files = (line.split(maxsplit=5)[-1] for line in mapped if "libnvrtc.so" in line)
    return Nvrtc((int(major), int(minor)), next(files, None))


def multiprocessor_count(device: int) -> int:
    """Of a GPU."""
    runtime = require(device).cuda.runtime
    return int(runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, device))


def shared_limit(device: int) -> int:
    """Bytes of shared memory that a GPU allows a block whose kernel asks for more than every block may have."""
    runtime = require(device).cuda.runtime
    return int(runtime.deviceGetAttribute(runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin, device))


_REFUSED = re.compile(r"CUDA_ERROR_\w*(PTX|IMAGE|BINARY)")
"""The driver's errors about what NVRTC has made: CUDA_ERROR_UNSUPPORTED_PTX_VERSION, _INVALID_IMAGE, _NO_BINARY_FOR_GPU, …"""
_CAPTURING = re.compile("stream_?capture|stream is capturing|graph is captured", re.IGNORECASE)
"""In errors about what a capture does not allow, of the driver, of the runtime, of CuPy, and of this package."""
_BEFORE_A_CAPTURE = (
    "the first call for arrays of such types and layouts loads what it needs: make it, or prepare, before the capture"
)


@contextmanager
def preparing() -> Iterator[None]:
    """DeviceError for what cannot be prepared because a graph is captured."""
    try:
        yield
    except DeviceError:
        raise
    except RuntimeError as error:
        if not _CAPTURING.search(str(error)):
            raise
        raise DeviceError(f"a call cannot be prepared now ({_first_line(error)}); {_BEFORE_A_CAPTURE}") from error


def refuse_waiting(error: RuntimeError, remedy: str) -> None:
    """DeviceError where CUDA's error is that nothing waits while a graph is captured."""
    if _CAPTURING.search(str(error)):
        raise DeviceError(
            f"a graph is captured, and nothing waits for the GPU meanwhile ({_first_line(error)}); {remedy}"
        ) from error


def _failed(name: str, device: int, error: Exception) -> str:
    """Why there is no kernel of that name on a GPU, and what to do."""
    reason, driver = _first_line(error), nvidia_driver.ask()
    where = f"the kernel {name} cannot be compiled or loaded on cuda:{device} ({reason})"
    if isinstance(error, require(device).cuda.compiler.CompileException):
        text = f"NVRTC rejects the kernel {name} for cuda:{device}: {reason}"
        if "--gpu-architecture" not in reason or (found := wheels.misfit(driver, nvrtc().version, device)) is None:
            return text
        return f"{text}; {found.what}: {found.remedy}"
    if _CAPTURING.search(reason):
        return f"{where}; {_BEFORE_A_CAPTURE}"
    if isinstance(error, OSError) and error.filename is not None:  # a file; a library that does not load has no name
        return f"{where}; {_CACHE}"
    if "nvrtc" in reason:
        return f"{where}; NVRTC comes with CuPy's wheel: {wheels.advice(driver, device)}"
    if _REFUSED.search(reason):
        loaded = nvrtc()
        found = wheels.misfit(driver, loaded.version, device)
        remedy = "update the driver" if found is None else found.remedy
        return f"{where}, which NVRTC {loaded} made for a driver of CUDA {driver.cuda}; {remedy}"
    return where


@functools.cache
def _compiled(variant: Variant, device: int) -> Any:
    cupy = require(device)
    with cupy.cuda.Device(device):
        try:
            kernel = cupy.RawModule(code=kernel_source(variant), options=OPTIONS).get_function(variant.name)
            # A lazily loaded kernel would load at its first launch, where a stream that is being captured forbids it.
            _ = kernel.num_regs
            if variant.opts_in:
                kernel.max_dynamic_shared_size_bytes = shared_limit(device)
        except (cupy.cuda.compiler.CompileException, RuntimeError, ImportError, OSError) as error:
            raise DeviceError(_failed(variant.name, device, error)) from error
    return kernel


def kernel(variant: Variant, device: int) -> Any:
    """The compiled kernel (a cupy.RawKernel), kept per device here, and on disk in CuPy's kernel cache."""
    with _compiling:
        return _compiled(variant, device)


class DeviceMemory:
    """Bytes on a device, outside of memory pools, so that freeing them waits for kernels that read them."""

    def __init__(self, content: bytes, device: int) -> None:
        cupy = require(device)
        runtime = cupy.cuda.runtime
        with cupy.cuda.Device(device):
            self._memory = cupy.cuda.Memory(len(content))
            self.pointer = int(self._memory.ptr)
            host = ctypes.create_string_buffer(content, len(content))
            runtime.memcpy(self.pointer, ctypes.addressof(host), len(content), runtime.memcpyHostToDevice)
            runtime.streamSynchronize(0)  # a copy of few bytes may return before it has arrived


def read_bytes(pointer: int, count: int, device: int, stream: int | None = None) -> bytes:
    """Bytes at a device address once everything on `stream` (None: the whole device) has run."""
    cupy = require(device)
    runtime = cupy.cuda.runtime
    host = ctypes.create_string_buffer(count)
    with cupy.cuda.Device(device):
        if stream is None:
            runtime.deviceSynchronize()
            runtime.memcpy(ctypes.addressof(host), pointer, count, runtime.memcpyDeviceToHost)
        else:
            runtime.memcpyAsync(ctypes.addressof(host), pointer, count, runtime.memcpyDeviceToHost, stream)
            runtime.streamSynchronize(stream)
    return host.raw


def read_element(pointer: int, dtype: DTypeLike, device: int) -> Any:
    """The element of `dtype` at a device address."""
    kind = np.dtype(dtype)
    return np.frombuffer(read_bytes(pointer, kind.itemsize, device), kind)[0]


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
