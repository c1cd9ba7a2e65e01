"""A plan prepared for a device: preparing checks, compiles and allocates; running only launches."""

from __future__ import annotations

import copy
import ctypes
import threading
import weakref
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from dmlgather.backends.cuda.arguments import CONSTANTS, CONSTANTS_OFFSET, POINTERS
from dmlgather.backends.cuda.bad_words import NOTHING_BAD, BadWord, BadWords
from dmlgather.backends.cuda.describe import describe_launches
from dmlgather.backends.cuda.driver import (
    DeviceMemory,
    kernel,
    multiprocessor_count,
    preparing,
    read_bytes,
    require,
    shared_limit,
)
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import Launch
from dmlgather.backends.devices import Device, refuse_stream
from dmlgather.plan import IndexPlan, OutOfBounds


class CudaProgram:
    """A plan on GPU number `device`, for pointers that are multiples of `alignment` bytes. Threads may share it.

    multiprocessors: for tests, plan as if the GPU had so many; with 0, threads walk and rows are staged in the smallest plans.

    Preparing it raises DeviceError without a usable GPU, and ValueError for a plan that the kernels do not take.
    """

    @preparing()
    def __init__(self, plan: IndexPlan, device: int, alignment: int = 16, *, multiprocessors: int | None = None) -> None:
        cupy = require(device)
        self.device = device
        self._cuda, self._runtime, self._driver = cupy.cuda, cupy.cuda.runtime, cupy.cuda.driver
        self._on_device, self.current_device = cupy.cuda.Device, self._runtime.getDevice
        if multiprocessors is None:
            multiprocessors = multiprocessor_count(device)
        self.launches = launches_for(plan, alignment, multiprocessors, shared_limit(device))
        self._kernels = [kernel(launch.variant, device) for launch in self.launches]
        with self._on_device(device):
            self._functions = [int(compiled.kernel.ptr) for compiled in self._kernels]
        self._tables = [DeviceMemory(launch.table, device) if launch.table else None for launch in self.launches]
        self._words = BadWords(device) if plan.out_of_bounds is OutOfBounds.RAISE else None
        self._blocks = threading.local()
        with self.enter_device():
            self._thread_blocks()

    @property
    def reports(self) -> bool:
        """Whether launches note bad indices: under RAISE."""
        return self._words is not None

    def current_stream(self) -> int:
        """The address of CuPy's current stream of the device, in this thread."""
        pointer: int = self._cuda.get_current_stream(self.device).ptr
        return pointer

    def launch(self, input_pointer: int, index_pointer: int, output_pointer: int, stream: int) -> BadWord | None:
        """Run on the stream with that address: no sync, no allocation, so that a CUDA graph can capture it.

        index_pointer: a multiple of the index type's size, 0 without lookups. Under RAISE, returns what `bad_at` reads.
        """
        blocks = getattr(self._blocks, "of_thread", None)
        if blocks is None or self.current_device() != self.device:
            with self.enter_device():
                return self._launch(self._thread_blocks(), input_pointer, index_pointer, output_pointer, stream)
        return self._launch(blocks, input_pointer, index_pointer, output_pointer, stream)

    def _launch(self, blocks: list[_Block], data: int, indices: int, out: int, stream: int) -> BadWord | None:
        try:
            word = None if self._words is None else self._words.reset(stream)
            address = 0 if word is None else word.address
            for block in blocks:
                block.write(data if block.source is None else block.source, indices, out, address)
                block.launch(stream)
            if word is not None:
                word.launched(stream)
        except RuntimeError as error:
            refuse_stream(error, stream, Device("cuda", self.device))
            raise
        return word

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

    def reset_word(self, stream: int) -> BadWord | None:
        """Under RAISE, the stream's word, reset to "nothing bad" by a memset on the stream; else None."""
        return None if self._words is None else self._words.reset(stream)

    def first_bad(self, stream: int) -> int | None:
        """Under RAISE, `bad_at` of the last launch on `stream`. None also where its word went to another stream since."""
        word = None if self._words is None else self._words.of(stream)
        return None if word is None else self.bad_at(word, stream)

    def bad_at(self, word: BadWord, stream: int) -> int | None:
        """The smallest offset (elements of the index buffer) of a bad index in the last launch on `stream` that had this word;
        None when there was none. Waits for the stream.
        """
        found = read_bytes(word.address, len(NOTHING_BAD), self.device, stream)
        return None if found == NOTHING_BAD else int.from_bytes(found, "little")

    def reporting_alone(self) -> CudaProgram:
        """The same program with words of its own, so that its `first_bad` reports only on launches made through it."""
        if self._words is None:
            return self
        alone = copy.copy(self)
        alone._words = BadWords(self.device)
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
        self._blocks = weakref.WeakKeyDictionary[BadWord, list[_Block]]()
        self._silent = None if program.reports else self._written(0)
        self._last: tuple[BadWord | None, list[_Block]] = (None, [])

    def __call__(self, stream: int) -> BadWord | None:
        """Run on the stream with that address, as `CudaProgram.launch`."""
        program = self._program
        try:
            if program.current_device() != program.device or not _this_thread.has_context:
                with program.enter_device():
                    return self._launch(stream)
            return self._launch(stream)
        except RuntimeError as error:
            refuse_stream(error, stream, Device("cuda", program.device))
            raise

    def _launch(self, stream: int) -> BadWord | None:
        if self._silent is not None:
            for block in self._silent:
                block.launch(stream)
            return None
        word = self._program.reset_word(stream)
        assert word is not None, "a program that reports"
        last, blocks = self._last
        if word is not last:
            blocks = self._blocks.get(word) or self._written(word.address)
            self._blocks[word], self._last = blocks, (word, blocks)
        for block in blocks:
            block.launch(stream)
        word.launched(stream)
        return word

    def _written(self, word: int) -> list[_Block]:
        """Blocks that report to the word at this address."""
        blocks = self._program.blocks()
        data, indices, out = self._pointers
        for block in blocks:
            block.write(data if block.source is None else block.source, indices, out, word)
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

prepare = CudaProgram
"""A plan as the backends prepare one."""
