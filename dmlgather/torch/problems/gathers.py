"""PyTorch's index_select, gather, take, take_along_dim, embedding and x[…] as problems: their rules and plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from dmlgather.dialects.advanced_indexing import AdvancedIndexing, BasicIndexing, Entry, Mask, indexing
from dmlgather.dialects.problem import Problem, TensorType, broadcast_strides, gather, gathering
from dmlgather.plan import IndexPlan, Layout, OutOfBounds
from dmlgather.torch.problems.arguments import check_data, check_index, dim_of
from dmlgather.wording import counted

INDEX_TYPES = ("int32", "int64")


class TorchGatherProblem(Problem):
    """Base class of PyTorch's gathers."""

    indices: TensorType
    dim: int

    inputs = ("data", "indices")
    out_of_bounds = OutOfBounds.RAISE
    arguments = ("input", "index")
    index_types: ClassVar[Sequence[str]] = INDEX_TYPES

    @property
    def bad_index(self) -> type[Exception]:
        """The exception that PyTorch's CPU code raises for an index out of range."""
        return IndexError

    @property
    def output(self) -> TensorType:
        return TensorType(self.indices.shape, self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return (self.dim,)

    def _check_types(self) -> None:
        data, index = self.arguments
        check_data(self.name, data, self.data)
        check_index(self.name, index, self.indices, self.index_types)


def at_least_1d(layout: Layout) -> Layout:
    """Return the layout with at least one dimension."""
    return layout if layout.sizes else replace(layout, sizes=(1,), strides=(1,))


@dataclass(frozen=True)
class TorchIndexSelect(TorchGatherProblem):
    """output[lead…, i, trail…] = data[lead…, indices[i], trail…].

    If data is a scalar, there must be one index, and the output is a scalar. Negative indices are out of range.
    """

    data: TensorType
    indices: TensorType
    dim: int

    name = "index_select"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", dim_of("dim", self.dim, self.data.rank))
        if self.indices.rank > 1:
            raise IndexError(
                f"index has shape {list(self.indices.shape)}, but index_select takes one dimension: reshape it to (-1,)"
            )
        if not self.data.rank and self._count != 1:
            raise RuntimeError(f"index has {self._count} elements, but an input without dimensions takes one")
        self._check_types()

    @property
    def _count(self) -> int:
        return prod(self.indices.shape)

    @property
    def bad_index(self) -> type[Exception]:
        # PyTorch checks indices at several places in its code; two of them raise RuntimeError.
        is_runtime_error = self.data.rank > 1 and (self.dim == 1 or 0 in self.data.shape)
        return RuntimeError if is_runtime_error else IndexError

    @property
    def output(self) -> TensorType:
        sizes = self.data.shape
        return TensorType((*sizes[: self.dim], self._count, *sizes[self.dim + 1 :]) if sizes else (), self.data.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, output = layouts
        if data.sizes:
            return gather(self, [data, at_least_1d(indices), output], self.dim, 0)
        return gathering(self, [at_least_1d(data), indices, output], (), ())


@dataclass(frozen=True)
class TorchGather(TorchGatherProblem):
    """output[c] = data[c with c[dim] replaced by indices[c]].

    Rank 0 counts as rank 1. Except along `dim`, no dimension of indices is larger than in data. Indices without elements may
    have any shape. Negative indices are out of range.
    """

    data: TensorType
    indices: TensorType
    dim: int

    name = "gather"
    bad_index = RuntimeError

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", dim_of("dim", self.dim, self.data.rank))
        self._check_types()
        if 0 in self.indices.shape:
            return
        if max(self.indices.rank, 1) != max(self.data.rank, 1):
            raise RuntimeError(
                f"index has {counted(self.indices.rank, 'dimension')} and input has {self.data.rank}, but gather takes equal "
                "ranks: reshape or expand index"
            )
        for axis, (size, most) in enumerate(zip(self.indices.shape, self.data.shape, strict=False)):
            if axis != self.dim and size > most:
                raise RuntimeError(
                    f"index has size {size} in dimension {axis}, but input has size {most}: crop index to {most} there. "
                    f"Only along dim ({self.dim}), index may be larger than input"
                )

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, output = layouts
        data = at_least_1d(data)
        steps = [0] * len(output.sizes)
        if len(output.sizes) == len(data.sizes):  # other ranks occur only without elements, or for rank 0
            steps = [0 if axis == self.dim else step for axis, step in enumerate(data.strides)]
        return gathering(self, [data, indices, output], steps, indices.strides)


@dataclass(frozen=True)
class TorchTake(TorchGatherProblem):
    """output[i…] = data[indices[i…]]. Data has rank 1, because torch.take flattens its input."""

    data: TensorType
    indices: TensorType

    name = "take"
    lookup_axes = (0,)
    wraps = True
    index_types = ("int64",)

    def __post_init__(self) -> None:
        self._check_types()
        if self.data.rank != 1:
            raise ValueError(f"data is {self.data}, but must have one dimension: reshape it to (-1,)")

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        return gather(self, layouts, 0, 0)


@dataclass(frozen=True)
class TorchTakeAlongDim(TorchGatherProblem):
    """output[c] = data[c with c[dim] replaced by indices[c]]. Except along `dim`, data and indices are broadcast.

    torch.take_along_dim takes indices modulo a size. A plan cannot compute remainders, so the caller computes them first.
    """

    data: TensorType
    indices: TensorType
    dim: int

    name = "take_along_dim"
    arguments = ("input", "indices")
    index_types = ("int64",)
    wraps = True
    bad_index = RuntimeError  # PyTorch calls gather

    def __post_init__(self) -> None:
        self._check_types()
        if self.indices.rank != self.data.rank:
            raise RuntimeError(
                f"indices has {counted(self.indices.rank, 'dimension')} and input has {self.data.rank}, but take_along_dim takes "
                "equal ranks: reshape indices"
            )
        object.__setattr__(self, "dim", dim_of("dim", self.dim, self.data.rank, scalar=False))
        for axis, (size, data_size) in enumerate(zip(self.indices.shape, self.data.shape, strict=True)):
            if axis != self.dim and size != data_size and 1 not in (size, data_size):
                raise RuntimeError(
                    f"indices has size {size} in dimension {axis}, and input has size {data_size}: sizes must be equal, or 1, "
                    f"except along dim ({self.dim})"
                )

    @property
    def output(self) -> TensorType:
        sizes = list(np.broadcast_shapes(self._off_dim(self.data), self._off_dim(self.indices)))
        sizes[self.dim] = self.indices.shape[self.dim]
        return TensorType(tuple(sizes), self.data.dtype)

    def _off_dim(self, tensor: TensorType) -> tuple[int, ...]:
        return (*tensor.shape[: self.dim], 1, *tensor.shape[self.dim + 1 :])

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, _ = layouts
        steps = [0 if axis == self.dim else step for axis, step in enumerate(broadcast_strides(data))]
        return gathering(self, layouts, steps, broadcast_strides(indices))


@dataclass(frozen=True)
class TorchEmbedding(TorchGatherProblem):
    """output[i…, column] = data[indices[i…], column]. Data is PyTorch's weight. Negative indices are out of range."""

    data: TensorType
    indices: TensorType

    name = "embedding"
    arguments = ("weight", "input")
    lookup_axes = (0,)

    def __post_init__(self) -> None:
        if self.data.rank != 2:
            raise RuntimeError(f"weight is {self.data}, but embedding takes two dimensions, [rows, columns]")
        self._check_types()

    @property
    def bad_index(self) -> type[Exception]:
        return RuntimeError if 0 in self.data.shape else IndexError  # PyTorch calls index_select with dim 0

    @property
    def output(self) -> TensorType:
        return TensorType((*self.indices.shape, self.data.shape[1]), self.data.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        return gather(self, layouts, 0, 0)


@dataclass(frozen=True)
class TorchIndexing(AdvancedIndexing):
    """x[…] with index tensors or masks. If the output has no elements, PyTorch does not check the indices."""

    arguments = ("input", "indices")

    @property
    def out_of_bounds(self) -> OutOfBounds:  # type: ignore[override] # it follows from the output
        return OutOfBounds.PROMISE if 0 in self.output.shape else OutOfBounds.RAISE


def index(data: TensorType, entries: Sequence[Entry]) -> BasicIndexing | TorchIndexing:
    """Return the problem of data[entries] by PyTorch's rules. Entries have types and Masks in place of arrays.

    Two rules differ from NumPy's. An integer is not counted as an index tensor. An ellipsis that covers no dimension does not
    separate index tensors.
    """
    check_data("Tensor.__getitem__", "input", data)
    for number, entry in enumerate(entries):
        if isinstance(entry, slice) and entry.step is not None and entry.step < 1:
            raise ValueError(f"entry {number} has step {entry.step}, expected 1 or more: flip the dimension for a negative one")
    problem = indexing(data, _without_ellipses(data.rank, entries), integers_advance=False)
    if not isinstance(problem, AdvancedIndexing):
        return problem
    empty = [axis for axis in problem.axes if not data.shape[axis]]
    if empty and 0 not in problem.positions:
        raise IndexError(f"dimension {empty[0]} of input has size 0, but is indexed: there is no valid index")
    return TorchIndexing(problem.data, problem.indices, problem.taken, problem.axes, problem.kept, problem.place)


def _without_ellipses(rank: int, entries: Sequence[Entry]) -> list[Entry]:
    """Replace ellipses by slices `:`. The first ellipsis covers all remaining dimensions, further ellipses cover none."""
    indexed = sum(len(entry.shape) if isinstance(entry, Mask) else entry is not None and entry is not ... for entry in entries)
    result: list[Entry] = []
    for entry in entries:
        if entry is ... and indexed <= rank:
            result += [slice(None)] * (rank - indexed)
            indexed = rank
        else:
            result.append(entry)
    return result
