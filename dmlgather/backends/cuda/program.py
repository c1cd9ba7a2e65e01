"""A plan prepared for a device: everything is checked, compiled and allocated once; running only launches."""

from __future__ import annotations

import copy
import ctypes
import threading

from dmlgather.backends.cuda.arguments import CONSTANTS, CONSTANTS_OFFSET, POINTERS
from dmlgather.backends.cuda.describe import describe_launches
from dmlgather.backends.cuda.driver import DeviceMemory, kernel, read_bytes, require
from dmlgather.backends.cuda.launch import Launch
from dmlgather.backends.cuda.launches import launches_for
from dmlgather.plan import IndexPlan, OutOfBounds

WORDS = 32
"""Streams that can have launches of one RAISE program in flight before another block of words is allocated."""
NOTHING_BAD = b"\xff" * 8
PER_THREAD_STREAM = 2
"""cudaStreamPerThread: one address, a stream for each thread."""


class CudaProgram:
    """A plan on one device, for pointers that are multiples of `alignment` bytes. Threads may share it.

    Preparing it raises DeviceError without a usable GPU, and ValueError for a plan that the kernels do not take.
    """

    def __init__(self, plan: IndexPlan, device: int, alignment: int = 16) -> None:
        cupy = require(device)
        self.device = device
        self._runtime, self._driver = cupy.cuda.runtime, cupy.cuda.driver
        self._on_device = cupy.cuda.Device
        multiprocessors = self._runtime.deviceGetAttribute(self._runtime.cudaDevAttrMultiProcessorCount, device)
        self.launches = launches_for(plan, alignment, multiprocessors)
        self._kernels = [kernel(launch.variant, device) for launch in self.launches]
        with self._on_device(device):
            self._functions = [int(compiled.kernel.ptr) for compiled in self._kernels]
        self._tables = [DeviceMemory(launch.table, device) if launch.table else None for launch in self.launches]
        self._words = _Words(device) if plan.out_of_bounds is OutOfBounds.RAISE else None
        self._blocks = threading.local()
        with self._on_device(device):
            self._thread_blocks()

    def launch(self, input_pointer: int, index_pointer: int, output_pointer: int, stream: int) -> None:
        """Run on the stream with that address: no sync, no allocation, so that a CUDA graph can capture it.

        index_pointer: a multiple of the index type's size, 0 without lookups. Under RAISE, `first_bad` tells about it.
        """
        if self._runtime.getDevice() == self.device:
            self._launch(input_pointer, index_pointer, output_pointer, stream)
        else:
            with self._on_device(self.device):
                self._launch(input_pointer, index_pointer, output_pointer, stream)

    def _launch(self, input_pointer: int, index_pointer: int, output_pointer: int, stream: int) -> None:
        word = 0
        if self._words is not None:
            word = self._words.of(stream)
            self._runtime.memsetAsync(word, NOTHING_BAD[0], len(NOTHING_BAD), stream)
        for block in self._thread_blocks():
            source = input_pointer if block.source is None else block.source
            POINTERS.pack_into(block.arguments, 0, source, index_pointer, output_pointer, word)
            self._driver.launchKernel(
                block.function, block.grid, 1, 1, block.threads, 1, 1, block.shared_bytes, stream, block.parameters_address, 0
            )

    def first_bad(self, stream: int) -> int | None:
        """Under RAISE, the smallest offset (elements of the index buffer) of a bad index in the last launch on `stream`;
        None when there was none. Waits for the stream.
        """
        if self._words is None:
            return None
        word = read_bytes(self._words.of(stream), len(NOTHING_BAD), self.device, stream)
        return None if word == NOTHING_BAD else int.from_bytes(word, "little")

    def reporting_alone(self) -> CudaProgram:
        """The same program, but its `first_bad` knows only launches made through it."""
        if self._words is None:
            return self
        alone = copy.copy(self)
        alone._words = _Words(self.device)
        return alone

    def describe(self) -> str:
        """The kernels, their launches, and what a thread does."""
        return describe_launches(self.launches)

    def _thread_blocks(self) -> list[_Block]:
        """This thread's argument blocks: a launch reads its block after another thread could have written it."""
        blocks: list[_Block] | None = getattr(self._blocks, "of_thread", None)
        if blocks is None:
            self._runtime.setDevice(self.device)  # a new thread has no context until then
            blocks = [
                _Block(launch, function, 0 if table is None else table.pointer)
                for launch, function, table in zip(self.launches, self._functions, self._tables, strict=True)
            ]
            self._blocks.of_thread = blocks
        return blocks


class _Block:
    """One launch's by-value argument block in host memory, and the parameter list that points at it."""

    def __init__(self, launch: Launch, function: int, table: int) -> None:
        self.function, self.grid, self.threads = function, launch.grid, launch.block
        self.shared_bytes = launch.shared_bytes
        self.arguments = ctypes.create_string_buffer(launch.arguments, len(launch.arguments))
        CONSTANTS.pack_into(self.arguments, CONSTANTS_OFFSET, table)
        self.source = None if launch.input_in_table is None else table + launch.input_in_table
        self._parameters = (ctypes.c_void_p * 1)(ctypes.addressof(self.arguments))
        self.parameters_address = ctypes.addressof(self._parameters)


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


def prepare(plan: IndexPlan, device: int, alignment: int = 16) -> CudaProgram:
    """`plan` compiled for GPU number `device` and pointers that are multiples of `alignment` bytes.

    Raises DeviceError without a usable GPU, and ValueError for a plan that the kernels do not take.
    """
    return CudaProgram(plan, device, alignment)
