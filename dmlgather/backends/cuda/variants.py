"""The list of kernel variants: every entry point of `cuda_kernels/`, and nothing else.

Common ranks and lookup counts have specialised kernels. The general kernels run everything else. A variant's `line` is its
line in the `.cu` file `unit`; a test compares both lists.
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
"""Resident blocks per multiprocessor: the launch bound of all kernels, which limits a thread to 64 registers."""
GENERAL_UNROLL = 4
"""Elements that a thread of a general kernel walks."""
SPAN_UNROLL = 4
"""Vectors that a thread of a span kernel walks."""
WORD = 4
"""Bytes of a load or store that a tile kernel uses for several adjacent elements of 1 or 2 bytes."""
SQUARE_UNITS = 4
"""Units of each tile that a thread of a squares kernel moves."""
VECTOR = 16
"""Bytes of the widest load and store."""
STRETCHED = 8
"""Elements of fewer bytes than this have stretch kernels. For wider ones, requests use nine tenths of their sectors anyway."""
TOLD_LOOKUPS = 3
"""Gathers with this many lookups or more read the policy from their arguments: TOLD in `copy.cuh`."""


class KernelKind(enum.Enum):
    """The kind of work that a kernel does."""

    COPY = "copy"
    """A slice: no lookups."""
    REVERSE = "reverse"
    """A slice whose innermost input stride is -1: 16-byte vectors from mirrored addresses, with their lanes reversed."""
    TILES = "tiles"
    """A slice whose input and output are contiguous along different dimensions: boxes are transposed in shared memory."""
    STRETCH = "stretch"
    """Tiles whose boxes are contiguous in the output: requests begin and end at sector boundaries."""
    SQUARES = "squares"
    """Tiles where both sides are contiguous for whole units: squares of elements are transposed in registers."""
    GATHER = "gather"
    """One to three lookups."""
    SPAN = "span"
    """Contiguous runs of bytes at any alignment, with up to two lookups: each vector is made from two aligned ones."""
    STAGED = "staged"
    """One lookup along the innermost output dimension, with the same indices for every row: whole rows in shared memory."""
    LONG = "long"
    """Staged, for long rows: a block of 1024 threads moves one row at a time; columns' positions are in shared memory."""
    GENERAL = "general"
    """Any rank and number of lookups up to 32, any index type, steps and limits beyond 31 bits."""
    CHECK = "check"
    """RAISE with an empty output, or over an axis of size 0: only checks the indices."""


class Variant(NamedTuple):
    """One compiled kernel.

    `dimensions`: thread dimensions; 0 for a general kernel, which reads their number from its arguments.
    `element_bytes`: bytes of one load and store; for REVERSE, of one lane.
    `index_bytes`: 4 or 8 for GATHER, STAGED, LONG and SPAN.
    `checked`: True for FILL and RAISE, False for CLAMP and PROMISE. STAGED, LONG, and GATHER with TOLD_LOOKUPS read the
    policy from their arguments.
    `invariant`: no lookup moves along the walked dimension, so that a thread resolves its indices once.
    `load_bytes`, `store_bytes`: bytes of a load and a store of TILES, STRETCH and SQUARES.
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
        """Return the name of the entry point, a C identifier: `gather_d2_k1_e16_i8_clamp_once`."""
        return "_".join(self.name_parts)

    @property
    def name_parts(self) -> tuple[str, ...]:
        """Return the parts of the name, which `name_legend` explains."""
        dimensions, element, index = f"d{self.dimensions}", f"e{self.element_bytes}", f"i{self.index_bytes}"
        policy = "told" if self.lookups >= TOLD_LOOKUPS else "checked" if self.checked else "clamp"
        lookup = "once" if self.invariant else "each"
        match self.kind:
            case KernelKind.COPY | KernelKind.REVERSE:
                return self.kind.value, dimensions, element
            case KernelKind.TILES | KernelKind.STRETCH | KernelKind.SQUARES:
                return self.kind.value, element, f"l{self.load_bytes}", f"s{self.store_bytes}"
            case KernelKind.GENERAL:
                return self.kind.value, element
            case KernelKind.CHECK:
                return ("check_indices_only",)
            case KernelKind.SPAN:
                looked_up = (f"k{self.lookups}", index, policy) if self.lookups else ()
                return self.kind.value, dimensions, *looked_up
            case KernelKind.STAGED:
                return self.kind.value, element, index
            case KernelKind.LONG:
                return KernelKind.STAGED.value, element, index, self.kind.value
            case KernelKind.GATHER:
                return self.kind.value, dimensions, f"k{self.lookups}", element, index, policy, lookup

    @property
    def unit(self) -> str:
        """Return the name of the `.cu` file that holds the entry point."""
        match self.kind:
            case KernelKind.COPY | KernelKind.REVERSE:
                return "slice.cu"
            case KernelKind.TILES | KernelKind.STRETCH | KernelKind.SQUARES:
                return "tile.cu"
            case KernelKind.SPAN:
                return "span.cu"
            case KernelKind.STAGED | KernelKind.LONG:
                return "staged.cu"
            case KernelKind.GENERAL | KernelKind.CHECK:
                return "general.cu"
        return f"gather{self.lookups}_index{8 * self.index_bytes}.cu"

    @property
    def line(self) -> str:
        """Return the entry point's line in its unit."""
        match self.kind:
            case KernelKind.COPY | KernelKind.REVERSE:
                arguments: tuple[object, ...] = (self.dimensions, self.element_bytes)
            case KernelKind.TILES | KernelKind.STRETCH:
                arguments = (self.element_bytes, self.load_bytes, self.store_bytes)
            case KernelKind.SQUARES:
                arguments = (self.element_bytes, self.store_bytes)
            case KernelKind.GENERAL:
                arguments = (self.element_bytes,)
            case KernelKind.CHECK:
                arguments = ()
            case KernelKind.SPAN:
                arguments = (self.dimensions, self.lookups, self.index_bytes or 4, str(self.checked).lower())
            case KernelKind.STAGED | KernelKind.LONG:
                arguments = (self.element_bytes, self.index_bytes)
            case KernelKind.GATHER:
                flags = (str(self.checked).lower(), str(self.invariant).lower())
                arguments = (self.dimensions, self.lookups, self.element_bytes, self.index_bytes, *flags)
        return f"{self.kind.name}({', '.join(map(str, (self.name, *arguments)))})"

    @property
    def unroll(self) -> int:
        """Return the number of elements that a thread walks, or of units that it loads.

        It equals UNROLL in `copy.cuh`, SPAN_UNROLL in `span.cuh`, COLUMNS in `staged.cuh`, UNITS in `staged_long.cuh` and
        SQUARE_UNITS in `square.cuh`, and follows from TILE_BYTES in `tile.cuh`.
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
        """Return the number of threads per block."""
        return LONG_BLOCK if self.kind is KernelKind.LONG else BLOCK

    @property
    def opts_in(self) -> bool:
        """Return True if the kernel opts in to more dynamic shared memory than the default of a block."""
        return self.kind is KernelKind.LONG

    @property
    def tile_bytes(self) -> int:
        """Return the most bytes of a tile: TILE_BYTES in `tile.cuh`, or those of a squares kernel."""
        if self.kind is KernelKind.SQUARES:
            return SQUARE_UNITS * BLOCK * self.store_bytes
        return min(8 * BLOCK * min(self.load_bytes, self.store_bytes), 16 * BLOCK * self.element_bytes, 8192)


def _declared() -> Iterator[Variant]:
    sizes = (1, 2, 4, 8, 16)
    for size in sizes:
        for dimensions in (2, 3, 4, 6):
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
    for dimensions, lookups in ((2, 1), (3, 1), (3, 2)):
        for size in sizes:
            for index_bytes in (4, 8):
                for checked in (False, True):
                    for invariant in (False, True):
                        yield Variant(KernelKind.GATHER, dimensions, size, lookups, index_bytes, checked, invariant)
    for size in sizes:
        for index_bytes in (4, 8):
            for invariant in (False, True):
                yield Variant(KernelKind.GATHER, 3, size, TOLD_LOOKUPS, index_bytes, True, invariant)
    yield Variant(KernelKind.SPAN, 3, VECTOR)
    for dimensions, lookups in ((2, 1), (3, 1), (3, 2)):
        for index_bytes in (4, 8):
            for checked in (False, True):
                yield Variant(KernelKind.SPAN, dimensions, VECTOR, lookups, index_bytes, checked)
    for kind in (KernelKind.STAGED, KernelKind.LONG):
        for size in (1, 2, 4, 8):
            for index_bytes in (4, 8):
                yield Variant(kind, 0, size, 1, index_bytes)
    for size in sizes:
        yield Variant(KernelKind.GENERAL, element_bytes=size)
    yield Variant(KernelKind.CHECK)


VARIANTS: tuple[Variant, ...] = tuple(_declared())
"""All variants, in the order of the units' lines."""
DECLARED = frozenset(VARIANTS)
"""`VARIANTS` as a set."""
