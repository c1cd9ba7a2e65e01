"""Blocks with lookups: compute a block's offsets, then move its units in one of four ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cpu.blocks import Blocks, Box, extent
from dmlgather.backends.cpu.buffers import Buffers
from dmlgather.backends.cpu.geometry import Geometry
from dmlgather.backends.cpu.offsets import Addresser, Addressing, Frame, Offsets


@dataclass(frozen=True, slots=True)
class Gather:
    """A gather by blocks. move: what is done with the offsets of a block."""

    geometry: Geometry
    blocks: Blocks
    addressing: Addressing
    move: Move

    def work(self, buffers: Buffers, first: int, last: int) -> int | None:
        """Gather blocks `first` … `last` - 1; the smallest offset of a bad index under RAISE, where moving stops."""
        call = Call(self, buffers)
        smallest: int | None = None
        for box in self.blocks.boxes(first, last):
            offsets = call.addresser.offsets(box)
            if offsets.offset is not None:
                smallest = offsets.offset if smallest is None else min(smallest, offsets.offset)
            if smallest is not None or call.target is None:
                continue
            block = call.target[box]
            self.move(call, box, block, offsets)
            if offsets.bad is not None:
                np.copyto(block, self.geometry.fill_item(buffers.item), where=offsets.bad)
        return smallest


class Call:
    """One thread's part of one call."""

    def __init__(self, gather: Gather, buffers: Buffers) -> None:
        assert buffers.indices is not None
        self.addressing, self.geometry, self.buffers = gather.addressing, gather.geometry, buffers
        self.pitch = gather.geometry.pitch
        self.contiguous = self.pitch == gather.geometry.unit
        self.addresser = Addresser(gather.addressing, buffers.indices)
        self.target = None if gather.move is check else buffers.target(buffers.item)

    def base(self, starts: tuple[int, ...], frame: Frame) -> int:
        """The byte address that offset 0 of a block means."""
        steps = zip(starts, self.geometry.in_strides, strict=True)
        return self.geometry.in_offset + frame.low * self.pitch + sum(start * step for start, step in steps)

    def window(self, at: int, span: int) -> NDArray[Any]:
        """The `span` source units that offsets 0 … span-1 from byte `at` mean: nothing else can be read."""
        return self.buffers.source(self.buffers.item, (span,), at, None if self.contiguous else (self.pitch,))

    def take(self, window: NDArray[Any], offsets: NDArray[np.integer], block: NDArray[Any]) -> None:
        """Block = window[offsets], along the window's last axis."""
        axis = window.ndim - 1
        if not self.contiguous:
            # take() would first copy a strided window, whole. Indexing walks its strides.
            block[...] = window[offsets.reshape(-1)].reshape(block.shape)
        elif block.flags.c_contiguous and self.buffers.opaque:
            window.take(offsets, axis, block.reshape((*window.shape[:-1], *offsets.shape)), "wrap")
        else:
            np.copyto(block, window.take(offsets, axis, mode="wrap").reshape(block.shape))


Move = Callable[[Call, Box, NDArray[Any], Offsets], None]


def flat(call: Call, box: Box, block: NDArray[Any], offsets: Offsets) -> None:
    """The whole block by one take from a one-dimensional window."""
    at = call.base(tuple(span.start for span in box), offsets.frame)
    call.take(call.window(at, offsets.frame.span), offsets.values, block)


def along(call: Call, box: Box, block: NDArray[Any], offsets: Offsets) -> None:
    """One take along the last axis of a [rows, columns] window, the rows being the dimension before the offsets."""
    axis = call.addressing.dims.start - 1
    at = call.base(tuple(span.start for span in box), offsets.frame)
    rows = box[axis].stop - box[axis].start
    columns = call.geometry.in_strides[axis] // call.geometry.unit
    # The last row may end where its last reachable column does, short of a whole row: it is taken on its own then.
    whole = min(rows, (call.buffers.data.nbytes - at) // call.geometry.in_strides[axis])
    if whole:
        window = call.buffers.source(call.buffers.item, (whole, columns), at)
        call.take(window, offsets.values, block[(slice(None),) * axis + (slice(whole),)])
    if whole < rows:
        window = call.window(at + whole * call.geometry.in_strides[axis], offsets.frame.span)
        call.take(window, offsets.values, block[(slice(None),) * axis + (slice(whole, rows),)])


def rows(call: Call, box: Box, block: NDArray[Any], offsets: Offsets) -> None:
    """One take per row of the block, the rows being all dimensions before the summed ones."""
    inner = call.addressing.summed.start
    starts = [span.start for span in box]
    for row in np.ndindex(block.shape[:inner]):
        place = (*(start + step for start, step in zip(starts, row, strict=False)), *starts[inner:])
        call.take(call.window(call.base(place, offsets.frame), offsets.frame.span), offsets.values[row], block[row])


def slices(call: Call, box: Box, block: NDArray[Any], offsets: Offsets) -> None:
    """One strided copy per offset, over the trailing dimensions along which no lookup moves."""
    inner = call.addressing.dims.stop
    at = call.base(tuple(span.start for span in box), offsets.frame)
    sizes, strides = extent(box)[inner:], call.geometry.in_strides[inner:]
    word = call.buffers.word
    words = block.view(word)
    for place, offset in zip(np.ndindex(block.shape[:inner]), offsets.values.reshape(-1).tolist(), strict=True):
        np.copyto(words[place], call.buffers.source(word, sizes, at + offset * call.pitch, strides))


def check(call: Call, box: Box, block: NDArray[Any], offsets: Offsets) -> None:
    """Nothing: an empty output under RAISE has its indices checked, no more."""
