"""pixel_shuffle and pixel_unshuffle: rules and lowering. Source: PyTorch's documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.plan import IndexPlan, Layout, OutOfBounds, build
from dmlgather.torch.problems.arguments import MOST, integer
from dmlgather.torch.problems.data_types import check_data


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
