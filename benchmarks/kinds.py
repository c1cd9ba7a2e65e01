"""Kinds of workload with a single operator: sizes in elements, random indices, and the DirectML descriptor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from benchmarks.chains import Chain
from benchmarks.draws import UNIFORM, Draw, Indices
from dmlgather.directml import (
    BufferTensorDesc,
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
)
from dmlgather.plan import packed_strides

Shape = tuple[int, ...]

ALL, BACK, EVERY_OTHER = slice(None), slice(None, None, -1), slice(None, None, 2)


class WorkloadKind(ABC):
    """A kind of workload. `shape`, `strides`: those of the source x, in elements. None means packed."""

    shape: Shape
    strides: Shape | None = None

    @property
    def index_shape(self) -> Shape | None:
        """Shape of the index tensor, or None without one."""
        return None

    @property
    @abstractmethod
    def out_shape(self) -> Shape:
        """Shape of the output."""

    @abstractmethod
    def descriptor(self, dtype: str) -> OperatorDesc:
        """Return the DirectML descriptor, with indices of int64."""

    def indices(self, random: np.random.Generator) -> Indices | None:  # noqa: ARG002 - subclasses use it
        """Return random indices, or None without an index tensor."""
        return None


@dataclass(frozen=True, slots=True)
class Take(WorkloadKind):
    """GATHER: `count` positions along `axis` of x. Indices are [count]."""

    shape: Shape
    count: int
    axis: int = 0
    draw: Draw = UNIFORM

    @property
    def index_shape(self) -> Shape:
        return (self.count,)

    @property
    def out_shape(self) -> Shape:
        return (*self.shape[: self.axis], self.count, *self.shape[self.axis + 1 :])

    def indices(self, random: np.random.Generator) -> Indices:
        return self.draw(random, self.shape[self.axis], self.count)

    def descriptor(self, dtype: str) -> OperatorDesc:
        return GatherOperatorDesc(
            input_tensor=_tensor(dtype, self.shape),
            indices_tensor=_tensor("int64", _padded(self.index_shape, len(self.shape))),
            output_tensor=_tensor(dtype, self.out_shape),
            axis=self.axis,
            index_dimensions=1,
        )


@dataclass(frozen=True, slots=True)
class Along(WorkloadKind):
    """GATHER_ELEMENTS: each output element has its own index along `axis`.

    `count`: the size of `axis` in indices and output, if it differs from x's.
    """

    shape: Shape
    axis: int
    draw: Draw = UNIFORM
    count: int | None = None

    @property
    def index_shape(self) -> Shape:
        return self.out_shape

    @property
    def out_shape(self) -> Shape:
        if self.count is None:
            return self.shape
        return (*self.shape[: self.axis], self.count, *self.shape[self.axis + 1 :])

    def indices(self, random: np.random.Generator) -> Indices:
        return self.draw(random, self.shape[self.axis], prod(self.out_shape)).reshape(self.out_shape)

    def descriptor(self, dtype: str) -> OperatorDesc:
        return GatherElementsOperatorDesc(
            input_tensor=_tensor(dtype, self.shape),
            indices_tensor=_tensor("int64", self.index_shape),
            output_tensor=_tensor(dtype, self.out_shape),
            axis=self.axis,
        )


@dataclass(frozen=True, slots=True)
class Tuples(WorkloadKind):
    """GATHER_ND: `count` tuples of `width` coordinates into the leading dimensions of x; indices are [count, width]."""

    shape: Shape
    count: int
    width: int

    @property
    def index_shape(self) -> Shape:
        return (self.count, self.width)

    @property
    def out_shape(self) -> Shape:
        return (self.count, *self.shape[self.width :])

    def indices(self, random: np.random.Generator) -> Indices:
        return random.integers(0, self.shape[: self.width], self.index_shape)

    def descriptor(self, dtype: str) -> OperatorDesc:
        rank = len(self.shape)
        return GatherND1OperatorDesc(
            input_tensor=_tensor(dtype, self.shape),
            indices_tensor=_tensor("int64", _padded(self.index_shape, rank)),
            output_tensor=_tensor(dtype, _padded(self.out_shape, rank)),
            input_dimension_count=rank,
            indices_dimension_count=2,
            batch_dimension_count=0,
        )


@dataclass(frozen=True, slots=True)
class ViewCopy(WorkloadKind):
    """SLICE1: a copy of x[slices]. There is one slice per dimension of x."""

    shape: Shape
    slices: tuple[slice, ...]
    strides: Shape | None = None

    @property
    def ranges(self) -> list[range]:
        """Positions that are read along each dimension."""
        return [range(*part.indices(size)) for part, size in zip(self.slices, self.shape, strict=True)]

    @property
    def out_shape(self) -> Shape:
        return tuple(map(len, self.ranges))

    @property
    def order(self) -> Shape | None:
        """Dimensions of x in memory order. None unless x is a packed array with permuted dimensions."""
        strides = self.strides or packed_strides(self.shape)
        order = tuple(sorted(range(len(self.shape)), key=lambda axis: (-strides[axis], -self.shape[axis])))
        packed = packed_strides([self.shape[axis] for axis in order])
        return order if tuple(strides[axis] for axis in order) == tuple(packed) else None

    def descriptor(self, dtype: str) -> OperatorDesc:
        return Slice1OperatorDesc(
            input_tensor=_tensor(dtype, self.shape, self.strides),
            output_tensor=_tensor(dtype, self.out_shape),
            input_window_offsets=tuple(part.start if part.step > 0 else part.stop + 1 for part in self.ranges),
            input_window_sizes=tuple(abs(part.stop - part.start) for part in self.ranges),
            input_window_strides=tuple(part.step for part in self.ranges),
        )


OneOperator = Take | Along | Tuples | ViewCopy
Kind = OneOperator | Chain


def fitted(kind: Kind, axis: int, itemsize: int, output_bytes: int, source_bytes: int) -> Kind:
    """Return `kind` at a size that fits the machine.

    The output's `axis` is halved until the output has at most `output_bytes`; then the source is halved until it has at most
    `source_bytes`. Sizes of 1 stay.
    """
    while prod(kind.out_shape) * itemsize > output_bytes and kind.out_shape[axis] > 1:
        kind = _with_less_output(kind, axis)
    while prod(kind.shape) * itemsize > source_bytes and (smaller := _with_less_source(kind)) != kind:
        kind = smaller
    return kind


def _with_less_output(kind: Kind, axis: int) -> Kind:
    """Halve the output. Strides of a permuted x stay packed."""
    if isinstance(kind, Tuples) or (isinstance(kind, Take) and axis == kind.axis):
        return replace(kind, count=_half(kind.count))
    if isinstance(kind, Chain) and kind.takes_rows and axis == 0:
        assert kind.count is not None
        return replace(kind, count=_half(kind.count))
    smaller = replace(kind, shape=_halved(kind.shape, axis))
    if not isinstance(kind, ViewCopy) or kind.strides is None or kind.order is None:
        return smaller
    packed = packed_strides([smaller.shape[place] for place in kind.order])
    return replace(kind, shape=smaller.shape, strides=tuple(packed[kind.order.index(place)] for place in range(len(packed))))


def _with_less_source(kind: Kind) -> Kind:
    """Halve the source. Kinds with a source as large as the output are returned unchanged."""
    match kind:
        case Take():
            return replace(kind, shape=_halved(kind.shape, kind.axis))
        case Tuples():
            return replace(kind, shape=_halved(kind.shape, 0))
        case Chain() if kind.takes_rows:
            return replace(kind, shape=_halved(kind.shape, 0))
    return kind


def _tensor(dtype: str, sizes: Sequence[int], strides: Sequence[int] | None = None) -> BufferTensorDesc:
    return BufferTensorDesc(data_type=dtype.upper(), sizes=tuple(sizes), strides=None if strides is None else tuple(strides))


def _padded(sizes: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(sizes)) + sizes


def _half(size: int) -> int:
    return max(1, size // 2)


def _halved(sizes: Shape, axis: int) -> Shape:
    return tuple(_half(size) if place == axis else size for place, size in enumerate(sizes))
