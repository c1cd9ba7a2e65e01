"""Launches kernels in the interpreter: buffers in, violations and counts out."""

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
"""Of one warp; a kernel that executes more is taken for one that does not end."""
MOST_THREADS, SHARED_BYTES, MOST_SHARED = 1024, 48 * 1024, 227 * 1024
"""Threads of a block; bytes of shared memory, static and dynamic, that a block has without asking, and that devices allow."""
READABLE, WRITABLE, ATOMIC, DISCARDED = 1, 2, 4, 8

_ENTRY = re.compile(r"\.entry (\w+)")


class AssemblyError(Exception):
    """PTX that the interpreter does not know."""


class Violation(AssertionError):  # noqa: N818 - what a kernel did
    """What a kernel did wrong: where, and what. kind: the number of the fault."""

    def __init__(self, kind: int, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def pattern(addresses: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """What the bytes at `addresses` of a sparse buffer hold until they are stored."""
    return (addresses * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(56)).astype(np.uint8)


class Buffer:
    """Bytes at a device address, and what a kernel may do there. Each byte of a writable buffer may be stored once a launch.

    data: uint8, one dimension; None for a sparse buffer of `size` bytes, which holds `pattern` of its addresses.
    discarded: stores are checked but not kept, and not looked at for bytes that are stored twice.
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
        """Put bytes into a sparse buffer before a launch."""
        structures.library().ptx_sparse_write(self.sparse, self.address + offset, content, len(content))

    def read(self, offsets: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The bytes of a sparse buffer at `offsets`, and which of them the last launch stored."""
        addresses = np.ascontiguousarray(offsets.astype(np.uint64) + np.uint64(self.address))
        content, stored = np.empty(len(addresses), np.uint8), np.empty(len(addresses), np.uint8)
        arguments = (addresses.ctypes.data, len(addresses), content.ctypes.data, stored.ctypes.data)
        structures.library().ptx_sparse_read(self.sparse, *arguments)
        return content, stored

    def bytes_stored(self) -> int:
        """Bytes that the last launch stored."""
        return int(self.stored.sum()) if self.sparse is None else int(structures.library().ptx_sparse_stored(self.sparse))

    def begin(self) -> structures.Buffer:
        """The buffer before a launch."""
        if self.sparse is None:
            self.stored[:] = 0
        else:
            structures.library().ptx_sparse_forget_stores(self.sparse)
        data = None if self.data is None else self.data.ctypes.data
        return structures.Buffer(self.address, self.size, data, self.stored.ctypes.data, self.sparse, None, self.flags)

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.size


@dataclass(slots=True)
class Traffic:
    """Accesses of one buffer. A request is one instruction of one warp.

    sectors, lines, bytes: distinct ones (of 32, 128 and 1 bytes) of each request, summed. fetched: distinct sectors of each
    block, summed: what is fetched if a block finds again what it has loaded, and nothing that another block has loaded.
    distinct: distinct sectors of the launch (of the blocks that were run).
    """

    requests: int = 0
    sectors: int = 0
    lines: int = 0
    bytes: int = 0
    fetched: int = 0
    distinct: int = 0


@dataclass(slots=True)
class Counts:
    """What the blocks of a launch executed. loads and stores: for each buffer, in the order in which they were given.

    instructions: of warps; thread_instructions: of threads. shared_passes: through the banks of shared memory; shared_least: as
    many as there would be without bank conflicts.
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
    """An instruction as the PTX has it, and its line of the CUDA source."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Routine:
    """One entry point. executed: for each instruction, how many warps have executed it so far, for some thread at least; a branch
    need not be taken. static_shared: bytes.
    """

    name: str
    handle: int
    executed: NDArray[np.uint64]
    parameter_bytes: int
    static_shared: int

    @property
    def instructions(self) -> list[Instruction]:
        """In order."""
        library, numbers = structures.library(), range(len(self.executed))
        return [
            Instruction(library.ptx_text(self.handle, each).decode(), library.ptx_line(self.handle, each)) for each in numbers
        ]


class Module:
    """PTX, ready to launch. source: the CUDA source, whose lines violations show."""

    def __init__(self, text: str, source: str = "") -> None:
        self.text, self._lines = text, source.splitlines()
        self._program = 0
        self._routines: dict[str, Routine] = {}

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the entry points."""
        return tuple(_ENTRY.findall(self.text))

    def routine(self, name: str) -> Routine:
        """An entry point. Raises `AssemblyError` where the interpreter does not know the module's PTX."""
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
        """For each instruction, how many warps have executed it so far, for some thread at least; a branch need not be taken."""
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

        arguments: the by-value parameter. shared_bytes: dynamic. shared_limit: what the kernel has asked for. blocks: which to
        run, without a step; all without it.
        counts: count instructions and traffic.
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
