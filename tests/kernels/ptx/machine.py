"""Launches kernels in the interpreter: buffers in, violations and counts out."""

from __future__ import annotations

import bisect
import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.kernels.ptx import assembly, structures

MOST_INSTRUCTIONS = 10**8
"""Of one warp; a kernel that executes more is taken for one that does not end."""
MOST_THREADS, SHARED_BYTES, MOST_SHARED = 1024, 48 * 1024, 227 * 1024
"""Threads of a block; bytes of shared memory, static and dynamic, that a block has without asking, and that devices allow."""
READABLE, WRITABLE, ATOMIC, DISCARDED = 1, 2, 4, 8

_FAULTS = (
    "",
    "accesses {size} bytes at {address:#x}, outside every buffer{near}",
    "loads {size} bytes at {address:#x} from a buffer that may not be read{near}",
    "stores {size} bytes at {address:#x} to a buffer that may not be written{near}",
    "an atomic operation at {address:#x} on a buffer that is not meant for it{near}",
    "accesses {size} bytes at {address:#x}, which is not a multiple of {size}{near}",
    "stores the byte at {address:#x} a second time{near}",
    "loads {size} bytes at {address} of the parameters, beyond their end",
    "accesses {size} bytes at {address} of shared memory, beyond its end",
    "loads the byte {address} of shared memory that no thread of the block has written",
    "accesses the byte {address} of shared memory, as thread {other} does without a barrier between them",
    "reads register {register}, which is not set",
    "does not reach the barrier that other threads of the block wait at",
    "does not take a branch that all threads of the warp must take",
    "divides by zero",
    "executes more than {most} instructions",
)


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
        return structures.Buffer(self.address, self.size, data, self.stored.ctypes.data, self.sparse, self.flags)

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


class Module:
    """PTX, ready to launch. source: the CUDA source, whose lines violations show."""

    def __init__(self, text: str, source: str = "") -> None:
        self.text, self._lines = text, source.splitlines()
        self._routines = assembly.routines(text)
        self._loaded: dict[str, _Loaded] = {}

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the entry points."""
        return tuple(self._routines)

    def routine(self, name: str) -> assembly.Routine:
        """An entry point's instructions and registers."""
        return self._load(name).routine

    def executed(self, name: str) -> NDArray[np.uint64]:
        """For each instruction, how many warps have executed it so far, for some thread at least; a branch need not be taken."""
        return self._load(name).executed

    def launch(
        self,
        name: str,
        grid: int,
        arguments: bytes,
        buffers: Sequence[Buffer] | None,
        *,
        block: int = 256,
        shared_bytes: int = 0,
        shared_limit: int = SHARED_BYTES,
        blocks: range | None = None,
        counts: bool = False,
    ) -> Counts | None:
        """Run the kernel over `buffers`, or over this process's own memory where they are None. Raises `Violation`.

        arguments: the by-value parameter. shared_bytes: dynamic. shared_limit: what the kernel has asked for. blocks: which to
        run, without a step; all without it.
        counts: count instructions and traffic.
        """
        loaded, chosen = self._load(name), range(grid) if blocks is None else blocks
        if len(arguments) != loaded.routine.parameter_bytes:
            raise ValueError(f"{name} takes {loaded.routine.parameter_bytes} bytes of parameters, not {len(arguments)}")
        shared = loaded.routine.static_shared + shared_bytes
        if not (0 < grid < 2**31 and 0 < block <= MOST_THREADS and shared <= min(shared_limit, MOST_SHARED)):
            raise ValueError(f"no device launches {name}: {grid} blocks, {block} threads, {shared} bytes of shared memory")
        order = sorted(range(len(buffers or ())), key=lambda number: (buffers or ())[number].address)
        given = [(buffers or ())[number] for number in order]
        if any(below.end > above.address for below, above in itertools.pairwise(given)):
            raise ValueError("buffers overlap")
        packed = (structures.Buffer * len(given))(*(buffer.begin() for buffer in given))
        traffic, totals = (structures.BufferCounts * len(given))(), structures.Totals()
        parameters = ctypes.create_string_buffer(arguments, len(arguments))
        launch = structures.Launch(
            ctypes.pointer(loaded.kernel),
            ctypes.addressof(parameters),
            packed,
            ctypes.addressof(traffic) if counts else None,
            ctypes.addressof(totals) if counts else None,
            MOST_INSTRUCTIONS,
            len(given),
            int(buffers is None),
            grid,
            block,
            chosen.start,
            chosen.stop,
            shared_bytes,
        )
        outcome = structures.library().ptx_launch(ctypes.byref(launch))
        if outcome.fault:
            raise Violation(outcome.fault, self._said(loaded, outcome, given))
        if not counts:
            return None
        place = {number: at for at, number in enumerate(order)}
        ordered = [traffic[place[number]] for number in range(len(given))]
        return Counts(
            **_fields_of(totals),
            loads=[Traffic(**_fields_of(found.loads)) for found in ordered],
            stores=[Traffic(**_fields_of(found.stores)) for found in ordered],
        )

    def _load(self, name: str) -> _Loaded:
        if name not in self._loaded:
            self._loaded[name] = _Loaded(assembly.routine(self._routines[name], self.text))
        return self._loaded[name]

    def _said(self, loaded: _Loaded, outcome: structures.Outcome, buffers: Sequence[Buffer]) -> str:
        routine = loaded.routine
        step = routine.instructions[min(outcome.instruction, len(routine.instructions) - 1)]
        near = ""
        at = bisect.bisect_right([buffer.address for buffer in buffers], outcome.address)
        if at:
            below = buffers[at - 1]
            near = f" (byte {outcome.address - below.address} of the {below.size} at {below.address:#x})"
        what = _FAULTS[outcome.fault].format(
            size=outcome.size,
            address=outcome.address,
            other=outcome.other,
            register=routine.register_names[outcome.other] if 0 <= outcome.other < len(routine.register_names) else "",
            most=MOST_INSTRUCTIONS,
            near=near,
        )
        source = self._lines[step.line - 1].strip() if 0 < step.line <= len(self._lines) else ""
        where = f"{routine.name}, block {outcome.block}, thread {outcome.thread}"
        return f"{where}: {what}\n  PTX: {step.text}\n  source, line {step.line}: {source}"


class _Loaded:
    """A routine as the interpreter takes it."""

    def __init__(self, routine: assembly.Routine) -> None:
        self.routine = routine
        count = len(routine.instructions)
        self.executed = np.zeros(count, np.uint64)
        self._code = (structures.Instruction * count)()
        for slot, instruction in zip(self._code, routine.instructions, strict=True):
            *numbers, offset = instruction.numbers()
            slot.numbers[:], slot.offset = numbers, offset
        self._registers = (structures.Register * len(routine.registers))(
            *(structures.Register(*register) for register in routine.registers)
        )
        self.kernel = structures.Kernel(
            ctypes.addressof(self._code),
            ctypes.addressof(self._registers),
            self.executed.ctypes.data,
            count,
            len(routine.registers),
            routine.parameter_bytes,
            routine.static_shared,
        )


def _fields_of(structure: ctypes.Structure) -> dict[str, Any]:
    return {name: getattr(structure, name) for name, *_ in structure._fields_}
