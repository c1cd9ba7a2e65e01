"""The sizes that the recipes turn on. Measured, not derived: benchmarks/README.md says how to measure them again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds and block sizes. Any positive values give the same bits; tests use tiny ones to reach every path."""

    block_bytes: int = 2**24
    """Payload of one block: enough to hide the cost of the Python step that starts it."""
    block_units: int = 2**17
    """Units of one block whose offsets are computed, which makes 1 MiB of offsets."""
    share_bytes: int = 2**21
    """Bytes that are worth a thread: handing work over costs about 0.1 ms."""
    longest_unit: int = 2**20
    """Bytes of the longest run handled as one item; a longer one stays a dimension, so that threads can share it."""
    tile: int = 2**9
    """Units per side of a tile of a transposed copy, and"""
    tile_bytes: int = 2**20
    """bytes of that tile, which stays in cache between being filled and emptied."""
    column_block: int = 2**8
    """Units of the width of a block whose neighbours share cache lines with the rows it reads from."""
    cache_line: int = 2**6
    """Bytes that memory moves at once."""
    alias_bytes: int = 2**9
    """Steps that are multiples of this fall into few sets of the first-level cache and push each other out."""
    short: int = 2**3
    """An innermost dimension of up to this many units is walked apart, so that the inner loop runs along a longer one."""
    row_units: int = 2**10
    """A take of at least this many units is worth a call of its own where that saves adding up offsets, and"""
    shared_row_units: int = 2**15
    """of at least this many where threads share the work: shorter calls spend their time handing over the GIL."""
    slice_units: int = 2**14
    """A slice of at least this many units is worth a copy of its own."""


MEASURED = Tuning()
