"""What a gather of the same columns from every row costs a multiprocessor, read directly or staged in shared memory.

In the unit of `cost.py`, cycles for a row: the sectors that blocks load and store, the lines and the passes through the banks of
shared memory that requests take, and instructions, added up. Indices are taken to be random. docs/kernels.md ("staged") has the
evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

from dmlgather.backends.cuda.cost import EACH, ISSUED, LINE, RESOLVED, SECTOR, SECTOR_CYCLES, START, WARP
from dmlgather.backends.cuda.launch_form import THREADS_PER_MULTIPROCESSOR
from dmlgather.backends.cuda.variants import BLOCK, LONG_BLOCK, VECTOR

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
