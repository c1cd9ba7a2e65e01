"""A plan prepared for a GPU. The preparation compiles kernels and allocates memory. A run only launches."""

from __future__ import annotations

import copy
import ctypes
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeAlias

from dmlgather.backends.cuda.arguments import CONSTANTS, CONSTANTS_OFFSET, POINTERS
from dmlgather.backends.cuda.bad_words import NOTHING_BAD, BadWord, BadWords
from dmlgather.backends.cuda.describe import describe_launches
from dmlgather.backends.cuda.driver import (
    DeviceMemory,
    kernel,
    multiprocessor_count,
    preparing,
    read_bytes,
    refuse_waiting,
    require,
    shared_limit,
)
from dmlgather.backends.cuda.families import launches_for
from dmlgather.backends.cuda.launch import Launch
from dmlgather.backends.devices import Device, refuse_stream, stream_pointer
from dmlgather.plan import IndexPlan, OutOfBounds

_Launcher: TypeAlias = Callable[[int, int, int, int, int], None]
"""Function that launches a kernel for the addresses of input, indices, output, word and stream."""
_Bound: TypeAlias = Callable[..., BadWord | None]

_NOT_RAISING = (
    "a call that raises an IndexError waits: capture a call with out_of_bounds='clamp', 'promise' or a Fill, or a compiled "
    "operator, whose raise_if_bad reports a bad index after the graph has run"
)


class CudaProgram:
    """A plan prepared for GPU number `device`. It is thread-safe.

    Under RAISE, each stream has a *word*: 8 bytes of device memory that receive the smallest offset of a bad index.
    `alignment`: the alignment of the input and output pointers, in bytes.
    `multiprocessors`: the number of multiprocessors to plan for. Only tests pass it, in place of the GPU's number.

    Raises DeviceError if there is no usable GPU, and ValueError if no kernel can execute the plan.
    """

    @preparing()
    def __init__(self, plan: IndexPlan, device: int, alignment: int = 16, *, multiprocessors: int | None = None) -> None:
        cupy = require(device)
        self.device = device
        self._runtime, self._driver = cupy.cuda.runtime, cupy.cuda.driver
        self._on_device, self.current_device = cupy.cuda.Device, self._runtime.getDevice
        self.current_streams = cupy.cuda.get_current_stream
        if multiprocessors is None:
            multiprocessors = multiprocessor_count(device)
        self.launches = launches_for(plan, alignment, multiprocessors, shared_limit(device))
        self._kernels = [kernel(launch.variant, device) for launch in self.launches]
        with self._on_device(device):
            self._functions = [int(compiled.kernel.ptr) for compiled in self._kernels]
        self._tables = [DeviceMemory(launch.table, device) if launch.table else None for launch in self.launches]
        self.reports = plan.out_of_bounds is OutOfBounds.RAISE
        self._words = BadWords(device) if self.reports else None
        self.thread = threading.local()
        """Per thread: `launchers`, and `word`, the thread's own word."""
        with self.enter_device():
            self._thread_launchers()

    def current_stream(self) -> int:
        """Return the address of CuPy's current stream of the device."""
        return self.current_streams(self.device).ptr  # type: ignore[no-any-return]

    def launch(self, input_pointer: int, index_pointer: int, output_pointer: int, stream: int) -> BadWord | None:
        """Launch all kernels on the stream at this address. Under RAISE, return the stream's word.

        Nothing waits or allocates, so a CUDA graph can capture the launches. `index_pointer`: 0 without lookups.
        """
        launchers = getattr(self.thread, "launchers", None)
        if launchers is None or self.current_device() != self.device:
            with self.enter_device():
                return self._launch(self._thread_launchers(), input_pointer, index_pointer, output_pointer, stream)
        return self._launch(launchers, input_pointer, index_pointer, output_pointer, stream)

    def _launch(self, launchers: list[_Launcher], data: int, indices: int, out: int, stream: int) -> BadWord | None:
        try:
            word = self.reset_word(stream)
            address = 0 if word is None else word.address
            for launch in launchers:
                launch(data, indices, out, address, stream)
            if word is not None:
                word.launched(stream)
        except RuntimeError as error:
            refuse_stream(error, stream, Device("cuda", self.device))
            raise
        return word

    def first_bad_of(self, data: int, indices: int, out: int, stream: int) -> int | None:
        """Under RAISE, launch, wait for the stream, and return the smallest offset of a bad index, or None."""
        word: _OwnWord | None = getattr(self.thread, "word", None)
        if word is None or self.current_device() != self.device:
            with self.enter_device():
                return self._first_bad_of(word or _OwnWord(self.device), data, indices, out, stream)
        return self._first_bad_of(word, data, indices, out, stream)

    def _first_bad_of(self, word: _OwnWord, data: int, indices: int, out: int, stream: int) -> int | None:
        self.thread.word = None  # a word is not used again after a bad index or an error
        try:
            for launch in self._thread_launchers():
                launch(data, indices, out, word.address, stream)
            value = word.read(stream)
        except RuntimeError as error:
            refuse_stream(error, stream, Device("cuda", self.device))
            refuse_waiting(error, _NOT_RAISING)
            raise
        if value == NOTHING_BAD:
            self.thread.word = word
            return None
        return int.from_bytes(value, "little")

    def bind(self, input_pointer: int, index_pointer: int, output_pointer: int, keep: Any = None) -> _Bound:
        """Return a thread-safe function that launches the plan on these addresses. The function keeps `keep` alive.

        The argument of the returned function is a stream, its address, or None for CuPy's current stream. Under RAISE, only an
        address is allowed.
        """
        pointers = input_pointer, index_pointer, output_pointer
        if self.reports:
            return BoundLaunch(self, pointers, keep)
        blocks = self.written(pointers, 0)
        current_device, current_stream = self.current_device, self.current_streams
        device, launch_kernel = self.device, self._driver.launchKernel
        single = len(blocks) == 1
        function, grid, threads, shared, parameters = blocks[0].launch_arguments if single else (0,) * 5

        # A single launch on the current device calls no Python function.
        def run(stream: Any = None, _keep: Any = keep) -> None:
            if stream is None:
                stream = current_stream(device).ptr
            elif type(stream) is not int:
                stream = stream_pointer(stream, Device("cuda", device))
            try:
                if single and _this_thread.has_context and current_device() == device:
                    launch_kernel(function, grid, 1, 1, threads, 1, 1, shared, stream, parameters, 0)
                    return
                with self.enter_device():
                    for block in blocks:
                        block.launch(stream)
            except RuntimeError as error:
                refuse_stream(error, stream, Device("cuda", device))
                raise

        return run

    def written(self, pointers: tuple[int, int, int], word: int) -> list[_Block]:
        """Return a new argument block for each launch, with these addresses. `word`: the address of the word, or 0."""
        blocks = self.blocks()
        data, indices, out = pointers
        for block in blocks:
            block.write(data if block.source is None else block.source, indices, out, word)
        return blocks

    def enter_device(self) -> AbstractContextManager[Any]:
        """Return a context manager that makes the program's GPU current, so that this thread can launch there."""
        if not _this_thread.has_context:
            self._runtime.setDevice(self._runtime.getDevice())  # creates the CUDA context of a new thread
            _this_thread.has_context = True
        return self._on_device(self.device)  # type: ignore[no-any-return]

    def blocks(self) -> list[_Block]:
        """Return a new argument block for each launch, with null pointers."""
        return [
            _Block(launch, function, 0 if table is None else table.pointer, self._driver)
            for launch, function, table in zip(self.launches, self._functions, self._tables, strict=True)
        ]

    def reset_word(self, stream: int) -> BadWord | None:
        """Reset the stream's word by a memset on the stream, and return it. Returns None if the policy is not RAISE."""
        return None if self._words is None else self._words.reset(stream)

    def first_bad(self, stream: int) -> int | None:
        """Wait for `stream`. Return the smallest offset of a bad index in the last launch on it, or None.

        Returns None also if another stream has since received the stream's word, and if the policy is not RAISE.
        """
        word = None if self._words is None else self._words.of(stream)
        return None if word is None else self.bad_at(word, stream)

    def bad_at(self, word: BadWord, stream: int) -> int | None:
        """Wait for `stream`, and return the smallest offset of a bad index that `word` has received, or None."""
        try:
            value = read_bytes(word.address, len(NOTHING_BAD), self.device, stream)
        except RuntimeError as error:
            refuse_stream(error, stream, Device("cuda", self.device))
            refuse_waiting(error, "ask for a bad index after the graph has run")
            raise
        return None if value == NOTHING_BAD else int.from_bytes(value, "little")

    def with_own_words(self) -> CudaProgram:
        """Return a copy of the program that shares no word with other calls, so its words report only its own launches."""
        if self._words is None:
            return self
        alone = copy.copy(self)
        alone._words = BadWords(self.device)
        return alone

    def describe(self) -> str:
        """Return the text for `explain`: each launch, and the reason for its kernel."""
        return describe_launches(self.launches)

    def _thread_launchers(self) -> list[_Launcher]:
        """Return this thread's functions that launch the kernels.

        Each thread has its own argument blocks, because a launch writes addresses into them.
        """
        launchers: list[_Launcher] | None = getattr(self.thread, "launchers", None)
        if launchers is None:
            launchers = self.thread.launchers = [block.launcher() for block in self.blocks()]
        return launchers


class _OwnWord:
    def __init__(self, device: int) -> None:
        self._memory, self._host = DeviceMemory(NOTHING_BAD, device), ctypes.create_string_buffer(len(NOTHING_BAD))
        self.address, self._runtime = self._memory.pointer, require(device).cuda.runtime
        self._copy = ctypes.addressof(self._host), self.address, len(NOTHING_BAD), self._runtime.memcpyDeviceToHost

    def read(self, stream: int) -> bytes:
        """Wait for a stream of the current device, and return the word."""
        self._runtime.memcpyAsync(*self._copy, stream)
        self._runtime.streamSynchronize(stream)
        return self._host.raw


class BoundLaunch:
    """Function that launches a RAISE plan on fixed addresses. It prepares new argument blocks only for a new `BadWord`."""

    def __init__(self, program: CudaProgram, pointers: tuple[int, int, int], keep: Any) -> None:
        self._program, self._pointers, self._keep = program, pointers, keep
        self._blocks = weakref.WeakKeyDictionary[BadWord, list[_Block]]()
        self._last: tuple[BadWord | None, list[_Block]] = (None, [])

    def __call__(self, stream: int) -> BadWord:
        """Launch on the stream at this address."""
        program = self._program
        try:
            if program.current_device() != program.device or not _this_thread.has_context:
                with program.enter_device():
                    return self._launch(stream)
            return self._launch(stream)
        except RuntimeError as error:
            refuse_stream(error, stream, Device("cuda", program.device))
            raise

    def _launch(self, stream: int) -> BadWord:
        word = self._program.reset_word(stream)
        assert word is not None, "a program that reports"
        last, blocks = self._last
        if word is not last:
            blocks = self._blocks.get(word) or self._program.written(self._pointers, word.address)
            self._blocks[word], self._last = blocks, (word, blocks)
        for block in blocks:
            block.launch(stream)
        word.launched(stream)
        return word


class _Block:
    """The argument block of one kernel in host memory.

    `source`: the address of an input that is part of the launch's table; None if the caller passes the input.
    """

    def __init__(self, launch: Launch, function: int, table: int, driver: Any) -> None:
        self._launch_kernel = driver.launchKernel
        self._arguments = ctypes.create_string_buffer(launch.arguments, len(launch.arguments))
        CONSTANTS.pack_into(self._arguments, CONSTANTS_OFFSET, table)
        self.source = None if launch.input_in_table is None else table + launch.input_in_table
        self.write = partial(POINTERS.pack_into, self._arguments, 0)
        self._list = (ctypes.c_void_p * 1)(ctypes.addressof(self._arguments))
        self.launch_arguments = function, launch.grid, launch.block, launch.shared_bytes, ctypes.addressof(self._list)

    def launch(self, stream: int) -> None:
        """Launch the kernel. The driver copies the arguments before it returns."""
        function, grid, threads, shared, parameters = self.launch_arguments
        self._launch_kernel(function, grid, 1, 1, threads, 1, 1, shared, stream, parameters, 0)

    def launcher(self) -> _Launcher:
        """Return a function that stores addresses in this block and then launches the kernel.

        For speed, the returned function calls no Python function.
        """
        launch_kernel, write, source = self._launch_kernel, self.write, self.source
        function, grid, threads, shared, parameters = self.launch_arguments

        def launch(data: int, indices: int, out: int, word: int, stream: int, _keep: Any = self) -> None:
            write(data if source is None else source, indices, out, word)
            launch_kernel(function, grid, 1, 1, threads, 1, 1, shared, stream, parameters, 0)

        return launch


class _Thread(threading.local):
    has_context = False
    """True if the thread has a CUDA context, which it needs to launch."""


_this_thread = _Thread()

prepare = CudaProgram  # every backend has a function of this name
