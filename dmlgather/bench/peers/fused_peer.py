"""The loop over chunks that one would write by hand with dask.delayed."""

from __future__ import annotations

import numpy as np

from dmlgather.bench.peers.chunked import ChunkedPeer
from dmlgather.bench.problem import Array, Problem


class FusedLoopPeer(ChunkedPeer):
    """Sorts indices by chunk, loads and takes in one task per chunk that has any, and puts the rows in their places."""

    name, bounds = "fused-loop", "not looked at"
    text = "for each chunk: delayed(load and take)(file, start, stop, rows); out[places] = rows"

    def rows(self, problem: Problem) -> Array:
        """The caller puts rows in their places."""
        index, out = problem.index, np.empty(problem.kind.out_shape, problem.dtype)
        assert index is not None
        order = np.argsort(index, kind="stable")
        ascending = index[order]
        take, tasks, places, low = self.dask.delayed(take_rows), [], [], 0
        for start, stop in self.chunks(problem):
            high = int(np.searchsorted(ascending, stop))
            if low < high:
                tasks.append(take(str(problem.file), start, stop, ascending[low:high] - start))
                places.append(order[low:high])
            low = high
        for place, rows in zip(places, self.dask.compute(*tasks), strict=True):
            out[place] = rows
        return out


def take_rows(file: str, start: int, stop: int, rows: Array) -> Array:
    """Rows of a chunk, loaded as far as they are touched. rows: int64 [rows], counted from `start`."""
    return np.load(file, mmap_mode="r")[start:stop].take(rows, axis=0)
