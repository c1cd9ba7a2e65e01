"""Every name of CuPy that dmlgather uses exists, and takes the arguments that dmlgather passes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dmlgather.backends.cuda.driver import OPTIONS
from dmlgather.backends.streams import _CudaStream
from dmlgather.dialects.index_graph import ELEMENTWISE
from tests.real_cupy.signatures import INSTANCES_ONLY, complaint, exists, find, parameters
from tests.real_cupy.uses import Use, uses

pytestmark = pytest.mark.cupy

EMPTY = 'extern "C" __global__ void empty() {}'

ANSWERED = {"cupy.cuda.runtime.driverGetVersion", "cupy.cuda.runtime.runtimeGetVersion"}
"""What needs no driver."""

NO_DRIVER = (
    r"cudaError(InsufficientDriver|NoDevice)|failed to load libcuda|CUDA_ERROR_(NOT_INITIALIZED|INVALID_CONTEXT|NO_DEVICE)"
)
"""What CuPy says where only the driver is missing, so that it has taken the arguments. ci/heavy cupy hides every GPU."""


@functools.cache
def found() -> list[Use]:
    return uses()


def test_every_name_exists() -> None:
    assert missing(found()) == {}


def test_the_arithmetic_of_graphs_exists(cupy: Any) -> None:
    """It is looked up by NumPy's names."""
    assert [function for function in ELEMENTWISE.values() if not callable(getattr(cupy, function.__name__, None))] == []


def missing(found: list[Use]) -> dict[str, set[str]]:
    """The names that CuPy lacks, and the places that use them."""
    places: dict[str, set[str]] = {}
    for use in found:
        if use.path not in INSTANCES_ONLY and not exists(use.path):
            places.setdefault(use.path, set()).add(use.place)
    return places


def test_a_renamed_function_is_named_with_its_places(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(cupy.cuda.runtime, "memsetAsync")
    monkeypatch.delattr(cupy.cuda, "Event")
    lacking = missing(uses())
    assert {*lacking} == {"cupy.cuda.runtime.memsetAsync", "cupy.cuda.Event", "cupy.cuda.Event.synchronize"}
    files = {place.partition(":")[0] for place in lacking["cupy.cuda.runtime.memsetAsync"]}
    assert files == {"dmlgather/backends/cuda/bad_words.py", "benchmarks/clocks.py"}


def test_every_call_passes_arguments_that_are_taken() -> None:
    refused = {}
    for use in found():
        if use.positional is not None:
            problem = complaint(use.path, [...] * use.positional, dict.fromkeys(use.keywords, ...))
            if problem is not None:
                refused[use.place] = problem
    assert refused == {}


def test_the_sources_are_read() -> None:
    """A reader that misses uses would find no fault: these are known."""
    calls = {(use.path, use.positional) for use in found()}
    assert calls >= {
        ("cupy.cuda.driver.launchKernel", 11), ("cupy.cuda.runtime.memsetAsync", 4), ("cupy.cuda.runtime.memcpyAsync", 5),
        ("cupy.RawModule", 0), ("cupy.RawModule.get_function", 1), ("cupy.cuda.Memory", 1), ("cupy.asarray", 1),
        ("cupy.cuda.Stream.from_external", 1), ("cupy.RawKernel.__call__", 3), ("cupy.cuda.Event.record", 1),
    }  # fmt: skip
    names = {use.path for use in found()}
    assert names >= {
        "cupy.RawKernel.num_regs", "cupy.RawKernel.max_dynamic_shared_size_bytes", "cupy.RawKernel.kernel",
        "cupy.cuda.runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin", "cupy.cuda.function.Function.ptr", "cupy.cuda.Stream.ptr",
        "cupy.cuda.compiler.CompileException", "cupy.cuda.runtime.memcpyDeviceToDevice", "cupy.ndarray", "cupy.ndarray.data",
    }  # fmt: skip
    assert len({use.path for use in found() if use.positional is not None}) > 40


def test_a_name_or_argument_that_cupy_lacks_is_found() -> None:
    with pytest.raises(AttributeError):
        find("cupy.cuda.runtime.memsetAsynchronously")
    launch = "cupy.cuda.driver.launchKernel"
    assert complaint(launch, [1] * 11, {}) is None
    assert "missing a required argument: 'extra'" in str(complaint(launch, [1] * 10, {}))
    assert "f is 1.0 of type float, and CuPy declares intptr_t" in str(complaint(launch, [1.0, *[1] * 10], {}))
    assert "grid_dim_x is -1 of type int" in str(complaint(launch, [1, -1, *[1] * 9], {}))
    assert "unexpected keyword argument 'opts'" in str(complaint("cupy.RawModule", [], {"code": "", "opts": ()}))
    assert "CuPy declares tuple" in str(complaint("cupy.RawModule", [], {"code": "", "options": ["-std=c++17"]}))
    assert [*parameters("cupy.cuda.Device").parameters] == ["device"]


def test_calls_of_the_runtime_and_the_driver_fail_only_for_lack_of_a_driver() -> None:
    """They take integers alone."""
    modules = ("cupy.cuda.runtime.", "cupy.cuda.driver.")
    calls = {(use.path, use.positional) for use in found() if use.positional is not None and use.path.startswith(modules)}
    assert len(calls) > 10
    for path, count in calls:
        function = find(path)
        if path not in ANSWERED:
            with pytest.raises(RuntimeError, match=NO_DRIVER):
                function(*[0] * count)
        with pytest.raises(TypeError):
            function(*[0] * (count + 1))


CALLS: dict[str, Callable[[Any], Any]] = {
    "Device": lambda cupy: cupy.cuda.Device(0).__enter__(),
    "Memory": lambda cupy: cupy.cuda.Memory(8),
    "get_current_stream": lambda cupy: cupy.cuda.get_current_stream(0).ptr,
    "Stream.from_external": lambda cupy: cupy.cuda.Stream.from_external(_CudaStream(77)).__enter__(),
    "Event": lambda cupy: cupy.cuda.Event(),
    "RawModule": lambda cupy: cupy.RawModule(code=EMPTY, options=OPTIONS).get_function("empty"),
    "RawKernel": lambda cupy: cupy.RawKernel(EMPTY, "empty")((1,), (256,), ()),
    "asarray": lambda cupy: cupy.asarray(np.zeros(3), blocking=True),
    "empty": lambda cupy: cupy.empty((3, 4), np.dtype(np.float32)),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_as_dmlgather_makes_them_fail_only_for_lack_of_a_driver(cupy: Any, name: str) -> None:
    with pytest.raises(RuntimeError, match=NO_DRIVER):
        CALLS[name](cupy)


def test_shared_memory_is_asked_for_by_an_attribute_that_can_be_set(cupy: Any) -> None:
    """CuPy asks the driver for it, for the kernel of the current device: without a driver, it fails as a compilation does."""
    kernel = cupy.RawKernel(EMPTY, "empty")
    with pytest.raises(RuntimeError, match=NO_DRIVER):
        kernel.max_dynamic_shared_size_bytes = 99 * 1024
    with pytest.raises(AttributeError):
        kernel.num_regs = 3


def test_a_stream_from_outside_keeps_its_address(cupy: Any) -> None:
    assert cupy.cuda.Stream.from_external(_CudaStream(77)).ptr == 77


def test_errors_are_of_the_classes_that_dmlgather_catches(cupy: Any) -> None:
    runtime = cupy.cuda.runtime
    with pytest.raises(RuntimeError) as raised:
        runtime.getDeviceCount()
    assert type(raised.value) is runtime.CUDARuntimeError
    assert issubclass(cupy.cuda.driver.CUDADriverError, RuntimeError)
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)
    refused = cupy.cuda.compiler.CompileException("kernels.cu(3): error\nmore", "source", "name", OPTIONS)
    assert str(refused).splitlines()[0] == "kernels.cu(3): error"
