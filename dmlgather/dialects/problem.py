"""A problem: an operator call of a dialect, with the types of its arrays but without the arrays; what lowerings share."""

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
        """Of sizes and a type as users write them. TypeError for anything else."""
        if not isinstance(shape, Iterable):
            raise TypeError("expected the sizes of all dimensions, such as (3, 4)")
        return cls(tuple(whole("size", size) for size in shape), numpy_type(dtype))

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def layout(self) -> Layout:
        """Packed in row-major order."""
        return Layout.packed(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


class Problem(ABC):
    """Shapes, types and attributes of one call. Problems are frozen dataclasses: hashable, compared by value.

    The constructor checks every rule that needs no index values: TypeError for data types that the dialect does not take,
    ValueError for the rest.
    """

    name: ClassVar[str]
    """The operator's name in its dialect: "Gather"."""

    inputs: ClassVar[tuple[str, ...]]
    """The array inputs in binding order: the data, then the indices where there are any."""

    out_of_bounds: OutOfBounds
    """What an index out of range does in this dialect."""

    data: TensorType
    """What is read."""

    holds: tuple[str, ...] = ()
    """The names of the steps of a graph that it does at once; none for an operator of a dialect."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the dialect calls its inputs, for messages."""
        return self.inputs

    @property
    def wraps(self) -> bool:
        """Whether a negative index counts from the end of its axis."""
        return False

    @property
    def fill(self) -> bytes:
        """The bytes of one element that the dialect writes for an index out of range; empty where it writes none."""
        return b""

    @property
    @abstractmethod
    def output(self) -> TensorType:
        """What is written."""

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        """The data axis that each lookup of the plan indexes, in the plan's order; none by default."""
        return ()

    @property
    def lookup_windows(self) -> tuple[int, ...]:
        """The number of elements along its axis that each lookup must leave room for, in the plan's order."""
        return tuple(1 for _ in self.lookup_axes)

    @property
    def tensors(self) -> tuple[TensorType, ...]:
        """The array inputs, then the output."""
        return (*(getattr(self, name) for name in self.inputs), self.output)

    @abstractmethod
    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        """The plan over these layouts, as for `lower`, under CLAMP."""

    def lower(self, layouts: Sequence[Layout], out_of_bounds: OutOfBounds | None = None, fill: bytes = b"") -> IndexPlan:
        """The plan over arrays with these layouts: of the inputs, then of the output; the sizes are the tensors' shapes.

        out_of_bounds: None for the dialect's own. fill: the bytes of one element, for FILL. No policy applies where nothing is
        looked up: such a plan has CLAMP.
        """
        plan = self._lower(layouts)
        if not plan.lookups:
            return plan
        if out_of_bounds is None:
            out_of_bounds, fill = self.out_of_bounds, self.fill
        return replace(plan, out_of_bounds=out_of_bounds, fill=fill)

    def plan(self, out_of_bounds: OutOfBounds | None = None, fill: bytes = b"") -> IndexPlan:
        """The plan over packed arrays; see `lower`."""
        return self.lower([tensor.layout for tensor in self.tensors], out_of_bounds, fill)


def whole(name: str, value: Any) -> int:
    """`value` as a Python integer. TypeError for anything but one integer."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, expected an integer") from None


def check_data_rank(operator: object, data: TensorType) -> None:
    """ValueError for a scalar."""
    if not data.rank:
        raise ValueError(f"data is a scalar, but {operator} takes data of rank >= 1: reshape it to (1,)")


def check_axis(name: str, value: Any, rank: int, what: str) -> int:
    """The axis counted from the front. ValueError unless it is one of the `rank` axes of `what`, counted from either end."""
    axis = whole(name, value)
    if not rank:
        raise ValueError(f"{name} is {axis}, but {what} has rank 0: expected an array with at least one dimension")
    if not -rank <= axis < rank:
        raise ValueError(f"{name} is {axis}, but {what} has rank {rank}: expected {-rank} … {rank - 1}")
    return axis + rank if axis < 0 else axis


def check_axes(name: str, values: Sequence[Any], rank: int, what: str) -> tuple[int, ...]:
    """The axes counted from the front. ValueError as `check_axis`, and for one that is named twice."""
    axes = tuple(check_axis(f"{name}[{number}]", value, rank, what) for number, value in enumerate(values))
    if len(set(axes)) < len(axes):
        raise ValueError(f"{name} is {values}, which names an axis of {what} (rank {rank}) more than once: expected each once")
    return axes


UNEQUAL_BATCH = "batch dimension"
"""The start of the message about batch dimensions of data and indices that differ."""


def check_batch(data: TensorType, indices: TensorType, batch: int, shown: str) -> None:
    """ValueError unless the first `batch` dimensions of both are equal. shown: how the caller wrote `batch`."""
    for dimension, (size, other) in enumerate(zip(data.shape[:batch], indices.shape[:batch], strict=True)):
        if size != other:
            raise ValueError(
                f"{UNEQUAL_BATCH} {dimension} has size {size} in data and {other} in indices, but batch_dims is {shown}: "
                "expected equal sizes; repeat or slice one of them, or lower batch_dims"
            )


def index_type(dtype: np.dtype[Any]) -> IndexType:
    """The index type of an integer data type."""
    return IndexType[dtype.name.upper()]


def gathering(
    problem: Problem,
    layouts: Sequence[Layout],
    in_strides: Sequence[int],
    index_strides: Sequence[int],
    *,
    component_stride: int = 0,
    in_offset: int = 0,
) -> IndexPlan:
    """The plan whose k-th lookup, on the k-th of the problem's axes, reads `component_stride` · k elements into the indices.

    layouts: of data, indices and output. in_strides, index_strides: per output dimension. in_offset: from data's first element.
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
    """output[b…, lead…, i…, trail…] = data[b…, lead…, indices[b…, i…], trail…], with `axis` behind b… and lead…."""
    data, indices, _ = layouts
    lead, trail = data.strides[:axis], data.strides[axis + 1 :]
    batch, moved = indices.strides[:batch_dims], indices.strides[batch_dims:]
    in_strides = (*lead, *(0 for _ in moved), *trail)
    index_strides = (*batch, *(0 for _ in lead[batch_dims:]), *moved, *(0 for _ in trail))
    return gathering(problem, layouts, in_strides, index_strides)
