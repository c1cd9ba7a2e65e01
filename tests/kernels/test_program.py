"""CudaProgram: words for bad indices, streams, threads, devices, shared memory, and errors for missing software."""

from __future__ import annotations

import importlib.abc
import random
import re
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dmlgather.backends import reference
from dmlgather.backends.cuda import DeviceError, driver, nvidia_driver, prepare, require
from dmlgather.backends.cuda import program as programs
from dmlgather.backends.cuda.bad_words import WORDS, BadWord
from dmlgather.backends.cuda.nvidia_driver import Driver
from dmlgather.backends.cuda.program import CudaProgram
from dmlgather.backends.cuda.variants import Variant
from dmlgather.plan import IndexPlan, IndexType, Lookup, OutOfBounds
from dmlgather.selftest.random_plans import random_buffers, random_plan, unwritable_fill
from tests.at_once import at_once
from tests.gpus import as_late_as_allowed, nothing_new, placed
from tests.kernels.plans import columns_of, row_gather

try:
    import cupy
except ImportError:
    cupy = None


gpu = pytest.mark.gpu


def pointer(array: Any) -> int:
    return 0 if array is None else int(array.data.ptr)


def raising(limit: int = 5) -> IndexPlan:
    return IndexPlan(
        (8,), (1,), (0,), 4, limit, 8, lookups=(Lookup((1,), 0, limit, 0, 1),), index_type=IndexType.INT64, index_extent=8,
        out_of_bounds=OutOfBounds.RAISE,
    )  # fmt: skip


class Arrays:
    """The arrays of a launch of `raising()` on a GPU."""

    def __init__(self, number: int = 0) -> None:
        self.data, self.out = placed(np.arange(5, dtype=np.int32), number), placed(np.zeros(8, np.int32), number)
        self.indices = placed(np.zeros(8, np.int64), number)
        self.pointers = pointer(self.data), pointer(self.indices), pointer(self.out)

    def launched(self, program: CudaProgram, stream: int, bad: int | None) -> Any:
        """Launch with bad indices from offset `bad` on, and return the launch's word."""
        self.indices.fill(4)
        if bad is not None:
            self.indices[bad:] = 77
        cupy.cuda.get_current_stream().synchronize()
        return word_of(program, self, stream)


def word_of(program: CudaProgram, arrays: Arrays, stream: int) -> BadWord:
    word = program.launch(*arrays.pointers, stream)
    assert word is not None
    return word


@pytest.fixture
def forgotten() -> Iterator[None]:
    clearing = driver._compiled.cache_clear, driver.require.cache_clear, cupy.clear_memo
    for clear in clearing:
        clear()
    yield
    for clear in clearing:
        clear()


@pytest.mark.gpu(devices=2)
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**64 - 1).map(random.Random))
def test_random_plans_equal_the_reference_on_the_second_gpu(rng: random.Random) -> None:
    plan = random_plan(rng)
    buffers = random_buffers(plan, rng)
    expected = buffers.out.copy()
    bad = reference.run(plan, buffers.data, buffers.indices, expected)
    data, out = (placed(array.view(np.uint8), 1) for array in (buffers.data, buffers.out))  # CuPy has no void elements
    indices = None if buffers.indices is None else placed(buffers.indices, 1)
    untouched, pointers = placed(buffers.out.view(np.uint8), 1), (pointer(data), pointer(indices), pointer(out))
    alignment = next(width for width in (16, 8, 4, 2, 1) if not (pointers[0] | pointers[2]) % width)
    assume(not unwritable_fill(plan, alignment))
    program = prepare(plan, 1, alignment)
    bound = program.bind(*pointers)
    with cupy.cuda.Device(1):
        lanes = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    for launch, stream in ((partial(program.launch, *pointers), 0), (bound, 0), (bound, 1), (bound, 0)):
        with cupy.cuda.Device(1):
            cupy.copyto(out, untouched)
            cupy.cuda.Device(1).synchronize()
        with nothing_new():
            launch(lanes[stream].ptr)
        assert cupy.cuda.runtime.getDevice() == 0
        assert program.first_bad(lanes[stream].ptr) == bad
        lanes[stream].synchronize()
        assert bad is not None or out.get().tobytes() == expected.tobytes()
    assert program.describe()


@gpu
def test_first_bad_is_of_the_last_launch_of_a_stream() -> None:
    program, (one, other), held = prepare(raising(), 0), streams(2), [Arrays(), Arrays()]
    held[0].launched(program, one, 3)
    held[1].launched(program, other, None)
    assert program.first_bad(one) == 3
    assert program.first_bad(one) == 3, "asking does not forget"
    assert program.first_bad(other) is None
    held[0].launched(program, one, None)
    assert program.first_bad(one) is None


MANY = 3 + 2 * WORDS
"""More streams than words are kept for."""

OPEN: list[Any] = []
"""Streams that tests made. They are never destroyed, so each address belongs to one stream."""


def streams(count: int) -> list[int]:
    """Return the addresses of `count` new non-blocking streams."""
    OPEN.extend(cupy.cuda.Stream(non_blocking=True) for _ in range(count))
    return [stream.ptr for stream in OPEN[-count:]]


@gpu
def test_each_held_outcome_has_its_own_word() -> None:
    program, many = prepare(raising(), 0), streams(MANY)
    held = [Arrays() for _ in many]
    words = [each.launched(program, stream, number % 8) for number, (each, stream) in enumerate(zip(held, many, strict=True))]
    assert [program.bad_at(word, stream) for word, stream in zip(words, many, strict=True)] == [n % 8 for n in range(MANY)]
    assert len({word.address for word in words}) == MANY
    assert [stream for stream in many if program.first_bad(stream) is not None] == many[-WORDS:]


@pytest.fixture
def allocations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the size of each allocation outside CuPy's pool."""
    found, plain = list[int](), cupy.cuda.Memory

    def memory(size: int) -> Any:
        found.append(size)
        return plain(size)

    monkeypatch.setattr(cupy.cuda, "Memory", memory)
    return found


@gpu
@pytest.mark.parametrize("bind", [False, True])
def test_many_streams_need_few_words(allocations: list[int], bind: bool) -> None:
    program, held = prepare(raising(), 0), Arrays()
    bound = program.bind(*held.pointers)
    before = len(allocations)
    for number, stream in enumerate(streams(20 * WORDS)):
        held.indices[5] = 77 * (number % 2)
        cupy.cuda.get_current_stream().synchronize()
        if bind:
            bound(stream)
        else:
            program.launch(*held.pointers, stream)
        assert program.first_bad(stream) == (5 if number % 2 else None)
    assert len(allocations) - before <= 1
    assert len(bound._blocks) <= WORDS  # type: ignore[attr-defined] # of a program that reports


@gpu
@as_late_as_allowed
def test_a_word_is_reused_only_after_its_launch_has_run(allocations: list[int]) -> None:
    """Otherwise a kernel of the first stream could still write it. The host does not wait for the launch."""
    program, held = prepare(raising(), 0), Arrays()
    many = streams(MANY)
    addresses = [word_of(program, held, stream).address for stream in many]
    assert len({*addresses}) == len(many)
    cupy.cuda.Device(0).synchronize()
    before = len(allocations)
    assert {*addresses} & {word_of(program, held, stream).address for stream in streams(WORDS)}
    assert len(allocations) == before


@gpu
@as_late_as_allowed
def test_a_word_is_released_behind_its_launch() -> None:
    """Many calls poll its event meanwhile. If the word were released before the launch, the launch would write into the word of
    another stream.
    """
    program, (first,) = prepare(raising(), 0), streams(1)
    bad, good = Arrays(), Arrays()
    bad.launched(program, first, 2)
    good.indices.fill(4)
    cupy.cuda.get_current_stream().synchronize()
    many = streams(4 * WORDS)
    words = [word_of(program, good, stream) for stream in many]
    for stream in (*OPEN[-4 * WORDS :], OPEN[-4 * WORDS - 1]):
        stream.synchronize()
    assert [program.bad_at(word, stream) for word, stream in zip(words, many, strict=True)] == [None] * len(many)


@gpu
def test_a_word_of_a_graph_is_never_reused() -> None:
    program, held, (ptr,) = prepare(raising(), 0), Arrays(), streams(1)
    stream = OPEN[-1]
    with stream:
        stream.begin_capture()
        captured = word_of(program, held, ptr).address
        stream.end_capture()
    assert captured not in {word_of(program, held, each).address for each in streams(8 * WORDS)}


@gpu
@as_late_as_allowed
@pytest.mark.parametrize("broken", ["done", "early", "pinned"])
def test_a_word_that_is_reused_too_early_is_noticed(allocations: list[int], monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "done":
        plain = cupy.cuda.Event
        monkeypatch.setattr(cupy.cuda, "Event", lambda **more: SimpleNamespace(ptr=kept_event(plain(**more)).ptr, done=True))
        test: Any = partial(test_a_word_is_reused_only_after_its_launch_has_run, allocations)
    elif broken == "early":
        monkeypatch.setattr(BadWord, "launched", lambda word, stream: word._runtime.eventRecord(word._event.ptr, 0))
        test = test_a_word_is_released_behind_its_launch
    else:
        monkeypatch.setattr(BadWord, "launched", lambda self, stream: None)
        test = test_a_word_of_a_graph_is_never_reused
    with pytest.raises((AssertionError, RuntimeError)):
        test()


def kept_event(event: Any) -> Any:
    OPEN.append(event)
    return event


@gpu
def test_the_per_thread_stream_has_a_word_in_each_thread() -> None:
    program, held = prepare(raising(), 0), [Arrays(), Arrays()]
    held[0].launched(program, 2, 0)
    held[1].indices.fill(0)
    cupy.cuda.get_current_stream().synchronize()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(program.launch, *held[1].pointers, 2).result()
        assert pool.submit(program.first_bad, 2).result() is None
    assert program.first_bad(2) == 0


@gpu
def test_bound_launches_report_by_stream() -> None:
    program, (one, other), held = prepare(raising(), 0), streams(2), [Arrays() for _ in range(3)]
    bound = [program.bind(*each.pointers) for each in held]
    held[0].indices[3] = 9
    held[1].indices.fill(4)
    held[2].indices[6] = -1
    cupy.cuda.get_current_stream().synchronize()
    bound[0](one)
    bound[1](other)
    assert (program.first_bad(one), program.first_bad(other)) == (3, None)
    assert (held[1].out.get() == 4).all()
    bound[2](other)
    assert (program.first_bad(one), program.first_bad(other)) == (3, 6)
    alone = program.with_own_words()
    alone.bind(*held[2].pointers)(one)
    assert (program.first_bad(one), alone.first_bad(one)) == (3, 6)


@gpu
def test_a_binding_keeps_its_owner_alive() -> None:
    class Owner:
        pass

    owner = Owner()
    kept = weakref.ref(owner)
    bound = prepare(raising(), 0).bind(0, 0, 0, owner)
    del owner
    assert kept() is not None
    del bound
    assert kept() is None


@pytest.mark.gpu(devices=2)
def test_a_launch_runs_on_its_device_whatever_is_current() -> None:
    """A GPU cannot run the launch if it has no access to the other GPU's memory."""
    held = [Arrays(number) for number in (0, 1)]
    programs = [prepare(raising(), number) for number in (0, 1)]
    bound = [program.bind(*each.pointers) for program, each in zip(programs, held, strict=True)]

    def work(current: int) -> None:
        for program, launch, each in zip(programs, bound, held, strict=True):
            for run in (partial(program.launch, *each.pointers), launch):
                with each.out.device:
                    each.out.fill(7)
                    each.indices.fill(3)
                with cupy.cuda.Device(current):
                    run(0)
                    assert cupy.cuda.runtime.getDevice() == current
                assert (each.out.get() == 3).all()

    for current in (0, 1):
        work(current)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(work, current).result()


@gpu
def test_threads_share_a_program() -> None:
    program, data = prepare(row_gather(100, 64, 4, 4, IndexType.INT32), 0), np.arange(400, dtype=np.int32)

    def work(number: int) -> bool:
        rng = np.random.default_rng(number)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            held, out = placed(data), cupy.zeros(256, np.int32)
            for _ in range(50):
                indices = rng.integers(0, 100, 64, dtype=np.int32)
                there = cupy.asarray(indices)
                program.launch(pointer(held), pointer(there), pointer(out), stream.ptr)
                if not np.array_equal(out.get().reshape(64, 4), data.reshape(100, 4)[indices]):
                    return False
        return True

    assert all(at_once(work, range(8)))


@pytest.mark.gpu(devices=2)
def test_a_kernel_is_compiled_once_per_device(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, plain = list[int](), cupy.RawModule

    def module(**more: Any) -> Any:
        compiled.append(cupy.cuda.runtime.getDevice())
        return plain(**more)

    monkeypatch.setattr(cupy, "RawModule", module)
    for device in (0, 0, 1, 1):
        prepare(raising(), device)
    assert compiled == [0, 1]


NO_DRIVER = Driver(None, (), "there is no NVIDIA driver (libcuda.so.1 was not found)")


def set_driver(monkeypatch: pytest.MonkeyPatch, found: Driver) -> None:
    monkeypatch.setattr(nvidia_driver, "ask", lambda: found)


@pytest.mark.parametrize(("cuda", "wheel"), [("13.1", "cuda13"), ("12.4", "cuda12")])
def test_a_missing_cupy_is_named_with_the_command_for_the_driver(
    cuda: str, wheel: str, no_cupy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_driver(monkeypatch, Driver(cuda, (), None))
    words = rf"^CuPy cannot be imported \(.*\); for this driver \(CUDA {cuda}\): pip install 'cupy-{wheel}x\[ctk\]\S+' "
    with pytest.raises(DeviceError, match=words + rf"\(dmlgather's extra {wheel}\)"):
        require(0)


def refuse_cupy(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class Failing(importlib.abc.MetaPathFinder):
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "cupy":
                raise error

    monkeypatch.setattr(sys, "meta_path", [Failing(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    driver.require.cache_clear()


@pytest.mark.parametrize("error", [ModuleNotFoundError("cupy"), ImportError("libcublas"), PermissionError(13, "denied")])
def test_without_a_driver_the_error_names_the_driver_alone(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_cupy(monkeypatch, error)
    set_driver(monkeypatch, NO_DRIVER)
    remedy = re.escape(nvidia_driver.remedy(NO_DRIVER))  # tests/backends/test_driver_remedies.py checks its text
    with pytest.raises(DeviceError, match=rf"^there is no NVIDIA driver \(libcuda.so.1 was not found\); {remedy}$") as raised:
        require(0)
    assert "pip" not in str(raised.value)
    assert "CuPy" not in str(raised.value)


CAUSED = ImportError("\n====\nadvice\n====\n")
CAUSED.__cause__ = ImportError("libcublas.so.13: cannot open")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (CAUSED, r"^CuPy cannot be imported \(libcublas.so.13: cannot open\); for this driver"),
        (
            PermissionError(13, "Permission denied", "/home/user/.cupy"),
            r"compiled kernels \(.*denied: '/home/user/.cupy'\); set CUPY_CACHE_DIR to a folder",
        ),
    ],
)
def test_a_cupy_that_fails_to_load_is_named_with_the_reason(
    error: Exception, words: str, no_cupy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_cupy(monkeypatch, error)
    with pytest.raises(DeviceError, match=words):
        require(0)


@gpu
def test_a_missing_driver_is_named(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> int:
        raise RuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version")

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", no_driver)
    set_driver(monkeypatch, NO_DRIVER)
    with pytest.raises(DeviceError, match=r"^there is no NVIDIA driver.*; .*or run where there is a GPU"):
        CudaProgram(raising(), 0)
    set_driver(monkeypatch, Driver("12.4", (), None))
    words = r"^CuPy finds no usable GPU \(cudaErrorInsuff.*for this driver \(CUDA 12.4\): pip.*cuda12x"
    with pytest.raises(DeviceError, match=words):
        CudaProgram(raising(), 0)


@gpu
def test_a_device_that_does_not_exist_is_named() -> None:
    count = cupy.cuda.runtime.getDeviceCount()
    with pytest.raises(DeviceError, match=f"there is no cuda:{count}: this machine has {count} GPU"):
        require(count)


@gpu
@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ("kernels.cu(3): error\nmore", r"NVRTC rejects the kernel gather_\w+ for cuda:0: .*\(3\): error$"),
        (RuntimeError("CuPy failed to load libnvrtc.so.13"), r"libnvrtc.so.13\); NVRTC comes with CuPy's wheel: pip install"),
        (OSError("libnvrtc-builtins.so: file too short"), r"too short\); NVRTC comes with CuPy's wheel: pip install"),
        (
            OSError(30, "Read-only file system", "/root/.cupy"),
            r"'/root/.cupy'\); set CUPY_CACHE_DIR to a folder that can be written",
        ),
    ],
)
def test_a_failing_compiler_is_a_device_error(
    forgotten: None, monkeypatch: pytest.MonkeyPatch, failure: Exception | str, message: str
) -> None:
    """`failure`: an exception, or the text of an error of NVRTC."""

    def refuse(**_: object) -> Any:
        raise cupy.cuda.compiler.CompileException(failure, "", "", ()) if isinstance(failure, str) else failure

    monkeypatch.setattr(cupy, "RawModule", refuse)
    with pytest.raises(DeviceError, match=message):
        prepare(raising(), 0)


LONG_ROWS = columns_of(3, 12_288, 4096)
"""Rows of 48 KB: a row and the positions of its columns need more shared memory than a block has without opt-in."""


@gpu
@pytest.mark.parametrize(
    ("allowed", "name"), [(227, "staged_e4_i8_long"), (64, "staged_e4_i8_long"), (48, "gather_d2_k1_e4_i8_")]
)
def test_long_rows_are_staged_where_the_device_allows_it(
    forgotten: None, monkeypatch: pytest.MonkeyPatch, allowed: int, name: str, rng: random.Random
) -> None:
    for module in (driver, programs):
        monkeypatch.setattr(module, "shared_limit", lambda _: allowed * 1024)
    program = CudaProgram(LONG_ROWS, 0, multiprocessors=0)
    assert [launch.variant.name.startswith(name) for launch in program.launches] == [True]
    buffers = random_buffers(LONG_ROWS, rng)
    expected = buffers.out.copy()
    reference.run(LONG_ROWS, buffers.data, buffers.indices, expected)
    data, indices = cupy.asarray(buffers.data.view(np.uint8)), cupy.asarray(buffers.indices)
    out = cupy.zeros(buffers.out.size, np.int32)
    program.launch(pointer(data), pointer(indices), pointer(out), 0)
    assert out.get().tobytes() == expected.tobytes()


@gpu
def test_a_device_that_refuses_its_shared_limit_is_an_error(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = driver.shared_limit(0)
    monkeypatch.setattr(driver, "shared_limit", lambda _: limit + 1)
    with pytest.raises(DeviceError, match=r"staged_e4_i8_long cannot be compiled or loaded on cuda:0 \(CUDA_ERROR_INVALID_VALUE"):
        CudaProgram(LONG_ROWS, 0, multiprocessors=0)


@gpu
def test_a_launch_that_does_not_opt_in_to_shared_memory_fails(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Variant, "opts_in", False)
    program = CudaProgram(LONG_ROWS, 0, multiprocessors=0)
    with pytest.raises(RuntimeError, match="CUDA_ERROR_INVALID_VALUE"):
        program.launch(0, 0, 0, 0)
