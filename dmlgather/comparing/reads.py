"""The input elements that an operator run copies to given output elements, and those that a faulty run would copy."""

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
"""Coordinates of many elements: an array for each dimension of the tensor."""

FAR = 2**62
"""Replaces indices of larger magnitude, because sums with them would overflow int64."""

Resolve = Callable[[Numbers, int, int], Numbers]
"""Maps indices to positions along a dimension; -1 reads no element.

Arguments: indices, size of the dimension, and what to add to a negative index.
"""


class Prediction(NamedTuple):
    """The bit patterns that a faulty run would write to some output elements.

    `known`: True for elements with a prediction. `copied`: True for copies of input elements.
    """

    patterns: NDArray[Any]
    known: NDArray[np.bool_]
    copied: NDArray[np.bool_]


@dataclass(frozen=True)
class OperatorRun:
    """One run of an operator. The plan is for packed tensors.

    `buffer`: the memory of InputTensor, if it was passed in one dimension.
    """

    desc: OperatorDesc
    plan: IndexPlan
    inputs: Sequence[NDArray[Any]]
    buffer: NDArray[Any] | None = None

    @property
    def data(self) -> BufferTensorDesc:
        """InputTensor's description."""
        return self.desc.tensor(self.desc.operator.inputs[0])

    @property
    def output(self) -> BufferTensorDesc:
        """OutputTensor's description."""
        return self.desc.tensor(self.desc.operator.output)

    def at(self, numbers: Numbers) -> Reads:
        """Return the `Reads` of output elements. Numbers outside of the output are clipped."""
        return Reads(self, np.clip(numbers, 0, prod(self.output.sizes) - 1))


@dataclass(frozen=True)
class Reads:
    """Some output elements of a run, by row-major numbers, and where their values come from."""

    run: OperatorRun
    numbers: Numbers

    @property
    def output(self) -> Place:
        """The coordinates of the output elements."""
        return unraveled(self.numbers, self.run.output.sizes)

    @cached_property
    def steps(self) -> Place:
        """The coordinates of the output elements in the plan's dimensions."""
        plan = self.run.plan
        return [self.numbers // max(stride, 1) % size for stride, size in zip(plan.out_strides, plan.shape, strict=True)]

    @property
    def axes(self) -> tuple[int, ...]:
        """For each lookup, the dimension of InputTensor in which its index selects a position."""
        return self.run.desc.operator.lookup_axes(self.run.desc) if self.run.plan.lookups else ()

    @cached_property
    def indices(self) -> tuple[Numbers, ...]:
        """For each lookup, the index values that the output elements depend on."""
        sizes = self.run.inputs[1].shape if self.run.plan.lookups else ()
        return tuple(
            _clipped(self.run.inputs[1][tuple(unraveled(along(self.steps, lookup.index_strides, lookup.index_offset), sizes))])
            for lookup in self.run.plan.lookups
        )

    def resolved(self, resolve: Resolve, indices: Sequence[Numbers] | None = None) -> Numbers:
        """Return the row-major numbers of the input elements that are copied, or -1 for none."""
        plan = self.run.plan
        address, read = along(self.steps, plan.in_strides, plan.in_offset), np.ones(self.numbers.shape, np.bool_)
        for lookup, index in zip(plan.lookups, self.indices if indices is None else indices, strict=True):
            position = resolve(index, lookup.limit, lookup.wrap)
            read &= position >= 0
            address = address + np.maximum(position, 0) * lookup.in_stride
        return np.where(read, address, -1)

    @cached_property
    def source(self) -> Numbers:
        """The row-major numbers of the correct input elements; -1 where the fill value is correct."""
        return self.resolved(self.policy)

    @property
    def policy(self) -> Resolve:
        """The correct treatment of indices out of range."""
        return filled if self.run.plan.out_of_bounds is OutOfBounds.FILL else clamped

    @cached_property
    def place(self) -> Place:
        """The coordinates of the correct input elements. Indices out of range are clamped."""
        return unraveled(self.resolved(clamped), self.run.data.sizes)

    @cached_property
    def right(self) -> NDArray[Any]:
        """The correct values of the output elements, as bit patterns."""
        return self.elements(self.source, self.fill).patterns

    @cached_property
    def fill(self) -> NDArray[Any]:
        """The bit pattern of the fill value, or of zero."""
        width = self.run.data.data_type.bytes
        return np.frombuffer(self.run.plan.fill or bytes(width), f"u{width}")

    def kept(self, address: Numbers) -> Prediction:
        """Predict copies of these input elements, but keep the fill value where it is correct."""
        return self.elements(np.where(self.source < 0, -1, address), self.fill)

    def elements(self, address: Numbers, fill: NDArray[Any] | None = None) -> Prediction:
        """Predict copies of input elements, `fill` for -1, and nothing for numbers outside of InputTensor."""
        data = self.run.inputs[0]
        read = (address >= 0) & (address < data.size)
        patterns = _patterns(data[tuple(unraveled(np.where(read, address, 0), data.shape))])
        if fill is None:
            return Prediction(patterns, read, read)
        return Prediction(np.where(address == -1, fill, patterns), read | (address == -1), read)


def along(place: Place, strides: Sequence[int], offset: int = 0) -> Numbers:
    """Return the address of each element: `offset` plus coordinates times strides."""
    address = np.full(place[0].shape, offset, np.int64)
    for coordinate, stride in zip(place, strides, strict=True):
        if stride:
            address += coordinate * stride
    return address


def unraveled(numbers: Numbers, sizes: Sequence[int]) -> list[Numbers]:
    """Return the coordinates of the elements with these row-major numbers."""
    return [numbers // stride % size for stride, size in zip(packed_strides(sizes), sizes, strict=True)]


def exchanged(items: Sequence[T], first: int, second: int) -> list[T]:
    """Return a list with two items exchanged, such as the sizes of two dimensions."""
    result = list(items)
    result[first], result[second] = result[second], result[first]
    return result


def clamped(index: Numbers, size: int, wrap: int) -> Numbers:
    """Return the positions that indices select. Indices out of range are clamped."""
    return np.clip(np.where(index < 0, index + wrap, index), 0, size - 1)


def filled(index: Numbers, size: int, wrap: int) -> Numbers:
    """Return the positions that indices select. Indices out of range select nothing (-1)."""
    counted = np.where(index < 0, index + wrap, index)
    return np.where((counted >= 0) & (counted < size), counted, -1)


def _clipped(index: NDArray[Any]) -> Numbers:
    limits = np.iinfo(index.dtype)
    clipped: Numbers = np.clip(index, max(-FAR, limits.min), min(FAR, limits.max)).astype(np.int64)
    return clipped


def _patterns(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")
