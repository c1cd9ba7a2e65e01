"""CuPy: `take` into an existing array, and indexing."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.kinds import Along, Take, Tuples, ViewCopy
from benchmarks.peers.peer import Peer, Spelling, Stage
from benchmarks.workload_arrays import Array, WorkloadArrays


class CupyPeer(Peer):
    """CuPy on the stage's stream, which is CuPy's current one."""

    name, packages, devices = "cupy", ("cupy-cuda13x", "cupy-cuda12x", "cupy"), ("cuda",)
    extra = "cuda13"
    bounds = "wraps around: index modulo size"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        import cupy

        self._cupy = cupy

    def take(self, data: WorkloadArrays, kind: Take, /) -> Iterator[Spelling]:
        x, i, out, take, axis = data.x, data.index, data.out, self._cupy.take, kind.axis
        place = (*[slice(None)] * axis, i)
        yield Spelling(f"cupy.take(x, i, {axis}, out)", lambda: take(x, i, axis, out))
        yield Spelling(f"x[{':, ' * axis}i]", lambda: x[place], preallocated=False)

    def along(self, data: WorkloadArrays, kind: Along, /) -> Iterator[Spelling]:
        x, i, along, axis = data.x, data.index, self._cupy.take_along_axis, kind.axis
        yield Spelling(f"cupy.take_along_axis(x, i, {axis})", lambda: along(x, i, axis), preallocated=False)

    def tuples(self, data: WorkloadArrays, _kind: Tuples, /) -> Iterator[Spelling]:
        x, coordinates = data.x, tuple(data.index.T)  # type: ignore[union-attr] # tuples have indices
        yield Spelling("x[tuple(i.T)]", lambda: x[coordinates], preallocated=False)

    def view(self, data: WorkloadArrays, kind: ViewCopy, /) -> Iterator[Spelling]:
        view, out, copyto = data.x[kind.slices], data.out, self._cupy.copyto

        def copy() -> Array:
            copyto(out, view)
            return out

        yield Spelling("cupy.copyto(out, x[…])", copy)
