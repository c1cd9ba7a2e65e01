"""Arrays of CuPy for tests with the marker gpu. They run on a GPU (ci/gpu) and on the simulated GPU (ci/heavy gpu)."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmlgather.backends.cuda import driver

ROOT = Path(__file__).parents[1]

as_late_as_allowed = pytest.mark.skipif(
    os.environ.get("SIMCUDA_LATE") != "1", reason="shows what is too early only where all else is late: SIMCUDA_LATE=1"
)
"""Marks a test of a fault that a GPU would show only by chance."""
simulated = pytest.mark.skipif(
    "SIMCUDA_LATE" not in os.environ, reason="needs a GPU that can be told what to be: the simulated one"
)
"""Marks a test that sets properties of the GPU."""

SECOND = pytest.param("cuda:1", marks=pytest.mark.gpu(devices=2))
"""The second GPU, for parametrised tests."""
NUMBERS = [np.dtype(kind) for kind in "?bhilBHILefdFD"] + [np.dtype(ml_dtypes.bfloat16)]
"""Element types of every supported CuPy."""


class CoreStream:
    """A stream that has only the protocol of `cuda.core`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._stream.ptr


def late() -> bool:
    """Return True if the simulated GPU works as late as CUDA allows."""
    return os.environ.get("SIMCUDA_LATE") == "1"


@contextmanager
def same_streams() -> Iterator[None]:
    """Assert that the block does not change the current GPU and CuPy's current streams."""
    cuda = driver.require(0).cuda
    count = cuda.runtime.getDeviceCount()

    def now() -> list[int]:
        return [cuda.runtime.getDevice(), *(cuda.get_current_stream(number).ptr for number in range(count))]

    before = now()
    yield
    assert now() == before


def placed(array: np.ndarray[Any, Any], number: int = 0) -> Any:
    """Return a copy on GPU `number` with the same strides and the same address modulo 16."""
    cupy = driver.require(number)
    low, high = np.lib.array_utils.byte_bounds(array)
    size = high - low if array.size else 0
    with cupy.cuda.Device(number):
        room = cupy.empty(size + 16, np.uint8)
        start = (low - room.data.ptr) % 16
        if size:
            room[start : start + size] = cupy.asarray(np.frombuffer(ctypes.string_at(low, size), np.uint8))
        first = room.data + start + (array.ctypes.data - low if size else 0)
        return cupy.ndarray(array.shape, array.dtype, memptr=first, strides=array.strides)


def host(found: Any) -> np.ndarray[Any, Any]:
    """Return a result of any device as a NumPy array."""
    array: np.ndarray[Any, Any] = found if isinstance(found, np.ndarray) else found.get()
    return array


@contextmanager
def nothing_new(*, results: bool = False) -> Iterator[None]:
    """Fail if the block compiles a kernel or allocates memory. `results`: allow allocations in CuPy's pool."""
    cupy = driver.require(0)

    def refuse(*arguments: Any, **named: Any) -> Any:
        pytest.fail(f"compiled or allocated: {arguments} {named}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cupy.cuda, "Memory", refuse)
        patch.setattr(cupy, "RawModule", refuse)
        with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc if results else refuse):
            yield


def modules() -> Iterator[Path]:
    """Yield the modules with GPU tests. A module that needs a missing package is skipped and named on standard error."""
    for path in sorted(ROOT.glob("tests/**/test_*.py")):
        if re.search(r"mark\.gpu\b|CallsContract", path.read_text(encoding="utf-8")):  # whose tests a dialect's module inherits
            name = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            try:
                importlib.import_module(name)
            except ImportError as error:
                print(f"{name} is left out: {error}", file=sys.stderr)
            else:
                yield path.relative_to(ROOT)


if __name__ == "__main__":
    print(*modules(), sep="\n")
