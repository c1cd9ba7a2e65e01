"""The input elements that an operator run should copy to given output elements, and those that a faulty run would copy. All
functions work on arrays of output elements at once.
"""

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
"""Coordinates of many elements: for each dimension of the tensor, an array of shape [elements]."""

FAR = 2**62
"""Indices of larger magnitude are replaced by this. They are out of range either way, and sums with them do not
overflow int64.
"""

Resolve = Callable[[Numbers, int, int], Numbers]
"""A function from indices to positions along a dimension. Arguments: the indices, of shape [elements]; the size of the
dimension; the number to add to a negative index. A position of -1 means that no element is read.
"""


class Prediction(NamedTuple):
    """The values that a faulty run would write to some output elements. All arrays have shape [elements].

    `patterns`: the bits of the predicted values as unsigned integers. `known`: True for elements with a prediction. `copied`:
    True if the predicted value is a copy of an input element, False if it is a constant.
    """

    patterns: NDArray[Any]
    known: NDArray[np.bool_]
    copied: NDArray[np.bool_]


@dataclass(frozen=True)
class OperatorRun:
    """One run of an operator: its descriptor, its plan and its inputs.

    `plan`: the plan for packed tensors (row-major without gaps). `inputs`: arrays of shape Sizes and any strides. `buffer`: the
    memory of InputTensor as an array of shape [count], if the caller passed InputTensor as a one-dimensional buffer.
    """

    desc: OperatorDesc
    plan: IndexPlan
    inputs: Sequence[NDArray[Any]]
    buffer: NDArray[Any] | None = None

    @property
    def data(self) -> BufferTensorDesc:
        """Return InputTensor's description."""
        return self.desc.tensor(self.desc.operator.inputs[0])

    @property
    def output(self) -> BufferTensorDesc:
        """Return OutputTensor's description."""
        return self.desc.tensor(self.desc.operator.output)

    def at(self, numbers: Numbers) -> Reads:
        """Return a `Reads`, which computes where the values of some output elements come from.

        `numbers`: the row-major numbers of the output elements. Numbers outside of the output are clipped to it.
        """
        return Reads(self, np.clip(numbers, 0, prod(self.output.sizes) - 1))


@dataclass(frozen=True)
class Reads:
    """Some output elements of a run, and where their values come from: indices, source addresses and correct values.

    `numbers`: the row-major numbers of the output elements.
    """

    run: OperatorRun
    numbers: Numbers

    @property
    def output(self) -> Place:
        """Return the coordinates of the output elements."""
        return unraveled(self.numbers, self.run.output.sizes)

    @cached_property
    def steps(self) -> Place:
        """Return the coordinates of the output elements in the plan's dimensions. A dimension of the output may be several of
        the plan.
        """
        plan = self.run.plan
        return [self.numbers // max(stride, 1) % size for stride, size in zip(plan.out_strides, plan.shape, strict=True)]

    @property
    def axes(self) -> tuple[int, ...]:
        """Return, for each lookup (an index read per output element), the dimension of InputTensor in which the index selects a
        position.
        """
        return self.run.desc.operator.lookup_axes(self.run.desc) if self.run.plan.lookups else ()

    @cached_property
    def indices(self) -> tuple[Numbers, ...]:
        """Return the index values that the output elements depend on: for each lookup, an array of shape [elements]."""
        sizes = self.run.inputs[1].shape if self.run.plan.lookups else ()
        return tuple(
            _clipped(self.run.inputs[1][tuple(unraveled(along(self.steps, lookup.index_strides, lookup.index_offset), sizes))])
            for lookup in self.run.plan.lookups
        )

    def resolved(self, resolve: Resolve, indices: Sequence[Numbers] | None = None) -> Numbers:
        """Return the row-major number of the input element that is copied to each output element; -1 if none is.

        `resolve`: the rule that turns an index into a position. `indices`: other index values to use in place of
        `self.indices`.
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
        """Return the row-major number of the correct input element for each output element; -1 where the fill
        value is correct.
        """
        return self.resolved(self.policy)

    @property
    def policy(self) -> Resolve:
        """Return the correct rule for indices out of range: `filled` or `clamped`."""
        return filled if self.run.plan.out_of_bounds is OutOfBounds.FILL else clamped

    @cached_property
    def place(self) -> Place:
        """Return the coordinates of the correct input element. Where the fill value is correct, indices are clamped instead."""
        return unraveled(self.resolved(clamped), self.run.data.sizes)

    @cached_property
    def right(self) -> NDArray[Any]:
        """Return the correct values of the output elements, as bit patterns."""
        return self.elements(self.source, self.fill).patterns

    @cached_property
    def fill(self) -> NDArray[Any]:
        """Return the bit pattern of the plan's fill value, or of zero if the plan has none. Shape: [1]."""
        width = self.run.data.data_type.bytes
        return np.frombuffer(self.run.plan.fill or bytes(width), f"u{width}")

    def kept(self, address: Numbers) -> Prediction:
        """Predict copies of the input elements with these row-major numbers, but keep the fill value where it is correct."""
        return self.elements(np.where(self.source < 0, -1, address), self.fill)

    def elements(self, address: Numbers, fill: NDArray[Any] | None = None) -> Prediction:
        """Predict copies of the input elements with these row-major numbers.

        For number -1, predict `fill`, or nothing if `fill` is None. For other numbers outside of InputTensor, predict nothing.
        """
        data = self.run.inputs[0]
        read = (address >= 0) & (address < data.size)
        patterns = _patterns(data[tuple(unraveled(np.where(read, address, 0), data.shape))])
        if fill is None:
            return Prediction(patterns, read, read)
        return Prediction(np.where(address == -1, fill, patterns), read | (address == -1), read)


def along(place: Place, strides: Sequence[int], offset: int = 0) -> Numbers:
    """Return the address of each element: `offset` plus the sum of coordinate times stride over the dimensions."""
    address = np.full(place[0].shape, offset, np.int64)
    for coordinate, stride in zip(place, strides, strict=True):
        if stride:
            address += coordinate * stride
    return address


def unraveled(numbers: Numbers, sizes: Sequence[int]) -> list[Numbers]:
    """Return the coordinates of the elements with these row-major numbers in a tensor with these sizes."""
    return [numbers // stride % size for stride, size in zip(packed_strides(sizes), sizes, strict=True)]


def exchanged(items: Sequence[T], first: int, second: int) -> list[T]:
    """Return a list with two items exchanged, such as the sizes of two dimensions."""
    result = list(items)
    result[first], result[second] = result[second], result[first]
    return result


def clamped(index: Numbers, size: int, wrap: int) -> Numbers:
    """Return the positions that indices select. Negative indices count from the end; indices out of range are clamped."""
    return np.clip(np.where(index < 0, index + wrap, index), 0, size - 1)


def filled(index: Numbers, size: int, wrap: int) -> Numbers:
    """Return the positions that indices select. Negative indices count from the end; indices out of range select
    nothing (-1).
    """
    counted = np.where(index < 0, index + wrap, index)
    return np.where((counted >= 0) & (counted < size), counted, -1)


def _clipped(index: NDArray[Any]) -> Numbers:
    limits = np.iinfo(index.dtype)
    clipped: Numbers = np.clip(index, max(-FAR, limits.min), min(FAR, limits.max)).astype(np.int64)
    return clipped


def _patterns(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")
