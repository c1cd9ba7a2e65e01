"""Facts that NVIDIA's driver reports. Neither CuPy nor the CUDA toolkit is needed."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_OLDEST = 12  # oldest major version of CUDA that CuPy has wheels for
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR

_ROOT = Path("/")
_ELSEWHERE = "or run where there is a GPU; everything else works without one"
_UPDATE = "update the driver (`sudo apt install nvidia-driver-580` on Ubuntu, https://www.nvidia.com/drivers elsewhere)"
_HOST = "on a host that has the driver and the NVIDIA Container Toolkit"


@dataclass(frozen=True)
class _Container:
    """A container runtime: how to recognise it, and how to start a container with a GPU."""

    name: str
    start: str
    variable: str = ""
    files: tuple[str, ...] = ()
    group: str = ""


_CONTAINERS = (
    _Container(
        "Kubernetes",
        "request a GPU in its resources (`limits: {nvidia.com/gpu: 1}`), on a cluster that has NVIDIA's device plugin",
        variable="KUBERNETES_SERVICE_HOST",
        files=("var/run/secrets/kubernetes.io",),
        group="kubepods",
    ),
    _Container(
        "Podman",
        f"start it with `podman run --device nvidia.com/gpu=all`, {_HOST}",
        files=("run/.containerenv",),
        group="libpod",
    ),
    _Container(
        "Docker",
        f"start it with `docker run --gpus all`, {_HOST}",
        files=(".dockerenv",),
        group="docker[-/][0-9a-f]{12}",
    ),
)
"""Kubernetes comes first, because Podman or Docker may run its pods."""


@dataclass(frozen=True)
class NvidiaGpu:
    """A GPU as the driver describes it. `memory`: the size of its memory in bytes."""

    name: str
    compute_capability: str
    memory: int


@dataclass(frozen=True)
class Driver:
    """The installed NVIDIA driver. `cuda`: its newest CUDA version, such as "13.0". `error`: why no GPU can be used."""

    cuda: str | None
    gpus: tuple[NvidiaGpu, ...]
    error: str | None


def remedy(driver: Driver) -> str:
    """Return what the user can do about `driver.error`."""
    container = next((container for container in _CONTAINERS if _runs_in(container)), None)
    if driver.cuda is not None and int(driver.cuda.partition(".")[0]) < _OLDEST:
        return f"{_UPDATE}{', on the host of this container' if container else ''}, {_ELSEWHERE}"
    if container is None:
        return f"install or {_UPDATE}, {_ELSEWHERE}"
    return f"this process runs in a container of {container.name}: {container.start}; {_ELSEWHERE}"


def _runs_in(container: _Container) -> bool:
    if container.variable in os.environ or any((_ROOT / file).exists() for file in container.files):
        return True
    try:
        groups = (_ROOT / "proc/self/cgroup").read_text(encoding="ascii", errors="replace")
    except OSError:  # not Linux
        return False
    return re.search(container.group, groups) is not None


def ask() -> Driver:
    """Return a description of this machine's driver and GPUs."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return Driver(None, (), f"there is no NVIDIA driver ({_LIBRARY} was not found)")
    status = library.cuInit(0)
    version = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
    if status:
        return Driver(cuda, (), f"the NVIDIA driver finds no usable GPU (cuInit returned {status})")
    if version.value < _OLDEST * 1000:
        return Driver(cuda, (), f"the NVIDIA driver is too old: it has CUDA {cuda}, and CuPy needs {_OLDEST}.0")
    count = ctypes.c_int()
    library.cuDeviceGetCount(ctypes.byref(count))
    gpus = tuple(_gpu(library, number) for number in range(count.value))
    return Driver(cuda, gpus, None if gpus else "the NVIDIA driver lists no GPU")


def device_of(stream: int) -> int | None:
    """Return the number of the GPU that a stream belongs to, or None if the driver does not know the stream."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    context, popped, device = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    if library.cuStreamGetCtx(ctypes.c_void_p(stream), ctypes.byref(context)) or library.cuCtxPushCurrent_v2(context):
        return None
    status = library.cuCtxGetDevice(ctypes.byref(device))
    library.cuCtxPopCurrent_v2(ctypes.byref(popped))
    return None if status else device.value


def _gpu(library: ctypes.CDLL, number: int) -> NvidiaGpu:
    device, memory, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
    library.cuDeviceGet(ctypes.byref(device), number)
    library.cuDeviceGetName(name, len(name), device)
    library.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    capability = []
    for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR):
        value = ctypes.c_int()
        library.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        capability.append(str(value.value))
    return NvidiaGpu(name.value.decode(errors="replace"), ".".join(capability), memory.value)
