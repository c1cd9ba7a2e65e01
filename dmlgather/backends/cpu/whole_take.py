"""Small problems of one block, as a single take: the positions of all views are computed when the plan is prepared and the views
are built when a call is bound, so that running it takes one to four steps of NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cpu.buffers import Buffers
from dmlgather.backends.cpu.offsets import Addressing, Integers

BoundCall = Callable[[], int | None]
"""Executes a bound call and returns the smallest offset of a bad index under RAISE."""


@dataclass(frozen=True, slots=True)
class WholeTake:
    """One take of the whole output. rows: of the source window, None if it has one dimension; columns: units of a row; at: the
    byte where the window begins. shape: of the output as take() sees it. walk: what is added to the indices, None if the indices
    are the offsets. native: whether NumPy's own check of the indices suffices as well.
    """

    addressing: Addressing
    rows: int | None
    columns: int
    at: int
    shape: tuple[int, ...]
    walk: Integers | None
    native: bool

    @classmethod
    def of(cls, addressing: Addressing, rows: int | None) -> WholeTake | None:
        """rows: size of the dimension before the offsets, None to take from one dimension. Returns None if take() would copy the
        source or the output, and if an indexed axis is empty.
        """
        geometry, dims = addressing.geometry, addressing.dims
        if geometry.pitch != geometry.unit or not geometry.packed or any(lookup.limit == 0 for lookup in geometry.lookups):
            return None
        frame = addressing.frame(geometry.shape)
        shape = geometry.shape[dims.start :]
        columns = frame.span if rows is None else geometry.in_strides[dims.start - 1] // geometry.unit
        plain = addressing.plain(geometry.shape)
        return cls(
            addressing,
            rows,
            columns,
            at=geometry.in_offset + frame.low * geometry.pitch,
            shape=shape if rows is None else (*geometry.shape[: dims.start], *shape),
            walk=None if plain else addressing.walk(geometry.shape),
            native=plain and addressing.native and columns == geometry.lookups[0].limit,
        )

    def bind(self, buffers: Buffers, slow: BoundCall) -> BoundCall:
        """The take on these buffers; it calls `slow` if the raw indices are not all in range."""
        geometry, dims = self.addressing.geometry, self.addressing.dims
        if self.rows is not None and self.at + self.rows * self.columns * geometry.unit > buffers.data.nbytes:
            return slow  # the last row ends where its last reachable column does, short of a whole row
        window = buffers.source(buffers.item, (self.columns,) if self.rows is None else (self.rows, self.columns), self.at)
        out = np.ndarray(self.shape, buffers.item, buffers.out, geometry.out_offset)
        assert buffers.indices is not None
        raws = [resolver.view(buffers.indices, dims.start) for resolver in self.addressing.resolvers]
        if self.native:
            return functools.partial(_checked, window.take, raws[0], out, slow)
        proofs, terms = [], []
        for raw, resolver, step in zip(raws, self.addressing.resolvers, self.addressing.lookup_steps, strict=True):
            proofs.append((raw.view(resolver.unsigned), resolver.proof))
            terms.append((resolver.signed(raw), step))
        return functools.partial(_proven, proofs, functools.partial(_total, terms, self.walk), window.take, out, slow)


def _checked(take: Callable[..., Any], values: Integers, out: NDArray[Any], slow: BoundCall) -> int | None:
    """Take with NumPy's own check, which counts negative indices from the end."""
    try:
        # With an output NumPy would write to a copy, and lock the output meanwhile, so that another thread's call failed.
        np.copyto(out, take(values, -1))
    except IndexError:
        return slow()
    return None


def _proven(
    proofs: Sequence[tuple[Integers, int]],
    total: Callable[[], Integers],
    take: Callable[..., Any],
    out: NDArray[Any],
    slow: BoundCall,
) -> int | None:
    """Prove by unsigned maxima that all indices are in range, then add up the offsets and take."""
    for raw, proof in proofs:
        if raw.item(raw.argmax()) >= proof:
            return slow()
    take(total(), -1, out, "wrap")
    return None


def _total(terms: Sequence[tuple[Integers, int]], walk: Integers | None) -> Integers:
    """Σ values · step + the walk."""
    total = walk
    for values, step in terms:
        product = values if step == 1 else np.multiply(values, step, dtype=np.int64)
        total = product if total is None else np.add(total, product, dtype=np.int64)
    assert total is not None
    return total
