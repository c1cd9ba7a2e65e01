"""Plans without lookups, by blocks: strided copies, directly or through a tile, and constant fills."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cpu.blocks import Blocks, extent
from dmlgather.backends.cpu.buffers import Buffers
from dmlgather.backends.cpu.geometry import Geometry
from dmlgather.backends.cpu.threads import BlockWork
from dmlgather.backends.cpu.whole_take import BoundCall


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """A strided copy. order: the dimensions by falling source stride if blocks go through a tile, which is filled in the source's
    order and emptied in the output's, so that both are accessed along memory; None copies directly. margin: units between the
    rows of a tile, so that its columns do not fall into the same sets of the cache. read: the data type of a source unit, if it
    differs from what is written: copying converts it.
    """

    geometry: Geometry
    blocks: Blocks
    order: tuple[int, ...] | None = None
    margin: int = 0
    read: np.dtype[Any] | None = None

    def bind(self, buffers: Buffers) -> BoundCall:
        """As `Task.bind`."""
        if self.order is not None:
            return functools.partial(self._whole, buffers)
        return functools.partial(np.copyto, *self._views(buffers), casting="unsafe")

    def begin(self, buffers: Buffers) -> BlockWork:
        """As `Task.begin`."""
        target, source = self._views(buffers)
        work = self._plainly if self.order is None else functools.partial(self._by_tiles, {})
        return functools.partial(work, target, source)

    def _whole(self, buffers: Buffers) -> None:
        self._by_tiles({}, *self._views(buffers), 0, 1)

    def _plainly(self, target: NDArray[Any], source: NDArray[Any], first: int, last: int) -> None:
        for box in self.blocks.boxes(first, last):
            np.copyto(target[box], source[box], casting="unsafe")

    def _by_tiles(
        self, tiles: dict[tuple[int, ...], NDArray[Any]], target: NDArray[Any], source: NDArray[Any], first: int, last: int
    ) -> None:
        assert self.order is not None
        for box in self.blocks.boxes(first, last):
            sizes = tuple([extent(box)[axis] for axis in self.order])
            if sizes not in tiles:
                tiles.clear()  # blocks at the ends are smaller: one tile at a time is enough
                tiles[sizes] = np.empty((*sizes[:-1], sizes[-1] + self.margin), source.dtype)[..., : sizes[-1]]
            tile = tiles[sizes]
            np.copyto(tile, source[box].transpose(self.order))
            np.copyto(target[box].transpose(self.order), tile)

    def _views(self, buffers: Buffers) -> tuple[NDArray[Any], NDArray[Any]]:
        geometry, word = self.geometry, buffers.word
        read = word if self.read is None else self.read
        return buffers.target(word), buffers.source(read, geometry.shape, geometry.in_offset, geometry.in_strides)


@dataclass(frozen=True, slots=True)
class BlockFill:
    """The fill value at every position."""

    geometry: Geometry
    blocks: Blocks

    def bind(self, buffers: Buffers) -> BoundCall:
        """As `Task.bind`."""
        return functools.partial(np.copyto, buffers.target(buffers.word), self.geometry.fill_item(buffers.word))

    def begin(self, buffers: Buffers) -> BlockWork:
        """As `Task.begin`."""
        return functools.partial(self._work, buffers.target(buffers.word), self.geometry.fill_item(buffers.word))

    def _work(self, target: NDArray[Any], value: NDArray[Any], first: int, last: int) -> None:
        for box in self.blocks.boxes(first, last):
            np.copyto(target[box], value)
