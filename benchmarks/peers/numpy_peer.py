"""NumPy, one thread: the fastest call into an existing array, and the usual call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.chains import Chain
from benchmarks.kinds import Along, Take, Tuples, ViewCopy
from benchmarks.peers.peer import Peer, Spelling
from benchmarks.workload_arrays import Array, WorkloadArrays


class NumpyPeer(Peer):
    """NumPy on the CPU."""

    name, packages, devices = "numpy", ("numpy",), ("cpu",)
    bounds = "mode='clip' clamps (a negative index to 0); as typed, a bad index raises"

    def take(self, data: WorkloadArrays, kind: Take, /) -> Iterator[Spelling]:
        x, i, out, axis = data.x, data.index, data.out, kind.axis
        assert i is not None
        yield Spelling(f"x.take(i, {axis}, out, 'clip')", lambda: x.take(i, axis, out, "clip"))
        yield Spelling(f"np.take(x, i, {axis})", lambda: np.take(x, i, axis), preallocated=False)

    def along(self, data: WorkloadArrays, kind: Along, /) -> Iterator[Spelling]:
        x, i, out, axis = data.x, data.index, data.out, kind.axis
        assert i is not None
        if axis == x.ndim - 1:
            rows = [array.reshape(-1, array.shape[-1]) for array in (x, i, out)]

            def by_rows() -> Array:
                for row, places, target in zip(*rows, strict=True):
                    row.take(places, 0, target, "clip")
                return out

            yield Spelling("for each row: x[r].take(i[r], 0, out[r], 'clip')", by_rows)
        elif x.ndim == 2:
            columns = np.arange(x.shape[1])
            yield Spelling(
                "x.ravel().take(i * width + np.arange(width), out=out, mode='clip')",
                lambda: x.reshape(-1).take(i * x.shape[1] + columns, out=out, mode="clip"),
            )
        yield Spelling(f"np.take_along_axis(x, i, {axis})", lambda: np.take_along_axis(x, i, axis), preallocated=False)

    def tuples(self, data: WorkloadArrays, kind: Tuples, /) -> Iterator[Spelling]:
        x, out, width = data.x, data.out, kind.width
        coordinates = tuple(data.index.T)  # type: ignore[union-attr] # tuples have indices
        rows = x.reshape(-1, *x.shape[width:])
        yield Spelling(
            "x.reshape(-1, …).take(np.ravel_multi_index(tuple(i.T), sizes), 0, out, 'clip')",
            lambda: rows.take(np.ravel_multi_index(coordinates, x.shape[:width]), 0, out, "clip"),
        )
        yield Spelling("x[tuple(i.T)]", lambda: x[coordinates], preallocated=False)

    def view(self, data: WorkloadArrays, kind: ViewCopy, /) -> Iterator[Spelling]:
        view, out = data.x[kind.slices], data.out

        def copy() -> Array:
            np.copyto(out, view)
            return out

        yield Spelling("np.copyto(out, x[…])", copy)
        yield Spelling("np.array(x[…], order='C')", lambda: np.array(view, order="C"), preallocated=False)

    def chain(self, data: WorkloadArrays, kind: Chain, /) -> Iterator[Spelling]:
        x, i, out = data.x, data.index, data.out
        steps = compile(kind.steps, "<chain>", "eval")

        def run() -> Array:
            np.copyto(out, kind.applied(steps, x, i))
            return out

        yield Spelling(f"out[...] = {kind.steps}", run)
