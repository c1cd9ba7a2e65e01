"""Arrays of CuPy for the tests that are marked gpu, which run on a GPU (ci/gpu) and on the simulated one (ci/heavy gpu)."""

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
"""Marks a test whose fault a GPU, or another order, shows by chance alone."""
simulated = pytest.mark.skipif(
    "SIMCUDA_LATE" not in os.environ, reason="needs a GPU that can be told what to be: the simulated one"
)
"""Marks a test of GPUs of other kinds."""

SECOND = pytest.param("cuda:1", marks=pytest.mark.gpu(devices=2))
"""The device of a test that runs elsewhere as well."""
NUMBERS = [np.dtype(kind) for kind in "?bhilBHILefdFD"] + [np.dtype(ml_dtypes.bfloat16)]
"""Types of elements that every supported CuPy has."""


def late() -> bool:
    """Whether work is done as late as CUDA allows."""
    return os.environ.get("SIMCUDA_LATE") == "1"


@contextmanager
def same_streams() -> Iterator[None]:
    """What happens meanwhile leaves the current GPU, and CuPy's current streams, as they were."""
    cuda = driver.require(0).cuda
    count = cuda.runtime.getDeviceCount()

    def now() -> list[int]:
        return [cuda.runtime.getDevice(), *(cuda.get_current_stream(number).ptr for number in range(count))]

    before = now()
    yield
    assert now() == before


def placed(array: np.ndarray[Any, Any], number: int = 0) -> Any:
    """A copy on GPU `number`, in the order of its current stream, that lies there as `array` does here: strides, and the address
    modulo 16.
    """
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
    """A result as an array of NumPy, wherever it lies."""
    array: np.ndarray[Any, Any] = found if isinstance(found, np.ndarray) else found.get()
    return array


@contextmanager
def nothing_new(*, results: bool = False) -> Iterator[None]:
    """Meanwhile nothing is compiled, and no memory is allocated, neither in CuPy's pool (but for results) nor beside it."""
    cupy = driver.require(0)

    def refuse(*arguments: Any, **named: Any) -> Any:
        pytest.fail(f"something new is made: {arguments} {named}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cupy.cuda, "Memory", refuse)
        patch.setattr(cupy, "RawModule", refuse)
        with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc if results else refuse):
            yield


def modules() -> Iterator[Path]:
    """The modules that have such tests. Those that lack a package, such as JAX, are named on standard error and left out."""
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
