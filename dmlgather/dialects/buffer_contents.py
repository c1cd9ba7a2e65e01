"""The contents of a buffer, tracked while a DxDispatch model is turned into an `IndexGraph`.

A graph has no buffers. Several dispatches may write parts of one buffer, and a later one may read a mixture of these parts.
"""

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

MOST_WITH_GAPS = 2**20
"""Longest range, in elements, that a dispatch may write with gaps if a later command reads the buffer.

The graph needs an index for each element.
"""

BYTE = np.dtype(np.uint8)


class BufferPart(NamedTuple):
    """A range of bytes in a buffer, from `start` to `stop` - 1, and the value of the graph that contains these bytes.

    `value`: a function that returns the name of the value; None if the bytes are zeros.
    `first_byte`: the position in the value at which the range starts, in bytes.
    """

    start: int
    stop: int
    value: Callable[[], str] | None
    first_byte: int = 0


@dataclass(frozen=True)
class Write:
    """The output of one dispatch in a buffer. `value`: the name of the output in the graph."""

    value: str
    layout: Layout
    itemsize: int

    @property
    def span(self) -> tuple[int, int]:
        """First byte that was written, and the byte after the last one."""
        return _byte_span(self.layout, self.itemsize)


def _byte_span(layout: Layout, itemsize: int) -> tuple[int, int]:
    low, high = reach(layout.sizes, layout.strides, layout.offset)
    return low * itemsize, (high + 1) * itemsize


class BufferContents:
    """The contents of one buffer: initial contents, and later writes by dispatches.

    `initial`: the parts with initial contents, in order and without overlaps. Other bytes cannot be read before a dispatch
    writes them.
    """

    def __init__(self, graph: GraphBuilder, name: str, initial: Sequence[BufferPart]) -> None:
        self.graph, self.name = graph, name
        self._initial = list(initial)
        self._writes: list[Write] = []
        self._flattened: dict[int, str] = {}

    def write(self, value: str, layout: Layout) -> None:
        """Record that a dispatch wrote `value` to the buffer."""
        self._writes.append(Write(value, layout, self.graph.types[value].dtype.itemsize))

    def read(self, layout: Layout, dtype: np.dtype[Any], name: str) -> str:
        """Return the name of a value that holds a tensor of the buffer. Raises ValueError if bytes were never written."""
        source = self._from_last_write(layout, dtype, name)
        if source is None:
            start, stop = _byte_span(layout, dtype.itemsize)
            value, first = self._value_of_bytes(self._parts(), start, stop, dtype)
            offset = layout.offset - start // dtype.itemsize + first
            source = value, replace(layout, offset=offset, extent=prod(self.graph.types[value].shape))
        return self._view(name, *source)

    def elements(self, count: int, dtype: np.dtype[Any], name: str) -> str:
        """Return the name of a value that holds the first `count` elements of the buffer. It may have any shape."""
        value, first = self._value_of_bytes(self._parts(), 0, count * dtype.itemsize, dtype)
        if first == 0 and prod(self.graph.types[value].shape) == count:
            return value
        return self._view(name, value, Layout((count,), (1,), first, prod(self.graph.types[value].shape)))

    def _from_last_write(self, layout: Layout, dtype: np.dtype[Any], name: str) -> tuple[str, Layout] | None:
        """Return the value of the last write that overlaps a tensor, and the layout of the tensor in this value.

        Return None if there is no such write, or if the value does not contain the whole tensor.
        """
        start, stop = _byte_span(layout, dtype.itemsize)
        overlapping = (write for write in reversed(self._writes) if write.span[0] < stop and start < write.span[1])
        last = next(overlapping, None)
        if last is None or last.itemsize != dtype.itemsize:
            return None
        inside = _layout_in_value(last.layout, layout, last.itemsize)
        return None if inside is None else (self._as_type(name, last.value, dtype), inside)

    def _parts(self, writes: int | None = None) -> list[BufferPart]:
        """Return the contents of the buffer after some of its writes. `writes`: the number of writes; None for all."""
        parts = self._initial
        for number, write in enumerate(self._writes[:writes]):
            start, stop = write.span
            kept = [rest for part in parts for rest in _outside(part, start, stop)]
            new = BufferPart(start, stop, partial(self._flat_write, number))
            parts = sorted([*kept, new], key=lambda part: part.start)
        return parts

    def _flat_write(self, number: int) -> str:
        """Return the name of a value with all elements from the lowest to the highest address of a write, in this order.

        It may have any shape.
        """
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
                self._flattened[number] = self._with_gaps_filled(name, write, self._parts(number))
        return self._flattened[number]

    def _with_gaps_filled(self, name: str, write: Write, before: Sequence[BufferPart]) -> str:
        graph, (start, stop), dtype = self.graph, write.span, self.graph.types[write.value].dtype
        written, count = prod(write.layout.sizes), (stop - start) // write.itemsize
        if count > MOST_WITH_GAPS:
            raise ValueError(
                f"a dispatch writes {written} of {count} elements of {self.name!r}, with gaps between them, and a later command "
                f"reads {self.name!r}: a graph supports this for at most {MOST_WITH_GAPS} elements; bind an OutputTensor without "
                "gaps, or split the model before the command that reads the buffer"
            )
        value, first = self._value_of_bytes(before, start, stop, dtype)
        old = self._view(f"{name}: before", value, Layout((count,), (1,), first, prod(graph.types[value].shape)))
        new = graph.reshaped(f"{name}: flat", write.value, (written,))
        both = graph.concatenated(f"{name}: both", [new, old], 0)
        positions = np.arange(written, written + count)
        coordinates = np.indices(write.layout.sizes).reshape(len(write.layout.sizes), -1)
        positions[np.tensordot(write.layout.strides, coordinates, 1)] = np.arange(written)
        return graph.problem(name, _gather(written + count, count, dtype), both, graph.constant(positions))

    def _value_of_bytes(self, held: Sequence[BufferPart], start: int, stop: int, dtype: np.dtype[Any]) -> tuple[str, int]:
        """Return the name of a value that contains bytes start … stop - 1, and the element of the value at which they start."""
        parts = [inner for part in held for inner in _inside(part, start, stop)]
        if sum(part.stop - part.start for part in parts) < stop - start:
            raise ValueError(f"bytes {start} … {stop - 1} of {self.name!r} are read, but not all of them were ever written")
        name = f"'{self.name}' from byte {start} on"
        if len(parts) == 1 and parts[0].value is not None and self._is_aligned(parts[0], dtype):
            return self._as_type(name, parts[0].value(), dtype), parts[0].first_byte // dtype.itemsize
        whole = all(self._is_aligned(part, dtype) and (part.stop - part.start) % dtype.itemsize == 0 for part in parts)
        unit = dtype if whole else BYTE
        values = [self._flat_part(name, part, unit) for part in parts]
        return self._as_type(name, self.graph.concatenated(name, values, 0), dtype), 0

    def _is_aligned(self, part: BufferPart, dtype: np.dtype[Any]) -> bool:
        """Return True if a part starts at an element boundary, and its value consists of whole elements of `dtype`."""
        if part.value is None:
            return True
        tensor = self.graph.types[part.value()]
        return prod(tensor.shape) * tensor.dtype.itemsize % dtype.itemsize == 0 and part.first_byte % dtype.itemsize == 0

    def _flat_part(self, name: str, part: BufferPart, dtype: np.dtype[Any]) -> str:
        count, first = ((part.stop - part.start) // dtype.itemsize, part.first_byte // dtype.itemsize)
        if part.value is None:
            return self.graph.expanded(f"padding of '{self.name}'", self.graph.constant(np.zeros(1, dtype)), (count,))
        value = self._as_type(name, part.value(), dtype)
        return self._view(name, value, Layout((count,), (1,), first, prod(self.graph.types[value].shape)))

    def _as_type(self, name: str, value: str, dtype: np.dtype[Any]) -> str:
        """Return the name of a value that holds the bytes of `value` as elements of `dtype`."""
        tensor = self.graph.types[value]
        if tensor.dtype == dtype:
            return value
        count = prod(tensor.shape) * tensor.dtype.itemsize // dtype.itemsize
        shape = tensor.shape if tensor.dtype.itemsize == dtype.itemsize else (count,)
        return self.graph.bitcast(f"{name}: as {dtype}", value, dtype, shape)

    def _view(self, name: str, value: str, layout: Layout) -> str:
        tensor = self.graph.types[value]
        if layout.is_packed and prod(layout.sizes) == prod(tensor.shape):
            return self.graph.reshaped(name, value, layout.sizes)
        return self.graph.problem(name, StridedView(tensor, layout.sizes, layout.strides, layout.offset), value)


def _layout_in_value(written: Layout, read: Layout, itemsize: int) -> Layout | None:
    """Return where a value holds the elements of a tensor. Return None if strides cannot describe this.

    The value was written to a buffer with the layout `written`. The tensor is read from the buffer with the layout `read`.
    """
    last = max(reach(layout.sizes, layout.strides, layout.offset)[1] for layout in (written, read))
    count, extent = prod(written.sizes), last + 1
    store = IndexPlan(written.sizes, written.strides, packed_strides(written.sizes), itemsize, count, extent, 0, written.offset)
    load = IndexPlan(read.sizes, packed_strides(read.sizes), read.strides, itemsize, extent, prod(read.sizes), read.offset)
    try:
        composed = compose(load, store)
    except CompositionError:
        return None
    if composed.shape != tuple(size for size in read.sizes if size > 1):
        return None
    steps = iter(composed.in_strides)
    return Layout(read.sizes, tuple(next(steps) if size > 1 else 0 for size in read.sizes), composed.in_offset, count)


def _inside(part: BufferPart, start: int, stop: int) -> Iterator[BufferPart]:
    first, last = max(part.start, start), min(part.stop, stop)
    if first < last:
        yield BufferPart(first, last, part.value, part.first_byte + first - part.start)


def _outside(part: BufferPart, start: int, stop: int) -> Iterator[BufferPart]:
    yield from _inside(part, part.start, start)
    yield from _inside(part, stop, part.stop)


def _gather(count: int, positions: int, dtype: np.dtype[Any]) -> DescriptorProblem:
    data, indices, output = (
        BufferTensorDesc(data_type=kind.upper(), sizes=(size,))
        for kind, size in ((dtype.name, count), ("int64", positions), (dtype.name, positions))
    )
    return DescriptorProblem(
        GatherOperatorDesc(input_tensor=data, indices_tensor=indices, output_tensor=output, axis=0, index_dimensions=1)
    )
