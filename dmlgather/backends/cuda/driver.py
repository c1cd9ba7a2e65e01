"""What this backend uses of CuPy: finding a device, compiling kernels from their sources, device memory."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from dmlgather.backends.cuda import nvidia_driver
from dmlgather.backends.cuda.variants import Variant
from dmlgather.files import shipped
from dmlgather.package import installing

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
    """There is no usable GPU. The message says what is missing (driver, CuPy, NVRTC) and the command that installs it."""


@functools.cache
def require(device: int) -> Any:
    """The cupy module, for a machine that has GPU number `device`. DeviceError names what is missing."""
    try:
        import cupy

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
        return f"{driver.error}; {nvidia_driver.REMEDY}"
    wheel = f"for this driver (CUDA {driver.cuda}): {installing(driver.extra)}"
    match error:
        case ImportError():  # CuPy wraps the reason in a page of advice
            return f"CuPy cannot be imported ({_first_line(error.__cause__ or error)}); {wheel}"
        case OSError():  # from 14.1 on, importing CuPy makes the folder for compiled kernels
            return f"CuPy cannot make its folder for compiled kernels ({_first_line(error)}); {_CACHE}"
    return f"CuPy finds no usable GPU ({_first_line(error)}); {wheel}; or update the driver"  # CUDARuntimeError


def multiprocessor_count(device: int) -> int:
    """Of a GPU."""
    runtime = require(device).cuda.runtime
    return int(runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, device))


def shared_limit(device: int) -> int:
    """Bytes of shared memory that a GPU allows a block whose kernel asks for more than every block may have."""
    runtime = require(device).cuda.runtime
    return int(runtime.deviceGetAttribute(runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin, device))


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
        except cupy.cuda.compiler.CompileException as error:
            raise DeviceError(f"NVRTC rejects the kernel {variant.name} for cuda:{device}: {_first_line(error)}") from error
        except (RuntimeError, ImportError, OSError) as error:
            written = (
                isinstance(error, OSError) and error.filename is not None
            )  # a file; a library that does not load has no name
            remedy = _CACHE if written else f"NVRTC comes with CuPy's wheel: {installing(nvidia_driver.ask().extra)}"
            raise DeviceError(
                f"the kernel {variant.name} cannot be compiled or loaded on cuda:{device} ({_first_line(error)}); {remedy}"
            ) from error
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
