"""Launches kernels in the interpreter. It takes buffers, and gives violations and counts."""

from __future__ import annotations

import ctypes
import itertools
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.kernels.ptx import structures

MOST_INSTRUCTIONS = 10**8
"""Instructions of one warp after which a kernel counts as endless."""
MOST_THREADS, SHARED_BYTES, MOST_SHARED = 1024, 48 * 1024, 227 * 1024
"""Threads of a block; bytes of shared memory, static and dynamic: without opt-in, and the most that devices allow."""
READABLE, WRITABLE, ATOMIC, DISCARDED = 1, 2, 4, 8

_ENTRY = re.compile(r"\.entry (\w+)")


class AssemblyError(Exception):
    """PTX that the interpreter does not support."""


class Violation(AssertionError):  # noqa: N818 - what a kernel did
    """A fault of a kernel, with its place. kind: the number of the fault."""

    def __init__(self, kind: int, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def pattern(addresses: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the bytes at `addresses` of a sparse buffer before they are stored."""
    return (addresses * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(56)).astype(np.uint8)


class Buffer:
    """Bytes at a device address, with a kernel's permissions. A launch may store each byte of a writable buffer once.

    data: uint8, one dimension; or None for a sparse buffer of `size` bytes, which contains `pattern` of its addresses.
    discarded: stores are checked but not kept. Bytes that are stored twice are not noticed.
    """

    def __init__(
        self,
        address: int,
        data: NDArray[np.uint8] | None,
        *,
        size: int = 0,
        readable: bool = False,
        writable: bool = False,
        atomic: bool = False,
        discarded: bool = False,
    ) -> None:
        self.address, self.data = address, data
        self.size = size if data is None else data.nbytes
        self.flags = READABLE * readable | WRITABLE * writable | ATOMIC * atomic | DISCARDED * discarded
        self.sparse = structures.library().ptx_sparse_new() if data is None else None
        self.stored = np.zeros(self.size if data is not None and writable else 0, np.uint8)

    def __del__(self) -> None:
        if getattr(self, "sparse", None):
            structures.library().ptx_sparse_delete(self.sparse)

    def write(self, offset: int, content: bytes) -> None:
        """Write bytes into a sparse buffer before a launch."""
        structures.library().ptx_sparse_write(self.sparse, self.address + offset, content, len(content))

    def read(self, offsets: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the bytes of a sparse buffer at `offsets`, and which of them the last launch stored."""
        addresses = np.ascontiguousarray(offsets.astype(np.uint64) + np.uint64(self.address))
        content, stored = np.empty(len(addresses), np.uint8), np.empty(len(addresses), np.uint8)
        arguments = (addresses.ctypes.data, len(addresses), content.ctypes.data, stored.ctypes.data)
        structures.library().ptx_sparse_read(self.sparse, *arguments)
        return content, stored

    def bytes_stored(self) -> int:
        return int(self.stored.sum()) if self.sparse is None else int(structures.library().ptx_sparse_stored(self.sparse))

    def begin(self) -> structures.Buffer:
        """Return the buffer's state before a launch."""
        if self.sparse is None:
            self.stored[:] = 0
        else:
            structures.library().ptx_sparse_forget_stores(self.sparse)
        data = None if self.data is None else self.data.ctypes.data
        return structures.Buffer(self.address, self.size, data, self.stored.ctypes.data, self.sparse, None, self.flags)

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass(slots=True)
class Traffic:
    """Accesses of one buffer. A request is one instruction of one warp.

    sectors, lines, bytes: distinct sectors (32 bytes), lines (128 bytes) and bytes of each request, summed. fetched: distinct
    sectors of each block, summed: the fetched sectors if a block's loads stay in its cache and blocks share no cache.
    distinct: distinct sectors of the launch (of the executed blocks).
    """

    requests: int = 0
    sectors: int = 0
    lines: int = 0
    bytes: int = 0
    fetched: int = 0
    distinct: int = 0


@dataclass(slots=True)
class Counts:
    """Counts of the executed blocks of a launch. loads and stores: for each buffer, in the given order.

    instructions: of warps; thread_instructions: of threads. shared_passes: passes through the banks of shared memory;
    shared_least: the number of passes without bank conflicts.
    """

    threads: int = 0
    warps: int = 0
    instructions: int = 0
    thread_instructions: int = 0
    shared_requests: int = 0
    shared_passes: int = 0
    shared_least: int = 0
    loads: list[Traffic] = field(default_factory=list)
    stores: list[Traffic] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of the PTX with its line of the CUDA source."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Routine:
    """An entry point. executed: for each instruction, the number of warps that have executed it for some thread. A branch need
    not be taken. static_shared: bytes.
    """

    name: str
    handle: int
    executed: NDArray[np.uint64]
    parameter_bytes: int
    static_shared: int

    @property
    def instructions(self) -> list[Instruction]:
        library, numbers = structures.library(), range(len(self.executed))
        return [
            Instruction(library.ptx_text(self.handle, each).decode(), library.ptx_line(self.handle, each)) for each in numbers
        ]


class Module:
    """PTX that is ready to launch. source: the CUDA source, for the lines of violations."""

    def __init__(self, text: str, source: str = "") -> None:
        self.text, self._lines = text, source.splitlines()
        self._program = 0
        self._routines: dict[str, Routine] = {}

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(_ENTRY.findall(self.text))

    def routine(self, name: str) -> Routine:
        """Return an entry point. Raises `AssemblyError` if the interpreter does not support the module's PTX."""
        if not self._program:
            error = ctypes.create_string_buffer(1000)
            self._program = structures.library().ptx_read(self.text.encode(), error, len(error))
            if not self._program:
                raise AssemblyError(error.value.decode())
            weakref.finalize(self, structures.library().ptx_forget, self._program)
        if name not in self._routines:
            facts = structures.library().ptx_kernel(self._program, name.encode())
            if not facts.kernel:
                raise KeyError(name)
            executed = np.ctypeslib.as_array(facts.executed, (facts.instructions,))
            self._routines[name] = Routine(name, facts.kernel, executed, facts.parameter_bytes, facts.static_shared)
        return self._routines[name]

    def executed(self, name: str) -> NDArray[np.uint64]:
        return self.routine(name).executed

    def launch(
        self,
        name: str,
        grid: int,
        arguments: bytes,
        buffers: Sequence[Buffer],
        *,
        block: int = 256,
        shared_bytes: int = 0,
        shared_limit: int = SHARED_BYTES,
        blocks: range | None = None,
        counts: bool = False,
    ) -> Counts | None:
        """Run the kernel over `buffers`. Raises `Violation`.

        arguments: the by-value parameter. shared_bytes: dynamic. shared_limit: the opted-in limit. blocks: a range without a
        step, or all by default. counts: count instructions and traffic.
        """
        routine, chosen = self.routine(name), range(grid) if blocks is None else blocks
        if len(arguments) != routine.parameter_bytes:
            raise ValueError(f"{name} takes {routine.parameter_bytes} bytes of parameters, not {len(arguments)}")
        shared = routine.static_shared + shared_bytes
        if not (0 < grid < 2**31 and 0 < block <= MOST_THREADS and shared <= min(shared_limit, MOST_SHARED)):
            raise ValueError(f"no device launches {name}: {grid} blocks, {block} threads, {shared} bytes of shared memory")
        given = sorted(buffers, key=lambda buffer: buffer.address)
        if any(below.end > above.address for below, above in itertools.pairwise(given)):
            raise ValueError("buffers overlap")
        packed = (structures.Buffer * len(given))(*(buffer.begin() for buffer in given))
        traffic, totals = [structures.BufferCounts() for _ in given], structures.Totals()
        if counts:
            for buffer, both in zip(packed, traffic, strict=True):
                buffer.counts = ctypes.pointer(both)
        request = structures.Request(
            kernel=routine.handle,
            parameters=arguments,
            buffers=packed,
            totals=ctypes.pointer(totals) if counts else None,
            most_instructions=MOST_INSTRUCTIONS,
            buffer_count=len(packed),
            grid=grid,
            block=block,
            first_block=chosen.start,
            last_block=chosen.stop,
            dynamic_shared=shared_bytes,
        )
        outcome = structures.Outcome()
        structures.library().ptx_launch(ctypes.byref(request), ctypes.byref(outcome))
        if outcome.fault:
            line = self._lines[outcome.line - 1].strip() if 0 < outcome.line <= len(self._lines) else ""
            raise Violation(outcome.fault, f"{outcome.text.decode()}\n  source, line {outcome.line}: {line}")
        if not counts:
            return None
        ordered = [traffic[given.index(buffer)] for buffer in buffers]
        return Counts(
            **_fields_of(totals),
            loads=[Traffic(**_fields_of(found.loads)) for found in ordered],
            stores=[Traffic(**_fields_of(found.stores)) for found in ordered],
        )


def _fields_of(structure: ctypes.Structure) -> dict[str, Any]:
    return {name: getattr(structure, name) for name, *_ in structure._fields_}
