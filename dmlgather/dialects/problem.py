"""Problems: calls of a dialect's operators, described by types instead of arrays; checks and lowering that dialects share."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dmlgather.dialects.element_types import numpy_type
from dmlgather.plan import IndexPlan, IndexType, Layout, OutOfBounds, build, lookup


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and data type of a tensor. Strings have NumPy's object type."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def stated(cls, shape: Any, dtype: Any) -> TensorType:
        """Return the type for a shape and a data type from users. Raises TypeError for anything else."""
        if not isinstance(shape, Iterable):
            raise TypeError("expected the sizes of all dimensions, such as (3, 4)")
        return cls(tuple(whole("size", size) for size in shape), numpy_type(dtype))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def layout(self) -> Layout:
        """The layout of a packed array, in row-major order."""
        return Layout.packed(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


class Problem(ABC):
    """Shapes, types and attributes of one call. Problems are frozen dataclasses: hashable, and compared by value.

    The constructor checks every rule of the operator that does not depend on index values. It raises TypeError for a data type
    that the dialect does not take, and ValueError otherwise.
    """

    name: ClassVar[str]
    """The operator's name in its dialect, such as "Gather"."""

    inputs: ClassVar[tuple[str, ...]]
    """The names of the array inputs, in binding order: data, then indices if there are any."""

    out_of_bounds: OutOfBounds
    """The dialect's policy for an index out of range."""

    data: TensorType
    """The type of the data."""

    holds: tuple[str, ...] = ()
    """The names of the graph's steps that were fused into the problem; empty for a dialect's operator."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The dialect's names of the inputs, for messages."""
        return self.inputs

    @property
    def wraps(self) -> bool:
        """True if a negative index counts from the end of its axis."""
        return False

    @property
    def fill(self) -> bytes:
        """The dialect's fill value for an index out of range, as the bytes of one element; empty without the policy FILL."""
        return b""

    @property
    @abstractmethod
    def output(self) -> TensorType:
        """The type of the output."""

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        """The axis of data that each lookup of the plan indexes, in the plan's order; empty by default."""
        return ()

    @property
    def lookup_windows(self) -> tuple[int, ...]:
        """The number of consecutive elements that each lookup reads along its axis, in the plan's order; 1 by default."""
        return tuple(1 for _ in self.lookup_axes)

    @property
    def tensors(self) -> tuple[TensorType, ...]:
        """The types of the array inputs, then of the output."""
        return (*(getattr(self, name) for name in self.inputs), self.output)

    @abstractmethod
    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        """Return the plan over these layouts, like `lower`, with policy CLAMP."""

    def lower(self, layouts: Sequence[Layout], out_of_bounds: OutOfBounds | None = None, fill: bytes = b"") -> IndexPlan:
        """Return the plan over arrays with these layouts: of the inputs, then of the output, with the tensors' shapes as sizes.

        `out_of_bounds`: None for the dialect's policy. `fill`: the bytes of one element, for FILL. A plan without lookups always
        has CLAMP.
        """
        plan = self._lower(layouts)
        if not plan.lookups:
            return plan
        if out_of_bounds is None:
            out_of_bounds, fill = self.out_of_bounds, self.fill
        return replace(plan, out_of_bounds=out_of_bounds, fill=fill)

    def plan(self, out_of_bounds: OutOfBounds | None = None, fill: bytes = b"") -> IndexPlan:
        """Return the plan over packed arrays; see `lower`."""
        return self.lower([tensor.layout for tensor in self.tensors], out_of_bounds, fill)


def whole(name: str, value: Any) -> int:
    """Return `value` as int. Raises TypeError for anything but an integer; also for a bool."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, expected an integer") from None


def check_data_rank(operator: object, data: TensorType) -> None:
    """Raise ValueError for a scalar."""
    if not data.rank:
        raise ValueError(f"data is a scalar, but {operator} takes data of rank >= 1: reshape it to (1,)")


def check_axis(name: str, value: Any, rank: int, array: str) -> int:
    """Return the axis counted from the front. Raises ValueError if it is out of range for `rank`. `array`: for the message."""
    axis = whole(name, value)
    if not rank:
        raise ValueError(f"{name} is {axis}, but {array} has rank 0: expected an array with at least one dimension")
    if not -rank <= axis < rank:
        raise ValueError(f"{name} is {axis}, but {array} has rank {rank}: expected {-rank} … {rank - 1}")
    return axis + rank if axis < 0 else axis


def check_axes(values: Sequence[Any], rank: int, array: str) -> tuple[int, ...]:
    """Return the axes counted from the front. Raises ValueError like `check_axis`, and for a repeated axis."""
    axes = tuple(check_axis(f"axes[{number}]", value, rank, array) for number, value in enumerate(values))
    if len(set(axes)) < len(axes):
        raise ValueError(f"axes is {values}, which names an axis of {array} (rank {rank}) more than once: expected each once")
    return axes


UNEQUAL_BATCH = "batch dimension"
"""Start of the message about unequal batch dimensions of data and indices."""


def check_batch(data: TensorType, indices: TensorType, batch: int, shown: str) -> None:
    """Raise ValueError unless the first `batch` sizes of both are equal. `shown`: `batch` as the caller wrote it."""
    for dimension, (size, other) in enumerate(zip(data.shape[:batch], indices.shape[:batch], strict=True)):
        if size != other:
            raise ValueError(
                f"{UNEQUAL_BATCH} {dimension} has size {size} in data and {other} in indices, but batch_dims is {shown}: "
                "expected equal sizes; repeat or slice one of them, or lower batch_dims"
            )


def index_type(dtype: np.dtype[Any]) -> IndexType:
    """Return the index type of an integer data type."""
    return IndexType[dtype.name.upper()]


def broadcast_strides(layout: Layout) -> list[int]:
    """Return the strides for a broadcast: 0 for dimensions of size 1."""
    return [0 if size == 1 else step for size, step in zip(layout.sizes, layout.strides, strict=True)]


def gathering(
    problem: Problem,
    layouts: Sequence[Layout],
    in_strides: Sequence[int],
    index_strides: Sequence[int],
    *,
    component_stride: int = 0,
    in_offset: int = 0,
) -> IndexPlan:
    """Return the plan of a gather with one lookup per entry of `problem.lookup_axes`.

    `layouts`: the layouts of data, indices and output. `in_strides`, `index_strides`: strides of data and indices per output
    dimension. `component_stride`: lookup k reads its index k · `component_stride` elements after the first component.
    `in_offset`: offset in data, added to all addresses. Strides and offsets are in elements.
    """
    data, indices, output = layouts
    kind = index_type(problem.tensors[1].dtype)
    lookups = [
        lookup(data, indices, axis, index_strides, kind, component=number * component_stride, wraps=problem.wraps)
        for number, axis in enumerate(problem.lookup_axes)
    ]
    width = problem.data.dtype.itemsize
    return build(data, output, in_strides, width, in_offset=in_offset, lookups=lookups, indices=indices, index_type=kind)


def gather(problem: Problem, layouts: Sequence[Layout], axis: int, batch_dims: int) -> IndexPlan:
    """Return the plan of output[b…, lead…, i…, trail…] = data[b…, lead…, indices[b…, i…], trail…].

    `axis`: the indexed axis of data, after b… and lead…. `batch_dims`: the number of dimensions b….
    """
    data, indices, _ = layouts
    lead, trail = data.strides[:axis], data.strides[axis + 1 :]
    batch, moved = indices.strides[:batch_dims], indices.strides[batch_dims:]
    in_strides = (*lead, *(0 for _ in moved), *trail)
    index_strides = (*batch, *(0 for _ in lead[batch_dims:]), *moved, *(0 for _ in trail))
    return gathering(problem, layouts, in_strides, index_strides)
