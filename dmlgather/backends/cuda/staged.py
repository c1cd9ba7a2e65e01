"""Staged gathers: each row is first loaded into shared memory, and its elements are then read from there in any order.

All rows must be read at the same indices. A direct read of an element fetches a sector, so reading a row in random order
fetches each sector several times. A staged row is fetched once, by vectors, for all columns of a block. Kernels for long rows
keep the positions of many columns in shared memory.

A *team* is a group of threads of a block that stages and gathers one row at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from dmlgather.backends.cuda.arguments import NEAR_DIMENSIONS, Arguments, Dimension, Staging
from dmlgather.backends.cuda.cost import EACH, ISSUED, LINE, RESOLVED, SECTOR, SECTOR_CYCLES, START, WARP, idle
from dmlgather.backends.cuda.launch import DEFAULT_SHARED, RESERVED_SHARED, Launch, LaunchTarget, launchable, work_arguments
from dmlgather.backends.cuda.launch_form import THREADS_PER_MULTIPROCESSOR
from dmlgather.backends.cuda.variants import BLOCK, LONG_BLOCK, RESIDENT, VECTOR, KernelKind, Variant
from dmlgather.backends.cuda.work import Work

# A cost is the cycles of a multiprocessor per row: a sum for sectors, cache lines, instructions, and passes through the banks
# of shared memory. Indices are assumed to be random. docs/kernels.md ("staged") has the evidence.

BANK_PASSES = 3.5
"""Average number of rounds in which shared memory serves 32 random words. A bank serves one word per round."""
STAGED_ROW, STAGED_COLUMN, STAGED_INDEX = 100.0, 5.5, 20.0
"""Instructions of a thread: for each row, for each of its columns in a row, and once for each index.

Counted for 16 columns of a row: 190 in `staged_e4_i8`. Example: 100 + 16 * 5.5 = 188.
"""
LONG_ROW, LONG_VECTOR, LONG_COLUMN, LONG_INDEX = 150.0, 6.3, 4.5, 24.0
"""The same for long rows: for each row, vector, and column in a row, and once for each index.

Counted in `staged_e2_i8_long`: 25 for four vectors, 72 for 16 columns, 95 for four indices.
"""


@dataclass(frozen=True, slots=True)
class RowGather:
    """The gather out[r, c] = data[r, index[c]]. The methods estimate its cost in cycles per row, for different kernels."""

    rows: int
    columns: int
    row_bytes: int
    element_bytes: int
    index_bytes: int

    @property
    def _all_index_bytes(self) -> int:
        return self.columns * self.index_bytes

    def direct(self, multiprocessors: int) -> float:
        """Return the cost without staging. Each thread reads one column of up to 8 rows directly from device memory."""
        enough = self.rows * self.columns / max(1, multiprocessors * THREADS_PER_MULTIPROCESSOR)
        moved = next((count for count in (8, 4) if count <= enough and count * self.element_bytes <= 32), 1)
        block, warp = min(self.columns, BLOCK), min(self.columns, WARP)
        index_bytes = self._all_index_bytes / (moved * max(1, BLOCK // self.columns))
        sectors = _touched(self.row_bytes / SECTOR, block) * self.columns / block + index_bytes / SECTOR
        lines = _touched(self.row_bytes / LINE, warp) * self.columns / warp + index_bytes / LINE
        instructions = ((START + RESOLVED) / moved + EACH) * self.columns
        return self._cycles(sectors, lines, instructions)

    def least(self, team: int) -> float:
        """Return a lower bound of the cost of every staged launch whose teams have at least `team` threads."""
        return self._staged(1, 0, STAGED_ROW * team + min(STAGED_COLUMN, LONG_COLUMN) * self.columns)

    def staged(self, parts: int, team: int, rows: int) -> float:
        """Return the cost if a block has several teams. (A team is a group of threads that copies a row to shared memory.)

        `parts`: the number of blocks that copy the same row to shared memory. `team`: the number of threads of a team.
        `rows`: the number of rows that a block moves.
        """
        instructions = STAGED_ROW * team * parts + (STAGED_COLUMN + STAGED_INDEX / rows) * self.columns
        return self._staged(parts, self._all_index_bytes / rows, instructions)

    def long(self, parts: int, place_bytes: int, rows: int) -> float:
        """Return the cost of a kernel for long rows.

        `parts`: the number of blocks that copy the same row to shared memory. `rows`: the number of rows that a block moves.
        `place_bytes`: the bytes in which the kernel stores a column's position in the row, 2 or 4.
        """
        instructions = parts * (LONG_ROW * LONG_BLOCK + LONG_VECTOR * self.row_bytes / VECTOR)
        instructions += (LONG_COLUMN + LONG_INDEX / rows) * self.columns
        return self._staged(parts, self._all_index_bytes / rows, instructions, place_bytes)

    def _staged(self, parts: int, index_bytes: float, instructions: float, place_bytes: int = 0) -> float:
        """Return the cost per row of a kernel in which each of `parts` blocks copies the whole row to shared memory.

        `index_bytes`: the bytes of indices to load per row. `place_bytes`: the bytes of a position in shared memory, or 0.
        """
        staged = parts * self.row_bytes
        passes = self.columns / WARP * BANK_PASSES + (staged + place_bytes * self.columns) / LINE
        loaded = staged + index_bytes
        return self._cycles(loaded / SECTOR, loaded / LINE, instructions) + passes

    def _cycles(self, sectors: float, lines: float, instructions: float) -> float:
        stored = self.columns * self.element_bytes
        moved = (sectors + stored / SECTOR) * SECTOR_CYCLES + lines + stored / LINE
        return moved + instructions / WARP / ISSUED


def _touched(units: float, reads: int) -> float:
    """Return the expected number of different sectors (or lines) of a row that random reads touch.

    `units`: the number of sectors (or lines) of the row. `reads`: the number of reads.
    """
    return units * (1 - (1 - 1 / max(units, 1.0)) ** reads)


SHORTEST_ROW = 1024
"""Fewest bytes of a staged row. In a simulation, staging was as fast as direct reads for 256 bytes."""
TEAMS = (8, 16, 32, 64, 128, BLOCK)
"""Numbers of threads that share a row."""
FEWEST_STEPS, MOST_STEPS = 3, 16
"""Fewest and most rows of a team. In a simulation, teams with one row were slower than direct reads."""
NARROW_PLACES = 2**16
"""Positions in shorter rows have 2 bytes. The fill value has the position after the last element."""
MORE_PARTS = 4
"""`_in_blocks` tries this many numbers of blocks for a row, from the fewest possible on."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A way to divide the rows and columns of a gather among blocks.

    `parts`: the number of blocks that share a row. `share`: the number of columns for each of these blocks.
    `groups`: the number of groups of `parts` blocks. The rows are divided among the groups.
    """

    variant: Variant
    staging: Staging
    parts: int
    share: int
    groups: int
    shared_bytes: int
    cost: float


def staged_launch(work: Work, target: LaunchTarget) -> Launch | None:
    """Return a launch that first copies each row to shared memory and then gathers from there.

    Returns None if no such kernel can execute `work`, or if direct reads cost less.
    """
    if not _along_rows(work, target):
        return None
    columns, *rows = work.dims
    size, lookup = work.element_bytes, work.lookups[0]
    index_bytes = min(abs(columns.index_steps[0]), SECTOR)
    gather = RowGather(prod(dim.size for dim in rows), columns.size, lookup.limit * size, size, index_bytes)
    if gather.row_bytes < SHORTEST_ROW or not launchable(gather.rows):
        return None
    direct = gather.direct(target.multiprocessors)
    if gather.least(TEAMS[0]) >= direct:
        return None
    forms = [*_in_teams(work, gather, target), *_in_blocks(work, gather, target)]
    best = min(forms, key=lambda form: form.cost, default=None)
    if best is None or best.cost >= direct or not launchable(best.groups * best.parts):
        return None
    arguments = Arguments(
        dimensions=(Dimension(best.parts, best.share * size, 0, columns.index_steps), *rows),
        threads=gather.rows,
        in_bytes=work.in_bytes,
        staging=best.staging,
        **work_arguments(work),
    )
    blocks = best.groups * best.parts
    return Launch(best.variant, blocks, arguments.pack(general=False), block=best.variant.block, shared_bytes=best.shared_bytes)


def _in_teams(work: Work, gather: RowGather, target: LaunchTarget) -> Iterator[_Form]:
    """Yield the form in which each block has several teams, if there is one.

    Each thread keeps the positions of its columns in registers.
    """
    variant = _variant(work, KernelKind.STAGED)
    slot = _slot_bytes(work, gather.row_bytes)
    team = _team(gather.columns, variant, slot, gather.rows, RESIDENT * target.multiprocessors)
    if team is None:
        return
    at_once, share = BLOCK // team, team * variant.unroll
    groups, parts = -(-gather.rows // at_once), -(-gather.columns // share)
    fitting = (target.shared_bytes + RESERVED_SHARED) // (at_once * slot + RESERVED_SHARED)
    # Make the number of blocks about a multiple of `resident`. Otherwise a few blocks run alone at the end.
    resident = max(1, min(RESIDENT, fitting) * target.multiprocessors)
    waves = -(-groups * parts // (resident * MOST_STEPS))
    steps = -(-groups * parts // (resident * waves))
    if steps >= FEWEST_STEPS and groups >= steps:
        columns, *rows = work.dims
        stored = columns.size * work.element_bytes, work.out_offset, *[dim.out_step for dim in rows]
        vectors = not any(at % VECTOR for at in stored)
        staging = Staging(gather.columns, gather.row_bytes, slot, team, steps, vectors)
        cost = gather.staged(parts, team, steps * at_once)
        yield _Form(variant, staging, parts, share, -(-groups // steps), at_once * slot, cost)


def _in_blocks(work: Work, gather: RowGather, target: LaunchTarget) -> Iterator[_Form]:
    """Yield forms for the kernels for long rows, in which a block moves one row at a time.

    A block runs alone on a multiprocessor. Shared memory also holds the positions of the columns. More blocks than
    multiprocessors would only resolve the same indices again. Yields nothing if another staged kernel copies each row to shared
    memory only once.
    """
    size, slot = work.element_bytes, _slot_bytes(work, gather.row_bytes)
    place = 2 if (slot - VECTOR) // size < NARROW_PLACES else 4
    fitting = (target.shared_bytes - slot) // place * size // LINE * LINE // size
    staged_once = slot <= DEFAULT_SHARED and gather.columns <= BLOCK * _variant(work, KernelKind.STAGED).unroll
    if staged_once or fitting <= 0 or gather.rows < FEWEST_STEPS:
        return
    variant, multiprocessors = _variant(work, KernelKind.LONG), max(1, target.multiprocessors)
    fewest = -(-gather.columns // fitting)
    for count in range(fewest, fewest + MORE_PARTS):
        share = -(-gather.columns * size // (count * LINE)) * LINE // size
        parts = -(-gather.columns // share)
        steps = -(-gather.rows // max(1, multiprocessors // parts))
        groups = -(-gather.rows // steps)
        staging = Staging(gather.columns, gather.row_bytes, slot, LONG_BLOCK, steps, vectors=False)
        uneven = groups * steps / gather.rows * idle(groups * parts, multiprocessors)
        yield _Form(variant, staging, parts, share, groups, slot + share * place, gather.long(parts, place, steps) * uneven)


def _along_rows(work: Work, target: LaunchTarget) -> bool:
    """Return True if the same indices gather every input row into one row of the output."""
    if len(work.lookups) != 1 or work.index_bytes < 4 or work.element_bytes >= VECTOR or target.alignment < VECTOR:
        return False
    inner, lookup = work.dims[0], work.lookups[0]
    adjacent = (inner.out_step, inner.in_step, lookup.in_step) == (work.element_bytes, 0, work.element_bytes)
    representable = len(work.dims) <= NEAR_DIMENSIONS and lookup.fits() and all(dim.fits() for dim in work.dims)
    repeated = any(inner.index_steps) and not any(any(dim.index_steps) for dim in work.dims[1:])
    return adjacent and repeated and representable


def _variant(work: Work, kind: KernelKind) -> Variant:
    return Variant(kind, 0, work.element_bytes, 1, work.index_bytes)


def _slot_bytes(work: Work, row_bytes: int) -> int:
    """Return the bytes of shared memory for one row: the 16-byte vectors that contain it, and a vector of fill values."""
    aligned = not any(at % VECTOR for at in (work.in_offset, *(dim.in_step for dim in work.dims)))
    most_bytes = row_bytes if aligned else VECTOR - work.element_bytes + row_bytes
    return -(-most_bytes // VECTOR) * VECTOR + VECTOR


def _team(columns: int, variant: Variant, slot: int, rows: int, blocks: int) -> int | None:
    """Return the number of threads of a team, or None if a block's rows do not fit into shared memory.

    It is the smallest team that moves a whole row at once. If that gives too few blocks for the GPU, the team is larger, up to
    one 16-byte vector per thread.
    """
    for team in TEAMS:
        rows_at_once = BLOCK // team
        whole = team * variant.unroll >= columns
        busy = rows >= blocks * rows_at_once or team * VECTOR >= columns * variant.element_bytes
        if rows_at_once * slot <= DEFAULT_SHARED and (team == BLOCK or (whole and busy)):
            return team
    return None
