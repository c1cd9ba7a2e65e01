"""The list of all compiled kernels (*variants*): every entry point of `cuda_kernels/`, and nothing else.

Common ranks and lookup counts have specialised kernels. The general kernels run everything else.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

BLOCK = 256
"""Threads per block of all kernels except those for long rows."""
LONG_BLOCK = 1024
"""Threads per block of the kernels for long rows."""
RESIDENT = 4
"""Blocks that a multiprocessor runs at the same time. This limits a thread to 64 registers."""
GENERAL_UNROLL = 4
"""Elements that a walking thread of a general kernel moves."""
SPAN_UNROLL = 4
"""Vectors that a walking thread of a span kernel moves."""
WORD = 4
"""Bytes of a load or store of several adjacent elements by a tile kernel."""
SQUARE_UNITS = 4
"""Words that each thread of a squares kernel moves."""
VECTOR = 16
"""Bytes of the widest load and store."""
STRETCHED = 8
"""Bytes. Only smaller elements have stretch kernels: others already use nine tenths of their sectors."""
TOLD_LOOKUPS = 3
"""From this many lookups on, a gather kernel reads the policy from its arguments (TOLD in `copy.cuh`)."""


class KernelKind(enum.Enum):
    """The kinds of kernels. A kernel's name begins with its kind."""

    COPY = "copy"
    """A slice: a plan without lookups."""
    REVERSE = "reverse"
    """A slice that reads its innermost dimension backwards, by vectors of 16 bytes."""
    TILES = "tiles"
    """A slice that is contiguous along different dimensions in input and output, transposed in shared memory."""
    STRETCH = "stretch"
    """Like TILES, for boxes that are contiguous in the output. Requests begin and end at sector boundaries."""
    SQUARES = "squares"
    """Like TILES, for whole words. Squares of elements are transposed in registers."""
    GATHER = "gather"
    """A gather with one to three lookups."""
    SPAN = "span"
    """Contiguous runs of bytes at any alignment, with up to two lookups."""
    STAGED = "staged"
    """A gather along rows, with the same indices for every row. Rows are loaded into shared memory first."""
    LONG = "long"
    """Like STAGED, but a block moves one row at a time, with the positions of its columns in shared memory."""
    GENERAL = "general"
    """Any plan: any index type, up to 32 dimensions and lookups, steps and limits beyond 31 bits."""
    CHECK = "check"
    """Only indices are checked: RAISE with an empty output or over an axis of size 0."""


TEXTS = {
    KernelKind.COPY: ("slice.cu", "copy_d{d}_e{e}", ", {d}, {e}"),
    KernelKind.REVERSE: ("slice.cu", "reverse_d{d}_e{e}", ", {d}, {e}"),
    KernelKind.TILES: ("tile.cu", "tiles_e{e}_l{l}_s{s}", ", {e}, {l}, {s}"),
    KernelKind.STRETCH: ("tile.cu", "stretch_e{e}_l{l}_s{s}", ", {e}, {l}, {s}"),
    KernelKind.SQUARES: ("tile.cu", "squares_e{e}_l{l}_s{s}", ", {e}, {s}"),
    KernelKind.GATHER: (
        "gather{k}_index{bits}.cu",
        "gather_d{d}_k{k}_e{e}_i{i}_{policy}_{walk}",
        ", {d}, {k}, {e}, {i}, {checked}, {invariant}",
    ),
    KernelKind.SPAN: ("span.cu", "span_d{d}{looked_up}", ", {d}, {k}, {i}, {checked}"),
    KernelKind.STAGED: ("staged.cu", "staged_e{e}_i{i}", ", {e}, {i}"),
    KernelKind.LONG: ("staged.cu", "staged_e{e}_i{i}_long", ", {e}, {i}"),
    KernelKind.GENERAL: ("general.cu", "general_e{e}", ", {e}"),
    KernelKind.CHECK: ("general.cu", "check_indices_only", ""),
}
"""For each kind: the `.cu` file, the entry point's name, and the macro arguments after the name."""


class Variant(NamedTuple):
    """One compiled kernel: a `KernelKind` and the constants that it is compiled for.

    `dimensions`: the number of thread dimensions; 0 if the kernel reads it from its arguments.
    `element_bytes`: the bytes of one load and store. For REVERSE, the bytes of an element; loads are vectors of 16 bytes.
    `index_bytes`: the bytes of an index, 4 or 8. It is 0 if the kernel has no lookups or reads it from its arguments.
    `checked`: True if the kernel detects indices out of range, for FILL and RAISE. Some kernels read this from their arguments.
    `invariant`: True if all elements of a thread have the same indices, so that the thread resolves them only once.
    `load_bytes`, `store_bytes`: the bytes of a load and of a store. Only tile kernels (TILES, STRETCH, SQUARES) have them.
    """

    kind: KernelKind
    dimensions: int = 0
    element_bytes: int = 0
    lookups: int = 0
    index_bytes: int = 0
    checked: bool = False
    invariant: bool = True
    load_bytes: int = 0
    store_bytes: int = 0

    @property
    def name(self) -> str:
        """The name of the kernel's entry point, such as `gather_d2_k1_e16_i8_clamp_once`."""
        return self._filled(TEXTS[self.kind][1])

    @property
    def unit(self) -> str:
        """The name of the `.cu` file that contains the kernel."""
        return self._filled(TEXTS[self.kind][0])

    @property
    def line(self) -> str:
        """The line that defines the kernel in its `.cu` file."""
        return f"{self.kind.name}({self.name}{self._filled(TEXTS[self.kind][2])})"

    def _filled(self, text: str) -> str:
        policy = "told" if self.lookups >= TOLD_LOOKUPS else "checked" if self.checked else "clamp"
        return text.format(
            d=self.dimensions,
            e=self.element_bytes,
            k=self.lookups,
            i=self.index_bytes or 4,
            l=self.load_bytes,
            s=self.store_bytes,
            bits=8 * self.index_bytes,
            policy=policy,
            walk="once" if self.invariant else "each",
            looked_up=f"_k{self.lookups}_i{self.index_bytes}_{policy}" if self.lookups else "",
            checked=str(self.checked).lower(),
            invariant=str(self.invariant).lower(),
        )

    @property
    def unroll(self) -> int:
        """The number of elements that a walking thread moves. For a tile kernel, the number of loads per thread.

        It equals UNROLL in `copy.cuh`, SPAN_UNROLL in `span.cuh`, COLUMNS in `staged.cuh`, UNITS in `staged_long.cuh` and
        SQUARE_UNITS in `square.cuh`.
        """
        match self.kind:
            case KernelKind.TILES | KernelKind.STRETCH | KernelKind.SQUARES:
                return self.tile_bytes // BLOCK // self.load_bytes
            case KernelKind.CHECK:
                return 1
            case KernelKind.GENERAL:
                return GENERAL_UNROLL
            case KernelKind.REVERSE:
                return 4
            case KernelKind.SPAN:
                return SPAN_UNROLL
            case KernelKind.STAGED:
                return 16 if self.element_bytes < 8 else 8
            case KernelKind.LONG:
                return 16 if self.element_bytes < 4 else 8
        if self.invariant:
            return 8 if self.element_bytes <= 4 else 4
        if self.lookups > 2 and self.element_bytes == VECTOR:
            return 2
        return 8 if self.element_bytes <= 2 and self.lookups == 1 and not self.checked else 4

    @property
    def block(self) -> int:
        """The number of threads per block."""
        return LONG_BLOCK if self.kind is KernelKind.LONG else BLOCK

    @property
    def opts_in(self) -> bool:
        """True if the kernel needs more dynamic shared memory than a block has by default."""
        return self.kind is KernelKind.LONG

    @property
    def tile_bytes(self) -> int:
        """The bytes of the largest tile, equal to TILE_BYTES in `tile.cuh`, or for SQUARES to Size in `square.cuh`."""
        if self.kind is KernelKind.SQUARES:
            return SQUARE_UNITS * BLOCK * self.store_bytes
        return min(8 * BLOCK * min(self.load_bytes, self.store_bytes), 16 * BLOCK * self.element_bytes, 8192)


def _declared() -> Iterator[Variant]:
    sizes, index_sizes, ranks = (1, 2, 4, 8, 16), (4, 8), ((2, 1), (3, 1), (3, 2))  # ranks: dimensions and lookups
    for size, dimensions in product(sizes, (2, 3, 4, 6)):
        yield Variant(KernelKind.COPY, dimensions, size)
    for lane in (1, 2, 4, 8):
        yield Variant(KernelKind.REVERSE, 3, lane)
    for size in sizes:
        for load, store in product((size, max(size, WORD)), repeat=2) if size < WORD else ((size, size),):
            tile = Variant(KernelKind.TILES, element_bytes=size, load_bytes=load, store_bytes=store)
            yield tile
            if size < STRETCHED and load <= store:
                yield tile._replace(kind=KernelKind.STRETCH)
    for size, unit in ((1, 4), (2, 8), (4, 8)):
        yield Variant(KernelKind.SQUARES, element_bytes=size, load_bytes=unit, store_bytes=unit)
    flags = (False, True)
    for (dimensions, lookups), size, index_bytes, checked, invariant in product(ranks, sizes, index_sizes, flags, flags):
        yield Variant(KernelKind.GATHER, dimensions, size, lookups, index_bytes, checked, invariant)
    for size, index_bytes, invariant in product(sizes, index_sizes, flags):
        yield Variant(KernelKind.GATHER, 3, size, TOLD_LOOKUPS, index_bytes, True, invariant)
    yield Variant(KernelKind.SPAN, 3, VECTOR)
    for (dimensions, lookups), index_bytes, checked in product(ranks, index_sizes, flags):
        yield Variant(KernelKind.SPAN, dimensions, VECTOR, lookups, index_bytes, checked)
    for kind, size, index_bytes in product((KernelKind.STAGED, KernelKind.LONG), sizes[:4], index_sizes):
        yield Variant(kind, 0, size, 1, index_bytes)
    for size in sizes:
        yield Variant(KernelKind.GENERAL, element_bytes=size)
    yield Variant(KernelKind.CHECK)


VARIANTS: tuple[Variant, ...] = tuple(_declared())
"""All kernels, in the order of their lines in the `.cu` files."""
DECLARED = frozenset(VARIANTS)
