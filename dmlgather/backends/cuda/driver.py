"""Functions that find a GPU, compile kernels, and read and write device memory, through CuPy."""

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
"""NVRTC's options, in addition to the architecture."""

_INCLUDE = re.compile(r'^#include "([^"]+)"\n', re.MULTILINE)
_ENTRY = re.compile(r"^[A-Z]+\((\w+)\b.*\)$")


def kernel_folder() -> Path:
    """Return the folder with the kernels' source files, in the installed wheel or else in the checkout."""
    return shipped("cuda_kernels")


@functools.cache
def unit_source(unit: str) -> str:
    """Return the text of a `.cu` file with its headers included. CuPy's cache uses this text as its key."""
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
    """Return a kernel's `.cu` file without the other kernels, so that only this kernel is compiled."""
    lines = unit_source(variant.unit).splitlines()
    kept = [line for line in lines if (entry := _ENTRY.match(line)) is None or entry[1] == variant.name]
    if variant.line not in kept:
        raise ValueError(f"{variant.unit} in {kernel_folder()} has no line {variant.line}")
    return "\n".join(kept) + "\n"


_CACHE = "set CUPY_CACHE_DIR to a folder that can be written"

_compiling = threading.Lock()


class DeviceError(RuntimeError):
    """Raised by a call that needs a GPU: no GPU can be used, or the call is not possible during a graph capture.

    The message has the cause (driver, CuPy, NVRTC) and the remedy.
    """


@functools.cache
def require(device: int) -> Any:
    """Return the module cupy. Raise DeviceError if there is no usable GPU number `device`."""
    try:
        import cupy

        if not hasattr(cupy, "cuda"):  # a namespace package, because an uninstalled package has left an empty folder
            del sys.modules["cupy"]
            raise ImportError("its files are gone")
        count = cupy.cuda.runtime.getDeviceCount()
    except (ImportError, OSError, RuntimeError) as error:
        raise DeviceError(_missing(error)) from None
    if device >= count:
        raise DeviceError(f"there is no cuda:{device}: this machine has {count} GPU{'s' * (count != 1)}, counted from cuda:0")
    return cupy


def _missing(error: ImportError | OSError | RuntimeError) -> str:
    driver = nvidia_driver.ask()
    if driver.error is not None:
        return f"{driver.error}; {nvidia_driver.remedy(driver)}"
    misfit = wheels.misfit(driver)
    install = f"{wheels.advice(driver)}; or update the driver"
    remedy = f"for this driver (CUDA {driver.cuda}): {misfit.remedy if misfit is not None else install}"
    match error:
        case ImportError():  # CuPy wraps the reason in a page of advice
            return f"CuPy cannot be imported ({_first_line(error.__cause__ or error)}); {remedy}"
        case OSError():  # from 14.1 on, importing CuPy creates the folder for compiled kernels
            return f"CuPy cannot make its folder for compiled kernels ({_first_line(error)}); {_CACHE}"
    return f"CuPy finds no usable GPU ({_first_line(error)}); {remedy}"  # CUDARuntimeError


class Nvrtc(NamedTuple):
    """The version and the file of the NVRTC library. `file`: None if the system does not list loaded libraries."""

    version: wheels.Version
    file: str | None

    def __str__(self) -> str:
        return ".".join(map(str, self.version)) + (f", {self.file}" if self.file else "")


def nvrtc() -> Nvrtc:
    """Return the NVRTC that CuPy compiles with. Raise DeviceError if there is none."""
    try:
        major, minor = require(0).cuda.nvrtc.getVersion()
    except DeviceError:
        raise
    except (RuntimeError, ImportError, OSError) as error:
        remedy = wheels.advice(nvidia_driver.ask())
        raise DeviceError(f"CuPy cannot load NVRTC ({_first_line(error)}), which comes with CuPy's wheel: {remedy}") from error
    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        mapped = []
    files = (line.split(maxsplit=5)[-1] for line in mapped if "libnvrtc.so" in line)
    return Nvrtc((int(major), int(minor)), next(files, None))


def multiprocessor_count(device: int) -> int:
    """Return the number of multiprocessors of a GPU."""
    runtime = require(device).cuda.runtime
    return int(runtime.deviceGetAttribute(runtime.cudaDevAttrMultiProcessorCount, device))


def shared_limit(device: int) -> int:
    """Return the maximum shared memory of a block in bytes, for a kernel that opts in to more than the default."""
    runtime = require(device).cuda.runtime
    return int(runtime.deviceGetAttribute(runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin, device))


_REFUSED = re.compile(r"CUDA_ERROR_\w*(PTX|IMAGE|BINARY)")
"""CUDA_ERROR_UNSUPPORTED_PTX_VERSION, _INVALID_IMAGE, …: errors about a kernel that NVRTC has compiled."""
_CAPTURING = re.compile("stream_?capture|stream is capturing|graph is captured", re.IGNORECASE)
_BEFORE_A_CAPTURE = (
    "the first call for arrays of such types and layouts compiles or loads kernels: make such a call, or call prepare, before "
    "the capture"
)


@contextmanager
def preparing() -> Iterator[None]:
    """In the body, replace CUDA's error about a graph capture by a DeviceError that names a remedy."""
    try:
        yield
    except DeviceError:
        raise
    except RuntimeError as error:
        if not _CAPTURING.search(str(error)):
            raise
        raise DeviceError(f"a call cannot be prepared now ({_first_line(error)}); {_BEFORE_A_CAPTURE}") from error


def refuse_waiting(error: RuntimeError, remedy: str) -> None:
    """Raise DeviceError if `error` says that a graph capture forbids waiting for the GPU."""
    if _CAPTURING.search(str(error)):
        raise DeviceError(
            f"waiting for the GPU is not possible while a graph is captured ({_first_line(error)}); {remedy}"
        ) from error


def _failed(name: str, device: int, error: Exception) -> str:
    reason, driver = _first_line(error), nvidia_driver.ask()
    where = f"the kernel {name} cannot be compiled or loaded on cuda:{device} ({reason})"
    if isinstance(error, require(device).cuda.compiler.CompileException):
        text = f"NVRTC rejects the kernel {name} for cuda:{device}: {reason}"
        if "--gpu-architecture" not in reason or (misfit := wheels.misfit(driver, nvrtc().version, device)) is None:
            return text
        return f"{text}; {misfit.what}: {misfit.remedy}"
    if _CAPTURING.search(reason):
        return f"{where}; {_BEFORE_A_CAPTURE}"
    if isinstance(error, OSError) and error.filename is not None:  # None: a library cannot be loaded
        return f"{where}; {_CACHE}"
    if "nvrtc" in reason:
        return f"{where}; NVRTC comes with CuPy's wheel: {wheels.advice(driver, device)}"
    if _REFUSED.search(reason):
        loaded = nvrtc()
        misfit = wheels.misfit(driver, loaded.version, device)
        remedy = "update the driver" if misfit is None else misfit.remedy
        return f"{where}, which NVRTC {loaded} made for a driver of CUDA {driver.cuda}; {remedy}"
    return where


@functools.cache
def _compiled(variant: Variant, device: int) -> Any:
    cupy = require(device)
    with cupy.cuda.Device(device):
        try:
            kernel = cupy.RawModule(code=kernel_source(variant), options=OPTIONS).get_function(variant.name)
            # Load the kernel now: loading it at its first launch would fail during a graph capture.
            _ = kernel.num_regs
            if variant.opts_in:
                kernel.max_dynamic_shared_size_bytes = shared_limit(device)
        except (cupy.cuda.compiler.CompileException, RuntimeError, ImportError, OSError) as error:
            raise DeviceError(_failed(variant.name, device, error)) from error
    return kernel


def kernel(variant: Variant, device: int) -> Any:
    """Return the compiled kernel (a cupy.RawKernel), from a cache if possible."""
    with _compiling:
        return _compiled(variant, device)


class DeviceMemory:
    """Device memory outside of any memory pool. Freeing it waits for the kernels that read it."""

    def __init__(self, content: bytes, device: int) -> None:
        cupy = require(device)
        runtime = cupy.cuda.runtime
        with cupy.cuda.Device(device):
            self._memory = cupy.cuda.Memory(len(content))
            self.pointer = int(self._memory.ptr)
            host = ctypes.create_string_buffer(content, len(content))
            runtime.memcpy(self.pointer, ctypes.addressof(host), len(content), runtime.memcpyHostToDevice)
            runtime.streamSynchronize(0)  # memcpy of few bytes may return before they are on the device


def read_bytes(pointer: int, count: int, device: int, stream: int | None = None) -> bytes:
    """Return `count` bytes at a device address.

    First waits for `stream`, or for all work on the device if `stream` is None.
    """
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
    """Wait for the device, and return the element at a device address."""
    kind = np.dtype(dtype)
    return np.frombuffer(read_bytes(pointer, kind.itemsize, device), kind)[0]


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
