"""The functions that the tasks of a gather run.

split  finds the rows of each chunk that a block of indices reads
share  unites the rows that the blocks of a group read
take   copies the rows of a group out of a chunk
pick   copies the rows of one block from the rows of its group
place  writes the rows of a block into a chunk of the output

The functions are pure, so a task of a lost worker can run again. Threads may share compiled operators, because programs are
immutable and no row number is out of bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends import arrays
from dmlgather.backends.devices import CPU
from dmlgather.distributed.axis_rules import AxisRule
from dmlgather.distributed.chunk_grid import Rows, Split, split, union
from dmlgather.distributed.chunk_operators import take
from dmlgather.distributed.routing import WIDE, host_indices
from dmlgather.distributed.table_sources import loaded, synchronised


def split_indices(indices: Any, rule: AxisRule, starts: NDArray[np.int64], first: tuple[int, ...]) -> Split:
    """Find out which rows of each chunk a block of indices reads. `first`: coordinates of the block's first index."""
    return split(rule.resolve(host_indices(loaded(indices)), first), starts)


def share(starts: NDArray[np.int64], *splits: Split) -> Rows:
    """Return all rows that a group of blocks reads, by chunk."""
    return union([block.rows for block in splits], starts)


@synchronised
def take_rows(payload: Any, axis: int, dtype: np.dtype[Any], rows: NDArray[Any]) -> Any:
    """Copy the rows that a group of blocks reads out of a chunk.

    `payload`: the chunk, or the `Load` that computes it. `dtype`: the type that the chunk must have.
    """
    return take(loaded(payload), axis, rows.astype(np.int64), dtype=dtype)


def take_lazy(payload: Any, axis: int, dtype: np.dtype[Any], shared: Rows, chunk: int) -> Any:
    """Copy the rows that a group of blocks reads out of a chunk. If there are none, return None without loading the chunk."""
    return take_rows(payload, axis, dtype, shared[chunk]) if chunk in shared else None


@synchronised
def pick_rows(taken: Any, axis: int, positions: NDArray[Any]) -> Any:
    """Copy the rows of one block.

    `taken`: the rows of the whole group of blocks. `positions`: the positions of the block's rows in `taken`.
    """
    return take(taken, axis, positions.astype(np.int64))


def pick_lazy(taken: Any, axis: int, shared: Rows, block: Split, chunk: int) -> Any:
    """Return the rows that one block reads from a chunk; None if it reads none. `taken`: the rows that the group reads."""
    if chunk not in block.rows:
        return None
    own = block.rows[chunk]
    return taken if len(own) == len(shared[chunk]) else pick_rows(taken, axis, np.searchsorted(shared[chunk], own))


@dataclass(frozen=True, slots=True)
class OutputChunk:
    """The chunk of the output that a task makes.

    `axis`: the first dimension of the output that comes from the indices. `like`: an array that shows the table's library; None
    if the task always gets rows, which show it, too. `fill`: the bytes of one element.
    """

    axis: int
    shape: tuple[int, ...]
    like: Any
    fill: bytes

    def __dask_tokenize__(self) -> Any:
        return self.axis, self.shape, type(self.like).__name__, str(getattr(self.like, "dtype", "")), self.fill


def place_lazy(output: OutputChunk, block: Split, *pieces: Any) -> Any:
    """Call `place_rows` without the pieces that are None."""
    return place_rows(output, block.lookup, *(piece for piece in pieces if piece is not None))


@synchronised
def place_rows(output: OutputChunk, lookup: NDArray[Any], *pieces: Any) -> Any:
    """Make a chunk of the output from the rows that one block of indices reads.

    `lookup`: the position of the row of each index, as in `Split`. `pieces`: the rows that the block reads from each chunk, in
    the order of the chunks.
    """
    axis, trail = output.axis, output.shape[output.axis + lookup.ndim :]
    if 0 in output.shape:
        return empty_like(output.like, output.shape)
    rows = lookup.astype(np.int64)
    if not pieces:
        return take(empty_like(output.like, (*output.shape[:axis], 0, *trail)), axis, rows, output.fill)
    count = sum(piece.shape[axis] for piece in pieces)
    filled = int(rows.max()) == count
    in_order = rows.ndim == 1 and len(rows) == count and np.array_equal(rows, np.arange(count))
    if len(pieces) > 1 and not (filled or in_order) and math.prod(trail) * int(pieces[0].dtype.itemsize) >= WIDE:
        return _scattered(output, rows, pieces)
    joined = _concatenated(pieces, axis)
    return joined if in_order else take(joined, axis, rows, output.fill if filled else None)


def _scattered(output: OutputChunk, lookup: NDArray[np.int64], pieces: Sequence[Any]) -> Any:
    """Return the result of `place_rows`, but write the pieces to the output one by one instead of concatenating them."""
    with arrays.in_order(pieces):
        like, home = arrays.adopt(pieces[0])
        whole = arrays.allocate(home, output.shape, like.dtype, like=pieces[0])
        axis, flat = output.axis, lookup.reshape(-1)
        out = whole.reshape(*output.shape[:axis], len(flat), *output.shape[axis + lookup.ndim :])
        order = np.argsort(flat, kind="stable")
        ascending = flat[order]
        begin = 0
        for piece in pieces:
            end = begin + piece.shape[axis]
            first, last = np.searchsorted(ascending, (begin, end))
            rows = ascending[first:last] - begin
            values, device = arrays.adopt(piece if last - first == end - begin else take(piece, axis, rows))
            positions = arrays.move(order[first:last], CPU, home)
            out[(*(slice(None),) * axis, positions)] = arrays.move(values, device, home)
            begin = end
        return arrays.hand_back(whole, pieces[0])


def _concatenated(pieces: Sequence[Any], axis: int) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    with arrays.in_order(pieces):
        adopted = [arrays.adopt(piece) for piece in pieces]
        home = adopted[0][1]
        parts = [arrays.move(array, device, home) for array, device in adopted]
        if home.on_gpu:
            import cupy

            with home.current():
                whole = cupy.concatenate(parts, axis)
        else:
            whole = np.concatenate(parts, axis, dtype=parts[0].dtype)  # without dtype, big-endian becomes native
        return arrays.hand_back(whole, pieces[0])


def empty_like(like: Any, shape: tuple[int, ...]) -> Any:
    """Return a new array with undefined elements, with the library, data type and device of `like`."""
    array, device = arrays.adopt(like)
    return arrays.hand_back(arrays.allocate(device, shape, array.dtype, like=like), like)
