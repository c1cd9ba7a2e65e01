"""CudaProgram over a driver that is not one (host_driver.py): blocks, words, tables, threads, devices."""

from __future__ import annotations

import importlib.abc
import random
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dmlgather.backends import reference
from dmlgather.backends.cuda import DeviceError, driver, nvidia_driver, prepare, read_element, require
from dmlgather.backends.cuda.bad_words import WORDS, BadWord
from dmlgather.backends.cuda.nvidia_driver import Driver
from dmlgather.backends.cuda.program import CudaProgram
from dmlgather.backends.cuda.variants import Variant
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.selftest.random_plans import random_buffers, random_plan, unwritable_fill
from tests.at_once import at_once
from tests.kernels.host_driver import CompileException, HostDriver, installed


@pytest.fixture
def fake() -> Iterator[HostDriver]:
    with installed(HostDriver()) as stand_in:
        yield stand_in


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
        expected, untouched = buffers.out.copy(), buffers.out.copy()
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
            buffers.out[...] = untouched
        bound = program.bind(pointer(buffers.data), pointer(buffers.indices), pointer(buffers.out))
        for stream in (7, 8, 7):
            bound(stream)
            assert program.first_bad(stream) == bad
        assert fake.allocations == allocations, "nor does launching what is bound"
        assert fake.getDevice() == 0
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


MANY = range(100, 103 + 2 * WORDS)
"""Streams, more than have words at a time."""


def launched(program: CudaProgram, stream: int, bad: int) -> Any:
    """The word of a launch with a bad index at this offset."""
    data, indices, out = np.arange(5, dtype=np.int32), np.zeros(8, np.int64), np.zeros(8, np.int32)
    indices[bad:] = 77
    return program.launch(pointer(data), pointer(indices), pointer(out), stream)


def test_each_outcome_that_is_held_has_a_word_of_its_own(fake: HostDriver) -> None:
    program = prepare(raising(), 0)
    words = {stream: launched(program, stream, stream % 8) for stream in MANY}
    assert {stream: program.bad_at(word, stream) for stream, word in words.items()} == {stream: stream % 8 for stream in MANY}
    assert len({word.address for word in words.values()}) == len(MANY)
    assert {stream for stream in MANY if program.first_bad(stream) is not None} == {*MANY[-WORDS:]}


@pytest.mark.parametrize("bind", [False, True])
def test_any_number_of_streams_needs_few_words(fake: HostDriver, bind: bool) -> None:
    program = prepare(raising(), 0)
    data, indices, out = np.arange(5, dtype=np.int32), np.zeros(8, np.int64), np.zeros(8, np.int32)
    bound = program.bind(pointer(data), pointer(indices), pointer(out))
    before = fake.allocations
    for stream in range(100, 100 + 20 * WORDS):
        indices[5] = 77 * (stream % 2)
        if bind:
            bound(stream)
        else:
            program.launch(pointer(data), pointer(indices), pointer(out), stream)
        assert program.first_bad(stream) == (5 if stream % 2 else None)
    assert fake.allocations - before <= 1
    assert len(bound._blocks) <= WORDS
    assert not [entry for entry in fake.order if entry[0] == "synchronize"]


def test_a_word_serves_again_only_when_its_launch_has_run(fake: HostDriver) -> None:
    """Else a kernel of the other stream could still write it."""
    program = prepare(raising(), 0)
    fake.busy.update(MANY)
    addresses = [launched(program, stream, 0).address for stream in MANY]
    assert len({*addresses}) == len(MANY)
    fake.busy.clear()
    before = fake.allocations
    assert {*addresses} & {launched(program, stream, 0).address for stream in range(1000, 1000 + 4 * WORDS)}
    assert fake.allocations == before
    order = [entry for entry in fake.order if entry[-1] == MANY[0] or entry[1] == MANY[0]]
    assert [entry[0] for entry in order] == ["launch", "record"], "the event is behind the launch"


def test_a_word_that_a_graph_writes_serves_no_other_stream(fake: HostDriver) -> None:
    program = prepare(raising(), 0)
    fake.capturing.add(50)
    captured = launched(program, 50, 3).address
    fake.capturing.clear()
    assert captured not in {launched(program, stream, 0).address for stream in range(100, 100 + 8 * WORDS)}
    assert not [entry for entry in fake.order if entry[0] == "record" and entry[2] == 50], "a captured event is none to ask"


@pytest.mark.parametrize("broken", ["done", "pinned"])
def test_a_word_that_serves_too_early_is_noticed(fake: HostDriver, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "done":
        plain = fake.cuda.Event
        monkeypatch.setattr(fake.cuda, "Event", lambda **more: SimpleNamespace(ptr=plain(**more).ptr, done=True))
        test = test_a_word_serves_again_only_when_its_launch_has_run
    else:
        monkeypatch.setattr(BadWord, "launched", lambda self, stream: None)
        test = test_a_word_that_a_graph_writes_serves_no_other_stream
    with pytest.raises(AssertionError):
        test(fake)


def test_the_per_thread_stream_has_a_word_in_each_thread(fake: HostDriver) -> None:
    program = prepare(raising(), 0)
    data, out = np.arange(5, dtype=np.int32), np.zeros(8, np.int32)
    program.launch(pointer(data), pointer(np.full(8, 9)), pointer(out), 2)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(program.launch, pointer(data), pointer(np.zeros(8, np.int64)), pointer(out), 2).result()
        assert pool.submit(program.first_bad, 2).result() is None
    assert program.first_bad(2) == 0


def test_what_is_bound_reports_by_stream(fake: HostDriver) -> None:
    program = prepare(raising(), 0)
    data, indices, out = np.arange(5, dtype=np.int32), np.zeros(8, np.int64), np.zeros(8, np.int32)
    bound, other = (program.bind(pointer(data), pointer(indices), pointer(out)) for _ in range(2))
    indices[3] = 9
    bound(1)
    indices[...] = 4
    bound(2)
    assert (program.first_bad(1), program.first_bad(2)) == (3, None)
    assert (out == 4).all()
    indices[6] = -1
    other(2)
    assert (program.first_bad(1), program.first_bad(2)) == (3, 6)
    alone = program.reporting_alone()
    alone.bind(pointer(data), pointer(indices), pointer(out))(1)
    assert (program.first_bad(1), alone.first_bad(1)) == (3, 6)


def test_a_binding_keeps_what_it_was_given(fake: HostDriver) -> None:
    class Owner:
        pass

    owner = Owner()
    kept = weakref.ref(owner)
    bound = prepare(raising(), 0).bind(0, 0, 0, owner)
    del owner
    assert kept() is not None
    del bound
    assert kept() is None


def test_a_launch_finds_its_device_whatever_is_current(fake: HostDriver) -> None:
    data, indices, out = np.arange(5, dtype=np.int32), np.arange(8) % 5, np.zeros(8, np.int32)
    programs = [prepare(raising(), device) for device in (0, 1)]
    bound = [program.bind(pointer(data), pointer(indices), pointer(out)) for program in programs]

    def work(current: int) -> list[int]:
        fake.setDevice(current)
        before = len(fake.launched_on)
        for program, launch in zip(programs, bound, strict=True):
            program.launch(pointer(data), pointer(indices), pointer(out), 5)
            launch(5)
        assert fake.getDevice() == current
        return fake.launched_on[before:]

    for current in (0, 1):
        assert work(current) == [0, 0, 1, 1]
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(work, current).result() == [0, 0, 1, 1]


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

    assert all(at_once(work, range(8)))


def test_a_kernel_is_compiled_once_per_device(fake: HostDriver) -> None:
    for device in (0, 0, 1, 1):
        prepare(raising(), device)
    assert fake.compiled == 2


def test_read_element(fake: HostDriver) -> None:
    array = np.array([3, -(2**40)])
    assert read_element(pointer(array) + 8, np.int64, 0) == -(2**40)


NO_DRIVER = Driver(None, (), "there is no NVIDIA driver (libcuda.so.1 was not found)")


def has(monkeypatch: pytest.MonkeyPatch, found: Driver) -> None:
    """Let the machine have this driver."""
    monkeypatch.setattr(nvidia_driver, "ask", lambda: found)


@pytest.mark.parametrize(("cuda", "wheel"), [("13.1", "cuda13"), ("12.4", "cuda12")])
def test_a_missing_cupy_is_named_with_the_command_for_the_driver(
    cuda: str, wheel: str, no_cupy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    has(monkeypatch, Driver(cuda, (), None))
    words = rf"^CuPy cannot be imported \(.*\); for this driver \(CUDA {cuda}\): pip install 'cupy-{wheel}x\[ctk\]\S+' "
    with pytest.raises(DeviceError, match=words + rf"\(dmlgather's extra {wheel}\)"):
        require(0)


@pytest.mark.parametrize("wheel", [ModuleNotFoundError("cupy"), ImportError("libcublas"), PermissionError(13, "denied")])
def test_without_a_driver_nothing_else_is_named(wheel: OSError | ImportError, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "cupy":
                raise wheel

    monkeypatch.setattr(sys, "meta_path", [Failing(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    has(monkeypatch, NO_DRIVER)
    driver.require.cache_clear()
    with pytest.raises(
        DeviceError, match=r"^there is no NVIDIA driver \(libcuda.so.1 was not found\); install or update the driver"
    ) as raised:
        require(0)
    assert "pip" not in str(raised.value)
    assert "CuPy" not in str(raised.value)


def test_a_cupy_that_cannot_load_gives_its_reason(no_cupy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "cupy":
                raise ImportError("\n====\nadvice\n====\n") from ImportError("libcublas.so.13: cannot open")

    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    driver.require.cache_clear()
    with pytest.raises(DeviceError, match=r"^CuPy cannot be imported \(libcublas.so.13: cannot open\); for this driver"):
        require(0)


def test_a_cupy_that_cannot_keep_kernels_says_where_it_could(no_cupy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unwritable(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "cupy":
                raise PermissionError(13, "Permission denied", "/home/user/.cupy")

    monkeypatch.setattr(sys, "meta_path", [Unwritable(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    driver.require.cache_clear()
    with pytest.raises(DeviceError, match=r"compiled kernels \(.*denied: '/home/user/.cupy'\); set CUPY_CACHE_DIR to a folder"):
        require(0)


def test_a_missing_driver_is_named(fake: HostDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version")

    monkeypatch.setattr(fake, "getDeviceCount", no_driver)
    has(monkeypatch, NO_DRIVER)
    with pytest.raises(DeviceError, match=r"^there is no NVIDIA driver.*nvidia-driver"):
        CudaProgram(raising(), 0)
    has(monkeypatch, Driver("12.4", (), None))
    words = r"^CuPy finds no usable GPU \(cudaErrorInsuff.*for this driver \(CUDA 12.4\): pip.*cuda12x"
    with pytest.raises(DeviceError, match=words):
        CudaProgram(raising(), 0)


def test_a_device_that_does_not_exist_is_named(fake: HostDriver) -> None:
    with pytest.raises(DeviceError, match="there is no cuda:2: this machine has 2 GPUs"):
        require(2)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (CompileException("kernels.cu(3): error\nmore"), r"NVRTC rejects the kernel gather_\w+ for cuda:0: .*\(3\): error$"),
        (RuntimeError("CuPy failed to load libnvrtc.so.13"), r"libnvrtc.so.13\); NVRTC comes with CuPy's wheel: pip install"),
        (OSError("libnvrtc-builtins.so: file too short"), r"too short\); NVRTC comes with CuPy's wheel: pip install"),
        (
            OSError(30, "Read-only file system", "/root/.cupy"),
            r"'/root/.cupy'\); set CUPY_CACHE_DIR to a folder that can be written",
        ),
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


LONG_ROWS = IndexPlan(
    (3, 4096), (4096, 1), (12_288, 0), 4, 3 * 12_288, 3 * 4096, lookups=(Lookup((0, 1), 0, 12_288, 0, 1),),
    index_type=IndexType.INT64, index_extent=4096,
)  # fmt: skip
"""Rows of 48 KB: one, and the places of its columns, is more than a block has without asking."""


@pytest.mark.parametrize(
    ("allowed", "name"), [(227, "staged_e4_i8_long"), (64, "staged_e4_i8_long"), (48, "gather_d2_k1_e4_i8_")]
)
def test_long_rows_are_staged_where_the_device_allows_it(allowed: int, name: str, rng: random.Random) -> None:
    with installed(HostDriver(shared_limit=allowed * 1024)) as fake:
        program = prepare(LONG_ROWS, 0)
        assert [launch.variant.name.startswith(name) for launch in program.launches] == [True]
        buffers = random_buffers(LONG_ROWS, rng)
        expected = buffers.out.copy()
        reference.run(LONG_ROWS, buffers.data, buffers.indices, expected)
        out = np.zeros(buffers.out.size + 4, buffers.out.dtype)
        out = out[(-out.ctypes.data % 16) // 4 :][: buffers.out.size]
        data = np.zeros(buffers.data.size + 4, buffers.data.dtype)
        data = data[(-data.ctypes.data % 16) // 4 :][: buffers.data.size]
        data[:] = buffers.data
        program.launch(pointer(data), pointer(buffers.indices), pointer(out), 7)
        assert out.tobytes() == expected.tobytes()
        assert fake.launched_on == [0]


def test_a_device_that_refuses_what_it_said_it_allows(fake: HostDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "shared_limit", lambda _: fake.shared_limit + 1)
    with pytest.raises(DeviceError, match=r"staged_e4_i8_long cannot be compiled or loaded on cuda:0 \(CUDA_ERROR_INVALID_VALUE"):
        prepare(LONG_ROWS, 0)


def test_a_launch_that_asks_for_no_shared_memory_is_refused(fake: HostDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in refuses, as a device does, what the driver was not asked for."""
    monkeypatch.setattr(Variant, "opts_in", False)
    program = prepare(LONG_ROWS, 0)
    with pytest.raises(ValueError, match="no device launches staged_e4_i8_long"):
        program.launch(0, 0, 0, 7)
