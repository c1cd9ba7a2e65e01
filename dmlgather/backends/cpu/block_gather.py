"""Plans with lookups, by blocks: compute a block's offsets, then move its units in one of four ways."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.backends.cpu.blocks import Blocks, Box, extent
from dmlgather.backends.cpu.buffers import Buffers
from dmlgather.backends.cpu.geometry import Geometry
from dmlgather.backends.cpu.offsets import Addresser, Addressing, Frame, Offsets
from dmlgather.backends.cpu.threads import BlockWork
from dmlgather.backends.cpu.whole_take import BoundCall, WholeTake


@dataclass(frozen=True, slots=True)
class BlockGather:
    """A gather by blocks. move: moves the units of a block at given offsets. native: use NumPy's own check if raw indices equal
    the offsets. whole_take: replaces all this if the problem is one small block.
    """

    geometry: Geometry
    blocks: Blocks
    addressing: Addressing
    move: Move
    native: bool = False
    whole_take: WholeTake | None = None

    def bind(self, buffers: Buffers) -> BoundCall:
        """As `Task.bind`."""
        slow = functools.partial(self._whole, buffers)
        return slow if self.whole_take is None or not buffers.opaque else self.whole_take.bind(buffers, slow)

    def begin(self, buffers: Buffers) -> BlockWork:
        """As `Task.begin`."""
        return ThreadGather(self, buffers).work

    def _whole(self, buffers: Buffers) -> int | None:
        return ThreadGather(self, buffers).work(0, 1)


class ThreadGather:
    """One thread's blocks of one call."""

    def __init__(self, gather: BlockGather, buffers: Buffers) -> None:
        assert buffers.indices is not None
        self.gather, self.addressing, self.geometry, self.buffers = gather, gather.addressing, gather.geometry, buffers
        self.pitch = gather.geometry.pitch
        self.contiguous = self.pitch == gather.geometry.unit
        self.native = gather.native and self.contiguous
        self.addresser = Addresser(gather.addressing, buffers.indices)
        self.target = None if gather.move is check else buffers.target(buffers.item)

    def work(self, first: int, last: int) -> int | None:
        """Gather blocks `first` … `last` - 1. Returns the smallest offset of a bad index under RAISE; then moving stops."""
        smallest: int | None = None
        for box in self.gather.blocks.boxes(first, last):
            if self.native and smallest is None and self.checked(box):
                continue
            offsets = self.addresser.offsets(box)
            if offsets.offset is not None:
                smallest = offsets.offset if smallest is None else min(smallest, offsets.offset)
            if smallest is not None or self.target is None:
                continue
            block = self.target[box]
            self.gather.move(self, box, block, offsets)
            if offsets.bad is not None:
                np.copyto(block, self.geometry.fill_item(self.buffers.item), where=offsets.bad)
        return smallest

    def base(self, box: Box, frame: Frame) -> int:
        """The byte address that offset 0 of a block means."""
        steps: int = sum([span.start * step for span, step in zip(box, self.geometry.in_strides, strict=True)])
        return self.geometry.in_offset + frame.low * self.pitch + steps

    def window(self, at: int, span: int) -> NDArray[Any]:
        """The `span` source units that offsets 0 … span-1 from byte `at` mean: nothing else can be read."""
        return self.buffers.source(self.buffers.item, (span,), at, None if self.contiguous else (self.pitch,))

    def checked(self, box: Box) -> bool:
        """Take a block at its raw indices; False if that cannot be done. After one out of range, this is not tried again."""
        assert self.target is not None
        raw = self.addresser.raw(box)
        if raw is None:
            return False
        try:
            # With an output NumPy would copy that first, to leave it as it was after an error: a block of its own is quicker.
            np.copyto(self.target[box], line(self, box).take(raw))
        except IndexError:
            self.native = False
        return self.native

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


Move = Callable[[ThreadGather, Box, NDArray[Any], Offsets], None]


def line(call: ThreadGather, box: Box) -> NDArray[Any]:
    """The one-dimensional window that a block's offsets count in."""
    frame = call.addressing.frame(extent(box))
    return call.window(call.base(box, frame), frame.span)


def table(call: ThreadGather, box: Box) -> NDArray[Any] | None:
    """The [rows, columns] that a block's offsets choose columns of, the rows being the dimension before the offsets. None where
    the last row may end where its last reachable column does, short of a whole row.
    """
    axis = call.addressing.dims.start - 1
    step = call.geometry.in_strides[axis]
    rows, at = box[axis].stop - box[axis].start, call.base(box, call.addressing.frame(extent(box)))
    if at + rows * step > call.buffers.data.nbytes:
        return None
    return call.buffers.source(call.buffers.item, (rows, step // call.geometry.unit), at)


def flat(call: ThreadGather, box: Box, block: NDArray[Any], offsets: Offsets) -> None:
    """The whole block by one take from a one-dimensional window."""
    call.take(line(call, box), offsets.values, block)


def along(call: ThreadGather, box: Box, block: NDArray[Any], offsets: Offsets) -> None:
    """One take along the last axis of a window of rows and columns."""
    window = table(call, box)
    if window is not None:
        call.take(window, offsets.values, block)
        return
    axis = call.addressing.dims.start - 1
    head, tail = (slice(box[axis].start, box[axis].stop - 1), slice(box[axis].stop - 1, box[axis].stop))
    last = (slice(None),) * axis + (slice(-1, None),)
    if head.start < head.stop:
        along(call, (*box[:axis], head, *box[axis + 1 :]), block[(slice(None),) * axis + (slice(-1),)], offsets)
    at = call.base((*box[:axis], tail, *box[axis + 1 :]), offsets.frame)
    call.take(call.window(at, offsets.frame.span), offsets.values, block[last])


def rows(call: ThreadGather, box: Box, block: NDArray[Any], offsets: Offsets) -> None:
    """One take per row of the block, the rows being all dimensions before the summed ones."""
    inner = call.addressing.summed.start
    at = call.base(box, offsets.frame)
    strides = (*call.geometry.in_strides[:inner], call.pitch)
    windows = call.buffers.source(call.buffers.item, (*block.shape[:inner], offsets.frame.span), at, strides)
    values = offsets.values
    plain = call.contiguous and call.buffers.opaque and block.flags.c_contiguous
    for row in np.ndindex(block.shape[:inner]):
        if plain:
            windows[row].take(values[row], 0, block[row], "wrap")
        else:
            call.take(windows[row], values[row], block[row])


def slices(call: ThreadGather, box: Box, block: NDArray[Any], offsets: Offsets) -> None:
    """One strided copy per offset, over the trailing dimensions along which no lookup moves."""
    inner = call.addressing.dims.stop
    at = call.base(box, offsets.frame)
    sizes, strides = extent(box)[inner:], call.geometry.in_strides[inner:]
    word = call.buffers.word
    words = block.view(word)
    for place, offset in zip(np.ndindex(block.shape[:inner]), offsets.values.reshape(-1).tolist(), strict=True):
        np.copyto(words[place], call.buffers.source(word, sizes, at + offset * call.pitch, strides))


def check(call: ThreadGather, box: Box, block: NDArray[Any], offsets: Offsets) -> None:
    """Move nothing: for an empty output under RAISE, only the indices are checked."""
