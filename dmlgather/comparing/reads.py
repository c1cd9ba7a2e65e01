"""What one run of an operator reads at some of its output elements, all at once; and what it would read if it were wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dmlgather.directml import BufferTensorDesc, OperatorDesc
from dmlgather.plan import IndexPlan, OutOfBounds, packed_strides

T = TypeVar("T")

Numbers = NDArray[np.int64]
Place = Sequence[Numbers]
"""Coordinates of elements: for each dimension an array [elements]."""

FAR = 2**62
"""Indices that are farther from 0 are taken as this far: out of range as they are, and safe to add to."""

Resolve = Callable[[Numbers, int, int], Numbers]
"""An index [elements], the size of its dimension, what is added to a negative index -> the position, -1 where none is read."""


class Found(NamedTuple):
    """Elements that a wrong run finds. patterns: as unsigned integers of the same bits. known: where there is one. copied: where
    it is a copy of an input element; elsewhere it is a constant. All [elements].
    """

    patterns: NDArray[Any]
    known: NDArray[np.bool_]
    copied: NDArray[np.bool_]


@dataclass(frozen=True)
class OperatorRun:
    """One run of an operator. plan: over packed tensors. inputs: of shape Sizes and any strides. buffer: InputTensor as it lies
    in memory, [count], where it was a buffer.
    """

    desc: OperatorDesc
    plan: IndexPlan
    inputs: Sequence[NDArray[Any]]
    buffer: NDArray[Any] | None = None

    @property
    def data(self) -> BufferTensorDesc:
        """InputTensor."""
        return self.desc.tensor(self.desc.operator.inputs[0])

    @property
    def output(self) -> BufferTensorDesc:
        """OutputTensor."""
        return self.desc.tensor(self.desc.operator.output)

    def at(self, numbers: Numbers) -> Reads:
        """Return what is read at output elements. numbers: in row-major order; one outside stands for the nearest inside."""
        return Reads(self, np.clip(numbers, 0, prod(self.output.sizes) - 1))


@dataclass(frozen=True)
class Reads:
    """What a run reads at some output elements. numbers: theirs, in row-major order."""

    run: OperatorRun
    numbers: Numbers

    @property
    def output(self) -> Place:
        """Return the coordinates of the output elements."""
        return unraveled(self.numbers, self.run.output.sizes)

    @cached_property
    def steps(self) -> Place:
        """Return the steps of the plan that write the output elements. Its dimensions may be parts of the output's."""
        plan = self.run.plan
        return [self.numbers // max(stride, 1) % size for stride, size in zip(plan.out_strides, plan.shape, strict=True)]

    @property
    def axes(self) -> tuple[int, ...]:
        """Return the dimension of InputTensor that each lookup indexes."""
        return self.run.desc.operator.lookup_axes(self.run.desc) if self.run.plan.lookups else ()

    @cached_property
    def indices(self) -> tuple[Numbers, ...]:
        """Return the index of each lookup."""
        sizes = self.run.inputs[1].shape if self.run.plan.lookups else ()
        return tuple(
            _held(self.run.inputs[1][tuple(unraveled(along(self.steps, each.index_strides, each.index_offset), sizes))])
            for each in self.run.plan.lookups
        )

    def resolved(self, resolve: Resolve, indices: Sequence[Numbers] | None = None) -> Numbers:
        """Return addresses in InputTensor, packed, -1 where none is read. indices: in the place of those looked up."""
        plan = self.run.plan
        address, read = along(self.steps, plan.in_strides, plan.in_offset), np.ones(self.numbers.shape, np.bool_)
        for lookup, index in zip(plan.lookups, self.indices if indices is None else indices, strict=True):
            position = resolve(index, lookup.limit, lookup.wrap)
            read &= position >= 0
            address = address + np.maximum(position, 0) * lookup.in_stride
        return np.where(read, address, -1)

    @cached_property
    def source(self) -> Numbers:
        """Return the address of the right element, packed, -1 where the fill value belongs."""
        return self.resolved(self.policy)

    @property
    def policy(self) -> Resolve:
        """Return what the plan makes of an index."""
        return filled if self.run.plan.out_of_bounds is OutOfBounds.FILL else clamped

    @cached_property
    def place(self) -> Place:
        """Return the coordinates of the right element in InputTensor; where the fill value belongs, of the clamped index."""
        return unraveled(self.resolved(clamped), self.run.data.sizes)

    @cached_property
    def right(self) -> NDArray[Any]:
        """Return the patterns that belong at the output elements."""
        return self.elements(self.source, self.fill).patterns

    @cached_property
    def fill(self) -> NDArray[Any]:
        """Return the pattern of the plan's fill value, else zero, shape [1]."""
        width = self.run.data.data_type.bytes
        return np.frombuffer(self.run.plan.fill or bytes(width), f"u{width}")

    def kept(self, address: Numbers) -> Found:
        """Return the elements at addresses, and the fill value where it belongs."""
        return self.elements(np.where(self.source < 0, -1, address), self.fill)

    def elements(self, address: Numbers, fill: NDArray[Any] | None = None) -> Found:
        """Return the elements at packed addresses of InputTensor; at -1, `fill`, or none."""
        data = self.run.inputs[0]
        read = (address >= 0) & (address < data.size)
        patterns = _patterns(data[tuple(unraveled(np.where(read, address, 0), data.shape))])
        if fill is None:
            return Found(patterns, read, read)
        return Found(np.where(address == -1, fill, patterns), read | (address == -1), read)


def along(place: Place, strides: Sequence[int], offset: int = 0) -> Numbers:
    """Return the address offset + place·strides of each element."""
    address = np.full(place[0].shape, offset, np.int64)
    for coordinate, stride in zip(place, strides, strict=True):
        if stride:
            address += coordinate * stride
    return address


def unraveled(numbers: Numbers, sizes: Sequence[int]) -> list[Numbers]:
    """Return the coordinates of elements, counted row by row, of a tensor of these sizes."""
    return [numbers // stride % size for stride, size in zip(packed_strides(sizes), sizes, strict=True)]


def exchanged(each: Sequence[T], one: int, other: int) -> list[T]:
    """Return what there is for each dimension, such as sizes, with two dimensions exchanged."""
    found = list(each)
    found[one], found[other] = found[other], found[one]
    return found


def clamped(index: Numbers, size: int, wrap: int) -> Numbers:
    """Return the nearest position, after counting from the end."""
    return np.clip(np.where(index < 0, index + wrap, index), 0, size - 1)


def filled(index: Numbers, size: int, wrap: int) -> Numbers:
    """Return the position, none where the index is out of range."""
    counted = np.where(index < 0, index + wrap, index)
    return np.where((counted >= 0) & (counted < size), counted, -1)


def _held(index: NDArray[Any]) -> Numbers:
    span = np.iinfo(index.dtype)
    held: Numbers = np.clip(index, max(-FAR, span.min), min(FAR, span.max)).astype(np.int64)
    return held


def _patterns(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")
