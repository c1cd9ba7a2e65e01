"""index_select, gather, take, take_along_dim and embedding: rules and lowering. Source: PyTorch's documentation and behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from dmlgather.dialects.advanced_indexing import AdvancedIndexing, BasicIndexing, Entry, Mask, indexing
from dmlgather.dialects.problem import Problem, TensorType, gather, gathering
from dmlgather.plan import IndexPlan, Layout, OutOfBounds
from dmlgather.torch.problems.arguments import check_data, check_index, dim_of

INDEX_TYPES = ("int32", "int64")


class TorchGatherProblem(Problem):
    """A call with an input and an index, where an index out of range is an error."""

    indices: TensorType

    inputs = ("data", "indices")
    out_of_bounds = OutOfBounds.RAISE
    called: ClassVar[tuple[str, str]] = ("input", "index")
    """What PyTorch calls the inputs."""
    index_types: ClassVar[Sequence[str]] = INDEX_TYPES

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.called

    @property
    def bad_index(self) -> type[Exception]:
        """The error for an index out of range, as PyTorch raises it on the CPU."""
        return IndexError

    def _check_types(self) -> None:
        data, index = self.called
        check_data(self.name, data, self.data)
        check_index(self.name, index, self.indices, self.index_types)


def at_least_1d(layout: Layout) -> Layout:
    """The layout, where it has no dimensions with one of size 1, as PyTorch takes such a tensor."""
    return layout if layout.sizes else replace(layout, sizes=(1,), strides=(1,))


@dataclass(frozen=True)
class TorchIndexSelect(TorchGatherProblem):
    """output[lead…, i, trail…] = data[lead…, indices[i], trail…].

    data: of any rank; without dimensions, it takes one index and the output has none either. indices: of rank 0 or 1, int32 or
    int64; negative ones are out of range. dim: stored from the front.
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
        """PyTorch checks in several places. Two of them raise another error."""
        elsewhere = self.data.rank > 1 and (self.dim == 1 or 0 in self.data.shape)
        return RuntimeError if elsewhere else IndexError

    @property
    def output(self) -> TensorType:
        """Data's sizes, with the number of indices at dim."""
        sizes = self.data.shape
        return TensorType((*sizes[: self.dim], self._count, *sizes[self.dim + 1 :]) if sizes else (), self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return (self.dim,)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, output = layouts
        if data.sizes:
            return gather(self, [data, at_least_1d(indices), output], self.dim, 0)
        return gathering(self, [at_least_1d(data), indices, output], (), ())


@dataclass(frozen=True)
class TorchGather(TorchGatherProblem):
    """output[c…] = data[c… with the coordinate along dim replaced by indices[c…]].

    data, indices: of the same rank, where none counts as one; off dim, indices are no larger than data. Indices without elements
    may have any shape. int32 or int64; negative ones are out of range. dim: stored from the front.
    """

    data: TensorType
    indices: TensorType
    dim: int

    name = "gather"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", dim_of("dim", self.dim, self.data.rank))
        self._check_types()
        if 0 in self.indices.shape:
            return
        if max(self.indices.rank, 1) != max(self.data.rank, 1):
            raise RuntimeError(
                f"index has {self.indices.rank} dimensions and input {self.data.rank}, but gather takes equal numbers: "
                "reshape or expand index"
            )
        for axis, (size, own) in enumerate(zip(self.indices.shape, self.data.shape, strict=False)):
            if axis != self.dim and size > own:
                raise RuntimeError(
                    f"index has size {size} in dimension {axis}, where input has {own}, but off dim ({self.dim}) gather takes at "
                    f"most input's size: crop index to {own} there"
                )

    @property
    def bad_index(self) -> type[Exception]:
        """PyTorch raises no IndexError here."""
        return RuntimeError

    @property
    def output(self) -> TensorType:
        """The sizes of indices."""
        return TensorType(self.indices.shape, self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return (self.dim,)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, output = layouts
        data = at_least_1d(data)
        fits = len(output.sizes) == len(data.sizes)  # else there is no element
        steps = [0 if axis == self.dim else step for axis, step in enumerate(data.strides)] if fits else [0] * len(output.sizes)
        return gathering(self, [data, indices, output], steps if output.sizes else (), indices.strides)


@dataclass(frozen=True)
class TorchTake(TorchGatherProblem):
    """output[i…] = data[indices[i…]], of data with one dimension: torch.take flattens its input.

    indices: of any rank, int64; negative ones count from the end.
    """

    data: TensorType
    indices: TensorType

    name = "take"
    index_types = ("int64",)

    def __post_init__(self) -> None:
        self._check_types()
        if self.data.rank != 1:
            raise ValueError(f"data is {self.data}, but must have one dimension: reshape it to (-1,)")

    @property
    def wraps(self) -> bool:
        return True

    @property
    def output(self) -> TensorType:
        """The sizes of indices."""
        return TensorType(self.indices.shape, self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return (0,)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        return gather(self, layouts, 0, 0)


@dataclass(frozen=True)
class TorchTakeAlongDim(TorchGatherProblem):
    """output[c…] = data[c… with the coordinate along dim replaced by indices[c…]], both broadcast to each other off dim.

    data, indices: of the same rank, 1 or more. int64; negative ones count from the end. dim: stored from the front.

    torch.take_along_dim takes indices modulo the size along dim, so that none is out of range. No plan says that: this is what it
    does with the remainders.
    """

    data: TensorType
    indices: TensorType
    dim: int

    name = "take_along_dim"
    called = ("input", "indices")
    index_types = ("int64",)

    def __post_init__(self) -> None:
        self._check_types()
        if self.indices.rank != self.data.rank:
            raise RuntimeError(
                f"indices has {self.indices.rank} dimensions and input {self.data.rank}, but take_along_dim takes equal numbers: "
                "reshape indices"
            )
        object.__setattr__(self, "dim", dim_of("dim", self.dim, self.data.rank, scalar=False))
        for axis, (size, own) in enumerate(zip(self.indices.shape, self.data.shape, strict=True)):
            if axis != self.dim and size != own and 1 not in (size, own):
                raise RuntimeError(
                    f"indices has size {size} in dimension {axis} and input {own}, but off dim ({self.dim}) they must be "
                    "equal, or 1"
                )

    @property
    def wraps(self) -> bool:
        return True

    @property
    def bad_index(self) -> type[Exception]:
        """As gather's, which PyTorch makes of it."""
        return RuntimeError

    @property
    def output(self) -> TensorType:
        """The sizes of both, broadcast; along dim, that of indices."""
        sizes = list(np.broadcast_shapes(self._off_dim(self.data), self._off_dim(self.indices)))
        sizes[self.dim] = self.indices.shape[self.dim]
        return TensorType(tuple(sizes), self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return (self.dim,)

    def _off_dim(self, tensor: TensorType) -> tuple[int, ...]:
        return (*tensor.shape[: self.dim], 1, *tensor.shape[self.dim + 1 :])

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, indices, _ = layouts
        steps = [0 if axis == self.dim else step for axis, step in enumerate(broadcast(data))]
        return gathering(self, layouts, steps, broadcast(indices))


def broadcast(layout: Layout) -> list[int]:
    """The strides of a tensor whose dimensions of size 1 are repeated as often as is asked for."""
    return [0 if size == 1 else step for size, step in zip(layout.sizes, layout.strides, strict=True)]


@dataclass(frozen=True)
class TorchEmbedding(TorchGatherProblem):
    """output[i…, column] = data[indices[i…], column].

    data: the weight, of rank 2. indices: of any rank, int32 or int64; negative ones are out of range.
    """

    data: TensorType
    indices: TensorType

    name = "embedding"
    called = ("weight", "input")

    def __post_init__(self) -> None:
        if self.data.rank != 2:
            raise RuntimeError(f"weight is {self.data}, but embedding takes two dimensions, [rows, columns]")
        self._check_types()

    @property
    def bad_index(self) -> type[Exception]:
        """As index_select's along the first dimension, which PyTorch makes of it."""
        return RuntimeError if 0 in self.data.shape else IndexError

    @property
    def output(self) -> TensorType:
        """The sizes of indices, and the columns."""
        return TensorType((*self.indices.shape, self.data.shape[1]), self.data.dtype)

    @property
    def lookup_axes(self) -> tuple[int, ...]:
        return (0,)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        return gather(self, layouts, 0, 0)


# x[…] of a tensor: PyTorch's index expressions as problems.


@dataclass(frozen=True)
class TorchIndexing(AdvancedIndexing):
    """An index expression with index tensors, in which PyTorch looks at no index where the output has no elements."""

    @property
    def arguments(self) -> tuple[str, ...]:
        return ("input", "indices")

    @property
    def out_of_bounds(self) -> OutOfBounds:  # type: ignore[override] # it follows from the output
        """An error; without an output, nothing."""
        return OutOfBounds.PROMISE if 0 in self.output.shape else OutOfBounds.RAISE


def index(data: TensorType, entries: Sequence[Entry]) -> BasicIndexing | TorchIndexing:
    """The problem data[entries], as `indexing`, by PyTorch's rules.

    An ellipsis parts no neighbours where it stands for nothing, and integers do not count as index tensors. Raises IndexError for
    an index of a dimension of size 0; ValueError for a step below 1.
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
    """The entries with slices in the place of the first ellipsis; another one, at the end, stands for nothing."""
    taken = sum(len(entry.shape) if isinstance(entry, Mask) else entry is not None and entry is not ... for entry in entries)
    found: list[Entry] = []
    for entry in entries:
        if entry is ... and taken <= rank:
            found += [slice(None)] * (rank - taken)
            taken = rank
        else:
            found.append(entry)
    return found
