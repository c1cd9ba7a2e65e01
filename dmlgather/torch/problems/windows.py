"""PyTorch's windows: narrow, select, slice, split, chunk, tensor_split, flip; and roll, which is several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from dmlgather.dialects.advanced_indexing import BasicIndexing
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, SliceView
from dmlgather.dialects.windows import Window, window
from dmlgather.plan import IndexPlan, Layout, OutOfBounds
from dmlgather.torch.problems.arguments import MOST, check_data, dim_of, dims_of, integer, integers, is_integer
from dmlgather.wording import counted

MOST_SECTIONS = 2**31 - 1
"""The parts that tensor_split makes at most: no memory holds more."""


def select(data: TensorType, dim: Any, index: Any) -> BasicIndexing:
    """Element `index` of dimension `dim`, which the output does not have. IndexError for another dimension or index."""
    check_data("select", "input", data)
    if not data.rank:
        raise IndexError("input has no dimensions, but select takes one away: reshape it to (1,)")
    axis, position = dim_of("dim", dim, data.rank), integer("index", index)
    size = data.shape[axis]
    if not -size <= position < size:
        valid = f"{-size} … {size - 1}" if size else "none"
        raise IndexError(
            f"index is {position}, which is out of range for dimension {axis} of size {size}: valid indices are {valid}"
        )
    kept = tuple(each for each in range(data.rank) if each != axis)
    return BasicIndexing(data, _along(data, axis, Window(position % size, 1, 1)), kept)


def narrow(data: TensorType, dim: Any, start: Any, length: Any) -> SliceView:
    """`length` elements of dimension `dim` from `start` on. RuntimeError for a length that does not fit, IndexError for another
    dimension or start.
    """
    check_data("narrow", "input", data)
    if not data.rank:
        raise RuntimeError("input has no dimensions, but narrow takes a part of one: reshape it to (1,)")
    first, count = _start(start), integer("length", length)
    if count < 0:
        raise RuntimeError(f"length is {count}, expected 0 or more")
    axis = dim_of("dim", dim, data.rank)
    size = data.shape[axis]
    if not -size <= first <= size:
        raise IndexError(f"start is {first}, but dimension {axis} has size {size}: expected {-size} … {size}")
    first += size if first < 0 else 0
    if first + count > size:
        raise RuntimeError(
            f"start {first} and length {count} end behind dimension {axis}, which has size {size}: expected a length of at most "
            f"{size - first}"
        )
    return SliceView(data, _along(data, axis, Window(first, count, 1)))


def _start(value: Any) -> int:
    """A start, which may be a tensor. RuntimeError, as PyTorch, for a tensor that is no integer."""
    if hasattr(value, "shape") and not is_integer(value):
        raise RuntimeError(f"start is {value!r}, expected an integer or a tensor of one, without dimensions")
    return integer("start", value)


def slice_along(data: TensorType, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1) -> SliceView:
    """data[start:end:step] along `dim`, with start and end clamped. RuntimeError for a step below 1."""
    check_data("slice", "input", data)
    if not data.rank:
        raise IndexError("input has no dimensions, but slice takes a part of one: reshape it to (1,)")
    axis = dim_of("dim", dim, data.rank)
    first = 0 if start is None else integer("start", start)
    last = MOST if end is None else integer("end", end)
    apart = integer("step", step)
    if apart < 1:
        raise RuntimeError(f"step is {apart}, expected 1 or more: flip the dimension for a negative one")
    taken = window(data.shape[axis], first, last, apart)
    # A window of one element needs no step, and PyTorch takes steps that no address can have.
    return SliceView(data, _along(data, axis, taken if taken.count > 1 else Window(taken.start, taken.count, 1)))


def flip(data: TensorType, dims: Any) -> SliceView:
    """Data with dimensions reversed. IndexError for another dimension, RuntimeError for one named twice."""
    check_data("flip", "input", data)
    reversed_ = dims_of("dims", integers("dims", dims), data.rank)
    sizes = enumerate(data.shape)
    return SliceView(data, tuple(Window(n - 1, n, -1) if axis in reversed_ and n else Window.whole(n) for axis, n in sizes))


def chunk(data: TensorType, chunks: Any, dim: Any = 0) -> tuple[SliceView, ...]:
    """At most `chunks` parts of equal sizes, but for the last. RuntimeError for fewer than one."""
    count = integer("chunks", chunks)
    if not data.rank:
        raise RuntimeError("input has no dimensions, but chunk divides one: reshape it to (1,)")
    if count < 1:
        raise RuntimeError(f"chunks is {count}, expected 1 or more")
    axis = dim_of("dim", dim, data.rank)
    size = data.shape[axis]
    if not size:
        return _parts("chunk", data, axis, [(0, 0)] * count)
    each = -(-size // count)
    return _parts("chunk", data, axis, [(first, min(first + each, size)) for first in range(0, size, each)])


def split(data: TensorType, split_size_or_sections: Any, dim: Any = 0) -> tuple[SliceView, ...]:
    """Parts of a size, the last one smaller, or of the sizes in a list. RuntimeError for sizes that do not fit."""
    whole = is_integer(split_size_or_sections)
    name = "split_size" if whole else "split_sizes"
    sizes = (integer(name, split_size_or_sections),) if whole else integers(name, split_size_or_sections)
    if not data.rank:
        raise RuntimeError("tensor has no dimensions, but split divides one: reshape it to (1,)")
    axis = dim_of("dim", dim, data.rank)
    size = data.shape[axis]
    if any(each < 0 for each in sizes):
        raise RuntimeError(f"{name} is {split_size_or_sections}, expected sizes of 0 or more")
    if whole:
        (each,) = sizes
        if not each and size:
            raise RuntimeError(f"split_size is 0, but dimension {axis} has size {size}: expected 1 or more")
        bounds = [(first, min(first + each, size)) for first in range(0, size, each)] if size else [(0, 0)]
    else:
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        if sum(sizes) != size:
            raise RuntimeError(f"split_sizes is {list(sizes)}, with sum {sum(sizes)}, but dimension {axis} has size {size}")
        bounds = list(zip([0, *ends], ends, strict=False))
    return _parts("split", data, axis, bounds)


def tensor_split(data: TensorType, indices_or_sections: Any, dim: Any = 0) -> tuple[SliceView, ...]:
    """So many parts whose sizes differ by at most 1, or the parts before, between and behind indices, as NumPy's array_split."""
    given = _numbers(indices_or_sections)
    if not data.rank:
        raise RuntimeError("input has no dimensions, but tensor_split divides one: reshape it to (1,)")
    axis = dim_of("dim", dim, data.rank)
    size = data.shape[axis]
    if is_integer(given):
        count = integer("sections", given)
        if not 1 <= count <= MOST_SECTIONS:
            raise RuntimeError(f"sections is {count}, expected 1 … {MOST_SECTIONS}")
        each, more = divmod(size, count)
        ends = [(number + 1) * each + min(number + 1, more) for number in range(count)]
    else:
        ends = [*integers("indices", given), size]
    windows = [window(size, first, last, 1) for first, last in zip([0, *ends], ends, strict=False)]
    return _parts("tensor_split", data, axis, [(each.start, each.start + each.count) for each in windows])


def _numbers(given: Any) -> Any:
    """What tensor_split is given, a tensor as a list or an integer. RuntimeError, as PyTorch, for another tensor."""
    if not hasattr(given, "shape") or isinstance(given, np.generic):
        return given
    if not str(given.dtype).endswith("int64") or "uint64" in str(given.dtype):
        raise RuntimeError(f"indices_or_sections has type {given.dtype}, but tensor_split takes int64")
    if len(given.shape) > 1:
        raise RuntimeError(f"indices_or_sections has shape {list(given.shape)}, but tensor_split takes one dimension or none")
    return given.tolist()


def _along(data: TensorType, axis: int, taken: Window) -> tuple[Window, ...]:
    """A window of one dimension, and the others whole."""
    return tuple(taken if each == axis else Window.whole(size) for each, size in enumerate(data.shape))


def _parts(operation: str, data: TensorType, axis: int, bounds: Sequence[tuple[int, int]]) -> tuple[SliceView, ...]:
    """A slice for each part of the dimension, from its first element to the one behind its last."""
    check_data(operation, "input", data)
    return tuple(SliceView(data, _along(data, axis, Window(first, last - first, 1))) for first, last in bounds)


# roll: a tensor in two windows of each rolled dimension, which change places.


@dataclass(frozen=True)
class RolledPart:
    """A window of the data, and the place in the result where it begins, per dimension."""

    problem: SliceView
    start: tuple[int, ...]

    def plan(self) -> IndexPlan:
        """The copy of this part, from a packed tensor into a packed tensor of the same sizes."""
        whole = self.problem.data.layout
        sizes = self.problem.output.shape
        part = Layout(sizes, whole.strides, whole.address(self.start) if 0 not in sizes else 0, whole.extent)
        return self.problem.lower([whole, part])


@dataclass(frozen=True)
class Rolling:
    """torch.roll: element i of a dimension is element (i - shift) modulo its size.

    No single plan says this. It is a copy of each part, two for each rolled dimension, or a chain of views.

    data: as it is rolled, with one dimension where no dims are given. shifts: for each dimension, from 0 on and below its size;
    0 where it is not rolled. shape: of the result.
    """

    data: TensorType
    shifts: tuple[int, ...]
    shape: tuple[int, ...]

    out_of_bounds = OutOfBounds.CLAMP  # no index can be out of bounds

    @property
    def output(self) -> TensorType:
        """As the input."""
        return TensorType(self.shape, self.data.dtype)

    @property
    def parts(self) -> tuple[RolledPart, ...]:
        """The parts; together they write each element of the result once."""
        ends = [
            ((Window(size - shift, shift, 1), 0), (Window(0, size - shift, 1), shift)) if shift else ((Window.whole(size), 0),)
            for size, shift in zip(self.data.shape, self.shifts, strict=True)
        ]
        return tuple(
            RolledPart(SliceView(self.data, tuple(taken for taken, _ in part)), tuple(start for _, start in part))
            for part in product(*ends)
        )

    def problems(self) -> Iterator[Problem]:
        """`chain` as a chain of problems, from the input's shape to the result's, with reshapes where shapes differ."""
        now = self.output
        for problem in self.chain():
            if problem.data != now:
                yield ReshapeView(now, problem.data.shape)
            yield problem
            now = problem.output
        if now != self.output:
            yield ReshapeView(now, self.shape)

    def chain(self) -> Iterator[Problem]:
        """Views, each over the packed elements that the one before wrote: each rolled dimension twice, then a window of both."""
        dtype, sizes = self.data.dtype, self.data.shape
        if not any(self.shifts):
            yield ReshapeView(self.data, sizes)
        for axis, (size, shift) in enumerate(zip(sizes, self.shifts, strict=True)):
            if shift:
                lead, trail = prod(sizes[:axis]), prod(sizes[axis + 1 :])
                yield ExpandView(TensorType((lead, 1, size * trail), dtype), (lead, 2, size * trail))
                windows = (Window.whole(lead), Window(size - shift, size, 1), Window.whole(trail))
                yield SliceView(TensorType((lead, 2 * size, trail), dtype), windows)


def roll(data: TensorType, shifts: Any, dims: Any = ()) -> Rolling:
    """torch.roll. shifts, dims: an integer or equally many; without dims, one shift rolls the flattened data.

    RuntimeError for unequal numbers, IndexError for another dimension.
    """
    check_data("roll", "input", data)
    by = (integer("shifts", shifts),) if is_integer(shifts) else shifts
    along = (integer("dims", dims),) if is_integer(dims) else () if dims is None else dims
    counts, axes = integers("shifts", by), integers("dims", along)
    if not counts:
        raise RuntimeError("shifts has no entries, expected one or more")
    if not axes and len(counts) == 1:
        count = prod(data.shape)
        return Rolling(TensorType((count,), data.dtype), (counts[0] % count if count else 0,), data.shape)
    if len(counts) != len(axes):
        raise RuntimeError(f"shifts has {counted(len(counts), 'entry')} and dims {len(axes)}: expected equally many")
    found = [0] * data.rank
    if 0 not in data.shape:  # as PyTorch, which then looks at no dimension
        for number, (count, axis) in enumerate(zip(counts, axes, strict=True)):
            dim = dim_of(f"dims[{number}]", axis, data.rank, scalar=False)
            found[dim] = (found[dim] + count) % data.shape[dim]
    return Rolling(data, tuple(found), data.shape)
