"""The block of arguments that every kernel takes by value, byte for byte as in `cuda_kernels/arguments.cuh`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

LIMIT = 2**31
NEAR_LIMIT = 2**14


def magic(divisor: int) -> tuple[int, int]:
    """Return a 32-bit multiplier and a shift so that n // divisor == (n * multiplier) >> shift for every 0 <= n < 2**31.

    With shift = 31 + ceil(log2 divisor) and multiplier = ceil(2**shift / divisor), the excess e = multiplier * divisor -
    2**shift is below 2**(shift - 31). So n * e < 2**shift, and the quotient is never too large. Example: divisor 3 has shift 33
    and multiplier 2863311531; the excess is 1.
    """
    if not 0 < divisor < LIMIT:
        raise ValueError(f"the divisor is {divisor}, expected 1 … {LIMIT - 1}")
    shift = 31 + (divisor - 1).bit_length()
    return -(-(1 << shift) // divisor), shift


def odd_magic(divisor: int) -> int:
    """Return a multiplier so that n // divisor == ((2 * n + 1) * multiplier) >> 32 for every 0 <= n < 2**14.

    Proof: the exact quotient q = (2 * n + 1) / (2 * divisor) is larger than n / divisor. It is at least 1 / (2 * divisor)
    smaller than the next integer, because 2 * n + 1 is odd. The multiplier ceil(2**31 / divisor) is rounded up by e / divisor,
    where e = multiplier * divisor - 2**31 < divisor. This adds (2 * n + 1) * e / (divisor * 2**32) to q. Here 2 * n + 1 < 2**15
    and e < 2**14, so q grows by less than 1 / (2 * divisor). Example: divisor 3 has multiplier 715827883, and e = 1.
    """
    if not 0 < divisor <= NEAR_LIMIT:
        raise ValueError(f"the divisor is {divisor}, expected 1 … {NEAR_LIMIT}")
    return -(-(1 << 31) // divisor)


def wide_magic(divisor: int) -> tuple[int, int]:
    """Return a 64-bit multiplier and a shift so that n // divisor == (n * multiplier >> 64) >> shift for every 0 <= n < 2**63.

    See `magic` for the proof.
    """
    if not 1 < divisor < 2**63:
        raise ValueError(f"the divisor is {divisor}, expected 2 … {2**63 - 1}")
    bits = (divisor - 1).bit_length()
    return -(-(1 << (63 + bits)) // divisor), bits - 1


LAYOUT: tuple[tuple[str, str], ...] = (
    ("in", "Q"),
    ("indices", "Q"),
    ("out", "Q"),
    ("first_bad", "Q"),
    ("table", "Q"),
    ("in_offset", "q"),
    ("out_offset", "q"),
    ("in_walk", "q"),
    ("out_walk", "q"),
    ("threads", "I"),
    ("full", "I"),
    ("chunk", "I"),
    ("rank", "I"),
    ("lookups", "I"),
    ("index_shift", "I"),
    ("index_signed", "I"),
    ("checked", "I"),
    ("fill", "16s"),
    ("dimension", "112s"),
    ("lookup", "96s"),
    ("in_bytes", "q"),
    ("staging", "24s"),
    ("runs", "24s"),
    ("far_dimension", "56s"),
    ("far_lookup", "48s"),
    ("far_index_step", "24s"),
)
"""Fields of `Arguments` in order, with their formats for the module struct."""

POINTERS = struct.Struct("<4Q")
"""The first four fields. Every launch writes them."""
CONSTANTS = struct.Struct("<Q")
"""The field `table`, which is written only once."""
CONSTANTS_OFFSET = POINTERS.size

MAX_DIMENSIONS, MAX_LOOKUPS = 6, 3
"""Most thread dimensions and lookups of the specialised kernels."""
NEAR_DIMENSIONS, NEAR_LOOKUPS = 4, 2
"""Entries in the fields `dimension` and `lookup`. The fields `far_…` hold all others."""
MAX_TILED = 6
"""Most dimensions of a tile."""

_BLOCK = struct.Struct("<" + "".join(code for _, code in LAYOUT))
_DIMENSION = struct.Struct("<3I2i2i")
_FAR_STEP = struct.Struct("<i")
_LOOKUP = struct.Struct("<6q")
_TABLE_DIMENSION = struct.Struct("<4I2q")
_STAGING = struct.Struct("<6I")
_RUNS = struct.Struct("<Qq2I")
_TILE_FORM = struct.Struct("<i5IiI")
_TILE_DIMENSION = struct.Struct("<2I2i")


class Dimension(NamedTuple):
    """A dimension over which a kernel distributes its threads. Steps are strides in bytes.

    `index_steps`: the step of each lookup in the index buffer.
    """

    size: int
    out_step: int = 0
    in_step: int = 0
    index_steps: tuple[int, ...] = ()

    def fits(self) -> bool:
        """Return True if all steps fit in 32 bits, as specialised kernels require."""
        steps = (self.out_step, self.in_step, *self.index_steps)
        return min(steps) >= -(2**31) and max(steps) < 2**31

    def pack(self) -> bytes:
        """Return the C struct `Dimension`."""
        near = (*self.index_steps, 0, 0)[:NEAR_LOOKUPS]
        return _DIMENSION.pack(self.size, *magic(self.size), self.out_step, self.in_step, *near)

    def pack_far_step(self) -> bytes:
        """Return the bytes of the third lookup's index step. The C struct `Dimension` has only two."""
        return _FAR_STEP.pack(self.index_steps[NEAR_LOOKUPS])

    def pack_for_table(self, last: int = 0) -> bytes:
        """Return the C struct `TableDimension`.

        `last`: the bit of this dimension in positions of `Tiling.forms`, or 0. It is set for the last tile along the dimension.
        """
        return _TABLE_DIMENSION.pack(self.size, *magic(self.size), last, self.out_step, self.in_step)


class LookupBytes(NamedTuple):
    """A lookup whose offset and strides are in bytes.

    `walk`: the distance between the indices of two consecutive elements of a thread.
    """

    offset: int
    walk: int
    wrap: int
    limit: int
    in_step: int
    signed: bool

    def fits(self) -> bool:
        """Return True if limit, wrap and step fit in 32 bits, as specialised kernels require."""
        return self.limit < 2**31 and self.wrap < 2**31 and -(2**31) <= self.in_step < 2**31

    def pack(self) -> bytes:
        """Return the C struct `Lookup`. Limit and wrap must be below `COUNTABLE`."""
        last = self.limit - 1
        below = 0 if self.signed else last
        return _LOOKUP.pack(self.offset, self.walk, self.wrap, last, below, self.in_step)


@dataclass(frozen=True, slots=True)
class Staging:
    """How a staged kernel copies rows to shared memory: the C struct `Staging` of `arguments.cuh`.

    `slot_bytes`: the bytes of shared memory for one row. `team`: the number of threads that move a row.
    `steps`: the number of rows that a team moves, one after the other.
    `vectors`: True if threads store 16-byte vectors, False if they store elements.
    """

    columns: int
    row_bytes: int
    slot_bytes: int
    team: int
    steps: int
    vectors: bool

    def pack(self) -> bytes:
        """Return the bytes of the C struct."""
        return _STAGING.pack(self.columns, self.row_bytes, self.slot_bytes, self.team.bit_length() - 1, self.steps, self.vectors)


@dataclass(frozen=True, slots=True)
class PackedRuns:
    """`count` runs of `run_bytes` bytes each, which follow one another in the output.

    `steps`: the number of 16-byte vectors that a thread writes.
    """

    run_bytes: int
    count: int
    steps: int

    def pack(self) -> bytes:
        """Return the bytes of the C struct."""
        multiplier, shift = wide_magic(self.run_bytes)
        return _RUNS.pack(multiplier, self.run_bytes * self.count, shift, self.steps)


class TileDimension(NamedTuple):
    """One dimension of a tile: the C struct `TileDimension` of `tile.cuh`.

    `step`: the stride in the input or output, in bytes. `place`: the stride in shared memory, in bytes.
    """

    size: int
    step: int
    place: int = 0

    def pack(self) -> bytes:
        """Return the bytes of the C struct."""
        return _TILE_DIMENSION.pack(self.size, odd_magic(self.size), self.step, self.place)


class TileForm(NamedTuple):
    """How a kernel loads and stores the tiles of one size: the C struct `TileForm` of `tile.cuh`.

    `in_start`: the distance in bytes from a tile's first element to its lowest address in the input.
    `loads`, `stores`: the number of loads and stores. `first_place`: the position of the first element in shared memory.
    `load`, `store`: the dimensions in the order of the input and of the output, fastest first.
    """

    in_start: int
    loads: int
    stores: int
    first_place: int
    load: tuple[TileDimension, ...]
    store: tuple[TileDimension, ...]
    lane_step: int = 0
    room_shift: int = 0

    def pack(self) -> bytes:
        """Return the bytes of the C struct."""
        counts = self.loads, self.stores, self.first_place, len(self.load), len(self.store)
        parts = [_TILE_FORM.pack(self.in_start, *counts, self.lane_step, self.room_shift)]
        for dims in (self.load, self.store):
            parts += [dim.pack() for dim in dims]
            parts.append(bytes(_TILE_DIMENSION.size * (MAX_TILED - len(dims))))
        return b"".join(parts)


class Arguments(NamedTuple):
    """The arguments of one launch, except the pointers. The fastest dimension comes first."""

    dimensions: tuple[Dimension, ...]
    threads: int
    lookups: tuple[LookupBytes, ...] = ()
    in_offset: int = 0
    out_offset: int = 0
    in_walk: int = 0
    out_walk: int = 0
    in_bytes: int = 0
    full: int = 0
    chunk: int = 0
    index_shift: int = 0
    index_signed: bool = False
    checked: bool = False
    fill: bytes = b""
    staging: Staging | None = None
    runs: PackedRuns | None = None

    def pack(self, general: bool) -> bytes:
        """Return the argument block with null pointers. A `general` kernel reads dimensions and lookups from its table."""
        dims, lookups = ((), ()) if general else (self.dimensions, self.lookups)
        fill = self.fill * (16 // len(self.fill)) if self.fill else bytes(16)
        staging = self.staging.pack() if self.staging else b""
        runs = self.runs.pack() if self.runs else b""
        far_steps = [dim.pack_far_step() for dim in dims] if len(lookups) > NEAR_LOOKUPS else []
        return _BLOCK.pack(
            *(0, 0, 0, 0, 0),
            *(self.in_offset, self.out_offset, self.in_walk, self.out_walk),
            *(self.threads, self.full, self.chunk, len(self.dimensions), len(self.lookups)),
            *(self.index_shift, self.index_signed, self.checked, fill),
            *(_packed(dims[:NEAR_DIMENSIONS]), _packed(lookups[:NEAR_LOOKUPS]), self.in_bytes, staging, runs),
            *(_packed(dims[NEAR_DIMENSIONS:]), _packed(lookups[NEAR_LOOKUPS:]), b"".join(far_steps)),
        )

    def table(self) -> bytes:
        """Return the table that a general kernel reads: dimensions, lookups, and index steps as an array [lookups][rank]."""
        dimensions = b"".join(dim.pack_for_table() for dim in self.dimensions)
        lookups = b"".join(lookup.pack() for lookup in self.lookups)
        steps: Sequence[int] = [dim.index_steps[k] for k in range(len(self.lookups)) for dim in self.dimensions]
        return dimensions + lookups + struct.pack(f"<{len(steps)}q", *steps)


def _packed(parts: Sequence[Dimension] | Sequence[LookupBytes]) -> bytes:
    return b"".join([part.pack() for part in parts])
