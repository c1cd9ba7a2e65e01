"""Comparison of contenders' results, bit for bit."""

from __future__ import annotations

import numpy as np

from benchmarks.clocks import Contender
from benchmarks.errors import MismatchError
from benchmarks.peers import Peer
from benchmarks.workload_arrays import Array, WorkloadArrays
from dmlgather.wording import counted


class Judge:
    """A comparison with an expected result."""

    def __init__(self, case: str, arrays: WorkloadArrays, expected: Array) -> None:
        """Keep the expected result, an array of the same library. `case`: for messages."""
        self._case, self._arrays = case, arrays
        self._expected = self._bits(expected)

    def compare(self, contender: Contender, peer: Peer | None = None) -> None:
        """Raise MismatchError unless the result has the expected shape and bits. `peer`: converts the result."""
        self._arrays.poison()
        result = contender.run() if peer is None else peer.array(contender.run())
        self._arrays.wait()
        if tuple(result.shape) != self._arrays.kind.out_shape:
            shapes = f"{self._arrays.kind.out_shape}, {contender.name}'s has {tuple(result.shape)}"
            raise MismatchError(f"{self._case}: the result has shape {shapes}")
        differ = self._bits(result) != self._expected
        if count := int(differ.sum()):
            at = tuple(map(int, np.unravel_index(int(differ.reshape(-1).argmax()), result.shape)))
            raise MismatchError(
                f"{self._case}: not {contender.name}'s bits ({contender.spelling}) in {counted(count, 'element')}, "
                f"first at {list(at)}"
            )

    def _bits(self, array: Array) -> Array:
        return self._arrays.library.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
