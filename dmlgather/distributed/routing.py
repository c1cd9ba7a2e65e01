"""Which rows of which chunks known positions want: block by block of the output, and group by group of blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU
from dmlgather.distributed.index_blocks import BLOCK_BYTES, IN_FLIGHT_BYTES, block_chunks, groups
from dmlgather.distributed.splitting import Split, chunk_starts, shared_rows, split

Chunks: TypeAlias = tuple[tuple[int, ...], ...]
"""Sizes of the chunks along each axis, in elements, as Dask has them."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block of the output's index dimensions.

    place: its number along each of them. split: of its positions.
    """

    place: tuple[int, ...]
    split: Split


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks that share the loads of their rows. rows: what any of them wants of each chunk, as in `Split.rows`."""

    blocks: tuple[Block, ...]
    rows: tuple[NDArray[np.int64], ...]

    @property
    def owners(self) -> tuple[int, ...]:
        """The chunks that are touched, ascending."""
        return tuple(owner for owner, rows in enumerate(self.rows) if len(rows))

    def pick(self, block: Block, owner: int) -> NDArray[np.int64]:
        """The places of the rows that one of the blocks wants of a chunk, among those that are taken of it."""
        return np.searchsorted(self.rows[owner], block.split.rows[owner])


@dataclass(frozen=True, slots=True)
class Routing:
    """All blocks of a gather, in row-major order. index_chunks: their sizes along each dimension of the indices."""

    index_chunks: Chunks
    groups: tuple[Group, ...]

    @property
    def blocks(self) -> Iterator[Block]:
        """Those of all groups."""
        return (block for group in self.groups for block in group.blocks)


def route(
    positions: NDArray[np.int64],
    sizes: Sequence[int],
    row_bytes: int,
    block_bytes: int = BLOCK_BYTES,
    in_flight_bytes: int = IN_FLIGHT_BYTES,
) -> Routing:
    """Blocks and groups of resolved positions, any shape (negative: filled).

    sizes: of the table's chunks along the axis. row_bytes: of one row of the widest chunk. block_bytes, in_flight_bytes: the
    output of one block and of one group at most, where one index and one block allow it; ValueError unless both are at least 1.
    """
    starts = chunk_starts(tuple(sizes))
    index_chunks = block_chunks(positions.shape, row_bytes, block_bytes)
    places = product(*(range(len(each)) for each in index_chunks))
    blocks = [
        Block(place, split(positions[window], starts)) for place, window in zip(places, _windows(index_chunks), strict=True)
    ]
    spans = groups((block.split.lookup.size * row_bytes for block in blocks), in_flight_bytes)
    return Routing(index_chunks, tuple(_group(blocks[span.start : span.stop], starts) for span in spans))


def row_bytes(chunks: Chunks, axis: int, dtype: np.dtype[Any]) -> int:
    """Bytes of one row along `axis` of the widest chunk."""
    return prod(max(sizes, default=0) for number, sizes in enumerate(chunks) if number != axis) * dtype.itemsize


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


def _windows(index_chunks: Chunks) -> Iterator[tuple[slice, ...]]:
    """Where each block lies in the indices, in row-major order."""
    return product(
        *([slice(end - size, end) for size, end in zip(sizes, accumulate(sizes), strict=True)] for sizes in index_chunks)
    )


def _group(blocks: Sequence[Block], starts: NDArray[np.int64]) -> Group:
    return Group(tuple(blocks), shared_rows([block.split for block in blocks], starts))
