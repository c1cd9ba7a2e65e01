"""DepthToSpace and SpaceToDepth as problems: their rules and plans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dmlgather.dialects.problem import TensorType, whole
from dmlgather.directml.shapes import depth_sizes, space_sizes
from dmlgather.onnx.problems.data_types import check_type
from dmlgather.onnx.problems.operator_versions import OnnxProblem
from dmlgather.plan import IndexPlan, Layout, blocks, build

MODES = ("DCR", "CRD")

PADDED_LIMIT = 2**32 - 1
"""The largest size to which an error message recommends to pad a dimension."""


@dataclass(frozen=True)
class DepthSpaceProblem(OnnxProblem):
    """Base class of DepthToSpace and SpaceToDepth, which move blocks of blocksize × blocksize pixels into channels or back."""

    data: TensorType
    blocksize: int
    mode: str = "DCR"
    opset: int = 13

    mode_since: ClassVar[int]
    """The first opset that has the attribute mode. Earlier versions use "DCR"."""

    inputs = ("data",)

    @staticmethod
    @abstractmethod
    def units(blocksize: int) -> Mapping[int, int]:
        """Return the required divisors of data's sizes, by dimension."""

    def __post_init__(self) -> None:
        version, shape = self.version, self.data.shape
        check_type(version, "data", self.data.dtype, version.types)
        if len(shape) != 4:
            raise ValueError(f"data has rank {len(shape)}, but {version} takes [n, c, h, w]: reshape it to rank 4")
        object.__setattr__(self, "blocksize", whole("blocksize", self.blocksize))
        if self.blocksize < 1:
            raise ValueError(f"blocksize is {self.blocksize}, expected at least 1")
        if self.mode not in MODES:
            raise ValueError(f"mode is {self.mode!r}, expected 'DCR' or 'CRD'")
        if self.mode != "DCR" and version.since < self.mode_since:
            raise ValueError(
                f"mode is {self.mode!r}, but {version} has no mode and uses 'DCR'; mode came with opset {self.mode_since}"
            )
        for axis, unit in self.units(self.blocksize).items():
            if shape[axis] % unit:
                padded = -(-shape[axis] // unit) * unit
                remedy = f"pad it to {padded}" if padded <= PADDED_LIMIT else "choose a smaller blocksize"
                raise ValueError(
                    f"data has size {shape[axis]} in dimension {axis}, but with blocksize {self.blocksize} {version} takes "
                    f"multiples of {unit}: {remedy}"
                )

    def _views(self, depth: Layout, space: Layout) -> tuple[Layout, Layout]:
        return blocks(depth, space, self.blocksize, channels_last=self.mode == "DCR")


class DepthToSpace(DepthSpaceProblem):
    """output[n, c, h · blocksize + i, w · blocksize + j] = data[n, (i, j, c), h, w].

    (i, j, c) is one channel number, split into three. In mode "CRD", the order is (c, i, j).
    """

    name = "DepthToSpace"
    mode_since = 11

    @staticmethod
    def units(blocksize: int) -> Mapping[int, int]:
        return {1: blocksize**2}

    @property
    def output(self) -> TensorType:
        return TensorType(space_sizes(self.data.shape, self.blocksize), self.data.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        depth, space = self._views(*layouts)
        return build(depth, space, depth.strides, self.data.dtype.itemsize)


class SpaceToDepth(DepthSpaceProblem):
    """output[n, (i, j, c), h, w] = data[n, c, h · blocksize + i, w · blocksize + j].

    (i, j, c) is one channel number, made of three. In mode "CRD", the order is (c, i, j).
    """

    name = "SpaceToDepth"
    mode_since = 28

    @staticmethod
    def units(blocksize: int) -> Mapping[int, int]:
        return {2: blocksize, 3: blocksize}

    @property
    def output(self) -> TensorType:
        return TensorType(depth_sizes(self.data.shape, self.blocksize), self.data.dtype)

    def _lower(self, layouts: Sequence[Layout]) -> IndexPlan:
        data, output = layouts
        depth, space = self._views(output, data)
        return build(space, depth, space.strides, self.data.dtype.itemsize)
