"""What a buffer holds while dispatches write parts of it, as values of an `IndexGraph`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from dmlgather.dialects.descriptor_problem import DescriptorProblem
from dmlgather.dialects.graph_building import GraphBuilder
from dmlgather.dialects.views import StridedView
from dmlgather.directml import BufferTensorDesc, GatherOperatorDesc
from dmlgather.plan import IndexPlan, Layout, packed_strides, reach
from dmlgather.plan.compose import compose
from dmlgather.plan.walk import CompositionError

MOST_WOVEN = 2**20
"""The most elements of a part of a buffer that a dispatch writes with gaps: a graph states its contents element by element."""

BYTE = np.dtype(np.uint8)


class HeldPart(NamedTuple):
    """Bytes start … stop - 1 of a buffer. They are those of a value, in row-major order, from its byte `at` on; `value` returns
    the value's name, and is None for zeros.
    """

    start: int
    stop: int
    value: Callable[[], str] | None
    at: int = 0


@dataclass(frozen=True)
class Write:
    """A dispatch has written a value, whose elements lie in the buffer as `layout` says, counted from the buffer's start."""

    value: str
    layout: Layout
    itemsize: int

    @property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one behind the last."""
        return _byte_span(self.layout, self.itemsize)


def _byte_span(layout: Layout, itemsize: int) -> tuple[int, int]:
    """The first byte of a tensor in its buffer, and the one behind its last."""
    low, high = reach(layout.sizes, layout.strides, layout.offset)
    return low * itemsize, (high + 1) * itemsize


class BufferContents:
    """The contents of one buffer: what it held at first, and what has been written since.

    graph: where steps are added. name: of the buffer, for the names of steps. initial: what it held, in order of bytes, without
    overlaps; bytes that are in none may not be read.
    """

    def __init__(self, graph: GraphBuilder, name: str, initial: Sequence[HeldPart]) -> None:
        self.graph, self.name = graph, name
        self._initial = list(initial)
        self._writes: list[Write] = []
        self._flattened: dict[int, str] = {}

    def write(self, value: str, layout: Layout) -> None:
        """The buffer holds a value from now on. layout: of its elements, counted in elements from the buffer's start."""
        self._writes.append(Write(value, layout, self.graph.types[value].dtype.itemsize))

    def read(self, layout: Layout, dtype: np.dtype[Any], name: str) -> str:
        """The value of a tensor in the buffer: of the layout's sizes. name: of a step that this needs.

        ValueError for bytes that were never written.
        """
        found = self._of_last_writer(layout, dtype, name)
        if found is None:
            start, stop = _byte_span(layout, dtype.itemsize)
            value, at = self._located(self._pieces(), start, stop, dtype)
            offset = layout.offset - start // dtype.itemsize + at
            found = value, replace(layout, offset=offset, extent=prod(self.graph.types[value].shape))
        return self._viewed(name, *found)

    def elements(self, count: int, dtype: np.dtype[Any], name: str) -> str:
        """The first elements of the buffer: a value of that many, of any shape. name: of a step that this needs."""
        value, at = self._located(self._pieces(), 0, count * dtype.itemsize, dtype)
        if at == 0 and prod(self.graph.types[value].shape) == count:
            return value
        return self._viewed(name, value, Layout((count,), (1,), at, prod(self.graph.types[value].shape)))

    def _of_last_writer(self, layout: Layout, dtype: np.dtype[Any], name: str) -> tuple[str, Layout] | None:
        """The value of the last dispatch that wrote into the tensor's part of the buffer, and where the tensor lies in it. None
        where there is none, or where the tensor has elements that it did not write.
        """
        start, stop = _byte_span(layout, dtype.itemsize)
        over = (write for write in reversed(self._writes) if write.span[0] < stop and start < write.span[1])
        last = next(over, None)
        if last is None or last.itemsize != dtype.itemsize:
            return None
        inside = _place_in(last.layout, layout, last.itemsize)
        return None if inside is None else (self._as_type(name, last.value, dtype), inside)

    def _pieces(self, writes: int | None = None) -> list[HeldPart]:
        """What the buffer holds after the first `writes` of the writes, by default after all."""
        pieces = self._initial
        for number, write in enumerate(self._writes[:writes]):
            start, stop = write.span
            kept = [part for piece in pieces for part in _outside(piece, start, stop)]
            new = HeldPart(start, stop, partial(self._flat_write, number))
            pieces = sorted([*kept, new], key=lambda piece: piece.start)
        return pieces

    def _flat_write(self, number: int) -> str:
        """The value of all elements of the buffer from the first that a write wrote to the last, in row-major order."""
        if number not in self._flattened:
            write = self._writes[number]
            sizes, strides = write.layout.sizes, write.layout.strides
            order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis))
            moved = [axis for axis in order if sizes[axis] > 1]
            name = f"'{self.name}' as it is written"
            if [strides[axis] for axis in moved] == list(packed_strides([sizes[axis] for axis in moved])):
                self._flattened[number] = (
                    self.graph.transposed(name, write.value, order) if moved != sorted(moved) else write.value
                )
            else:
                self._flattened[number] = self._woven(name, write, self._pieces(number))
        return self._flattened[number]

    def _woven(self, name: str, write: Write, before: Sequence[HeldPart]) -> str:
        """The part of the buffer around a write that leaves gaps: written elements, and what lay between them before."""
        graph, (start, stop), dtype = self.graph, write.span, self.graph.types[write.value].dtype
        written, count = prod(write.layout.sizes), (stop - start) // write.itemsize
        if count > MOST_WOVEN:
            raise ValueError(
                f"{self.name!r} is read after a dispatch wrote {written} of {count} elements there, with gaps, and a graph holds "
                f"at most {MOST_WOVEN} elements of such a part: bind an OutputTensor without gaps, or split the model in front "
                "of what reads it"
            )
        value, at = self._located(before, start, stop, dtype)
        old = self._viewed(f"{name}: before", value, Layout((count,), (1,), at, prod(graph.types[value].shape)))
        new = graph.reshaped(f"{name}: flat", write.value, (written,))
        both = graph.concatenated(f"{name}: both", [new, old], 0)
        positions = np.arange(written, written + count)
        steps = np.indices(write.layout.sizes).reshape(len(write.layout.sizes), -1)
        positions[np.tensordot(write.layout.strides, steps, 1)] = np.arange(written)
        return graph.problem(name, _taken(written + count, count, dtype), both, graph.constant(positions))

    def _located(self, pieces: Sequence[HeldPart], start: int, stop: int, dtype: np.dtype[Any]) -> tuple[str, int]:
        """A value of `dtype` that has the bytes start … stop - 1 in row-major order, and the element at which they begin."""
        parts = [part for piece in pieces for part in _inside(piece, start, stop)]
        if sum(part.stop - part.start for part in parts) < stop - start:
            raise ValueError(f"bytes {start} … {stop - 1} of {self.name!r} are read, but not all of them were ever written")
        name = f"'{self.name}' from byte {start} on"
        if len(parts) == 1 and parts[0].value is not None and self._holds(parts[0], dtype):
            return self._as_type(name, parts[0].value(), dtype), parts[0].at // dtype.itemsize
        whole = all(self._holds(part, dtype) and (part.stop - part.start) % dtype.itemsize == 0 for part in parts)
        unit = dtype if whole else BYTE
        values = [self._cut(name, part, unit) for part in parts]
        return self._as_type(name, self.graph.concatenated(name, values, 0), dtype), 0

    def _holds(self, piece: HeldPart, dtype: np.dtype[Any]) -> bool:
        """Whether a piece of a value is elements of a type."""
        if piece.value is None:
            return True
        tensor = self.graph.types[piece.value()]
        return prod(tensor.shape) * tensor.dtype.itemsize % dtype.itemsize == 0 and piece.at % dtype.itemsize == 0

    def _cut(self, name: str, piece: HeldPart, dtype: np.dtype[Any]) -> str:
        """A piece as a value of one dimension."""
        count, at = (each // dtype.itemsize for each in (piece.stop - piece.start, piece.at))
        if piece.value is None:
            return self.graph.expanded(f"padding of '{self.name}'", self.graph.constant(np.zeros(1, dtype)), (count,))
        value = self._as_type(name, piece.value(), dtype)
        return self._viewed(name, value, Layout((count,), (1,), at, prod(self.graph.types[value].shape)))

    def _as_type(self, name: str, value: str, dtype: np.dtype[Any]) -> str:
        """The same bytes as elements of another type: of the same shape where these are as large, else in one dimension."""
        tensor = self.graph.types[value]
        if tensor.dtype == dtype:
            return value
        count = prod(tensor.shape) * tensor.dtype.itemsize // dtype.itemsize
        shape = tensor.shape if tensor.dtype.itemsize == dtype.itemsize else (count,)
        return self.graph.bitcast(f"{name}: as {dtype}", value, dtype, shape)

    def _viewed(self, name: str, value: str, place: Layout) -> str:
        """The tensor that lies in a packed value as `place` says."""
        tensor = self.graph.types[value]
        packed = all(
            step == own
            for size, step, own in zip(place.sizes, place.strides, packed_strides(place.sizes), strict=True)
            if size > 1
        )
        if packed and place.offset == 0 and prod(place.sizes) == prod(tensor.shape):
            return self.graph.reshaped(name, value, place.sizes)
        return self.graph.problem(name, StridedView(tensor, place.sizes, place.strides, place.offset), value)


def _place_in(written: Layout, read: Layout, itemsize: int) -> Layout | None:
    """Where a tensor in a buffer lies in the packed value that was written there; None where the value does not have all of its
    elements, or strides cannot say it.
    """
    count, extent = prod(written.sizes), max(reach(each.sizes, each.strides, each.offset)[1] for each in (written, read)) + 1
    store = IndexPlan(written.sizes, written.strides, packed_strides(written.sizes), itemsize, count, extent, 0, written.offset)
    load = IndexPlan(read.sizes, packed_strides(read.sizes), read.strides, itemsize, extent, prod(read.sizes), read.offset)
    try:
        found = compose(load, store)
    except CompositionError:
        return None
    steps = iter(found.in_strides)
    if found.shape != tuple(size for size in read.sizes if size > 1):
        return None
    return Layout(read.sizes, tuple(next(steps) if size > 1 else 0 for size in read.sizes), found.in_offset, count)


def _inside(piece: HeldPart, start: int, stop: int) -> Iterator[HeldPart]:
    """The part of a piece between two bytes, where there is one."""
    first, last = max(piece.start, start), min(piece.stop, stop)
    if first < last:
        yield HeldPart(first, last, piece.value, piece.at + first - piece.start)


def _outside(piece: HeldPart, start: int, stop: int) -> Iterator[HeldPart]:
    yield from _inside(piece, piece.start, start)
    yield from _inside(piece, stop, piece.stop)


def _taken(count: int, taken: int, dtype: np.dtype[Any]) -> DescriptorProblem:
    """The gather of `taken` of `count` elements by positions."""
    data, indices, output = (
        BufferTensorDesc(data_type=kind.upper(), sizes=(size,))
        for kind, size in ((dtype.name, count), ("int64", taken), (dtype.name, taken))
    )
    return DescriptorProblem(
        GatherOperatorDesc(input_tensor=data, indices_tensor=indices, output_tensor=output, axis=0, index_dimensions=1)
    )
