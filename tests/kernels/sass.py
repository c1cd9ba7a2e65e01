"""Reads disassembled kernels, and checks the long path of specialised kernels in machine code."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dmlgather.backends.cuda.variants import BLOCK, WORD, KernelKind, Variant

ARCHITECTURE = "sm_90"
"""Architecture whose machine code is read."""

_SECTION = re.compile(r"\.section\s+\.text\.(\w+),")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+)?\s*([A-Z][\w.]*)\s*([^;]*);")
_REGISTER = re.compile(r"\bR(\d+)(\.64)?")
_FORBIDDEN = ("MUFU", "I2F", "F2I", "CALL", "LDL", "STL")
"""Opcodes of a division by a run-time value, a call, or a spill."""
_STAGING_STEPS = {"LDG": "l", "STS": "w", "BAR": "b", "LDS": "r", "STG": "s"}


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction: its predicate or nothing, opcode with suffixes, and operands."""

    predicate: str
    opcode: str
    operands: str

    @property
    def memory(self) -> str:
        """L for a load from global memory, S for a store to it, or nothing."""
        return {"LDG": "L", "STG": "S"}.get(self.opcode[:3], "")

    @property
    def bytes(self) -> int:
        """Number of bytes that a load or a store moves."""
        for suffix, size in (("U8", 1), ("U16", 2), ("64", 8), ("128", 16)):
            if suffix in self.opcode.split("."):
                return size
        return 4

    @property
    def written(self) -> set[int]:
        """Written registers. A wide result has two."""
        if self.memory == "S" or not (first := re.match(r"R(\d+)", self.operands)):
            return set()
        count = max(self.bytes // 4, 1) if self.memory else 2 if "WIDE" in self.opcode or ".64" in self.opcode else 1
        return {int(first[1]) + offset for offset in range(count)}

    @property
    def read(self) -> set[int]:
        """Read registers. An address has two."""
        sources = self.operands if self.memory == "S" else self.operands.partition(",")[2]
        numbers = [(int(match[1]), bool(match[2])) for match in _REGISTER.finditer(sources)]
        return {number for number, _ in numbers} | {number + 1 for number, pair in numbers if pair}


def disassemble(cubin: bytes) -> dict[str, list[Instruction]]:
    """Return the instructions of every kernel from nvdisasm."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernels.cubin")
        path.write_bytes(cubin)
        text = subprocess.run([_nvdisasm(), "-c", path], capture_output=True, text=True, check=True).stdout
    parts = _SECTION.split(text)[1:]
    bodies = zip(parts[::2], parts[1::2], strict=True)
    return {name: [Instruction(*found) for found in _INSTRUCTION.findall(body)] for name, body in bodies}


def complaints(variant: Variant, instructions: list[Instruction]) -> Iterator[str]:
    """Yield the faults in the machine code of a specialised kernel."""
    for instruction in instructions:
        if instruction.opcode.startswith(_FORBIDDEN):
            yield f"{variant.name}: {instruction.opcode} {instruction.operands}"
    if variant.kind in (KernelKind.COPY, KernelKind.REVERSE, KernelKind.GATHER, KernelKind.SPAN):
        expected = _expected(variant)
        paths = [_order(path) for path in _paths(instructions)]
        if expected not in paths:
            yield f"{variant.name}: no path accesses memory in the order {expected}, found {paths}"
    if variant.kind is KernelKind.STAGED:
        yield from _staged_complaints(variant, instructions)
    if variant.kind is KernelKind.LONG:
        yield from _long_complaints(variant, instructions)
    if variant.kind in (KernelKind.TILES, KernelKind.STRETCH, KernelKind.SQUARES):
        yield from _tile_complaints(variant, instructions)
    stored = {step.bytes for step in instructions if step.memory == "S"}
    if stored != _stored(variant):
        yield f"{variant.name}: stores of {sorted(stored)} bytes, expected are {sorted(_stored(variant))}"
    if variant.kind is not KernelKind.CHECK and _payload(variant) not in {
        step.bytes for step in instructions if step.memory == "L"
    }:
        yield f"{variant.name}: no load of {_payload(variant)} bytes"


def _shared_order(instructions: list[Instruction]) -> str:
    """Return the accesses of a kernel with shared memory, each with its bytes: l and s for global memory, w and r for shared
    memory, b for a barrier.
    """
    steps = [(_STAGING_STEPS[step.opcode[:3]], step.bytes) for step in instructions if step.opcode[:3] in _STAGING_STEPS]
    return " ".join("b" if letter == "b" else f"{letter}{size}" for letter, size in steps)


def _tile_complaints(variant: Variant, instructions: list[Instruction]) -> Iterator[str]:
    """Yield the faults of a tile kernel. All units are loaded (l) before any is written (w) to shared memory. Nothing else is
    done between the barriers (b). Then elements are read (r) and units stored (s), all of a thread's or those in the tile. A
    stretch has no path for all. Squares are read as whole units.
    """
    order, count = _shared_order(instructions), variant.unroll
    if not re.search(rf"(l{variant.load_bytes} ){{{count}}}b( w{variant.load_bytes}){{{count}}} b", order):
        yield f"{variant.name}: a tile does not come by {count} loads of a thread, which wait for nothing but a barrier: {order}"
    stored = variant.tile_bytes // BLOCK // variant.store_bytes
    read = variant.store_bytes if variant.kind is KernelKind.SQUARES else variant.element_bytes
    if not re.fullmatch(rf"( (r{read}|s{variant.store_bytes}))+", order.rpartition(" b")[2]) or order.count(" s") != (
        2 * stored - 1 if variant.kind is KernelKind.TILES else stored
    ):
        yield f"{variant.name}: after a barrier, not only elements are read, and units stored {stored} times, or fewer: {order}"


def _staged_complaints(variant: Variant, instructions: list[Instruction]) -> Iterator[str]:
    """Yield the faults of a staged kernel. Vectors of adjacent indices are loaded (l) before the row's vectors, and these before
    any is written to shared memory (w). Between the barriers (b), columns are read there (r) and stored (s), adjacent ones by
    vectors.
    """
    order = _shared_order(instructions)
    size, count = variant.element_bytes, variant.unroll
    wide = min(16, 16 // size * variant.index_bytes)
    indices = f"l{wide} " * (count * variant.index_bytes // wide)
    staging, *gathering = order.split(" b")
    if not re.search(rf"\b{indices}(\w+ )*{'l16 ' * 4}{'w16 ' * 4}", f"{staging} "):
        yield f"{variant.name}: a row does not come by four vectors at a time, after the indices by vectors: {order}"
    if len(gathering) != 2 or gathering[1] or not re.fullmatch(rf"( r{size}| s{size}| s16)+", gathering[0]):
        yield f"{variant.name}: columns are not gathered between two barriers: {order}"
    elif gathering[0].count("s16") != count * size // 16:
        yield f"{variant.name}: a thread's {count} columns are not stored by vectors: {order}"


def _long_complaints(variant: Variant, instructions: list[Instruction]) -> Iterator[str]:
    """Yield the faults of a staged kernel for long rows. Four indices are loaded (l) before a place is written (w), and then a
    row follows as above. Between the barriers (b), the places of a thread's columns are read (r), then their elements, and
    units are stored (s). Each size of a place has such a path.
    """
    order = _shared_order(instructions)
    size, count, index = variant.element_bytes, variant.unroll, variant.index_bytes
    unit = max(size, WORD)
    for place in (2, 4) if size <= 2 else (2,):
        indices = f"{f'l{index} ' * 4}{f'w{place} ' * 4}"
        gathered = rf" b{f' r{place}' * count}( r{size}| s{unit})+"
        found = re.search(rf"{indices}[^b]*{'l16 ' * 4}{'w16 ' * 4}[^b]*(?={gathered})", f"{order} ")
        if not found:
            yield f"{variant.name}: with places of {place} bytes, not indices, vectors, places and columns in turn: {order}"
    if order.count(" b") != 2 * (2 if size <= 2 else 1):
        yield f"{variant.name}: not two barriers: {order}"


def _payload(variant: Variant) -> int:
    whole = variant.kind in (KernelKind.REVERSE, KernelKind.STAGED, KernelKind.LONG)
    return 16 if whole else variant.load_bytes or variant.element_bytes


def _stored(variant: Variant) -> set[int]:
    """Return the bytes of the stores. At the ends of an output, kernels of spans store single bytes of fill."""
    match variant.kind:
        case KernelKind.CHECK:
            return set()
        case KernelKind.SPAN:
            return {1, 16}
        case KernelKind.STAGED:
            return {variant.element_bytes, 16}
        case KernelKind.LONG:
            return {variant.element_bytes, max(variant.element_bytes, WORD)}
        case KernelKind.TILES | KernelKind.STRETCH | KernelKind.SQUARES:
            return {variant.store_bytes}
    return {_payload(variant)}


def _expected(variant: Variant) -> str:
    """Return the accesses of the long path: all index loads, payload loads (two for a vector of a run) and stores."""
    sets = 1 if variant.invariant else variant.unroll
    loads = 2 * variant.unroll if variant.kind is KernelKind.SPAN else variant.unroll
    size = _payload(variant)
    return f"i{variant.index_bytes} " * variant.lookups * sets + f"p{size} " * loads + f"s{size} " * variant.unroll


def _paths(instructions: list[Instruction]) -> Iterator[list[Instruction]]:
    """Yield the stretches that end with their last store, separated by an EXIT or a branch away."""
    path: list[Instruction] = []
    for instruction in instructions:
        path.append(instruction)
        if instruction.opcode == "EXIT" and any(step.memory == "S" for step in path):
            yield path
            path = []
    yield path


def _order(path: list[Instruction]) -> str:
    """Return the accesses of a path, each with its bytes: i for an index load, p for a payload load, s for a store.

    The address of a payload load depends on a loaded index. Without lookups, every load is a payload load.
    """
    tainted: set[int] = set()
    loads: list[bool] = []
    order: list[tuple[bool, Instruction]] = []
    for step in path:
        depends = bool(step.read & tainted)
        if step.memory == "L":
            loads.append(depends)
            order.append((depends, step))
            tainted |= step.written
        elif step.memory == "S":
            order.append((False, step))
        elif depends:
            tainted |= step.written
        elif not step.predicate:
            tainted -= step.written
    letters = {"S": "s", "L": "p" if not any(loads) else "i"}
    return "".join(f"{'p' if depends else letters[step.memory]}{step.bytes} " for depends, step in order)


def _nvdisasm() -> Path:
    for folder in map(Path, sys.path):
        for found in folder.glob("nvidia/cu*/bin/nvdisasm"):
            return found
    raise FileNotFoundError("nvdisasm is missing; install it: pip install 'nvidia-cuda-nvdisasm>=13,<14'")
