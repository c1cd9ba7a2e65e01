"""CuPy: take into an existing array, and indexing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dmlgather.bench.kinds import Along, Take, Tuples, View
from dmlgather.bench.peers.peer import Peer, Spelling, Stage
from dmlgather.bench.problem import Array, Problem


class CupyPeer(Peer):
    """On a GPU, on the stage's stream (which is CuPy's current one)."""

    name, packages, devices = "cupy", ("cupy-cuda13x", "cupy-cuda12x", "cupy"), ("cuda",)
    extra = "cuda13"
    bounds = "wraps around: index modulo size"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        import cupy

        self._cupy = cupy

    def take(self, problem: Problem, kind: Take, /) -> Iterator[Spelling]:
        """cupy.take and indexing."""
        x, i, out, take, axis = problem.x, problem.index, problem.out, self._cupy.take, kind.axis
        place = (*[slice(None)] * axis, i)
        yield Spelling(f"cupy.take(x, i, {axis}, out)", lambda: take(x, i, axis, out))
        yield Spelling(f"x[{':, ' * axis}i]", lambda: x[place], preallocated=False)

    def along(self, problem: Problem, kind: Along, /) -> Iterator[Spelling]:
        """take_along_axis has no out=."""
        x, i, along, axis = problem.x, problem.index, self._cupy.take_along_axis, kind.axis
        yield Spelling(f"cupy.take_along_axis(x, i, {axis})", lambda: along(x, i, axis), preallocated=False)

    def tuples(self, problem: Problem, _kind: Tuples, /) -> Iterator[Spelling]:
        """Indexing."""
        x, coordinates = problem.x, tuple(problem.index.T)  # type: ignore[union-attr] # tuples have indices
        yield Spelling("x[tuple(i.T)]", lambda: x[coordinates], preallocated=False)

    def view(self, problem: Problem, kind: View, /) -> Iterator[Spelling]:
        """Copyto."""
        view, out, copyto = problem.x[kind.slices], problem.out, self._cupy.copyto

        def copy() -> Array:
            copyto(out, view)
            return out

        yield Spelling("cupy.copyto(out, x[…])", copy)

    def array(self, result: Any) -> Array:
        """Itself."""
        return result
