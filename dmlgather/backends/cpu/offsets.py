"""Source offsets of the units of a block, relative to the block's base address: from lookups and from steps inside the block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cpu.blocks import Box, extent
from dmlgather.backends.cpu.geometry import Geometry
from dmlgather.backends.cpu.resolver import Resolver, Scratch

Integers = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class Frame:
    """What all blocks of one size have in common. walks: offsets along one dimension each, added up by broadcasting; `low`, the
    smallest sum, is subtracted from the first, so that all offsets are in 0 … span-1.
    """

    walks: Sequence[Integers]
    low: int
    span: int


@dataclass(frozen=True, slots=True)
class Offsets:
    """values: one offset per position of the block over the addressing's `dims`, C-contiguous. bad: where FILL writes the fill
    value, broadcastable to the block. offset: the smallest offset of a bad index under RAISE.
    """

    values: Integers
    bad: NDArray[np.bool_] | None
    offset: int | None
    frame: Frame


class Addressing:
    """How offsets are computed over the dimensions `dims`: from the lookups, and from the steps of the dimensions `summed`. The
    steps of all other dimensions are added by the code that moves the units. Offsets count pitches of the geometry.
    """

    def __init__(self, geometry: Geometry, dims: range, summed: range) -> None:
        self.geometry, self.dims, self.summed = geometry, dims, summed
        self.moved = [geometry.moves(axis) for axis in range(geometry.rank)]
        self.in_steps = [step // geometry.pitch for step in geometry.in_strides]
        self.lookup_steps = [lookup.in_stride // geometry.pitch for lookup in geometry.lookups]
        self.reaches = [
            (max(lookup.limit, 1) - 1) * step for lookup, step in zip(geometry.lookups, self.lookup_steps, strict=True)
        ]
        self.resolvers = [Resolver(geometry, lookup) for lookup in geometry.lookups]
        # Raw indices equal the offsets if NumPy itself checks them against the window.
        self.native = len(self.resolvers) == 1 and self.lookup_steps[0] == 1 and self.resolvers[0].native
        self.frames: dict[tuple[int, ...], Frame] = {}
        self.whole: dict[tuple[int, ...], Integers] = {}

    def frame(self, sizes: tuple[int, ...]) -> Frame:
        """The frame for blocks of `sizes`, kept."""
        if sizes not in self.frames:
            self.frames[sizes] = self._frame(sizes)
        return self.frames[sizes]

    def plain(self, sizes: tuple[int, ...]) -> bool:
        """Whether the offsets of blocks of `sizes` are a multiple of the resolved indices."""
        still = self.resolvers[0].shape[self.dims.start :] != sizes[self.dims.start :]
        return len(self.resolvers) == 1 and not still and not self.frame(sizes).walks

    def _frame(self, sizes: tuple[int, ...]) -> Frame:
        ends = [(sizes[axis] - 1) * self.in_steps[axis] for axis in self.summed] + self.reaches
        low = sum(end for end in ends if end < 0)
        walks = [
            np.arange(sizes[axis], dtype=np.int64).reshape((sizes[axis], *[1] * (self.dims.stop - 1 - axis)))
            * self.in_steps[axis]
            for axis in self.summed
            if sizes[axis] > 1 and self.in_steps[axis]
        ]
        if low:
            walks = [walks[0] - low, *walks[1:]] if walks else [np.array(-low)]
        return Frame(walks, low, sum(map(abs, ends)) + 1)

    def walk(self, sizes: tuple[int, ...]) -> Integers:
        """The sum of the walks of blocks of `sizes`, over all `dims`, kept: so that small blocks do not add them up again."""
        if sizes not in self.whole:
            walk = np.zeros(sizes[self.dims.start : self.dims.stop], np.int64)
            for one in self.frame(sizes).walks:
                walk += one
            self.whole[sizes] = walk
        return self.whole[sizes]


class Addresser:
    """Computes offsets for one thread of one call."""

    def __init__(self, addressing: Addressing, indices: NDArray[Any]) -> None:
        self.addressing = addressing
        self.views = [resolver.view(indices) for resolver in addressing.resolvers]
        self.key: object = None
        self.latest: Offsets
        self.scratch = Scratch()

    def offsets(self, box: Box) -> Offsets:
        """The offsets of one block; reused from the block before if it looks up the same indices."""
        sizes = extent(box)
        key = sizes, [span.start for span, moved in zip(box, self.addressing.moved, strict=True) if moved]
        if key != self.key:
            self.key, self.latest = key, self._offsets(box, sizes, self.addressing.frame(sizes))
        return self.latest

    def raw(self, box: Box) -> Integers | None:
        """The raw indices of one block if they equal its offsets, provided that NumPy checks them; None otherwise."""
        raw = self.addressing.resolvers[0].part(self.views[0], box)
        sizes = extent(box)
        return raw if raw.shape == sizes and not self.addressing.frame(sizes).walks else None

    def _offsets(self, box: Box, sizes: tuple[int, ...], frame: Frame) -> Offsets:
        bad: NDArray[np.bool_] | None = None
        offset: int | None = None
        dims = slice(self.addressing.dims.start, self.addressing.dims.stop)
        terms: list[Integers] = []
        for resolver, view in zip(self.addressing.resolvers, self.views, strict=True):
            resolved = resolver.resolve(view, box, self.scratch)
            if resolved.bad is not None:
                bad = resolved.bad if bad is None else bad | resolved.bad
            if resolved.offset is not None:
                offset = resolved.offset if offset is None else min(offset, resolved.offset)
            terms.append(resolved.values.reshape(resolved.values.shape[dims]))
        return Offsets(self._sum(terms, frame.walks, sizes[dims]), bad, offset, frame)

    def _sum(self, terms: list[Integers], walks: Sequence[Integers], shape: tuple[int, ...]) -> Integers:
        """Σ values · step + Σ walks, without a copy if that equals the raw indices."""
        steps = self.addressing.lookup_steps
        first = terms[0]
        if len(terms) == 1 and steps[0] == 1 and not walks and first.shape == shape and first.flags.c_contiguous:
            return first
        total = self.scratch.room("total", shape)
        if steps[0] == 1:
            np.add(first, walks[0] if walks else 0, out=total, dtype=np.int64)
            walks = walks[1:]
        else:
            np.multiply(first, steps[0], out=total, dtype=np.int64)
        for values, step in zip(terms[1:], steps[1:], strict=True):
            product = self.scratch.room("product", values.shape)
            total += np.multiply(values, step, out=product, dtype=np.int64)
        for walk in walks:
            total += walk
        return total
