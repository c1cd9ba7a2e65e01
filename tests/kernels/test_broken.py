"""The interpreter's checks or a wrong result reveal a kernel with a deliberate error. This file breaks kernels of tiles and
elements and the general kernels. The tests of the other kinds are in their own files.
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
TILES = [
    Variant(KernelKind.TILES, element_bytes=size, load_bytes=load, store_bytes=store)
    for size, load, store in ((1, 4, 4), (2, 2, 4), (4, 4, 4))
]
STRETCH = [tile._replace(kind=KernelKind.STRETCH, store_bytes=tile.load_bytes) for tile in TILES]
SQUARES = [
    Variant(KernelKind.SQUARES, element_bytes=size, load_bytes=unit, store_bytes=unit) for size, unit in ((1, 4), (2, 8), (4, 8))
]
MORE_DIMENSIONS = [Variant(KernelKind.COPY, 6, 4)]
MORE_LOOKUPS = [Variant(KernelKind.GATHER, 3, 4, 3, 8, checked=True, invariant=invariant) for invariant in (False, True)]
GENERAL, CHECK = [Variant(KernelKind.GENERAL, element_bytes=4)], [Variant(KernelKind.CHECK)]
"""The kernels to break. All kernels of a kind share the broken text."""

WRAP = "    value += value < 0 ? static_cast"
MUTATIONS = {
    "no clamp": (GATHER, "good ? static_cast<u32>(value) : last", "static_cast<u32>(value)"),
    "no lower clamp": (GATHER, "static_cast<u32>(lookup.below) : upper", "static_cast<u32>(value) : upper"),
    "indices cut to 32 bits": (GATHER, WRAP, f"    value = static_cast<s32>(value);\n{WRAP}"),
    "left-over elements a chunk too far": (GATHER, "from.in += (Unroll - 1)", "from.in += Unroll"),
    "left-over elements read the first index": (GATHER, "from.index[k] += (Unroll - 1) * lookup_of(a, k).walk", ""),
    "one thread too many": (GATHER, "if (thread >= a.threads) return;", "if (thread > a.threads) return;"),
    "a bad index is not filled": (GATHER, "if (!good[Invariant ? 0 : u] &&", "if (false &&"),
    "a bad index is reported in bytes": (GATHER, "report(a, at, IndexBytes / 4 + 1)", "report(a, at, 0)"),
    "a walk by elements": (COPY, "u < Count; ++u, in += a.in_walk", "u < Count; ++u, in += Bytes"),
    "the fifth dimension lies where the first does": (MORE_DIMENSIONS, "a.far_dimension[d", "a.dimension[d"),
    "a third lookup that is the second": (MORE_LOOKUPS, "? a.lookup[k] : a.far_lookup", "? a.lookup[k] : a.lookup[1]"),
    "the third lookup's indices do not move": (MORE_LOOKUPS, ": a.far_index_step[d]", ": 0"),
    "bad indices are filled under every policy": (MORE_LOOKUPS, "&& (!TOLD<Lookups> || a.checked)", ""),
    "lanes in another order": (REVERSE, "make_uint4(v.w, v.z, v.y, v.x)", "make_uint4(v.w, v.y, v.z, v.x)"),
    "a tile is read before it is whole": (TILES, "        __syncthreads();\n        if (Stretch) {", "        if (Stretch) {"),
    "a tile is overwritten before it is stored": (TILES, "__syncthreads();  // the tile", "// the tile"),
    "a barrier that some threads leave out": (
        TILES,
        "__syncthreads();  // the tile",
        "if (threadIdx.x < 200) __syncthreads();  // the tile",
    ),
    "a tile's last units are loaded with the others": (TILES, "? in_offset[u] : in_start", "? in_offset[u] : in_offset[u]"),
    "a tile's last units are stored with the others": (
        TILES,
        "if (threadIdx.x + u * BLOCK < stores) store",
        "if (threadIdx.x + u * BLOCK <= stores) store",
    ),
    "all threads store all of their units": (TILES, "if (threadIdx.x + (Stores - 1) * BLOCK < stores) {", "if (true) {"),
    "a block leaves out its last tile": (TILES, "number < end; ++number", "number + 1 < end; ++number"),
    "a unit's elements all lie in one row": (TILES[:2], "if (lane >= r && at >= fastest.size) {", "if (false) {"),
    "a unit's elements go on in the row that it began in": (TILES[:2], "= place[n * Rows + r];", "= place[n * Rows];"),
    "quotients are rounded up": (TILES, "2 * number[n] + 1, dim.multiplier", "2 * number[n] + 2, dim.multiplier"),
    "the last tile is as large as the others": (TILES, "at + 1 == dimension[d].size ? dimension[d].last : 0", "0"),
    "all tiles lie where the first one does": (TILES, "if (last != now) {", "if (now == ~0u) {"),
    "a tile that runs backwards begins at its first element": (TILES, "in_offset[u] = in_start;", "in_offset[u] = 0;"),
    "elements that run backwards lie forwards": (TILES, "place[n] = form.first_place;", "place[n] = 0;"),
    "a tile at the output's start": (TILES, "out = a.out + a.out_offset + first", "out = a.out + first"),
    "the next tile is read where this one is": (TILES, "in += fastest.in_step;", ""),
    "tiles go on along the fastest dimension": (TILES, "left = fastest.size - 1 - first;", "left = a.threads;"),
    "the last tile along the fastest dimension is as large as the others": (TILES, "outer | fastest.last :", "outer :"),
    "tiles without their slowest dimension": (TILES, "use(slowest, n, number[n]);", "use(slowest, n, 0);"),
    "units whose elements are turned": (TILES[:1], "(element[0], element[1], 0x0040)", "(element[1], element[0], 0x0040)"),
    "halves of the same place": (TILES[1:2], "lane % 2 ? __byte_perm(pairs[lane / 2], place, 0x5410) : place", "place"),
    "a stretch whose places are numbered from its first unit on": (STRETCH, "thread - ahead + u", "thread + u"),
    "a stretch that is stored from its first unit on": (STRETCH, "threadIdx.x - ahead;", "threadIdx.x;"),
    "units ahead of a stretch": (STRETCH, "if (first + u * BLOCK < stores)", "if (s32(first + u * BLOCK) < s32(stores))"),
    "a unit behind a stretch": (STRETCH, "if (first + u * BLOCK < stores)", "if (first + u * BLOCK <= stores)"),
    "squares that are read before they are whole": (
        SQUARES,
        "        __syncthreads();\n#pragma unroll\n        for (int n = 0; n < Squares; ++n) {\n            if",
        "#pragma unroll\n        for (int n = 0; n < Squares; ++n) {\n            if",
    ),
    "squares that are overwritten before they are stored": (SQUARES, "__syncthreads();  // the squares", "// the squares"),
    "the last squares are stored with the others": (SQUARES, "if (threadIdx.x + n * BLOCK < stores)", "if (true)"),
    "one square too many": (SQUARES, "if (threadIdx.x + n * BLOCK < stores)", "if (threadIdx.x + n * BLOCK <= stores)"),
    "all squares lie where the first tile's do": (SQUARES, "if (now != last) {", "if (now == ~0u) {"),
    "squares that run backwards lie forwards": (SQUARES, "start[n] = form.first_place;", "start[n] = 0;"),
    "the next squares are read where these are": (SQUARES, "in += in_step;", ""),
    "the next squares are stored where these are": (SQUARES, "out += out_step;", ""),
    "rows of a square that follow one another": (SQUARES, "u % Edge * (form.store[0].place / Edge)", "u % Edge * Unit"),
    "columns of a square that follow one another": (SQUARES, "++r, to += lane_step)", "++r, to += Unit)"),
    "room that rows are read without": (SQUARES, "place[u] = with_room(start[u / Edge]", "place[u] = (start[u / Edge]"),
    "squares of bytes that are not turned": (SQUARES[:1], "        turn(row);", "        ;"),
    "squares of halves that are not turned": (SQUARES[1:2], "        turn(row);", "        ;"),
    "squares of words that are not turned": (SQUARES[2:], "        turn(row);", "        ;"),
    "squares of bytes whose middle columns are swapped": (
        SQUARES[:1],
        "row[1] = __byte_perm(low[0], low[1], 0x7632);",
        "row[1] = __byte_perm(high[0], high[1], 0x5410);",
    ),
    "squares of halves whose rows are swapped": (
        SQUARES[1:2],
        "row[3] = make_uint2(__byte_perm(old[0].y, old[1].y, 0x7632)",
        "row[3] = make_uint2(__byte_perm(old[1].y, old[0].y, 0x7632)",
    ),
    "narrow indices without a sign": (GENERAL, "is_signed ? static_cast<s64>(extended)", "false ? static_cast<s64>(extended)"),
    "the first dimension alone": (GENERAL, "at += next_coordinate(rest, table.dimension[d]) * step[d]", "at += step[d]"),
    "a limit that is too large": (GENERAL, "static_cast<u64>(lookup.last + 1)", "static_cast<u64>(lookup.last + 2)"),
    "the chunk is always the fastest dimension": (GENERAL, "if (d == a.chunk) chunk = at;", "if (d == 0) chunk = at;"),
    "the first lookup alone": (CHECK, "++k) {\n        const char* index", "k = a.lookups) {\n        const char* index"),
}
"""For each error: the kernels, text of their source, and the text that breaks it."""


def judge(name: str, seed: int) -> tuple[str, str]:
    variants, before, after = MUTATIONS[name]
    return judged(case_for_one_of(variants, random.Random(seed)), before, after)


PROGRAMS = BrokenPrograms("tests/kernels/test_broken.py", MUTATIONS, judge)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_kernel_is_noticed_by_its_case(name: str) -> None:
    shown = PROGRAMS.check(name)
    if name == "a tile is read before it is whole":
        assert "of shared memory" in shown
