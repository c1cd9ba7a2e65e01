"""PyTorch's permute, transpose, expand, unfold, diagonal and as_strided as views. The pixel shuffles as problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, StridedView, TransposeView
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, build, packed_strides, reach
from dmlgather.torch.problems.arguments import MOST, check_data, dim_of, dims_of, integer, integers
from dmlgather.wording import counted


class PixelProblem(Problem):
    """Base class of pixel_shuffle and pixel_unshuffle, which move blocks of pixels into channels or back."""

    inputs = ("data",)
    out_of_bounds = OutOfBounds.CLAMP  # the choice does not matter: there are no indices

    factor_name: ClassVar[str]
    """Name of the field with the width of a block. PyTorch's argument has the same name."""

    powers: ClassVar[Mapping[int, int]]
    """The size of dimension d must be a multiple of the block's width to the power `powers[d]`."""

    def __post_init__(self) -> None:
        name = self.factor_name
        factor = integer(name, getattr(self, name))
        check_data(self.name, "input", self.data)
        if self.data.rank < 3:
            raise RuntimeError(
                f"input has {self.data.rank} dimensions, but {self.name} takes at least 3: […, channels, rows, columns]"
            )
        if factor < 1:
            raise RuntimeError(f"{name} is {factor}, expected 1 or more")
        if factor**2 > MOST:
            raise ValueError(f"{name} is {factor}, but its square must be a 64-bit integer")
        object.__setattr__(self, name, factor)
        for axis, power in self.powers.items():
            size, divisor = self.data.shape[axis], factor**power
            if size % divisor:
                raise RuntimeError(
                    f"input has size {size} in dimension {axis}, but with {name} {factor} it must be a multiple of {divisor}"
                )


@dataclass(frozen=True)
class PixelShuffle(PixelProblem):
    """output[…, c, h · r + i, w · r + j] = data[…, (c, i, j), h, w], with r = upscale_factor."""

    data: TensorType
    upscale_factor: int

    name = "pixel_shuffle"
    factor_name = "upscale_factor"
    powers: ClassVar[Mapping[int, int]] = {-3: 2}

    @property
    def output(self) -> TensorType:
        *batch, channels, rows, columns = self.data.shape
        factor = self.upscale_factor
        return TensorType((*batch, channels // factor**2, rows * factor, columns * factor), self.data.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, output = layouts
        depth, space = in_blocks(data, output, self.upscale_factor)
        return build(depth, space, depth.strides, self.data.dtype.itemsize)


@dataclass(frozen=True)
class PixelUnshuffle(PixelProblem):
    """output[…, (c, i, j), h, w] = data[…, c, h · r + i, w · r + j], with r = downscale_factor."""

    data: TensorType
    downscale_factor: int

    name = "pixel_unshuffle"
    factor_name = "downscale_factor"
    powers: ClassVar[Mapping[int, int]] = {-2: 1, -1: 1}

    @property
    def output(self) -> TensorType:
        *batch, channels, rows, columns = self.data.shape
        factor = self.downscale_factor
        return TensorType((*batch, channels * factor**2, rows // factor, columns // factor), self.data.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, output = layouts
        depth, space = in_blocks(output, data, self.downscale_factor)
        return build(space, depth, space.strides, self.data.dtype.itemsize)


def in_blocks(depth: Layout, space: Layout, factor: int) -> tuple[Layout, Layout]:
    """Split the layouts of both tensors of a pixel shuffle, so that they have the same dimensions.

    `depth`: the tensor that has a block's pixels in channels. `space`: the tensor that has a block's pixels in rows and
    columns. Both results end in five dimensions: channel, row in the block, column in the block, row of the block, column of
    the block.
    """
    rank = len(depth.sizes)
    channel, row, column = range(rank - 3, rank)
    channels, rows, columns = space.sizes[channel], depth.sizes[row], depth.sizes[column]
    order = (*range(channel), channel, row + 1, column + 2, row, column + 1)
    split = space.split(column, (columns, factor)).split(row, (rows, factor))
    return depth.split(channel, (channels, factor, factor)), split.permuted(order)


def permute(data: TensorType, dims: Any) -> TransposeView:
    """Return the view that torch.permute makes."""
    check_data("permute", "input", data)
    order = integers("dims", dims)
    if len(order) != data.rank:
        raise RuntimeError(f"dims is {order}, but input has {counted(data.rank, 'dimension')}: expected each dimension once")
    return TransposeView(data, dims_of(order, data.rank))


def transpose(data: TensorType, dim0: Any, dim1: Any) -> TransposeView:
    """Return the view that torch.transpose makes."""
    check_data("transpose", "input", data)
    first, second = dim_of("dim0", dim0, data.rank), dim_of("dim1", dim1, data.rank)
    order = list(range(data.rank))
    if order:
        order[first], order[second] = second, first
    return TransposeView(data, tuple(order))


def expand(data: TensorType, size: Any) -> ExpandView:
    """Return the view that torch.Tensor.expand makes. A size of -1 keeps the size of data."""
    check_data("expand", "input", data)
    requested = integers("size", size)
    new = len(requested) - data.rank
    if new < 0:
        raise RuntimeError(
            f"size is {requested}, but input has {counted(data.rank, 'dimension')}: expected at least {data.rank} entries"
        )
    sizes = list(requested)
    for axis, count in enumerate(requested):
        if axis < new:
            if count < 0:
                raise RuntimeError(f"size[{axis}] is {count}, but a new dimension has no size to keep: expected 0 or more")
            continue
        data_size = data.shape[axis - new]
        if count == -1:
            sizes[axis] = data_size
        elif count != data_size and (data_size != 1 or count < 0):
            expected = "-1, or 0 or more" if data_size == 1 else f"{data_size} or -1"
            raise RuntimeError(
                f"size[{axis}] is {count}, but dimension {axis - new} of input has size {data_size}: expected {expected}"
            )
    return ExpandView(data, tuple(sizes))


def unfold(data: TensorType, dimension: Any, size: Any, step: Any) -> StridedView:
    """Return the view that torch.Tensor.unfold makes: windows of `size` elements, in a new last dimension."""
    check_data("unfold", "input", data)
    axis, count, distance = dim_of("dimension", dimension, data.rank), integer("size", size), integer("step", step)
    if count < 0:
        raise RuntimeError(f"size is {count}, expected 0 or more")
    data_size = data.shape[axis] if data.rank else 1
    if count > data_size:
        raise RuntimeError(f"size is {count}, but dimension {axis} has size {data_size}: expected at most {data_size}")
    if distance < 1:
        raise RuntimeError(f"step is {distance}, expected 1 or more")
    if not data.rank:
        return StridedView(data, (count,), (1,))
    sizes, strides = list(data.shape), list(packed_strides(data.shape))
    windows = (data_size - count) // distance + 1
    window_stride = strides[axis] * distance if windows > 1 else 0  # with one window, it is unused and may exceed 64 bits
    return StridedView(
        data,
        (*sizes[:axis], windows, *sizes[axis + 1 :], count),
        (*strides[:axis], window_stride, *strides[axis + 1 :], strides[axis]),
    )


def diagonal(data: TensorType, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> StridedView:
    """Return the view that torch.diagonal makes. A positive `offset` is above the main diagonal."""
    check_data("diagonal", "input", data)
    shift = integer("offset", offset)
    first, second = dim_of("dim1", dim1, data.rank), dim_of("dim2", dim2, data.rank)
    if first == second:
        raise RuntimeError(f"dim1 is {dim1} and dim2 is {dim2}: expected two different dimensions")
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
    """Return the view that torch.as_strided makes. `data`: the whole storage as a contiguous array."""
    check_data("as_strided", "input", data)
    sizes, strides, start = integers("size", size), integers("stride", stride), integer("storage_offset", storage_offset)
    if len(sizes) != len(strides):
        raise RuntimeError(f"size has {counted(len(sizes), 'entry')} and stride has {len(strides)}: expected equal lengths")
    for name, values in (("size", sizes), ("stride", strides), ("storage_offset", (start,))):
        if any(value < 0 for value in values):
            raise RuntimeError(f"{name} is {values if name != 'storage_offset' else start}, expected 0 or more")
    count = data.layout.extent
    if 0 in sizes:
        return StridedView(data, sizes, tuple(0 for _ in strides))
    last = reach(sizes, strides, start)[1]
    if last >= count:
        raise RuntimeError(
            f"size {list(sizes)}, stride {list(strides)} and storage_offset {start} need element {last}, but the storage has "
            f"{counted(count, 'element')}"
        )
    return StridedView(data, sizes, strides, start)
