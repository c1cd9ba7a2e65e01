"""Problems: operator calls of ONNX, OpenVINO, JAX, NumPy or PyTorch, described without arrays."""

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
        """Return the TensorType for a shape and a data type from a user. Raises TypeError if one of them is not valid."""
        if not isinstance(shape, Iterable):
            raise TypeError("expected the sizes of all dimensions, such as (3, 4)")
        return cls(tuple(whole("size", size) for size in shape), numpy_type(dtype))

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def layout(self) -> Layout:
        """Layout of a packed array."""
        return Layout.packed(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}"


class Problem(ABC):
    """One operator call in a dialect: shapes, types and attributes, but no arrays.

    Each operator has a subclass, a frozen dataclass. Its constructor checks all rules, except those about index values. It
    raises TypeError for a wrong data type, ValueError for other faults.
    """

    name: ClassVar[str]
    """The operator's name in its dialect, such as "Gather"."""

    inputs: ClassVar[tuple[str, ...]]
    """Names of the array inputs: "data", and "indices" if there are any."""

    out_of_bounds: OutOfBounds
    """The dialect's policy for an index out of range."""

    data: TensorType
    """Type of the array to read from."""

    holds: tuple[str, ...] = ()
    """Names of the graph's steps that were fused into this problem."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the inputs in messages. In JAX, for example, the name of "data" is "operand"."""
        return self.inputs

    @property
    def wraps(self) -> bool:
        """True if a negative index counts from the end of its axis."""
        return False

    @property
    def fill(self) -> bytes:
        """Bytes of the element that the dialect writes under FILL."""
        return b""

    @property
    @abstractmethod
    def output(self) -> TensorType:
        """Type of the output."""

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        """The indexed axis of data for each lookup of the plan."""
        return ()

    @property
    def lookup_windows(self) -> tuple[int, ...]:
        """For each lookup of the plan, the number of adjacent elements along its axis that one index selects."""
        return tuple(1 for _ in self.lookup_axes)

    @property
    def tensors(self) -> tuple[TensorType, ...]:
        """Types of the inputs, then of the output."""
        return (*(getattr(self, name) for name in self.inputs), self.output)

    @abstractmethod
    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        """Return the plan under CLAMP. `layouts`: the layouts of the inputs, then of the output."""

    def lower(self, layouts: Sequence[Layout], out_of_bounds: OutOfBounds | None = None, fill: bytes = b"") -> IndexPlan:
        """Return the plan for arrays with these layouts.

        `layouts`: the layouts of the inputs, then of the output. `out_of_bounds`: the policy; None for the dialect's policy.
        A plan without lookups always has CLAMP.
        """
        plan = self._lower(layouts)
        if not plan.lookups:
            return plan
        if out_of_bounds is None:
            out_of_bounds, fill = self.out_of_bounds, self.fill
        return replace(plan, out_of_bounds=out_of_bounds, fill=fill)

    def plan(self, out_of_bounds: OutOfBounds | None = None, fill: bytes = b"") -> IndexPlan:
        """Return the plan for packed arrays."""
        return self.lower([tensor.layout for tensor in self.tensors], out_of_bounds, fill)


def whole(name: str, value: Any) -> int:
    """Return an integer as a Python int. Raises TypeError for a bool and for other types."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, expected an integer") from None


def check_data_rank(operator: object, data: TensorType) -> None:
    """Raise ValueError if the data are a scalar."""
    if not data.rank:
        raise ValueError(f"data is a scalar, but {operator} takes data of rank >= 1: reshape it to (1,)")


def check_axis(name: str, value: Any, rank: int, array: str) -> int:
    """Return an axis, counted from the front. Raises ValueError if it is out of range."""
    axis = whole(name, value)
    if not rank:
        raise ValueError(f"{name} is {axis}, but {array} has rank 0: expected an array with at least one dimension")
    if not -rank <= axis < rank:
        raise ValueError(f"{name} is {axis}, but {array} has rank {rank}: expected {-rank} … {rank - 1}")
    return axis + rank if axis < 0 else axis


def check_axes(values: Sequence[Any], rank: int, array: str) -> tuple[int, ...]:
    """Return axes, counted from the front. Raises ValueError if one is out of range or occurs twice."""
    axes = tuple(check_axis(f"axes[{number}]", value, rank, array) for number, value in enumerate(values))
    if len(set(axes)) < len(axes):
        raise ValueError(
            f"axes is {values}, which names an axis of {array} (rank {rank}) more than once: expected different axes"
        )
    return axes


UNEQUAL_BATCH = "batch dimension"
"""First words of `check_batch`'s message."""


def check_batch(data: TensorType, indices: TensorType, batch: int, shown: str) -> None:
    """Raise ValueError unless the first `batch` sizes of data and indices are equal."""
    for dimension, (size, other) in enumerate(zip(data.shape[:batch], indices.shape[:batch], strict=True)):
        if size != other:
            raise ValueError(
                f"{UNEQUAL_BATCH} {dimension} has size {size} in data and {other} in indices, but batch_dims is {shown}: "
                "expected equal sizes; repeat or slice one of them, or lower batch_dims"
            )


def index_type(dtype: np.dtype[Any]) -> IndexType:
    """Return the IndexType for a NumPy integer type."""
    return IndexType[dtype.name.upper()]


def broadcast_strides(layout: Layout) -> list[int]:
    """Return the strides for a broadcast: 0 for each dimension of size 1."""
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
    """Return the plan of a gather, with one lookup for each axis in `problem.lookup_axes`. All distances are in elements.

    `layouts`: the layouts of data, indices and output.
    `in_strides`, `index_strides`: the strides of data and indices along each output dimension.
    `component_stride`: the distance between the indices of neighbouring lookups.
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

    `batch_dims`: the number of dimensions b….
    """
    data, indices, _ = layouts
    lead, trail = data.strides[:axis], data.strides[axis + 1 :]
    batch, moved = indices.strides[:batch_dims], indices.strides[batch_dims:]
    in_strides = (*lead, *(0 for _ in moved), *trail)
    index_strides = (*batch, *(0 for _ in lead[batch_dims:]), *moved, *(0 for _ in trail))
    return gathering(problem, layouts, in_strides, index_strides)
