"""Each instruction against Python's integers, by the descriptions of the PTX ISA. Unknown instructions are refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.kernels.ptx.machine import AssemblyError, Buffer, Module

THREADS = 96
SOURCES, RESULTS = 1 << 33, 1 << 34
CHOICES = {8: "h", 16: "h", 32: "r", 64: "d", 1: "p"}
"""The register for each width, by the letter in the texts below."""

HEAD = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry tried(
\t.param .align 8 .b8 tried_param_0[16]
)
{
\t.reg .pred %p<9>;
\t.reg .b16 %h<9>;
\t.reg .b32 %r<9>;
\t.reg .b64 %d<9>;
\t.reg .b64 %at<9>;
"""


def signed(value: int, width: int) -> int:
    value %= 2**width
    return value - 2**width if value >> (width - 1) else value


def shifted_right(kind: str) -> Callable[[int, int], int]:
    width = int(kind[1:])
    return lambda a, b: a >> min(b % 2**32, width - 1 if kind[0] == "s" else width)


def shifted_left(width: int) -> Callable[[int, int], int]:
    return lambda a, b: a << b if b < width else 0


def permuted(a: int, b: int, c: int) -> int:
    content = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
    result = []
    for nibble in range(4):
        choice = c >> (4 * nibble) & 15
        byte = content[choice & 7]
        result.append((255 if byte & 128 else 0) if choice & 8 else byte)
    return int.from_bytes(result, "little")


def inserted(width: int) -> Callable[[int, int, int, int], int]:
    def insert(a: int, b: int, position: int, length: int) -> int:
        bits = [b >> at & 1 for at in range(width)]
        for at in range(length % 256):
            if position % 256 + at < width:
                bits[position % 256 + at] = a >> at & 1
        return sum(bit << at for at, bit in enumerate(bits))

    return insert


def extracted(kind: str) -> Callable[[int, int, int], int]:
    width = int(kind[1:])

    def extract(a: int, position: int, length: int) -> int:
        position, length = position % 256, length % 256
        bits = a >> position  # a signed number is extended with its sign
        if kind[0] == "u":
            return int(bits % 2**length)
        return bits if length >= width else signed(bits, length) if length else 0

    return extract


def divided(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


Case = tuple[str, str, str, Callable[..., int]]
"""An instruction, the type of its result, the types of its sources, and a function for the result."""


def by_table(a: int, b: int, c: int, table: int) -> int:
    rows = ((a >> at & 1) << 2 | (b >> at & 1) << 1 | c >> at & 1 for at in range(32))
    return sum((table >> row & 1) << at for at, row in enumerate(rows))


def high_product(width: int) -> Callable[[int, int, int], int]:
    return lambda a, b, c: (a * b >> width) + c


def cases() -> list[Case]:
    found: list[Case] = []
    for width in (16, 32, 64):
        for sign in "us":
            kind = f"{sign}{width}"
            two, three = f"{kind} {kind}", f"{kind} {kind} {kind}"
            found += [
                (f"add.{kind}", kind, two, lambda a, b: a + b),
                (f"sub.{kind}", kind, two, lambda a, b: a - b),
                (f"mul.lo.{kind}", kind, two, lambda a, b: a * b),
                (f"mul.hi.{kind}", kind, two, lambda a, b, width=width: a * b >> width),
                (f"mad.lo.{kind}", kind, three, lambda a, b, c: a * b + c),
                (f"min.{kind}", kind, two, min),
                (f"max.{kind}", kind, two, max),
                (f"shr.{kind}", kind, f"{kind} u32", shifted_right(kind)),
                (f"div.{kind}", kind, two, divided),
                (f"rem.{kind}", kind, two, lambda a, b: a - b * divided(a, b)),
            ]
            if width < 64:
                wide = f"{sign}{2 * width}"
                found += [
                    (f"mul.wide.{kind}", wide, two, lambda a, b: a * b),
                    (f"mad.wide.{kind}", wide, f"{two} {wide}", lambda a, b, c: a * b + c),
                ]
            for source in (8, 16, 32, 64):
                for other in "us":
                    found.append((f"cvt.{kind}.{other}{source}", kind, f"{other}{source}", lambda a: a))
        bits = f"b{width}"
        found += [
            (f"neg.s{width}", bits, f"s{width}", lambda a: -a),
            (f"not.{bits}", bits, bits, lambda a: ~a),
            (f"and.{bits}", bits, f"{bits} {bits}", lambda a, b: a & b),
            (f"or.{bits}", bits, f"{bits} {bits}", lambda a, b: a | b),
            (f"xor.{bits}", bits, f"{bits} {bits}", lambda a, b: a ^ b),
            (f"shl.{bits}", bits, f"{bits} u32", shifted_left(width)),
            (f"mov.{bits}", bits, bits, lambda a: a),
            (f"selp.{bits}", bits, f"{bits} {bits} pred", lambda a, b, c: a if c else b),
        ]
    comparisons: dict[str, Callable[[int, int], bool]] = {
        "eq": lambda a, b: a == b,
        "ne": lambda a, b: a != b,
        "lt": lambda a, b: a < b,
        "le": lambda a, b: a <= b,
        "gt": lambda a, b: a > b,
        "ge": lambda a, b: a >= b,
    }
    for name, holds in comparisons.items():
        for kind in ("u16", "s16", "u32", "s32", "u64", "s64"):
            found.append((f"setp.{name}.{kind}", "pred", f"{kind} {kind}", holds))
    for name, same in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
        found.append((f"setp.{name}.u32", "pred", "u32 u32", comparisons[same]))
    found += [
        ("and.pred", "pred", "pred pred", lambda a, b: a & b),
        ("or.pred", "pred", "pred pred", lambda a, b: a | b),
        ("xor.pred", "pred", "pred pred", lambda a, b: a ^ b),
        ("not.pred", "pred", "pred", lambda a: 1 - a),
        ("shf.l.wrap.b32", "b32", "b32 b32 u32", lambda a, b, c: (b << 32 | a) << (c % 32) >> 32),
        ("shf.r.wrap.b32", "b32", "b32 b32 u32", lambda a, b, c: (b << 32 | a) >> (c % 32)),
        ("prmt.b32", "b32", "b32 b32 b32", permuted),
        ("bfi.b32", "b32", "b32 b32 u32 u32", inserted(32)),
        ("bfi.b64", "b64", "b64 b64 u32 u32", inserted(64)),
        ("shf.l.clamp.b32", "b32", "b32 b32 u32", lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32),
        ("shf.r.clamp.b32", "b32", "b32 b32 u32", lambda a, b, c: (b << 32 | a) >> min(c, 32)),
        ("lop3.b32", "b32", "b32 b32 b32 b32", by_table),
    ]
    for width in (32, 64):
        found += [
            (f"popc.b{width}", "u32", f"b{width}", int.bit_count),
            (f"clz.b{width}", "u32", f"b{width}", lambda a, width=width: width - a.bit_length()),
            (f"brev.b{width}", f"b{width}", f"b{width}", lambda a, width=width: int(f"{a:0{width}b}"[::-1], 2)),
            (f"abs.s{width}", f"s{width}", f"s{width}", abs),
            *((f"bfe.{sign}{width}", f"{sign}{width}", f"{sign}{width} u32 u32", extracted(f"{sign}{width}")) for sign in "us"),
            *(
                (f"mad.hi.{sign}{width}", f"{sign}{width}", " ".join([f"{sign}{width}"] * 3), high_product(width))
                for sign in "us"
            ),
        ]
    return found


CASES = cases()


def width_of(kind: str) -> int:
    return 1 if kind == "pred" else int(kind[1:])


def register(kind: str, number: int) -> str:
    return f"%{CHOICES[width_of(kind)]}{number}"


def program(instruction: str, result: str, sources: list[str]) -> str:
    """Return a kernel whose thread t reads its sources of eight bytes at 32 t, and writes the result at 8 t."""
    lines = [HEAD, "\tld.param.u64 %at2, [tried_param_0];", "\tld.param.u64 %at1, [tried_param_0+8];", "\tmov.u32 %r8, %tid.x;"]
    lines += ["\tmad.wide.u32 %at0, %r8, 32, %at2;", "\tmad.wide.u32 %at1, %r8, 8, %at1;"]
    for number, kind in enumerate(sources):
        at, to = f"[%at0+{8 * number}]", register(kind, number)
        if kind == "pred":
            lines += [f"\tld.global.b32 %r7, {at};", f"\tsetp.ne.u32 {to}, %r7, 0;"]
        else:
            lines.append(f"\tld.global.b{width_of(kind)} {to}, {at};")
    operands = ", ".join(register(kind, number) for number, kind in enumerate(sources))
    lines.append(f"\t{instruction} {register(result, 5)}, {operands};")
    if result == "pred":
        lines += ["\tselp.b32 %r6, 1, 0, %p5;", "\tst.global.b32 [%at1], %r6;"]
    else:
        lines.append(f"\tst.global.b{width_of(result)} [%at1], {register(result, 5)};")
    return "\n".join([*lines, "\tret;", "\n}\n"])


def results_of(text: str, sources: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the eight bytes of each thread's result. Bytes that a thread does not store are 0xCD."""
    results = np.full((THREADS, 8), 0xCD, np.uint8)
    buffers = [
        Buffer(SOURCES, sources.reshape(-1).view(np.uint8), readable=True),
        Buffer(RESULTS, results.reshape(-1), writable=True),
    ]
    Module(text).launch("tried", 1, np.array([SOURCES, RESULTS], np.uint64).tobytes(), buffers, block=THREADS)
    return results


def result_of(*lines: str, size: int) -> int:
    """Return the number of `size` bytes that a single thread stores at %at1."""
    text = "\n\t".join([HEAD, "ld.param.u64 %at1, [tried_param_0+8];", *lines, "ret;\n\n}\n"])
    result = np.zeros(size, np.uint8)
    buffers = [Buffer(RESULTS, result, writable=True)]
    Module(text).launch("tried", 1, bytes(8) + RESULTS.to_bytes(8, "little"), buffers, block=1)
    return int.from_bytes(result.tobytes(), "little")


def values(rng: random.Random, kind: str, shift: bool) -> int:
    """Return a random value, often extreme or small."""
    width = width_of(kind)
    if kind == "pred":
        return rng.randint(0, 1)
    extremes = (0, 1, 2, width - 1, width, 2 ** (width - 1) - 1, 2 ** (width - 1), 2**width - 1)
    small = rng.randint(0, 80)
    return rng.choice((rng.choice(extremes), small, small if shift else rng.getrandbits(width)))


@pytest.mark.parametrize(("instruction", "result", "sources", "meaning"), CASES, ids=[case[0] for case in CASES])
def test_integer_instructions_equal_python(instruction: str, result: str, sources: str, meaning: Any, rng: random.Random) -> None:
    kinds = sources.split()
    taken = np.zeros((THREADS, 4), np.uint64)
    expected = []
    for thread in range(THREADS):
        given = [values(rng, kind, number > 0) for number, kind in enumerate(kinds)]
        if instruction.startswith(("div", "rem")) and given[1] == 0:
            given[1] = 1
        taken[thread, : len(given)] = given
        meant = [signed(value, width_of(kind)) if kind[0] == "s" else value for value, kind in zip(given, kinds, strict=True)]
        expected.append(int(meaning(*meant)) % 2 ** max(width_of(result), 8))
    found = results_of(program(instruction, result, kinds), taken)
    size = max(width_of(result), 32 if result == "pred" else 8) // 8
    assert [int.from_bytes(row[:size].tobytes(), "little") for row in found] == expected
    assert (found[:, size:] == 0xCD).all()


@pytest.mark.parametrize(
    ("instruction", "meant"),
    [
        ("mov.b64 {%r5, _}, %d0;", 0x9ABCDEF0),
        ("mov.b64 {_, %r5}, %d0;", 0x12345678),
        ("{ .reg .b32 tmp; mov.b64 {tmp, %r5}, %d0; }", 0x12345678),
    ],
)
def test_mov_packs_and_unpacks_halves_of_a_register(instruction: str, meant: int) -> None:
    """NVRTC 13.0 uses the last form."""
    lines = "mov.u64 %d0, 1311768467463790320;", instruction, "st.global.b32 [%at1], %r5;"
    assert result_of(*lines, size=4) == meant


@pytest.mark.parametrize(
    ("instruction", "meant"),
    [
        ("mov.b64 %d5, {-2, %r0};", 0x5_FFFFFFFE),
        ("mov.b64 %d5, {%r0, -2};", 0xFFFFFFFE_00000005),
        ("shf.l.wrap.b32 %r5, -2, %r0, 8; mov.b64 %d5, {%r5, 0};", 0x5FF),
        ("shf.r.wrap.b32 %r5, -2, %r0, 8; mov.b64 %d5, {%r5, 0};", 0x5FFFFFF),
    ],
)
def test_a_negative_constant_has_the_width_of_its_operand(instruction: str, meant: int) -> None:
    assert result_of("mov.u32 %r0, 5;", instruction, "st.global.b64 [%at1], %d5;", size=8) == meant


@pytest.mark.parametrize(
    "instruction",
    [
        "bfe.u16 %h0, %h1, 1, 2",
        "add.cc.u32 %r0, %r8, %r8",
        "add.rz.f16 %h0, %h1, %h1",
        "add.sat.s32 %r0, %r8, %r8",
        "cvt.rz.f16.f32 %h0, %r8",
        "min.rz.f32 %r0, %r8, %r8",
        "shfl.bfly.b32 %r0, %r8, 1, 31",
        "setp.lt.and.u32 %p0, %r8, %r8",
        "ld.shared::cluster.u32 %r0, [%r8]",
        "ld.mmio.global.u32 %r0, [%at2]",
        "atom.global.add.noftz.bf16 %h0, [%at2], %h1",
        "mov.u64 %at0, elsewhere",
        "bar.sync 1",
        "mov.u32 %r0, %clock",
        "bra.uni elsewhere",
    ],
)
def test_an_unknown_instruction_is_refused(instruction: str) -> None:
    module = Module(f"{HEAD}\tld.param.u64 %at2, [tried_param_0];\n\t{instruction};\n\tret;\n\n}}\n")
    with pytest.raises(AssemblyError, match="tried: "):
        module.routine("tried")
