"""What peers share that read a table from a file in chunks, by dask."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from itertools import accumulate, pairwise
from typing import Any, ClassVar

from dmlgather.bench.errors import CannotSayError
from dmlgather.bench.kinds import Take
from dmlgather.bench.peers.peer import Peer, Spelling, Stage
from dmlgather.bench.problem import Array, Problem


class ChunkedPeer(Peer):
    """Takes rows of a table. Chunks are whole rows, as many as dask itself puts into one; results are in this process.

    text: its one spelling.
    """

    packages, devices, extra = ("dask", "distributed"), ("cluster",), "dask"
    text: ClassVar[str]

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.dask: Any = import_module("dask")
        self.dask_array: Any = import_module("dask.array")

    @abstractmethod
    def rows(self, problem: Problem) -> Array:
        """The result."""

    def chunks(self, problem: Problem) -> list[tuple[int, int]]:
        """First row and end of every chunk."""
        sizes = ("auto", *problem.x.shape[1:])
        rows = self.dask_array.core.normalize_chunks(sizes, problem.x.shape, dtype=problem.dtype)[0]
        return list(pairwise(accumulate(rows, initial=0)))

    def take(self, problem: Problem, kind: Take, /) -> Iterator[Spelling]:
        """Rows, as the subclass says."""
        if kind.axis:
            self._unsaid(problem, kind)
        yield Spelling(self.text, partial(self.rows, problem), preallocated=False)

    def _unsaid(self, problem: Problem, kind: Any, /) -> Iterator[Spelling]:  # noqa: ARG002 - as the peer's methods
        raise CannotSayError("takes rows of tables only")

    along = tuples = view = _unsaid

    def array(self, result: Any) -> Array:
        """Itself."""
        return result
