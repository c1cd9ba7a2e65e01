"""dask's own indexing."""

from __future__ import annotations

import numpy as np

from dmlgather.bench.peers.chunked import ChunkedPeer
from dmlgather.bench.problem import Array, Problem


class DaskPeer(ChunkedPeer):
    """A dask array whose chunks are loaded by tasks of their own, indexed by an array."""

    name, bounds = "dask", "raises; a negative one counts from the end"
    text = "da.concatenate(chunks)[i].compute()"

    def rows(self, problem: Problem) -> Array:
        """Indexing."""
        array, load, width = self.dask_array, self.dask.delayed(load_chunk), problem.x.shape[1:]
        chunks = [
            array.from_delayed(load(str(problem.file), start, stop), (stop - start, *width), problem.dtype)
            for start, stop in self.chunks(problem)
        ]
        return array.concatenate(chunks)[problem.index].compute()


def load_chunk(file: str, start: int, stop: int) -> Array:
    """A chunk's rows in memory."""
    return np.array(np.load(file, mmap_mode="r")[start:stop])
