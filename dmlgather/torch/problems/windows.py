"""PyTorch's narrow, select, slice, split, chunk, tensor_split and flip as slices, and roll as several slices."""

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
"""The most parts of tensor_split. A longer list might not fit into memory."""


def select(data: TensorType, dim: Any, index: Any) -> BasicIndexing:
    """Return the slice that torch.select makes."""
    check_data("select", "input", data)
    if not data.rank:
        raise IndexError("input has no dimensions, but select removes a dimension: reshape it to (1,)")
    axis, position = dim_of("dim", dim, data.rank), integer("index", index)
    size = data.shape[axis]
    if not -size <= position < size:
        valid = f"{-size} … {size - 1}" if size else "none"
        raise IndexError(
            f"index is {position}, which is out of range for dimension {axis} of size {size}: valid indices are {valid}"
        )
    kept = tuple(dimension for dimension in range(data.rank) if dimension != axis)
    return BasicIndexing(data, _windows(data, axis, Window(position % size, 1, 1)), kept)


def narrow(data: TensorType, dim: Any, start: Any, length: Any) -> SliceView:
    """Return the slice that torch.narrow makes."""
    check_data("narrow", "input", data)
    if not data.rank:
        raise RuntimeError("input has no dimensions, but narrow takes a part of a dimension: reshape it to (1,)")
    if hasattr(start, "shape") and not is_integer(start):
        raise RuntimeError(f"start is {start!r}, expected an integer, or an integer tensor without dimensions")
    first, count = integer("start", start), integer("length", length)
    if count < 0:
        raise RuntimeError(f"length is {count}, expected 0 or more")
    axis = dim_of("dim", dim, data.rank)
    size = data.shape[axis]
    if not -size <= first <= size:
        raise IndexError(f"start is {first}, but dimension {axis} has size {size}: expected {-size} … {size}")
    first += size if first < 0 else 0
    if first + count > size:
        raise RuntimeError(
            f"start is {first} and length is {count}, but dimension {axis} has size {size}: expected a length of at most "
            f"{size - first}"
        )
    return SliceView(data, _windows(data, axis, Window(first, count, 1)))


def slice_along(data: TensorType, dim: Any = 0, start: Any = None, end: Any = None, step: Any = 1) -> SliceView:
    """Return the slice data[start:end:step] along `dim`. Like aten::slice, clamp `start` and `end`."""
    check_data("slice", "input", data)
    if not data.rank:
        raise IndexError("input has no dimensions, but slice takes a part of a dimension: reshape it to (1,)")
    axis = dim_of("dim", dim, data.rank)
    first = 0 if start is None else integer("start", start)
    last = MOST if end is None else integer("end", end)
    distance = integer("step", step)
    if distance < 1:
        raise RuntimeError(f"step is {distance}, expected 1 or more: flip the dimension for a negative one")
    sliced = window(data.shape[axis], first, last, distance)
    # A step may be too large for a 64-bit stride. If there is only one element, 1 is an equal step.
    return SliceView(data, _windows(data, axis, sliced if sliced.count > 1 else Window(sliced.start, sliced.count, 1)))


def flip(data: TensorType, dims: Any) -> SliceView:
    """Return the slice with negative steps that torch.flip makes."""
    check_data("flip", "input", data)
    flipped = dims_of(integers("dims", dims), data.rank)
    sizes = enumerate(data.shape)
    return SliceView(data, tuple(Window(n - 1, n, -1) if axis in flipped and n else Window.whole(n) for axis, n in sizes))


def chunk(data: TensorType, chunks: Any, dim: Any = 0) -> tuple[SliceView, ...]:
    """Return the slices that torch.chunk makes."""
    count = integer("chunks", chunks)
    if not data.rank:
        raise RuntimeError("input has no dimensions, but chunk divides a dimension: reshape it to (1,)")
    if count < 1:
        raise RuntimeError(f"chunks is {count}, expected 1 or more")
    axis = dim_of("dim", dim, data.rank)
    size = data.shape[axis]
    if not size:
        return _parts("chunk", data, axis, [(0, 0)] * count)
    part_size = -(-size // count)
    return _parts("chunk", data, axis, [(first, min(first + part_size, size)) for first in range(0, size, part_size)])


def split(data: TensorType, split_size_or_sections: Any, dim: Any = 0) -> tuple[SliceView, ...]:
    """Return the slices that torch.split makes."""
    is_single = is_integer(split_size_or_sections)
    name = "split_size" if is_single else "split_sizes"
    sizes = (integer(name, split_size_or_sections),) if is_single else integers(name, split_size_or_sections)
    if not data.rank:
        raise RuntimeError("tensor has no dimensions, but split divides a dimension: reshape it to (1,)")
    axis = dim_of("dim", dim, data.rank)
    size = data.shape[axis]
    if any(part_size < 0 for part_size in sizes):
        raise RuntimeError(f"{name} is {split_size_or_sections}, expected sizes of 0 or more")
    if is_single:
        (part_size,) = sizes
        if not part_size and size:
            raise RuntimeError(f"split_size is 0, but dimension {axis} has size {size}: expected 1 or more")
        bounds = [(first, min(first + part_size, size)) for first in range(0, size, part_size)] if size else [(0, 0)]
    else:
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        if sum(sizes) != size:
            raise RuntimeError(f"split_sizes is {list(sizes)}, with sum {sum(sizes)}, but dimension {axis} has size {size}")
        bounds = list(zip([0, *ends], ends, strict=False))
    return _parts("split", data, axis, bounds)


def tensor_split(data: TensorType, indices_or_sections: Any, dim: Any = 0) -> tuple[SliceView, ...]:
    """Return the slices that torch.tensor_split makes. Bounds are clamped, as in NumPy's array_split."""
    sections = indices_or_sections
    if hasattr(sections, "shape") and not isinstance(sections, np.generic):
        if not str(sections.dtype).endswith("int64") or "uint64" in str(sections.dtype):
            raise RuntimeError(f"indices_or_sections has type {sections.dtype}, but tensor_split takes int64")
        if len(sections.shape) > 1:
            shape = list(sections.shape)
            raise RuntimeError(f"indices_or_sections has shape {shape}, but tensor_split takes one dimension or none")
        sections = sections.tolist()
    if not data.rank:
        raise RuntimeError("input has no dimensions, but tensor_split divides a dimension: reshape it to (1,)")
    axis = dim_of("dim", dim, data.rank)
    size = data.shape[axis]
    if is_integer(sections):
        count = integer("sections", sections)
        if not 1 <= count <= MOST_SECTIONS:
            raise RuntimeError(f"sections is {count}, expected 1 … {MOST_SECTIONS}")
        part_size, larger_parts = divmod(size, count)  # the first parts have one element more
        ends = [(number + 1) * part_size + min(number + 1, larger_parts) for number in range(count)]
    else:
        ends = [*integers("indices", sections), size]
    windows = [window(size, first, last, 1) for first, last in zip([0, *ends], ends, strict=False)]
    return _parts("tensor_split", data, axis, [(part.start, part.start + part.count) for part in windows])


def _windows(data: TensorType, axis: int, part: Window) -> tuple[Window, ...]:
    """Return the window `part` along `axis`, and whole windows along the other dimensions."""
    return tuple(part if dimension == axis else Window.whole(size) for dimension, size in enumerate(data.shape))


def _parts(operation: str, data: TensorType, axis: int, bounds: Sequence[tuple[int, int]]) -> tuple[SliceView, ...]:
    check_data(operation, "input", data)
    return tuple(SliceView(data, _windows(data, axis, Window(first, end - first, 1))) for first, end in bounds)


@dataclass(frozen=True)
class RolledPart:
    """A block of a roll's result, and the slice of the data that is copied to the block.

    `start`: the coordinates of the block's first element.
    """

    problem: SliceView
    start: tuple[int, ...]

    def plan(self) -> IndexPlan:
        """Return the plan that copies the slice of a contiguous input to the block of a contiguous result."""
        whole = self.problem.data.layout
        sizes = self.problem.output.shape
        part = Layout(sizes, whole.strides, whole.address(self.start) if 0 not in sizes else 0, whole.extent)
        return self.problem.lower([whole, part])


@dataclass(frozen=True)
class Rolling:
    """A call of torch.roll: along a dimension of size n, output[i] = data[(i - shift) modulo n].

    One plan cannot express a roll, because each rolled dimension splits the result into two blocks. `parts` has the blocks and
    the slices of the data that fill them. `chain` gives the same result by a sequence of views.

    `data`: the input, flattened if roll has no dims. `shifts`: one shift per dimension, from 0 to size - 1. `shape`: the
    result's shape.
    """

    data: TensorType
    shifts: tuple[int, ...]
    shape: tuple[int, ...]

    out_of_bounds = OutOfBounds.CLAMP  # the choice does not matter: there are no indices

    @property
    def output(self) -> TensorType:
        """The type of the result."""
        return TensorType(self.shape, self.data.dtype)

    @property
    def parts(self) -> tuple[RolledPart, ...]:
        """The blocks of the result. Together, they contain each element of the result once."""
        pieces = [  # for each dimension, one or two windows of data with their starts in the result
            ((Window(size - shift, shift, 1), 0), (Window(0, size - shift, 1), shift)) if shift else ((Window.whole(size), 0),)
            for size, shift in zip(self.data.shape, self.shifts, strict=True)
        ]
        return tuple(
            RolledPart(SliceView(self.data, tuple(window for window, _ in part)), tuple(start for _, start in part))
            for part in product(*pieces)
        )

    def problems(self) -> Iterator[Problem]:
        """Yield the views of `chain`, with reshapes between different shapes. The last output has the shape of the result."""
        current = self.output
        for problem in self.chain():
            if problem.data != current:
                yield ReshapeView(current, problem.data.shape)
            yield problem
            current = problem.output
        if current != self.output:
            yield ReshapeView(current, self.shape)

    def chain(self) -> Iterator[Problem]:
        """Yield views that give the elements of the result, perhaps in another shape.

        Each view reads the contiguous output of the view before it. Each rolled dimension needs two views. The first repeats
        the dimension twice. The second takes a window of the repetition. For example, to roll abcd by 1, the window of abcdabcd
        that starts at element 3 is dabc.
        """
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
    """Return the roll that torch.roll makes. Without dims, data is flattened."""
    check_data("roll", "input", data)
    shift_list = (integer("shifts", shifts),) if is_integer(shifts) else shifts
    dim_list = (integer("dims", dims),) if is_integer(dims) else () if dims is None else dims
    counts, axes = integers("shifts", shift_list), integers("dims", dim_list)
    if not counts:
        raise RuntimeError("shifts has no entries, expected one or more")
    if not axes and len(counts) == 1:
        count = prod(data.shape)
        return Rolling(TensorType((count,), data.dtype), (counts[0] % count if count else 0,), data.shape)
    if len(counts) != len(axes):
        raise RuntimeError(f"shifts has {counted(len(counts), 'entry')} and dims has {len(axes)}: expected equal lengths")
    totals = [0] * data.rank
    if 0 not in data.shape:  # PyTorch does not check dims of an empty tensor
        for number, (count, axis) in enumerate(zip(counts, axes, strict=True)):
            dim = dim_of(f"dims[{number}]", axis, data.rank, scalar=False)
            totals[dim] = (totals[dim] + count) % data.shape[dim]
    return Rolling(data, tuple(totals), data.shape)
