"""Whether two contenders moved the same bits."""

from __future__ import annotations

import numpy as np

from dmlgather.bench.clocks import Contender
from dmlgather.bench.errors import MismatchError
from dmlgather.bench.peers import Peer
from dmlgather.bench.problem import Array, Problem
from dmlgather.wording import counted


class Judge:
    """Compares results with the expected one, bit for bit."""

    def __init__(self, case: str, problem: Problem, expected: Array) -> None:
        """case: for messages. expected: of the problem's library, shape [problem.kind.out_shape]; nobody may write to it."""
        self._case, self._problem = case, problem
        self._expected = self._bits(expected)

    def compare(self, entrant: Contender, peer: Peer | None = None) -> None:
        """MismatchError, naming the first position, unless its result has the same shape and bits. peer: whose result it is,
        where that is no array of the problem's library.
        """
        self._problem.poison()
        result = entrant.run() if peer is None else peer.array(entrant.run())
        self._problem.wait()
        if tuple(result.shape) != self._problem.kind.out_shape:
            shapes = f"{self._problem.kind.out_shape}, {entrant.name}'s has {tuple(result.shape)}"
            raise MismatchError(f"{self._case}: the result has shape {shapes}")
        differ = self._bits(result) != self._expected
        if count := int(differ.sum()):
            at = tuple(map(int, np.unravel_index(int(differ.reshape(-1).argmax()), result.shape)))
            raise MismatchError(
                f"{self._case}: not {entrant.name}'s bits ({entrant.spelling}) in {counted(count, 'element')}, "
                f"first at {list(at)}"
            )

    def _bits(self, array: Array) -> Array:
        return self._problem.library.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
