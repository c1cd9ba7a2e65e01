"""Blocks without lookups: strided copies, directly or through a tile, and constant fills."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cpu.blocks import Blocks, extent
from dmlgather.backends.cpu.buffers import Buffers
from dmlgather.backends.cpu.geometry import Geometry


@dataclass(frozen=True, slots=True)
class Copy:
    """A strided copy. order: the dimensions by falling source stride where blocks go through a tile, which is filled in the
    source's order and emptied in the output's, so that both are walked along memory; None copies directly. margin: units
    between the rows of a tile, so that its columns do not fall into the same sets of the cache.
    """

    geometry: Geometry
    blocks: Blocks
    order: tuple[int, ...] | None = None
    margin: int = 0

    def work(self, buffers: Buffers, first: int, last: int) -> None:
        """Copy blocks `first` … `last` - 1."""
        geometry = self.geometry
        target = buffers.target(buffers.word)
        source = buffers.source(buffers.word, geometry.shape, geometry.in_offset, geometry.in_strides)
        tiles: dict[tuple[int, ...], NDArray[Any]] = {}
        for box in self.blocks.boxes(first, last):
            if self.order is None:
                np.copyto(target[box], source[box])
                continue
            sizes = tuple(extent(box)[axis] for axis in self.order)
            if sizes not in tiles:
                tiles[sizes] = np.empty((*sizes[:-1], sizes[-1] + self.margin), buffers.word)[..., : sizes[-1]]
            tile = tiles[sizes]
            np.copyto(tile, source[box].transpose(self.order))
            np.copyto(target[box].transpose(self.order), tile)


@dataclass(frozen=True, slots=True)
class Fill:
    """The fill value at every position."""

    geometry: Geometry
    blocks: Blocks

    def work(self, buffers: Buffers, first: int, last: int) -> None:
        """Fill blocks `first` … `last` - 1."""
        target = buffers.target(buffers.word)
        value = self.geometry.fill_item(buffers.word)
        for box in self.blocks.boxes(first, last):
            np.copyto(target[box], value)
