"""Dask: rows of a table in a file that is read in chunks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np

from benchmarks.errors import UnsupportedWorkloadError
from benchmarks.kinds import Take
from benchmarks.peers.peer import Peer, Spelling, Stage
from benchmarks.workload_arrays import Array, WorkloadArrays


class ChunkedPeer(Peer):
    """A peer that takes rows of a table into this process. Chunks are whole rows, of Dask's size. `text`: the call."""

    packages, devices, extra = ("dask", "distributed"), ("cluster",), "dask"
    text: ClassVar[str]

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.dask: Any = import_module("dask")
        self.dask_array: Any = import_module("dask.array")

    @abstractmethod
    def rows(self, data: WorkloadArrays) -> Array:
        """Return the rows that the index selects."""

    def chunks(self, data: WorkloadArrays) -> list[tuple[int, int]]:
        """Return the first row and the end of every chunk."""
        sizes = ("auto", *data.x.shape[1:])
        rows = self.dask_array.core.normalize_chunks(sizes, data.x.shape, dtype=data.dtype)[0]
        return list(pairwise(accumulate(rows, initial=0)))

    def take(self, data: WorkloadArrays, kind: Take, /) -> Iterator[Spelling]:
        if kind.axis:
            self._unsupported(data, kind)
        yield Spelling(self.text, partial(self.rows, data), preallocated=False)

    def _unsupported(self, data: WorkloadArrays, kind: Any, /) -> Iterator[Spelling]:  # noqa: ARG002 - the signature of Peer
        raise UnsupportedWorkloadError("takes rows of tables only")

    along = tuples = view = _unsupported


class DaskPeer(ChunkedPeer):
    """A dask array with one loading task per chunk, indexed by an array."""

    name, bounds = "dask", "raises; a negative one counts from the end"
    text = "da.concatenate(chunks)[i].compute()"

    def rows(self, data: WorkloadArrays) -> Array:
        array, load, width = self.dask_array, self.dask.delayed(load_chunk), data.x.shape[1:]
        chunks = [
            array.from_delayed(load(str(data.file), start, stop), (stop - start, *width), data.dtype)
            for start, stop in self.chunks(data)
        ]
        return array.concatenate(chunks)[data.index].compute()


class FusedLoopPeer(ChunkedPeer):
    """A handwritten loop. One task per needed chunk takes its rows, and the caller copies them to their places."""

    name, bounds = "fused-loop", "not looked at"
    text = "for each chunk: delayed(load and take)(file, start, stop, rows); out[places] = rows"

    def rows(self, data: WorkloadArrays) -> Array:
        index, out = data.index, np.empty(data.kind.out_shape, data.dtype)
        assert index is not None
        order = np.argsort(index, kind="stable")
        ascending = index[order]
        take, tasks, places, low = self.dask.delayed(take_rows), [], [], 0
        for start, stop in self.chunks(data):
            high = int(np.searchsorted(ascending, stop))
            if low < high:
                tasks.append(take(str(data.file), start, stop, ascending[low:high] - start))
                places.append(order[low:high])
            low = high
        for place, rows in zip(places, self.dask.compute(*tasks), strict=True):
            out[place] = rows
        return out


def load_chunk(file: str, start: int, stop: int) -> Array:
    """Load a chunk into memory."""
    return np.array(np.load(file, mmap_mode="r")[start:stop])


def take_rows(file: str, start: int, stop: int, rows: Array) -> Array:
    """Return rows of a chunk, reading only their pages of the file. `rows`: counted from `start`."""
    return np.load(file, mmap_mode="r")[start:stop].take(rows, axis=0)
