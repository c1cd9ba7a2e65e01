"""The input elements that an operator run copies to given output elements, and the elements that a faulty run would copy."""

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

    `known`: True for the elements that have a prediction. `copied`: True for the elements that would be copies of input
    elements.
    """

    patterns: NDArray[Any]
    known: NDArray[np.bool_]
    copied: NDArray[np.bool_]


@dataclass(frozen=True)
class OperatorRun:
    """The operator and the inputs of one run.

    `plan`: the operator, lowered for packed tensors. `buffer`: the whole buffer of InputTensor, if the caller passed a
    one-dimensional buffer.
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
        """Return the `Reads` of the output elements with these row-major numbers. Numbers outside of the output are clipped."""
        return Reads(self, np.clip(numbers, 0, prod(self.output.sizes) - 1))


@dataclass(frozen=True)
class Reads:
    """Some output elements of a run, and the input elements that they copy.

    `numbers`: the row-major numbers of the output elements, which are positions in the flattened output.
    """

    run: OperatorRun
    numbers: Numbers

    @property
    def output(self) -> Place:
        """The coordinates of the output elements."""
        return unraveled(self.numbers, self.run.output.sizes)

    @cached_property
    def steps(self) -> Place:
        """The coordinates of the output elements along the plan's dimensions, which need not be OutputTensor's dimensions."""
        plan = self.run.plan
        return [self.numbers // max(stride, 1) % size for stride, size in zip(plan.out_strides, plan.shape, strict=True)]

    @property
    def axes(self) -> tuple[int, ...]:
        """The dimension of InputTensor that each lookup indexes."""
        return self.run.desc.operator.lookup_axes(self.run.desc) if self.run.plan.lookups else ()

    @cached_property
    def indices(self) -> tuple[Numbers, ...]:
        """The index values that each lookup reads for the output elements."""
        sizes = self.run.inputs[1].shape if self.run.plan.lookups else ()
        return tuple(
            _clipped(self.run.inputs[1][tuple(unraveled(along(self.steps, lookup.index_strides, lookup.index_offset), sizes))])
            for lookup in self.run.plan.lookups
        )

    def resolved(self, resolve: Resolve, indices: Sequence[Numbers] | None = None) -> Numbers:
        """Return the row-major numbers of the input elements that are copied; -1 where none is copied.

        `resolve`: the rule for indices out of range. `indices`: the index values of each lookup. Default: the values of the
        run.
        """
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
        """The correct rule for indices out of range: `filled` or `clamped`."""
        return filled if self.run.plan.out_of_bounds is OutOfBounds.FILL else clamped

    @cached_property
    def place(self) -> Place:
        """The coordinates of the input elements to copy, if indices out of range are clamped."""
        return unraveled(self.resolved(clamped), self.run.data.sizes)

    @cached_property
    def right(self) -> NDArray[Any]:
        """The correct values of the output elements, as bit patterns."""
        return self.elements(self.source, self.fill).patterns

    @cached_property
    def fill(self) -> NDArray[Any]:
        """The bit pattern of the fill value; 0 if the operator has no fill value."""
        width = self.run.data.data_type.bytes
        return np.frombuffer(self.run.plan.fill or bytes(width), f"u{width}")

    def kept(self, address: Numbers) -> Prediction:
        """Predict copies of the input elements at `address`, and the fill value for indices that are filled."""
        return self.elements(np.where(self.source < 0, -1, address), self.fill)

    def elements(self, address: Numbers, fill: NDArray[Any] | None = None) -> Prediction:
        """Predict copies of the input elements at `address`, `fill` at address -1, and nothing outside of InputTensor."""
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
    """Convert indices to positions. An index out of range gives the nearest position.

    `wrap`: the number to add to negative indices.
    """
    return np.clip(np.where(index < 0, index + wrap, index), 0, size - 1)


def filled(index: Numbers, size: int, wrap: int) -> Numbers:
    """Convert indices to positions. An index out of range gives -1.

    `wrap`: the number to add to negative indices.
    """
    counted = np.where(index < 0, index + wrap, index)
    return np.where((counted >= 0) & (counted < size), counted, -1)


def _clipped(index: NDArray[Any]) -> Numbers:
    limits = np.iinfo(index.dtype)
    clipped: Numbers = np.clip(index, max(-FAR, limits.min), min(FAR, limits.max)).astype(np.int64)
    return clipped


def _patterns(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")
