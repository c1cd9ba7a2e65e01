"""Which rows of which chunks a gather wants: block by block of the indices, and group by group of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU
from dmlgather.distributed.chunk_grid import Chunks, Place, cells, replace_axis
from dmlgather.distributed.index_blocks import block_chunks, grouped
from dmlgather.distributed.splitting import Rows, Split, chunk_starts, split, union


@dataclass(frozen=True, slots=True)
class Block:
    """One block of the indices: its number along each dimension of them, and the rows that it wants."""

    place: Place
    split: Split


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks that share the loads of their chunks. rows: those that any of them wants."""

    blocks: tuple[Block, ...]
    rows: Rows


@dataclass(frozen=True, slots=True)
class Routing:
    """What every block of a gather wants.

    index_chunks: sizes of the blocks along each dimension of the indices. row_bytes: of one row of the widest chunk.
    """

    index_chunks: Chunks
    row_bytes: int
    groups: tuple[Group, ...]

    @property
    def splits(self) -> list[Split]:
        """Of all blocks, in row-major order."""
        return [block.split for group in self.groups for block in group.blocks]


def routing_of(
    positions: NDArray[np.int64], sizes: Sequence[int], row_bytes: int, block_bytes: int, in_flight_bytes: int
) -> Routing:
    """The routing of resolved positions, any shape (negative: filled).

    sizes: of the table's chunks along the axis. row_bytes: of one row of the widest chunk. block_bytes, in_flight_bytes: the
    output of one block and of one group at most, where one index and one block allow it; ValueError unless both are at least 1.
    """
    starts = chunk_starts(sizes)
    index_chunks = block_chunks(positions.shape, row_bytes, block_bytes)
    blocks = [Block(cell.place, split(positions[cell.slices], starts)) for cell in cells(index_chunks)]
    groups = grouped(blocks, (block.split.lookup.size * row_bytes for block in blocks), in_flight_bytes)
    return Routing(
        index_chunks, row_bytes, tuple(Group(group, union([block.split.rows for block in group], starts)) for group in groups)
    )


def row_bytes(chunks: Chunks, axis: int, dtype: np.dtype[Any]) -> int:
    """Bytes of one row along `axis` of the widest chunk."""
    return prod(max(sizes, default=0) for sizes in replace_axis(chunks, axis)) * dtype.itemsize


def host_indices(indices: Any) -> NDArray[Any]:
    """An index array on the host: NumPy's as it is, one copy from a GPU, and what NumPy makes an array of.

    TypeError for anything else.
    """
    if isinstance(indices, np.generic | Sequence | int):
        array = np.asarray(indices)
        return array if array.size else array.astype(np.int64)  # NumPy takes [] for floats
    try:
        found, device = arrays.adopt(indices)
    except TypeError as error:
        raise TypeError(f"indices: {error}") from None
    return arrays.move(found, device, CPU)  # type: ignore[no-any-return]
