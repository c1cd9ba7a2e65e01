"""From PyTorch's arguments to views: permute, transpose, expand, unfold, diagonal, as_strided; pixel_shuffle, pixel_unshuffle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, StridedView, TransposeView
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, build, packed_strides, reach
from dmlgather.torch.problems.arguments import MOST, check_data, dim_of, dims_of, integer, integers
from dmlgather.wording import counted


class PixelProblem(Problem):
    """What both have: blocks of elements move between channels, rows and columns, the last three dimensions."""

    inputs = ("data",)
    out_of_bounds = OutOfBounds.CLAMP  # no index can be out of bounds

    def _check(self, argument: str, value: Any) -> int:
        """The factor. RuntimeError below 1 and for less than three dimensions, ValueError where its square is too large."""
        factor = integer(argument, value)
        check_data(self.name, "input", self.data)
        if self.data.rank < 3:
            raise RuntimeError(
                f"input has {self.data.rank} dimensions, but {self.name} takes at least 3: […, channels, rows, columns]"
            )
        if factor < 1:
            raise RuntimeError(f"{argument} is {factor}, expected 1 or more")
        if factor**2 > MOST:
            raise ValueError(f"{argument} is {factor}, but its square must be a 64-bit integer")
        return factor

    def _check_multiple(self, axis: int, unit: int, argument: str) -> None:
        size = self.data.shape[axis]
        if size % unit:
            raise RuntimeError(f"input has size {size} in dimension {axis}, but with {argument} it must be a multiple of {unit}")


@dataclass(frozen=True)
class PixelShuffle(PixelProblem):
    """output[…, c, h · r + i, w · r + j] = data[…, (c, i, j), h, w], r being the upscale factor."""

    data: TensorType
    upscale_factor: int

    name = "pixel_shuffle"

    def __post_init__(self) -> None:
        factor = self._check("upscale_factor", self.upscale_factor)
        object.__setattr__(self, "upscale_factor", factor)
        self._check_multiple(-3, factor**2, f"upscale_factor {factor}")

    @property
    def output(self) -> TensorType:
        """[…, channels / r², rows · r, columns · r]."""
        *batch, channels, rows, columns = self.data.shape
        factor = self.upscale_factor
        return TensorType((*batch, channels // factor**2, rows * factor, columns * factor), self.data.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, output = layouts
        depth, space = in_blocks(data, output, self.upscale_factor)
        return build(depth, space, depth.strides, self.data.dtype.itemsize)


@dataclass(frozen=True)
class PixelUnshuffle(PixelProblem):
    """output[…, (c, i, j), h, w] = data[…, c, h · r + i, w · r + j], r being the downscale factor."""

    data: TensorType
    downscale_factor: int

    name = "pixel_unshuffle"

    def __post_init__(self) -> None:
        factor = self._check("downscale_factor", self.downscale_factor)
        object.__setattr__(self, "downscale_factor", factor)
        for axis in (-2, -1):
            self._check_multiple(axis, factor, f"downscale_factor {factor}")

    @property
    def output(self) -> TensorType:
        """[…, channels · r², rows / r, columns / r]."""
        *batch, channels, rows, columns = self.data.shape
        factor = self.downscale_factor
        return TensorType((*batch, channels * factor**2, rows // factor, columns // factor), self.data.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, output = layouts
        depth, space = in_blocks(output, data, self.downscale_factor)
        return build(space, depth, space.strides, self.data.dtype.itemsize)


def in_blocks(depth: Layout, space: Layout, factor: int) -> tuple[Layout, Layout]:
    """Both tensors with the dimensions …, channel, row in the block, column in the block, row of blocks, column of blocks."""
    rank = len(depth.sizes)
    channel, row, column = range(rank - 3, rank)
    channels, rows, columns = space.sizes[channel], depth.sizes[row], depth.sizes[column]
    order = (*range(channel), channel, row + 1, column + 2, row, column + 1)
    split = space.split(column, (columns, factor)).split(row, (rows, factor))
    return depth.split(channel, (channels, factor, factor)), split.permuted(order)


# permute, transpose, expand, unfold, diagonal and as_strided: from PyTorch's arguments to the views that all dialects share.


def permute(data: TensorType, dims: Any) -> TransposeView:
    """The dimensions in another order. RuntimeError unless each is named once, IndexError for another one."""
    check_data("permute", "input", data)
    given = integers("dims", dims)
    if len(given) != data.rank:
        raise RuntimeError(
            f"dims is {given}, with {counted(len(given), 'dimension')}, but input has {data.rank}: expected each once"
        )
    return TransposeView(data, dims_of("dims", given, data.rank))


def transpose(data: TensorType, dim0: Any, dim1: Any) -> TransposeView:
    """Two dimensions exchanged. IndexError for another one."""
    check_data("transpose", "input", data)
    first, second = dim_of("dim0", dim0, data.rank), dim_of("dim1", dim1, data.rank)
    order = list(range(data.rank))
    if order:
        order[first], order[second] = second, first
    return TransposeView(data, tuple(order))


def expand(data: TensorType, size: Any) -> ExpandView:
    """Dimensions of size 1 repeated, and new ones in front. -1 leaves a size as it is. RuntimeError for sizes that do not fit."""
    check_data("expand", "input", data)
    given = integers("size", size)
    new = len(given) - data.rank
    if new < 0:
        raise RuntimeError(
            f"size is {given}, with {counted(len(given), 'dimension')}, but input has {data.rank}: expected as many, or more"
        )
    sizes = list(given)
    for axis, wanted in enumerate(given):
        if axis < new:
            if wanted < 0:
                raise RuntimeError(f"size[{axis}] is {wanted}, but it is of a new dimension: expected 0 or more")
            continue
        own = data.shape[axis - new]
        if wanted == -1:
            sizes[axis] = own
        elif wanted != own and (own != 1 or wanted < 0):
            raise RuntimeError(
                f"size[{axis}] is {wanted}, but dimension {axis - new} of input has size {own}: expected that size or -1"
                + (", or 0 or more" if own == 1 else "")
            )
    return ExpandView(data, tuple(sizes))


def unfold(data: TensorType, dimension: Any, size: Any, step: Any) -> StridedView:
    """Windows of `size` elements along a dimension, `step` apart; the elements of a window are a new last dimension.

    RuntimeError for a size above the dimension's or below 0, and for a step below 1; IndexError for another dimension.
    """
    check_data("unfold", "input", data)
    axis, count, apart = dim_of("dimension", dimension, data.rank), integer("size", size), integer("step", step)
    if count < 0:
        raise RuntimeError(f"size is {count}, expected 0 or more")
    own = data.shape[axis] if data.rank else 1
    if count > own:
        raise RuntimeError(f"size is {count}, but dimension {axis} has size {own}: expected at most that")
    if apart < 1:
        raise RuntimeError(f"step is {apart}, expected 1 or more")
    if not data.rank:
        return StridedView(data, (count,), (1,))
    sizes, strides = list(data.shape), list(packed_strides(data.shape))
    windows = (own - count) // apart + 1
    between = strides[axis] * apart if windows > 1 else 0  # a step that is not made may be wider than an address
    return StridedView(
        data, (*sizes[:axis], windows, *sizes[axis + 1 :], count), (*strides[:axis], between, *strides[axis + 1 :], strides[axis])
    )


def diagonal(data: TensorType, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> StridedView:
    """The diagonal of two dimensions, as a new last one. offset: above the main one, or below where it is negative.

    IndexError for another dimension, RuntimeError where both are one.
    """
    check_data("diagonal", "input", data)
    shift = integer("offset", offset)
    first, second = dim_of("dim1", dim1, data.rank), dim_of("dim2", dim2, data.rank)
    if first == second:
        raise RuntimeError(f"dim1 is {dim1} and dim2 {dim2}, which are the same: a diagonal is one of two dimensions")
    sizes, strides = data.shape, packed_strides(data.shape)
    rows, columns = sizes[first], sizes[second]
    length = max(min(rows, columns - shift) if shift >= 0 else min(rows + shift, columns), 0)
    start = (strides[second] * shift if shift >= 0 else -strides[first] * shift) if length else 0
    others = [axis for axis in range(data.rank) if axis not in (first, second)]
    return StridedView(
        data,
        (*(sizes[axis] for axis in others), length),
        (*(strides[axis] for axis in others), strides[first] + strides[second]),
        start,
    )


def as_strided(data: TensorType, size: Any, stride: Any, storage_offset: Any = 0) -> StridedView:
    """Elements storage_offset + i · stride of data, which is packed: a tensor's storage. RuntimeError for strides below 0, for
    sizes or an offset below 0, and for elements outside.
    """
    check_data("as_strided", "input", data)
    sizes, strides, start = integers("size", size), integers("stride", stride), integer("storage_offset", storage_offset)
    if len(sizes) != len(strides):
        raise RuntimeError(f"size has {counted(len(sizes), 'entry')} and stride {len(strides)}: expected equally many")
    for name, values in (("size", sizes), ("stride", strides), ("storage_offset", (start,))):
        if any(value < 0 for value in values):
            raise RuntimeError(f"{name} is {values if name != 'storage_offset' else start}, expected 0 or more")
    count = data.layout.extent
    if 0 in sizes:
        return StridedView(data, sizes, tuple(0 for _ in strides))
    last = reach(sizes, strides, start)[1]
    if last >= count:
        raise RuntimeError(
            f"size {list(sizes)}, stride {list(strides)} and storage_offset {start} reach element {last}, but there are {count}"
        )
    return StridedView(data, sizes, strides, start)
