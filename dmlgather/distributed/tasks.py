"""What the tasks of a gather do: split indices, take rows out of chunks, pick a block's rows out of those, put them in place.

All of them are pure: where a worker is lost, its tasks run again and give the same bits. Threads of a worker share compiled
operators, which is safe: their programs do not change, and no task asks one of them for a bad index, since indices are resolved.
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
from dmlgather.distributed.table_sources import handed_on, loaded


def split_indices(indices: Any, rule: AxisRule, starts: NDArray[np.int64], first: tuple[int, ...]) -> Split:
    """The split of a block of indices, shape [i…]. first: where the block begins in the whole. IndexError under RAISE."""
    return split(rule.resolve(host_indices(loaded(indices)), first), starts)


def share(starts: NDArray[np.int64], *splits: Split) -> Rows:
    """The rows that any of a group's blocks wants."""
    return union([found.rows for found in splits], starts)


@handed_on
def take_rows(payload: Any, axis: int, dtype: np.dtype[Any], rows: NDArray[Any]) -> Any:
    """Rows of a chunk, which is loaded here where it has no task of its own; shape [lead…, rows, trail…]."""
    return take(loaded(payload), axis, rows.astype(np.int64), dtype=dtype)


def take_wanted(payload: Any, axis: int, dtype: np.dtype[Any], shared: Rows, chunk: int) -> Any:
    """The rows that a group wants of a chunk; None, and nothing is loaded, where it wants none."""
    return take_rows(payload, axis, dtype, shared[chunk]) if chunk in shared else None


@handed_on
def pick_rows(taken: Any, axis: int, places: NDArray[Any]) -> Any:
    """One block's rows out of those that its group took of a chunk."""
    return take(taken, axis, places.astype(np.int64))


def pick_wanted(taken: Any, axis: int, shared: Rows, found: Split, chunk: int) -> Any:
    """As `pick_rows`, by what the group takes and the block's split. None where the block wants nothing of the chunk."""
    if chunk not in found.rows:
        return None
    own = found.rows[chunk]
    return taken if len(own) == len(shared[chunk]) else pick_rows(taken, axis, np.searchsorted(shared[chunk], own))


@dataclass(frozen=True, slots=True)
class OutputChunk:
    """What a chunk of the output will be.

    axis: the first of its index dimensions. like: an array of the table's kind, None where there are pieces. fill: the bytes of
    one element under FILL.
    """

    axis: int
    shape: tuple[int, ...]
    like: Any
    fill: bytes

    def __dask_tokenize__(self) -> Any:
        return self.axis, self.shape, type(self.like).__name__, str(getattr(self.like, "dtype", "")), self.fill


def place_wanted(output: OutputChunk, found: Split, *pieces: Any) -> Any:
    """As `place_rows`, by a block's split. A piece is None if the block wants no row of its chunk."""
    return place_rows(output, found.lookup, *(piece for piece in pieces if piece is not None))


@handed_on
def place_rows(output: OutputChunk, lookup: NDArray[Any], *pieces: Any) -> Any:
    """A chunk of the output from the rows of its block: one piece for each chunk of the table of which rows are wanted, in order.

    lookup: for each index, the place of its row in the joined pieces, or their number of rows for a filled element; shape [i…].
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
    joined = _joined(pieces, axis)
    return joined if in_order else take(joined, axis, rows, output.fill if filled else None)


def _scattered(output: OutputChunk, lookup: NDArray[np.int64], pieces: Sequence[Any]) -> Any:
    """`place_rows` without joining: each piece's rows are written to their places."""
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
            places = arrays.move(order[first:last], CPU, home)
            out[(*(slice(None),) * axis, places)] = arrays.move(values, device, home)
            begin = end
        return arrays.hand_back(whole, pieces[0])


def _joined(pieces: Sequence[Any], axis: int) -> Any:
    """The pieces joined along `axis`, as the same kind of array."""
    if len(pieces) == 1:
        return pieces[0]
    with arrays.in_order(pieces):
        adopted = [arrays.adopt(piece) for piece in pieces]
        home = adopted[0][1]
        brought = [arrays.move(array, device, home) for array, device in adopted]
        if home.on_gpu:
            import cupy

            with home.current():
                whole = cupy.concatenate(brought, axis)
        else:
            whole = np.concatenate(brought, axis, dtype=brought[0].dtype)  # which keeps the order of the bytes
        return arrays.hand_back(whole, pieces[0])


def empty_like(like: Any, shape: tuple[int, ...]) -> Any:
    """An array of that kind, type and device without values of its own."""
    array, device = arrays.adopt(like)
    return arrays.hand_back(arrays.allocate(device, shape, array.dtype, like=like), like)
