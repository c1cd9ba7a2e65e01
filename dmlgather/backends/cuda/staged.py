"""Gathers along the innermost output dimension, whose rows come into shared memory: when that pays, and for which teams.

A plain read of an element fetches a sector, and a row that is read in no order is fetched several times over. Staged, a row is
fetched once, by vectors, for the columns of a block; a row with more columns than that is staged by several blocks.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dmlgather.backends.cuda.arguments import MAX_DIMENSIONS, Arguments, Staging
from dmlgather.backends.cuda.launch import Launch, LaunchTarget, launchable, work_arguments
from dmlgather.backends.cuda.variants import BLOCK, VECTOR, KernelKind, Variant
from dmlgather.backends.cuda.work import Work

SECTOR = 32
"""Bytes that a plain read fetches."""
SHORTEST_ROW = 256
"""Bytes of a row. Shorter rows lie in so few sectors that plain reads find them in the L1 cache."""
SHARED_BYTES = 48 * 1024
"""Dynamic shared memory that a block gets without asking; four blocks of it fit on a multiprocessor of 227 KB."""
TEAMS = (4, 8, 16, 32, 64, 128, BLOCK)
"""Threads that share a row."""
MOST_STEPS = 16
"""Rows per team at most; with more, resolved indices save hardly any more time."""
FEWEST = 1
"""Blocks per multiprocessor at least; with fewer, multiprocessors would be idle."""
BUSY = 4
"""Blocks per multiprocessor that keep it busy."""
WAVES = 2 * BUSY
"""Blocks per multiprocessor at least for teams to move several rows; with fewer, an uneven last wave costs more."""


def staged_launch(work: Work, target: LaunchTarget) -> Launch | None:
    """The staged launch of `work`; None if it cannot be staged or that does not pay."""
    if not _along_rows(work, target):
        return None
    columns, *rows = work.dims
    size, lookup = work.element_bytes, work.lookups[0]
    each = any(any(dim.index_steps) for dim in rows)
    variant = Variant(KernelKind.STAGED, 0, size, 1, work.index_bytes, invariant=not each)
    row_bytes, count = lookup.limit * size, prod(dim.size for dim in rows)
    if row_bytes < SHORTEST_ROW or row_bytes > SECTOR * min(columns.size, BLOCK * variant.unroll):
        return None
    slot = _slot_bytes(work, row_bytes)
    team = _team(columns.size, variant, slot, count, BUSY * target.multiprocessors)
    if team is None:
        return None
    groups, parts = -(-count // (BLOCK // team)), -(-columns.size // (team * variant.unroll))
    steps = min(MOST_STEPS, max(1, groups * parts // max(1, WAVES * target.multiprocessors)))
    blocks = -(-groups // steps) * parts
    if not (launchable(count) and launchable(blocks)) or blocks < FEWEST * target.multiprocessors:
        return None
    arguments = Arguments(
        dimensions=(replace(columns, size=parts), *rows),
        threads=count,
        in_bytes=work.in_bytes,
        staging=Staging(columns.size, row_bytes, slot, team, steps, _stores_vectors(work)),
        **work_arguments(work),
    )
    return Launch(variant, blocks, arguments.pack(general=False), shared_bytes=BLOCK // team * slot)


def _along_rows(work: Work, target: LaunchTarget) -> bool:
    """Whether adjacent outputs read elements of one contiguous row, each at its own index from a single lookup."""
    if len(work.lookups) != 1 or work.index_bytes < 4 or work.element_bytes >= VECTOR or target.alignment < VECTOR:
        return False
    inner, lookup = work.dims[0], work.lookups[0]
    adjacent = (inner.out_step, inner.in_step, lookup.in_step) == (work.element_bytes, 0, work.element_bytes)
    said = len(work.dims) <= MAX_DIMENSIONS and lookup.fits() and all(dim.fits() for dim in work.dims)
    return adjacent and any(inner.index_steps) and said


def _slot_bytes(work: Work, row_bytes: int) -> int:
    """Bytes of shared memory for a row, at any start within a vector, and for the fill value."""
    aligned = not any(at % VECTOR for at in (work.in_offset, *(dim.in_step for dim in work.dims)))
    reach = row_bytes if aligned else VECTOR - work.element_bytes + row_bytes
    return -(-reach // VECTOR) * VECTOR + VECTOR


def _team(columns: int, variant: Variant, slot: int, rows: int, blocks: int) -> int | None:
    """The smallest team that covers a row's columns in one pass; a larger one if there would be too few blocks, as long as every
    thread still stores a vector. None if its rows do not fit into shared memory.
    """
    for team in TEAMS:
        rows_at_once = BLOCK // team
        whole = team * variant.unroll >= columns
        busy = rows >= blocks * rows_at_once or team * VECTOR >= columns * variant.element_bytes
        if rows_at_once * slot <= SHARED_BYTES and (team == BLOCK or (whole and busy)):
            return team
    return None


def _stores_vectors(work: Work) -> bool:
    inner, *rows = work.dims
    return not any(at % VECTOR for at in (inner.size * work.element_bytes, work.out_offset, *(dim.out_step for dim in rows)))
