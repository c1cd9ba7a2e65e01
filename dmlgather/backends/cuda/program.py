"""A plan prepared for a device: preparing checks, compiles and allocates; running only launches."""

from __future__ import annotations

import copy
import ctypes
import threading
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from dmlgather.backends.cuda.arguments import CONSTANTS, CONSTANTS_OFFSET, POINTERS
from dmlgather.backends.cuda.describe import describe_launches
from dmlgather.backends.cuda.driver import DeviceMemory, kernel, read_bytes, require
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import Launch
from dmlgather.plan import IndexPlan, OutOfBounds

WORDS = 32
"""Words for streams that are allocated at a time, for one RAISE program."""
NOTHING_BAD = b"\xff" * 8
PER_THREAD_STREAM = 2
"""cudaStreamPerThread: one address, a stream for each thread."""


class CudaProgram:
    """A plan on GPU number `device`, for pointers that are multiples of `alignment` bytes. Threads may share it.

    multiprocessors: for tests, plan as if the GPU had so many; with 0, threads walk and rows are staged in the smallest plans.

    Preparing it raises DeviceError without a usable GPU, and ValueError for a plan that the kernels do not take.
    """

    def __init__(self, plan: IndexPlan, device: int, alignment: int = 16, *, multiprocessors: int | None = None) -> None:
        cupy = require(device)
        self.device = device
        self._cuda, self._runtime, self._driver = cupy.cuda, cupy.cuda.runtime, cupy.cuda.driver
        self._on_device, self.current_device = cupy.cuda.Device, self._runtime.getDevice
        if multiprocessors is None:
            multiprocessors = self._runtime.deviceGetAttribute(self._runtime.cudaDevAttrMultiProcessorCount, device)
        self.launches = launches_for(plan, alignment, multiprocessors)
        self._kernels = [kernel(launch.variant, device) for launch in self.launches]
        with self._on_device(device):
            self._functions = [int(compiled.kernel.ptr) for compiled in self._kernels]
        self._tables = [DeviceMemory(launch.table, device) if launch.table else None for launch in self.launches]
        self._words = _Words(device) if plan.out_of_bounds is OutOfBounds.RAISE else None
        self._blocks = threading.local()
        with self.enter_device():
            self._thread_blocks()

    def current_stream(self) -> int:
        """The address of CuPy's current stream of the device, in this thread."""
        pointer: int = self._cuda.get_current_stream(self.device).ptr
        return pointer

    def launch(self, input_pointer: int, index_pointer: int, output_pointer: int, stream: int) -> None:
        """Run on the stream with that address: no sync, no allocation, so that a CUDA graph can capture it.

        index_pointer: a multiple of the index type's size, 0 without lookups. Under RAISE, `first_bad` tells about it.
        """
        blocks = getattr(self._blocks, "of_thread", None)
        if blocks is None or self.current_device() != self.device:
            with self.enter_device():
                self._launch(self._thread_blocks(), input_pointer, index_pointer, output_pointer, stream)
        else:
            self._launch(blocks, input_pointer, index_pointer, output_pointer, stream)

    def _launch(self, blocks: list[_Block], data: int, indices: int, out: int, stream: int) -> None:
        word = 0 if self._words is None else self.reset_word(stream)
        for block in blocks:
            block.write(data if block.source is None else block.source, indices, out, word)
            block.launch(stream)

    def bind(self, input_pointer: int, index_pointer: int, output_pointer: int, keep: Any = None) -> BoundLaunch:
        """`launch` on these addresses, with the arguments written once. keep: kept alive as long as what is returned."""
        return BoundLaunch(self, (input_pointer, index_pointer, output_pointer), keep)

    def enter_device(self) -> AbstractContextManager[Any]:
        """A context in which this thread can launch."""
        if not _this_thread.has_context:
            self._runtime.setDevice(self._runtime.getDevice())  # without this, a new thread has no context
            _this_thread.has_context = True
        context: AbstractContextManager[Any] = self._on_device(self.device)
        return context

    def blocks(self) -> list[_Block]:
        """New argument blocks for all launches, without pointers."""
        return [
            _Block(launch, function, 0 if table is None else table.pointer, self._driver)
            for launch, function, table in zip(self.launches, self._functions, self._tables, strict=True)
        ]

    def reset_word(self, stream: int) -> int:
        """Under RAISE, the address of the stream's word, reset to "nothing bad" by a memset on the stream; else 0."""
        if self._words is None:
            return 0
        word = self._words.of(stream)
        self._runtime.memsetAsync(word, NOTHING_BAD[0], len(NOTHING_BAD), stream)
        return word

    def first_bad(self, stream: int) -> int | None:
        """Under RAISE, the smallest offset (elements of the index buffer) of a bad index in the last launch on `stream`;
        None when there was none. Waits for the stream.
        """
        if self._words is None:
            return None
        word = read_bytes(self._words.of(stream), len(NOTHING_BAD), self.device, stream)
        return None if word == NOTHING_BAD else int.from_bytes(word, "little")

    def reporting_alone(self) -> CudaProgram:
        """The same program with words of its own, so that its `first_bad` reports only on launches made through it."""
        if self._words is None:
            return self
        alone = copy.copy(self)
        alone._words = _Words(self.device)
        return alone

    def describe(self) -> str:
        """The kernels, their launches, and what a thread does."""
        return describe_launches(self.launches)

    def _thread_blocks(self) -> list[_Block]:
        """This thread's argument blocks. Each thread has its own, because it writes pointers to them before it launches."""
        blocks: list[_Block] | None = getattr(self._blocks, "of_thread", None)
        if blocks is None:
            blocks = self._blocks.of_thread = self.blocks()
        return blocks


class BoundLaunch:
    """A program's launches on fixed addresses. Threads may share it: arguments are not written once a launch may read them."""

    def __init__(self, program: CudaProgram, pointers: tuple[int, int, int], keep: Any) -> None:
        self._program, self._pointers, self._keep = program, pointers, keep
        self._blocks: dict[int, list[_Block]] = {}

    def __call__(self, stream: int) -> None:
        """Run on the stream with that address, as `CudaProgram.launch`."""
        program = self._program
        if program.current_device() != program.device or not _this_thread.has_context:
            with program.enter_device():
                self._launch(stream)
        else:
            self._launch(stream)

    def _launch(self, stream: int) -> None:
        word = self._program.reset_word(stream)
        for block in self._blocks.get(word) or self._written(word):
            block.launch(stream)

    def _written(self, word: int) -> list[_Block]:
        """Blocks that report to `word`."""
        blocks = self._program.blocks()
        data, indices, out = self._pointers
        for block in blocks:
            block.write(data if block.source is None else block.source, indices, out, word)
        self._blocks[word] = blocks
        return blocks


class _Block:
    """One launch's by-value argument block in host memory, and the parameter list that points at it.

    write: sets the addresses of the next launches (input, indices, output, word). source: address of the input inside the table,
    None to use the caller's input.
    """

    def __init__(self, launch: Launch, function: int, table: int, driver: Any) -> None:
        self._function, self._grid, self._threads, self._shared_bytes = function, launch.grid, launch.block, launch.shared_bytes
        self._launch_kernel = driver.launchKernel
        self._arguments = ctypes.create_string_buffer(launch.arguments, len(launch.arguments))
        CONSTANTS.pack_into(self._arguments, CONSTANTS_OFFSET, table)
        self.source = None if launch.input_in_table is None else table + launch.input_in_table
        self.write = partial(POINTERS.pack_into, self._arguments, 0)
        self._list = (ctypes.c_void_p * 1)(ctypes.addressof(self._arguments))
        self._parameters = ctypes.addressof(self._list)

    def launch(self, stream: int) -> None:
        """Launch with the present arguments, which the driver copies."""
        launch_kernel, shared = self._launch_kernel, self._shared_bytes
        launch_kernel(self._function, self._grid, 1, 1, self._threads, 1, 1, shared, stream, self._parameters, 0)


class _Thread(threading.local):
    """The state of a thread."""

    has_context = False
    """Whether the thread has a current context; from then on, the CUDA runtime keeps it in step with the current device."""


_this_thread = _Thread()


class _Words:
    """One word per stream for the smallest offset of a bad index."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._of: dict[tuple[int, int], int] = {}
        self._chunks: list[DeviceMemory] = []
        self._lock = threading.Lock()
        self._grow()

    def of(self, stream: int) -> int:
        """The address of the stream's word."""
        key = (stream, threading.get_ident() if stream == PER_THREAD_STREAM else 0)
        word = self._of.get(key)
        return self._claim(key) if word is None else word

    def _claim(self, key: tuple[int, int]) -> int:
        with self._lock:
            used = len(self._of)
            if used == WORDS * len(self._chunks):
                self._grow()
            return self._of.setdefault(key, self._chunks[used // WORDS].pointer + len(NOTHING_BAD) * (used % WORDS))

    def _grow(self) -> None:
        self._chunks.append(DeviceMemory(NOTHING_BAD * WORDS, self._device))
