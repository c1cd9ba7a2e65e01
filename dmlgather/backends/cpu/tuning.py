"""The sizes by which recipes are chosen and blocks cut, as measured: docs/cpu-recipes.md says how to measure them again."""

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
    """Bytes of a plain copy (more than half a millisecond) for each further thread: handing work over costs 0.1 ms, and threads
    wait for the interpreter lock."""
    page: int = 2**12
    """If the output lies 1 to 16 bytes after the source, modulo this many bytes, the C library moves long runs slowly."""
    long_unit: int = 2**11
    """Runs of at least this many bytes are then taken in equal parts."""
    part_unit: int = 2**9
    """Bytes of such a part at most."""
    longest_unit: int = 2**20
    """Bytes of the longest run handled as one item if it has no equal parts; a longer one stays a dimension of elements, so that
    threads can share it."""
    longest_item: int = 2**8
    """Bytes of the longest run that a copy without lookups handles as one item: NumPy lets other threads run only where it
    copies more than 500 items, and longer runs copy as quickly by words."""
    widest_half: int = 2
    """Bytes of the widest unit for which converting pairs is quicker than stepping over every second one."""
    tile: int = 2**9
    """Units per side of a tile of a transposed copy."""
    tile_bytes: int = 2**20
    """Bytes of that tile, which stays in cache between being filled and emptied."""
    column_block: int = 2**8
    """Units of the width of a block whose neighbours share cache lines with the rows it reads from."""
    cache_line: int = 2**6
    """Bytes that memory moves at once."""
    alias_bytes: int = 2**9
    """Steps that are multiples of this fall into few sets of the first-level cache and push each other out."""
    short: int = 2**3
    """An innermost dimension of up to this many units is copied one position at a time, so that the inner loop is longer."""
    row_units: int = 2**10
    """A take of at least this many units is worth a call of its own if that saves adding up offsets."""
    shared_row_units: int = 2**15
    """The same if threads share the work: shorter calls spend their time handing over the GIL."""
    slice_units: int = 2**14
    """A slice of at least this many units is worth a copy of its own."""

    native_unit: int = 2**3
    """Bytes of the longest unit for which NumPy's own check, which costs a copy of the block, is quicker than a proof."""
    native_window: int = 2**23
    """Bytes of the longest source for which that holds: if every unit misses the cache, the proof is quicker again."""
    small_units: int = 2**13
    """A problem of up to this many units and `small_bytes` keeps the views of its only block between runs."""
    small_bytes: int = 2**16


MEASURED = Tuning()
