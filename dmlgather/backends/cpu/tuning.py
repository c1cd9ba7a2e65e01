"""The sizes that the recipes turn on. Measured, not derived: docs/cpu-recipes.md says how to measure them again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Thresholds and block sizes. Any positive values give the same bits; tests use tiny ones to reach every path."""

    block_bytes: int = 2**24
    """Payload of one block: enough to hide the cost of the Python step that starts it."""
    block_units: int = 2**17
    """Units of one block whose offsets are computed, which makes 1 MiB of offsets."""
    scratch_bytes: int = 15 * 2**19
    """Memory for offsets, tiles and copies, over all threads of a call."""
    share_bytes: int = 2**23
    """Bytes of a plain copy, more than half a millisecond, that make it worth waking another thread: handing work over costs
    0.1 ms and the interpreter lock again and again."""
    page: int = 2**12
    """Where the output lies 1 to 16 bytes after the source, modulo so many bytes, the C library moves long runs slowly;"""
    long_unit: int = 2**11
    """runs of at least this many bytes are then taken in even parts"""
    part_unit: int = 2**9
    """of at most this many."""
    longest_unit: int = 2**20
    """Bytes of the longest run handled as one item where it has no even parts; a longer one stays a dimension of elements, so
    that threads can share it."""
    longest_item: int = 2**8
    """Bytes of the longest run that a copy without lookups handles as one item: NumPy lets other threads run only where it
    copies more than 500 items, and longer runs copy as quickly by words."""
    widest_half: int = 2
    """Bytes of the widest unit for which converting pairs is quicker than stepping over every second one."""
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

    native_unit: int = 2**3
    """Bytes of the longest unit for which NumPy's own check, which costs a copy of the block, is quicker than a proof."""
    native_window: int = 2**23
    """Bytes of the longest source for which it is: where every unit misses the cache, the proof is quicker again."""
    small_units: int = 2**13
    """A problem of up to this many units and"""
    small_bytes: int = 2**16
    """bytes keeps the views of its only block between runs."""


MEASURED = Tuning()
