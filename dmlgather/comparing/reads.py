"""Source elements of many output elements of one operator run, in a correct run and in faulty runs. Vectorised."""

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
"""Coordinates of elements: an array of shape [elements] for each dimension."""

FAR = 2**62
"""Indices are clipped to this magnitude. They are then still out of range, but sums with them do not overflow int64."""

Resolve = Callable[[Numbers, int, int], Numbers]
"""(indices of shape [elements], size of their dimension, number to add to negative indices) -> positions; -1 for no element."""


class Prediction(NamedTuple):
    """Output elements that a faulty run would write. All arrays have shape [elements].

    `patterns`: the bits of the elements as unsigned integers. `known`: True where there is a prediction. `copied`: True where
    the predicted element is a copy of an input element, False where it is a constant.
    """

    patterns: NDArray[Any]
    known: NDArray[np.bool_]
    copied: NDArray[np.bool_]


@dataclass(frozen=True)
class OperatorRun:
    """One run of an operator.

    `plan`: the plan over packed tensors. `inputs`: arrays of shape Sizes and any strides. `buffer`: the memory of InputTensor,
    as an array of shape [count], if InputTensor was passed as a buffer.
    """

    desc: OperatorDesc
    plan: IndexPlan
    inputs: Sequence[NDArray[Any]]
    buffer: NDArray[Any] | None = None

    @property
    def data(self) -> BufferTensorDesc:
        """Return the description of InputTensor."""
        return self.desc.tensor(self.desc.operator.inputs[0])

    @property
    def output(self) -> BufferTensorDesc:
        """Return the description of OutputTensor."""
        return self.desc.tensor(self.desc.operator.output)

    def at(self, numbers: Numbers) -> Reads:
        """Return the reads of output elements. `numbers`: row-major numbers, which are clipped to the output."""
        return Reads(self, np.clip(numbers, 0, prod(self.output.sizes) - 1))


@dataclass(frozen=True)
class Reads:
    """The reads of some output elements of a run. `numbers`: the row-major numbers of the elements."""

    run: OperatorRun
    numbers: Numbers

    @property
    def output(self) -> Place:
        """Return the coordinates of the output elements."""
        return unraveled(self.numbers, self.run.output.sizes)

    @cached_property
    def steps(self) -> Place:
        """Return the coordinates of the output elements in the plan's dimensions, into which the output's may be split."""
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
            _clipped(self.run.inputs[1][tuple(unraveled(along(self.steps, lookup.index_strides, lookup.index_offset), sizes))])
            for lookup in self.run.plan.lookups
        )

    def resolved(self, resolve: Resolve, indices: Sequence[Numbers] | None = None) -> Numbers:
        """Return the packed addresses in InputTensor that indices refer to; -1 for none. `indices`: default: `self.indices`."""
        plan = self.run.plan
        address, read = along(self.steps, plan.in_strides, plan.in_offset), np.ones(self.numbers.shape, np.bool_)
        for lookup, index in zip(plan.lookups, self.indices if indices is None else indices, strict=True):
            position = resolve(index, lookup.limit, lookup.wrap)
            read &= position >= 0
            address = address + np.maximum(position, 0) * lookup.in_stride
        return np.where(read, address, -1)

    @cached_property
    def source(self) -> Numbers:
        """Return the packed address of the correct element, -1 for the fill value."""
        return self.resolved(self.policy)

    @property
    def policy(self) -> Resolve:
        """Return the plan's rule for indices out of range."""
        return filled if self.run.plan.out_of_bounds is OutOfBounds.FILL else clamped

    @cached_property
    def place(self) -> Place:
        """Return the coordinates of the correct element in InputTensor, or for the fill value those of the clamped index."""
        return unraveled(self.resolved(clamped), self.run.data.sizes)

    @cached_property
    def right(self) -> NDArray[Any]:
        """Return the bit patterns of the correct elements."""
        return self.elements(self.source, self.fill).patterns

    @cached_property
    def fill(self) -> NDArray[Any]:
        """Return the bit pattern of the plan's fill value, or of zero if the plan has none. Shape: [1]."""
        width = self.run.data.data_type.bytes
        return np.frombuffer(self.run.plan.fill or bytes(width), f"u{width}")

    def kept(self, address: Numbers) -> Prediction:
        """Return the elements at packed addresses of InputTensor; where the fill value is correct, return the fill value."""
        return self.elements(np.where(self.source < 0, -1, address), self.fill)

    def elements(self, address: Numbers, fill: NDArray[Any] | None = None) -> Prediction:
        """Return the elements at packed addresses of InputTensor. For address -1, return `fill`; if it is None, no prediction."""
        data = self.run.inputs[0]
        read = (address >= 0) & (address < data.size)
        patterns = _patterns(data[tuple(unraveled(np.where(read, address, 0), data.shape))])
        if fill is None:
            return Prediction(patterns, read, read)
        return Prediction(np.where(address == -1, fill, patterns), read | (address == -1), read)


def along(place: Place, strides: Sequence[int], offset: int = 0) -> Numbers:
    """Return the address offset + place·strides of each element."""
    address = np.full(place[0].shape, offset, np.int64)
    for coordinate, stride in zip(place, strides, strict=True):
        if stride:
            address += coordinate * stride
    return address


def unraveled(numbers: Numbers, sizes: Sequence[int]) -> list[Numbers]:
    """Return the coordinates of elements with these row-major numbers in a tensor of these sizes."""
    return [numbers // stride % size for stride, size in zip(packed_strides(sizes), sizes, strict=True)]


def exchanged(items: Sequence[T], first: int, second: int) -> list[T]:
    """Return a list with two items exchanged, such as the sizes of two dimensions."""
    result = list(items)
    result[first], result[second] = result[second], result[first]
    return result


def clamped(index: Numbers, size: int, wrap: int) -> Numbers:
    """Return positions after counting negative indices from the end and clamping."""
    return np.clip(np.where(index < 0, index + wrap, index), 0, size - 1)


def filled(index: Numbers, size: int, wrap: int) -> Numbers:
    """Return positions after counting negative indices from the end, -1 for an index out of range."""
    counted = np.where(index < 0, index + wrap, index)
    return np.where((counted >= 0) & (counted < size), counted, -1)


def _clipped(index: NDArray[Any]) -> Numbers:
    limits = np.iinfo(index.dtype)
    clipped: Numbers = np.clip(index, max(-FAR, limits.min), min(FAR, limits.max)).astype(np.int64)
    return clipped


def _patterns(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")
