"""CudaProgram over a driver that is not one: device memory is host memory, and a launch runs the host-built kernel.

Shows what surrounds the kernels (blocks, words, tables, threads, devices), not that a GPU works; ci/gpu does that.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import random
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dmlgather.backends import reference
from dmlgather.backends.cuda import DeviceError, driver, prepare, read_element, require
from dmlgather.backends.cuda.program import WORDS, CudaProgram
from dmlgather.backends.cuda.variants import VARIANTS, Kind
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from tests.kernels import host
from tests.plans import random_buffers, random_plan, unwritable_fill

_SEQUENTIAL = {variant.name: variant.kind is not Kind.TRANSPOSE for variant in VARIANTS}


class HostDriver:
    """What `dmlgather.backends.cuda` uses of CuPy, over host memory. Keeps the current device per thread, as CUDA does."""

    memcpyHostToDevice, memcpyDeviceToHost = 1, 2  # noqa: N815 - CUDA's names
    cudaDevAttrMultiProcessorCount = 16  # noqa: N815

    def __init__(self, devices: int = 2) -> None:
        self.devices, self.allocations, self.compiled = devices, 0, 0
        self.launched_on: list[int] = []
        self._current = threading.local()
        self._kernels: dict[int, str] = {}
        self.lock = threading.Lock()
        compiler = SimpleNamespace(CompileException=CompileException)
        self.cuda = SimpleNamespace(runtime=self, driver=self, Device=self._device, Memory=self._memory, compiler=compiler)

    # cupy.cuda.runtime
    def getDeviceCount(self) -> int:  # noqa: N802
        return self.devices

    def getDevice(self) -> int:  # noqa: N802
        return int(getattr(self._current, "number", 0))

    def setDevice(self, number: int) -> None:  # noqa: N802
        self._current.number = number

    def deviceGetAttribute(self, attribute: int, device: int) -> int:  # noqa: N802
        assert (attribute, device < self.devices) == (self.cudaDevAttrMultiProcessorCount, True)
        return 0

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

    # cupy.cuda.driver: the parameters are an array of pointers to arguments
    def launchKernel(self, function: int, *numbers: int) -> None:  # noqa: N802
        grid, *ones, _shared, _stream, parameters, extra = numbers
        assert (ones, extra) == ([1, 1, 256, 1, 1], 0)
        block = ctypes.c_void_p.from_address(parameters).value
        library = host.library()
        with self.lock:  # the barrier launcher's shared memory is static
            self.launched_on.append(self.getDevice())
            start = library.host_launch if _SEQUENTIAL[self._kernels[function]] else library.host_launch_with_barrier
            start(ctypes.c_void_p(function), ctypes.c_uint(grid), ctypes.c_void_p(block))

    # cupy
    def RawModule(self, *, code: str, options: tuple[str, ...]) -> Any:  # noqa: N802
        assert options == ("-std=c++17",)

        def get_function(name: str) -> Any:
            assert name in code
            self.compiled += 1
            pointer = ctypes.cast(host.library()[name], ctypes.c_void_p).value
            assert pointer is not None
            self._kernels[pointer] = name
            return SimpleNamespace(num_regs=32, kernel=SimpleNamespace(ptr=pointer))

        return SimpleNamespace(get_function=get_function)

    def _memory(self, size: int) -> Any:
        self.allocations += 1
        content = np.full(size + 32, 0xCD, np.uint8)
        return SimpleNamespace(ptr=int(content.ctypes.data + -content.ctypes.data % 16), content=content)

    def _device(self, number: int) -> Any:
        outer = self

        class Current:
            def __enter__(self) -> None:
                self.before = outer.getDevice()
                outer.setDevice(number)

            def __exit__(self, *_: object) -> None:
                outer.setDevice(self.before)

        return Current()


class CompileException(Exception):  # noqa: N818 - CuPy's name
    """Stands in for cupy.cuda.compiler.CompileException."""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostDriver]:
    stand_in = HostDriver()
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    driver.require.cache_clear()
    driver._compiled.cache_clear()
    yield stand_in
    driver.require.cache_clear()
    driver._compiled.cache_clear()


def pointer(array: Any) -> int:
    return 0 if array is None else int(array.ctypes.data)


def raising(limit: int = 5) -> IndexPlan:
    return IndexPlan(
        (8,), (1,), (0,), 4, limit, 8, lookups=(Lookup((1,), 0, limit, 0, 1),), index_type=IndexType.INT64, index_extent=8,
        out_of_bounds=OutOfBounds.RAISE,
    )  # fmt: skip


def test_random_plans(fake: HostDriver) -> None:
    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, 2**64 - 1).map(random.Random))
    def run(rng: random.Random) -> None:
        plan = random_plan(rng)
        buffers = random_buffers(plan, rng)
        expected = buffers.out.copy()
        bad = reference.run(plan, buffers.data, buffers.indices, expected)
        alignment = next(width for width in (16, 8, 4, 2, 1) if not (pointer(buffers.data) | pointer(buffers.out)) % width)
        assume(not unwritable_fill(plan, alignment))
        program = prepare(plan, 1, alignment)
        allocations = fake.allocations
        program.launch(pointer(buffers.data), pointer(buffers.indices), pointer(buffers.out), 7)
        assert fake.allocations == allocations, "launching allocates nothing"
        assert fake.getDevice() == 0
        assert program.first_bad(7) == bad
        if bad is None:
            assert buffers.out.tobytes() == expected.tobytes()
        assert program.describe()

    run()
    assert set(fake.launched_on) == {1}


def test_raise_tells_about_the_last_launch_of_each_stream(fake: HostDriver) -> None:
    program = prepare(raising(), 0)
    data, out = np.arange(5, dtype=np.int32), np.zeros(8, np.int32)
    good, bad = np.zeros(8, np.int64), np.array([0, 1, 2, 9, 4, -1, 0, 0])
    program.launch(pointer(data), pointer(bad), pointer(out), 1)
    program.launch(pointer(data), pointer(good), pointer(out), 2)
    assert program.first_bad(1) == 3
    assert program.first_bad(1) == 3, "asking does not forget"
    assert program.first_bad(2) is None
    program.launch(pointer(data), pointer(good), pointer(out), 1)
    assert program.first_bad(1) is None


def test_more_streams_than_words_at_first(fake: HostDriver) -> None:
    program = prepare(raising(), 0)
    data, out = np.arange(5, dtype=np.int32), np.zeros(8, np.int32)
    for stream in range(2 * WORDS + 3):
        indices = np.zeros(8, np.int64)
        indices[stream % 8 :] = 77
        program.launch(pointer(data), pointer(indices), pointer(out), stream)
    assert [program.first_bad(stream) for stream in range(2 * WORDS + 3)] == [stream % 8 for stream in range(2 * WORDS + 3)]


def test_the_per_thread_stream_has_a_word_in_each_thread(fake: HostDriver) -> None:
    program = prepare(raising(), 0)
    data, out = np.arange(5, dtype=np.int32), np.zeros(8, np.int32)
    program.launch(pointer(data), pointer(np.full(8, 9)), pointer(out), 2)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(program.launch, pointer(data), pointer(np.zeros(8, np.int64)), pointer(out), 2).result()
        assert pool.submit(program.first_bad, 2).result() is None
    assert program.first_bad(2) == 0


def test_threads_share_a_program(fake: HostDriver) -> None:
    plan = IndexPlan(
        (64, 4), (4, 1), (0, 1), 4, 400, 256, lookups=(Lookup((1, 0), 0, 100, 0, 4),), index_type=IndexType.INT32, index_extent=64
    )
    program = prepare(plan, 1)
    base = np.empty(404 + 8, np.int32)
    data = base[(-base.ctypes.data % 16) // 4 :][:400]
    data[:] = np.arange(400)

    def work(number: int) -> bool:
        rng = np.random.default_rng(number)
        room = np.zeros(256 + 4, np.int32)
        out = room[(-room.ctypes.data % 16) // 4 :][:256]
        for _ in range(50):
            indices = rng.integers(0, 100, 64, dtype=np.int32)
            program.launch(pointer(data), pointer(indices), pointer(out), number)
            if not np.array_equal(out.reshape(64, 4), data.reshape(100, 4)[indices]):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_a_kernel_is_compiled_once_per_device(fake: HostDriver) -> None:
    for device in (0, 0, 1, 1):
        prepare(raising(), device)
    assert fake.compiled == 2


def test_read_element(fake: HostDriver) -> None:
    array = np.array([3, -(2**40)])
    assert read_element(pointer(array) + 8, np.int64, 0) == -(2**40)


def test_a_missing_cupy_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    driver.require.cache_clear()
    with pytest.raises(DeviceError, match=r"CuPy cannot be imported.*pip install 'dmlgather\[cuda13\]'"):
        require(0)


def test_a_cupy_that_cannot_load_gives_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "cupy":
                raise ImportError("\n====\nadvice\n====\n") from ImportError("libcublas.so.13: cannot open")

    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    driver.require.cache_clear()
    with pytest.raises(DeviceError, match=r"^CuPy cannot be imported \(libcublas.so.13: cannot open\); install it"):
        require(0)


def test_a_missing_driver_is_named(fake: HostDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version")

    monkeypatch.setattr(fake, "getDeviceCount", no_driver)
    with pytest.raises(DeviceError, match=r"no usable NVIDIA GPU or driver \(cudaErrorInsufficientDriver.*nvidia-driver"):
        CudaProgram(raising(), 0)


def test_a_device_that_does_not_exist_is_named(fake: HostDriver) -> None:
    with pytest.raises(DeviceError, match="there is no cuda:2: this machine has 2 GPUs"):
        require(2)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (CompileException("kernels.cu(3): error\nmore"), r"NVRTC rejects the kernel gather_\w+ for cuda:0: .*\(3\): error$"),
        (RuntimeError("CuPy failed to load libnvrtc.so.13"), r"libnvrtc.so.13\); NVRTC comes with the wheels: pip install"),
    ],
)
def test_a_failing_compiler_is_a_device_error(
    fake: HostDriver, monkeypatch: pytest.MonkeyPatch, failure: Exception, message: str
) -> None:
    def refuse(**_: object) -> Any:
        raise failure

    monkeypatch.setattr(fake, "RawModule", refuse)
    with pytest.raises(DeviceError, match=message):
        prepare(raising(), 0)
