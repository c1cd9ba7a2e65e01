"""What the tasks of a gather do: split indices, take rows out of chunks, pick a block's rows out of those, put them in place.

All of them are pure, so that a task that was lost with its worker gives the same bits when it runs again. Threads of a worker
share compiled operators: their programs and routes do not change, and none of them is asked for a bad index, because indices
have been resolved before.
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
from dmlgather.distributed.chunk_loads import loaded
from dmlgather.distributed.chunk_operators import take
from dmlgather.distributed.routing import host_indices
from dmlgather.distributed.splitting import Split, shared_rows, split

WIDE = 512
"""Bytes of rows that are put in place one by one; narrower ones are joined first, which is quicker and takes more memory."""


def split_indices(indices: Any, rule: AxisRule, starts: NDArray[np.int64], first: tuple[int, ...]) -> Split:
    """The split of a block of indices, shape [i…], the first of which has the coordinates `first` in the whole. IndexError under
    RAISE.
    """
    return split(rule.resolve(host_indices(indices), first), starts)


def share(starts: NDArray[np.int64], *splits: Split) -> tuple[NDArray[np.int64], ...]:
    """The rows that any of a group's blocks wants of each chunk, as in `Split.rows`."""
    return shared_rows(splits, starts)


def take_rows(payload: Any, axis: int, rows: NDArray[Any], dtype: np.dtype[Any]) -> Any:
    """Rows of a chunk, which is loaded here where it has no task of its own; shape [lead…, rows, trail…]."""
    return take(loaded(payload), axis, rows.astype(np.int64), dtype=dtype)


def take_wanted(payload: Any, axis: int, shared: Sequence[NDArray[np.int64]], owner: int, dtype: np.dtype[Any]) -> Any:
    """The rows that a group wants of a chunk; None, and nothing is loaded, where it wants none."""
    return take_rows(payload, axis, shared[owner], dtype) if len(shared[owner]) else None


def pick_rows(taken: Any, axis: int, places: NDArray[Any]) -> Any:
    """One block's rows out of those that its group took of a chunk."""
    return take(taken, axis, places.astype(np.int64))


def pick_wanted(taken: Any, axis: int, shared: Sequence[NDArray[np.int64]], found: Split, owner: int) -> Any:
    """As `pick_rows`, by what the group takes and the block's split. None where the block wants nothing of the chunk."""
    wanted = found.rows[owner]
    if not len(wanted):
        return None
    return taken if len(wanted) == len(shared[owner]) else pick_rows(taken, axis, np.searchsorted(shared[owner], wanted))


@dataclass(frozen=True, slots=True)
class Target:
    """A chunk of the output.

    axis: the first of its index dimensions. like: an array of the table's kind, None where a piece will tell. fill: the bytes of
    one element.
    """

    axis: int
    shape: tuple[int, ...]
    like: Any
    fill: bytes

    def __dask_tokenize__(self) -> Any:
        return self.axis, self.shape, type(self.like).__name__, str(getattr(self.like, "dtype", "")), self.fill


def place_wanted(target: Target, found: Split, *pieces: Any) -> Any:
    """As `place_rows`, by a block's split; None among the pieces where nothing was wanted."""
    return place_rows(target, found.lookup, *(piece for piece in pieces if piece is not None))


def place_rows(target: Target, lookup: NDArray[Any], *pieces: Any) -> Any:
    """A chunk of the output out of the rows of its block, one piece per chunk of the table that has some, in their order.

    lookup: per index, the place of its row among the pieces' rows; their number where the element is filled. Shape [i…].
    """
    if 0 in target.shape:
        return empty_like(target.like, target.shape)
    rows = lookup.astype(np.int64)
    if not pieces:
        none = (*target.shape[: target.axis], 0, *target.shape[target.axis + lookup.ndim :])
        return take(empty_like(target.like, none), target.axis, rows, target.fill)
    count = sum(piece.shape[target.axis] for piece in pieces)
    filled = int(rows.max()) == count
    in_order = rows.ndim == 1 and len(rows) == count and np.array_equal(rows, np.arange(count))
    if len(pieces) > 1 and not (filled or in_order) and _row_bytes(target, pieces[0], lookup.ndim) >= WIDE:
        return _scattered(target, rows, pieces)
    joined = _joined(pieces, target.axis)
    return joined if in_order else take(joined, target.axis, rows, target.fill if filled else None)


def _row_bytes(target: Target, piece: Any, index_rank: int) -> int:
    """Bytes that lie together in one row of a block."""
    return math.prod(target.shape[target.axis + index_rank :]) * int(piece.dtype.itemsize)


def _scattered(target: Target, lookup: NDArray[np.int64], pieces: Sequence[Any]) -> Any:
    """`place_rows` without a second copy of the pieces: each is written to where its rows belong."""
    like, home = arrays.adopt(pieces[0])
    whole = arrays.allocate(home, target.shape, like.dtype, like=pieces[0])
    axis = target.axis
    flat = lookup.reshape(-1)
    out = whole.reshape(*target.shape[:axis], len(flat), *target.shape[axis + lookup.ndim :])
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
    """The pieces behind each other along `axis`, as the kind of array that they are."""
    if len(pieces) == 1:
        return pieces[0]
    adopted = [arrays.adopt(piece) for piece in pieces]
    home = adopted[0][1]
    brought = [arrays.move(array, device, home) for array, device in adopted]
    if home.on_gpu:
        import cupy

        with cupy.cuda.Device(home.index):
            whole = cupy.concatenate(brought, axis)
    else:
        whole = np.concatenate(brought, axis, dtype=brought[0].dtype)  # which keeps the order of the bytes
    return arrays.hand_back(whole, pieces[0])


def empty_like(like: Any, shape: tuple[int, ...]) -> Any:
    """An array of that kind, type and device without values of its own."""
    array, device = arrays.adopt(like)
    return arrays.hand_back(arrays.allocate(device, shape, array.dtype, like=like), like)
