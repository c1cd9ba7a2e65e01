"""Kernels with a deliberate error are noticed, by what the interpreter checks or by a wrong result; of tiles, elements and the
general kernels here, of the others beside their tests.
"""

from __future__ import annotations

import random

import pytest

from dmlgather.backends.cuda.variants import KernelKind, Variant
from tests.kernels.ptx.draws import case_for_one_of
from tests.kernels.ptx.runs import judged
from tests.noticing import BrokenPrograms

GATHER = [
    Variant(KernelKind.GATHER, 3, size, 1, 8, checked=checked, invariant=invariant)
    for size, checked, invariant in ((4, True, False), (16, False, True), (1, True, True))
]
COPY, REVERSE = [Variant(KernelKind.COPY, 3, 4)], [Variant(KernelKind.REVERSE, 3, lane) for lane in (1, 4)]
TRANSPOSE = [Variant(KernelKind.TRANSPOSE, 4, 2)]
GENERAL, CHECK = [Variant(KernelKind.GENERAL, element_bytes=4)], [Variant(KernelKind.CHECK)]
"""The kernels to break: what is broken is the same in all of their kind."""

WRAP = "    value += value < 0 ? static_cast"
MUTATIONS = {
    "no clamp": (GATHER, "good ? static_cast<u32>(value) : last", "static_cast<u32>(value)"),
    "no lower clamp": (GATHER, "static_cast<u32>(lookup.below) : upper", "static_cast<u32>(value) : upper"),
    "indices cut to 32 bits": (GATHER, WRAP, f"    value = static_cast<s32>(value);\n{WRAP}"),
    "left-over elements a chunk too far": (GATHER, "from.in += (Unroll - 1)", "from.in += Unroll"),
    "left-over elements read the first index": (GATHER, "from.index[k] += (Unroll - 1) * a.lookup[k].walk", ""),
    "one thread too many": (GATHER, "if (thread >= a.threads) return;", "if (thread > a.threads) return;"),
    "a bad index is not filled": (GATHER, "if (!good[Invariant ? 0 : u]) value[u] =", "if (false) value[u] ="),
    "a bad index is reported in bytes": (GATHER, "report(a, at, IndexBytes / 4 + 1)", "report(a, at, 0)"),
    "a walk by elements": (COPY, "u < Count; ++u, in += a.in_walk", "u < Count; ++u, in += Bytes"),
    "lanes in another order": (REVERSE, "make_uint4(v.w, v.z, v.y, v.x)", "make_uint4(v.w, v.y, v.z, v.x)"),
    "no barrier in a tile": (TRANSPOSE, "__syncthreads();", ""),
    "a barrier that some threads leave out": (TRANSPOSE, "__syncthreads();", "if (threadIdx.x < 200) __syncthreads();"),
    "a tile's last row": (TRANSPOSE, "if (first + y < a.extent[0])", "if (first + y <= a.extent[0])"),
    "a tile's last column": (TRANSPOSE, "if (second + y < a.extent[1]) {", "if (second + y + 1 < a.extent[1]) {"),
    "a tile without its last lane": (TRANSPOSE, "if (second + lane < a.extent[1]) {", "if (second + lane + 1 < a.extent[1]) {"),
    "a tile at the output's start": (TRANSPOSE, "char* out = a.out + a.out_offset;", "char* out = a.out;"),
    "narrow indices without a sign": (GENERAL, "is_signed ? static_cast<s64>(extended)", "false ? static_cast<s64>(extended)"),
    "the first dimension alone": (GENERAL, "at += next_coordinate(rest, table.dimension[d]) * step[d]", "at += step[d]"),
    "a limit that is too large": (GENERAL, "static_cast<u64>(lookup.last + 1)", "static_cast<u64>(lookup.last + 2)"),
    "the chunk is always the fastest": (GENERAL, "(a.chunk_slowest ? at : fastest) < a.full", "fastest < a.full"),
    "the first lookup alone": (CHECK, "++k) {\n        const char* index", "k = a.lookups) {\n        const char* index"),
}
"""What is wrong -> the kernels, text of their source, and the text that breaks it."""


def judge(name: str, seed: int) -> tuple[str, str]:
    variants, before, after = MUTATIONS[name]
    return judged(case_for_one_of(variants, random.Random(seed)), before, after)


PROGRAMS = BrokenPrograms("tests/kernels/test_broken.py", MUTATIONS, judge)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_kernel_is_noticed(name: str) -> None:
    shown = PROGRAMS.check(name)
    if name == "no barrier in a tile":  # is named by its first effect: a tile is read before it is written
        assert "of shared memory that no thread of the block has written" in shown
