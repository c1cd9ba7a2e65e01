"""Gathers with the same indices for every row, whose rows come into shared memory: when that pays, and in which blocks.

A plain read of an element fetches a sector, and a row that is read in no order is fetched several times over. Staged, a row is
fetched once, by vectors, for the columns of a block; a row with more columns than that is staged by several blocks. Long rows,
and those that several blocks would stage, have kernels in which a block takes all columns: their places are in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from dmlgather.backends.cuda.arguments import NEAR_DIMENSIONS, Arguments, Dimension, Staging
from dmlgather.backends.cuda.cost import EACH, ISSUED, LINE, RESOLVED, SECTOR, SECTOR_CYCLES, START, WARP, idle
from dmlgather.backends.cuda.launch import RESERVED_SHARED, UNASKED_SHARED, Launch, LaunchTarget, launchable, work_arguments
from dmlgather.backends.cuda.launch_form import THREADS_PER_MULTIPROCESSOR
from dmlgather.backends.cuda.variants import BLOCK, LONG_BLOCK, RESIDENT, VECTOR, KernelKind, Variant
from dmlgather.backends.cuda.work import Work

# What a gather of the same columns from every row costs a multiprocessor, read directly or staged in shared memory.
#
# In the unit of `cost.py`, cycles for a row: the sectors that blocks load and store, the lines and the passes through the banks
# of shared memory that requests take, and instructions, added up. Indices are taken to be random. docs/kernels.md ("staged") has
# the evidence.

BANK_PASSES = 3.5
"""Of a warp that reads random places of shared memory: how often it reads the busiest bank, on average."""
STAGED_ROW, STAGED_COLUMN, STAGED_INDEX = 100.0, 5.5, 20.0
"""Instructions of a thread for a row, for a column of it, and once for the index of a column. Counted in machine code:
`staged_e1_i8` 176 for 16 columns, `staged_e4_i8` 190.
"""
LONG_ROW, LONG_VECTOR, LONG_COLUMN, LONG_INDEX = 150.0, 6.3, 4.5, 24.0
"""The same of the kernels for long rows, and for a vector that comes into shared memory. Counted: `staged_e2_i8_long` has 25 for
four vectors, 72 for 16 columns, 95 for four indices, and about 150 more for a row.
"""


@dataclass(frozen=True, slots=True)
class RowGather:
    """out[r, c] = data[r, index[c]]. row_bytes: that indices reach. index_bytes: to load for the index of a
    column.
    """

    rows: int
    columns: int
    row_bytes: int
    element_bytes: int
    index_bytes: int

    @property
    def _index_bytes(self) -> int:
        return self.columns * self.index_bytes

    def direct(self, multiprocessors: int) -> float:
        """By the family elements: a block reads its columns from as many rows as its threads walk."""
        enough = self.rows * self.columns / max(1, multiprocessors * THREADS_PER_MULTIPROCESSOR)
        moved = next((count for count in (8, 4) if count <= enough and count * self.element_bytes <= 32), 1)
        block, warp = min(self.columns, BLOCK), min(self.columns, WARP)
        again = self._index_bytes / (moved * max(1, BLOCK // self.columns))
        sectors = _touched(self.row_bytes / SECTOR, block) * self.columns / block + again / SECTOR
        lines = _touched(self.row_bytes / LINE, warp) * self.columns / warp + again / LINE
        instructions = ((START + RESOLVED) / moved + EACH) * self.columns
        return self._cycles(sectors, lines, instructions)

    def least(self, team: int) -> float:
        """What rows cost at least that blocks stage, where teams have so many threads or more."""
        passes = self.columns / WARP * BANK_PASSES + self.row_bytes / LINE
        instructions = STAGED_ROW * team + min(STAGED_COLUMN, LONG_COLUMN) * self.columns
        return self._cycles(*self._rows(1, 0), instructions) + passes

    def staged(self, parts: int, team: int, rows: int) -> float:
        """Where `parts` blocks stage each row, in which teams of `team` threads have it, and a block has so many rows."""
        again = self._index_bytes / rows
        passes = self.columns / WARP * BANK_PASSES + parts * self.row_bytes / LINE
        instructions = STAGED_ROW * team * parts + (STAGED_COLUMN + STAGED_INDEX / rows) * self.columns
        return self._cycles(*self._rows(parts, again), instructions) + passes

    def long(self, parts: int, place_bytes: int, rows: int) -> float:
        """The same by the kernels for long rows, which keep a place of so many bytes for each column."""
        again = self._index_bytes / rows
        passes = self.columns / WARP * BANK_PASSES + (parts * self.row_bytes + place_bytes * self.columns) / LINE
        instructions = parts * (LONG_ROW * LONG_BLOCK + LONG_VECTOR * self.row_bytes / VECTOR)
        instructions += (LONG_COLUMN + LONG_INDEX / rows) * self.columns
        return self._cycles(*self._rows(parts, again), instructions) + passes

    def _rows(self, parts: int, again: float) -> tuple[float, float]:
        """Sectors and lines of whole rows and of the bytes of indices."""
        loaded = parts * self.row_bytes + again
        return loaded / SECTOR, loaded / LINE

    def _cycles(self, sectors: float, lines: float, instructions: float) -> float:
        """With what is stored, which is the same for all."""
        stored = self.columns * self.element_bytes
        moved = (sectors + stored / SECTOR) * SECTOR_CYCLES + lines + stored / LINE
        return moved + instructions / WARP / ISSUED


def _touched(units: float, reads: int) -> float:
    """How many of so many units of memory random reads touch."""
    return units * (1 - (1 - 1 / max(units, 1.0)) ** reads)


SHORTEST_ROW = 1024
"""Bytes of a row. At 256 bytes, staging and plain reads tied in a simulation, and at 4096 bytes, staging won by a third. Counted,
a warp looks up 13 lines for 512 bytes of fp32 either way at 256 bytes, and plain reads look up 37 at 1024 bytes and 85 at 4096.
"""
TEAMS = (8, 16, 32, 64, 128, BLOCK)
"""Threads that share a row."""
FEWEST_STEPS, MOST_STEPS = 3, 16
"""Rows per team. A team that moved a single row lost to plain reads in a simulation, by a third; with three or four, it won. With
more than 16, resolved indices save hardly any more instructions.
"""
NARROW_PLACES = 2**16
"""Places of 2 bytes say so many elements, and the fill value behind them."""
MORE_PARTS = 4
"""Blocks that may share a long row, beyond those that it takes for the places of their columns to fit."""


@dataclass(frozen=True, slots=True)
class _Form:
    """Blocks of a launch. staging: of each. parts: that share rows, of `share` columns each. cost: cycles for a row."""

    variant: Variant
    staging: Staging
    parts: int
    share: int
    groups: int
    shared_bytes: int
    cost: float


def staged_launch(work: Work, target: LaunchTarget) -> Launch | None:
    """The staged launch of `work`; None if it cannot be staged or that does not pay."""
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
    """By teams of a block, each of which has a row at a time, and the places of a part of its columns in registers."""
    variant = _variant(work, KernelKind.STAGED)
    slot = _slot_bytes(work, gather.row_bytes)
    team = _team(gather.columns, variant, slot, gather.rows, RESIDENT * target.multiprocessors)
    if team is None:
        return
    at_once, share = BLOCK // team, team * variant.unroll
    groups, parts = -(-gather.rows // at_once), -(-gather.columns // share)
    fitting = (target.shared_bytes + RESERVED_SHARED) // (at_once * slot + RESERVED_SHARED)
    resident = max(1, min(RESIDENT, fitting) * target.multiprocessors)  # about a multiple of these, or a few run alone at the end
    waves = -(-groups * parts // (resident * MOST_STEPS))
    steps = -(-groups * parts // (resident * waves))
    if steps >= FEWEST_STEPS and groups >= steps:
        staging = Staging(gather.columns, gather.row_bytes, slot, team, steps, _stores_vectors(work))
        cost = gather.staged(parts, team, steps * at_once)
        yield _Form(variant, staging, parts, share, -(-groups // steps), at_once * slot, cost)


def _in_blocks(work: Work, gather: RowGather, target: LaunchTarget) -> Iterator[_Form]:
    """By blocks of the kernels for long rows: one has a multiprocessor, a row at a time, and the places of its columns in shared
    memory. As many blocks as multiprocessors, so that few resolve indices. Not for rows that one block stages in teams.
    """
    size, slot = work.element_bytes, _slot_bytes(work, gather.row_bytes)
    place = 2 if (slot - VECTOR) // size < NARROW_PLACES else 4
    fitting = (target.shared_bytes - slot) // place * size // LINE * LINE // size
    staged_once = slot <= UNASKED_SHARED and gather.columns <= BLOCK * _variant(work, KernelKind.STAGED).unroll
    if staged_once or fitting <= 0 or gather.rows < FEWEST_STEPS:
        return
    variant, multiprocessors = _variant(work, KernelKind.LONG), max(1, target.multiprocessors)
    fewest = -(-gather.columns // fitting)
    for wanted in range(fewest, fewest + MORE_PARTS):
        share = -(-gather.columns * size // (wanted * LINE)) * LINE // size
        parts = -(-gather.columns // share)
        steps = -(-gather.rows // max(1, multiprocessors // parts))
        groups = -(-gather.rows // steps)
        staging = Staging(gather.columns, gather.row_bytes, slot, LONG_BLOCK, steps, vectors=False)
        uneven = groups * steps / gather.rows * idle(groups * parts, multiprocessors)
        yield _Form(variant, staging, parts, share, groups, slot + share * place, gather.long(parts, place, steps) * uneven)


def _along_rows(work: Work, target: LaunchTarget) -> bool:
    """Whether adjacent outputs read elements of one contiguous row, each at its own index, which is the same for every row."""
    if len(work.lookups) != 1 or work.index_bytes < 4 or work.element_bytes >= VECTOR or target.alignment < VECTOR:
        return False
    inner, lookup = work.dims[0], work.lookups[0]
    adjacent = (inner.out_step, inner.in_step, lookup.in_step) == (work.element_bytes, 0, work.element_bytes)
    said = len(work.dims) <= NEAR_DIMENSIONS and lookup.fits() and all(dim.fits() for dim in work.dims)
    repeated = any(inner.index_steps) and not any(any(dim.index_steps) for dim in work.dims[1:])
    return adjacent and repeated and said


def _variant(work: Work, kind: KernelKind) -> Variant:
    return Variant(kind, 0, work.element_bytes, 1, work.index_bytes)


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
        if rows_at_once * slot <= UNASKED_SHARED and (team == BLOCK or (whole and busy)):
            return team
    return None


def _stores_vectors(work: Work) -> bool:
    inner, *rows = work.dims
    return not any(at % VECTOR for at in (inner.size * work.element_bytes, work.out_offset, *(dim.out_step for dim in rows)))
