"""Gathers with the same indices for every row, whose rows come into shared memory: when that pays, and for which teams.

A plain read of an element fetches a sector, and a row that is read in no order is fetched several times over. Staged, a row is
fetched once, by vectors, for the columns of a block; a row with more columns than that is staged by several blocks.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dmlgather.backends.cuda.arguments import MAX_DIMENSIONS, Arguments, Staging
from dmlgather.backends.cuda.launch import Launch, LaunchTarget, launchable, work_arguments
from dmlgather.backends.cuda.launch_form import SECTOR
from dmlgather.backends.cuda.variants import BLOCK, VECTOR, KernelKind, Variant
from dmlgather.backends.cuda.work import Work

SHORTEST_ROW = 1024
"""Bytes of a row. At 256 bytes, staging and plain reads tied in a simulation, and at 4096 bytes, staging won by a third. Counted,
a warp looks up 13 lines for 512 bytes of fp32 either way at 256 bytes, and plain reads look up 37 at 1024 bytes and 85 at 4096.
"""
SHARED_BYTES = 48 * 1024
"""Dynamic shared memory that a block gets without asking; four blocks of it fit on a multiprocessor of 227 KB."""
TEAMS = (8, 16, 32, 64, 128, BLOCK)
"""Threads that share a row."""
FEWEST_STEPS, MOST_STEPS = 3, 16
"""Rows per team. A team that moved a single row lost to plain reads in a simulation, by a third; with three or four, it won. With
more than 16, resolved indices save hardly any more instructions.
"""
RESIDENT = 4
"""Blocks that a multiprocessor holds at a time: counted from registers (55 to 64 for each of 256 threads) and shared memory. A
launch has about a multiple of these, so that the last ones do not run alone.
"""


def staged_launch(work: Work, target: LaunchTarget) -> Launch | None:
    """The staged launch of `work`; None if it cannot be staged or that does not pay."""
    if not _along_rows(work, target):
        return None
    columns, *rows = work.dims
    size, lookup = work.element_bytes, work.lookups[0]
    variant = Variant(KernelKind.STAGED, 0, size, 1, work.index_bytes)
    row_bytes, count = lookup.limit * size, prod(dim.size for dim in rows)
    if row_bytes < SHORTEST_ROW or row_bytes > SECTOR * min(columns.size, BLOCK * variant.unroll):
        return None
    slot = _slot_bytes(work, row_bytes)
    team = _team(columns.size, variant, slot, count, RESIDENT * target.multiprocessors)
    if team is None:
        return None
    groups, parts = -(-count // (BLOCK // team)), -(-columns.size // (team * variant.unroll))
    resident = max(1, RESIDENT * target.multiprocessors)
    waves = -(-groups * parts // (resident * MOST_STEPS))
    steps = -(-groups * parts // (resident * waves))
    if not launchable(count) or steps < FEWEST_STEPS or groups < steps:
        return None
    blocks = -(-groups // steps) * parts
    arguments = Arguments(
        dimensions=(replace(columns, size=parts), *rows),
        threads=count,
        in_bytes=work.in_bytes,
        staging=Staging(columns.size, row_bytes, slot, team, steps, _stores_vectors(work)),
        **work_arguments(work),
    )
    return Launch(variant, blocks, arguments.pack(general=False), shared_bytes=BLOCK // team * slot)


def _along_rows(work: Work, target: LaunchTarget) -> bool:
    """Whether adjacent outputs read elements of one contiguous row, each at its own index, which is the same for every row."""
    if len(work.lookups) != 1 or work.index_bytes < 4 or work.element_bytes >= VECTOR or target.alignment < VECTOR:
        return False
    inner, lookup = work.dims[0], work.lookups[0]
    adjacent = (inner.out_step, inner.in_step, lookup.in_step) == (work.element_bytes, 0, work.element_bytes)
    said = len(work.dims) <= MAX_DIMENSIONS and lookup.fits() and all(dim.fits() for dim in work.dims)
    repeated = any(inner.index_steps) and not any(any(dim.index_steps) for dim in work.dims[1:])
    return adjacent and repeated and said


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
