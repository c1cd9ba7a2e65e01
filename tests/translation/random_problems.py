"""Random problems of every dialect, and inputs for them, from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmlgather.dialects.advanced_indexing import indexing
from dmlgather.dialects.problem import Problem, TensorType
from dmlgather.dialects.views import ExpandView, ReshapeView, SliceView, StridedView, TransposeView
from dmlgather.dialects.windows import Window
from dmlgather.lax.problems.gather import GatherDimensionNumbers, LaxGather
from dmlgather.onnx.problems.depth_space import DepthToSpace, SpaceToDepth
from dmlgather.onnx.problems.gather import Gather, GatherElements, GatherND
from dmlgather.onnx.problems.slice import Slice
from dmlgather.openvino.problems.gather import OpenVINOGather, OpenVINOGatherElements, OpenVINOGatherND
from dmlgather.openvino.problems.slices import OpenVINOSlice, OpenVINOStridedSlice
from dmlgather.plan import OutOfBounds
from dmlgather.torch.problems.gathers import TorchEmbedding, TorchGather, TorchIndexSelect, TorchTake, TorchTakeAlongDim
from dmlgather.torch.problems.views import PixelShuffle, PixelUnshuffle

Array = NDArray[Any]

TYPES = ("float32", "int8", "uint16", "int64", "bool", "float64", "float16", "uint64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


class Maker:
    """Makes one problem."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.shape = self.sizes(rng.randint(1, 4))
        self.dtype = np.dtype(rng.choice(TYPES))
        self.data = TensorType(self.shape, self.dtype)
        self.index_type = np.dtype(rng.choice(("int32", "int64")))
        self.any_index_type = np.dtype(rng.choice(INTEGERS))

    def sizes(self, rank: int, least: int = 0) -> tuple[int, ...]:
        """Sizes of 1 to 5, and seldom 0."""
        return tuple(0 if least == 0 and self.rng.random() < 0.02 else self.rng.randint(1, 5) for _ in range(rank))

    def indices(self, shape: Sequence[int], dtype: np.dtype[Any] | None = None) -> TensorType:
        return TensorType(tuple(shape), dtype or self.index_type)

    def gather(self) -> Problem:
        indices = self.indices(self.sizes(self.rng.randint(0, 2)))
        return Gather(self.data, indices, self.rng.randrange(self.data.rank), self.rng.choice((1, 11, 13, 17)))

    def gather_elements(self) -> Problem:
        axis = self.rng.randrange(self.data.rank)
        smaller = [self.rng.randint(min(1, size), size) for size in self.shape]
        smaller[axis] = self.rng.randint(0, 5)
        if self.rng.random() < 0.5:
            return GatherElements(self.data, self.indices(smaller), axis, self.rng.choice((11, 13)))
        whole = [smaller[axis] if at == axis else size for at, size in enumerate(self.shape)]
        return OpenVINOGatherElements(self.data, self.indices(whole), axis)

    def gather_nd(self) -> Problem:
        batch = self.rng.randrange(self.data.rank)
        components = self.rng.randint(0, self.data.rank - batch)
        shape = (*self.shape[:batch], *self.sizes(self.rng.randint(0 if batch < self.data.rank else 1, 2)), components)
        if self.rng.random() < 0.5:
            return GatherND(self.data, self.indices(shape, np.dtype(np.int64)), batch, 13)
        return OpenVINOGatherND(self.data, self.indices(shape, self.any_index_type), batch, self.rng.choice((5, 8)))

    def openvino_gather(self) -> Problem:
        axis, version = self.rng.randrange(self.data.rank), self.rng.choice((1, 7, 8))
        batch = 0 if version == 1 else self.rng.randint(0, axis)
        shape = (*self.shape[:batch], *self.sizes(self.rng.randint(0, 2)))
        return OpenVINOGather(self.data, self.indices(shape, self.any_index_type), axis, batch, version)

    def bounds(self) -> list[tuple[int, ...]]:
        """Starts, ends, axes and steps."""
        axes = self.rng.sample(range(self.data.rank), self.rng.randint(0, self.data.rank))
        some = range(-7, 8)
        return [*(tuple(self.rng.choice(some) for _ in axes) for _ in range(2)), tuple(axes), self._steps(len(axes))]

    def _steps(self, count: int) -> tuple[int, ...]:
        return tuple(self.rng.choice((1, 1, 2, 3, -1, -2)) for _ in range(count))

    def slice(self) -> Problem:
        starts, ends, axes, steps = self.bounds()
        if self.rng.random() < 0.5:
            return Slice(self.data, starts, ends, axes, steps, 13)
        return OpenVINOSlice(self.data, starts, ends, steps, axes)

    def strided_slice(self) -> Problem:
        starts, ends, _, steps = self.bounds()
        first, last, new, shrink, ellipsis = (tuple(self.rng.randint(0, 1) for _ in starts) for _ in range(5))
        return OpenVINOStridedSlice(self.data, starts, ends, steps, first, last, new, shrink, ellipsis)

    def blocks(self) -> Problem:
        block, (channels, height, width) = self.rng.randint(1, 3), self.sizes(3, least=1)
        if self.rng.random() < 0.5:
            shape = (self.rng.randint(1, 2), channels * block * block, height, width)
            return DepthToSpace(TensorType(shape, self.dtype), block, self.rng.choice(("DCR", "CRD")), 13)
        return SpaceToDepth(TensorType((2, channels, height * block, width * block), self.dtype), block, "DCR", 13)

    def lax_gather(self) -> Problem:
        rank = self.data.rank
        order = self.rng.sample(range(rank), rank)
        batch = sorted(order[: self.rng.randint(0, 1)])
        mapped = [axis for axis in order if axis not in batch][: self.rng.randint(0, rank)]
        sizes = [1 if axis in batch else self.rng.randint(min(1, size), size) for axis, size in enumerate(self.shape)]
        collapsed = [axis for axis in range(rank) if axis not in batch and sizes[axis] == 1 and self.rng.random() < 0.6]
        moved = [*(self.shape[axis] for axis in batch), *self.sizes(self.rng.randint(0, 2))]
        places = self.rng.sample(range(len(moved)), len(moved))
        windows = rank - len(collapsed) - len(batch)
        offsets = sorted(self.rng.sample(range(windows + len(moved)), windows))
        along = tuple(places.index(number) for number in range(len(batch)))
        numbers = GatherDimensionNumbers(tuple(offsets), tuple(collapsed), tuple(mapped), tuple(batch), along)
        policy = self.rng.choice((OutOfBounds.CLAMP, OutOfBounds.FILL, OutOfBounds.PROMISE))
        fill = self.rng.randbytes(self.dtype.itemsize) if policy is OutOfBounds.FILL else b""
        if self.dtype.kind in "bf":  # a bool has two values, and JAX makes NaNs one
            fill = bytes(len(fill) - 1) + b"\x01" if fill else b""
        shape = (*(moved[place] for place in places), len(mapped))
        return LaxGather(self.data, self.indices(shape, self.any_index_type), numbers, tuple(sizes), policy, fill)

    def view(self) -> Problem:
        kind = self.rng.randrange(5)
        if kind == 0:
            return ReshapeView(self.data, (prod(self.shape), 1))
        if kind == 1:
            return TransposeView(self.data, tuple(self.rng.sample(range(self.data.rank), self.data.rank)))
        if kind == 2:
            return ExpandView(self.data, (self.rng.randint(1, 3), *(self.rng.randint(1, 4) if n == 1 else n for n in self.shape)))
        if kind == 3:
            return SliceView(self.data, tuple(map(self._window, self.shape)))
        shape = self.sizes(self.rng.randint(0, 3), least=1)
        strides = tuple(self.rng.randint(-6, 6) for _ in shape)
        first = -sum(min(0, step * (size - 1)) for size, step in zip(shape, strides, strict=True))
        return StridedView(self.data, shape, strides, first + self.rng.randint(0, 2))

    def _window(self, size: int) -> Window:
        if not size:
            return Window.whole(0)
        (step,) = self._steps(1)
        count = self.rng.randint(0, (size - 1) // abs(step) + 1)
        span = max(count - 1, 0) * abs(step)
        first = self.rng.randint(0, size - 1 - span)
        return Window(first + span if step < 0 else first, count, step)

    def expression(self) -> Problem:
        entries: list[Any] = []
        positions = self.sizes(self.rng.randint(0, 2), least=1)
        for size in self.shape:
            kind = self.rng.randrange(5)
            if kind == 0 and size:
                entries.append(self.rng.randrange(-size, size))
            elif kind == 1:
                entries.append(slice(None, None, self.rng.choice((1, 2, -1))))
            elif kind == 2:
                entries += [None, slice(self.rng.randint(-3, 3), None)]
            else:
                entries.append(self.indices([self.rng.choice((1, each)) for each in positions]))
        return indexing(self.data, entries)

    def torch_gather(self) -> Problem:
        axis, kind = self.rng.randrange(self.data.rank), self.rng.randrange(5)
        long = np.dtype(np.int64)
        if kind == 0:
            return TorchIndexSelect(self.data, self.indices(self.sizes(1)), axis)
        if kind == 1:
            smaller = [self.rng.randint(min(1, size), size) for size in self.shape]
            return TorchGather(self.data, self.indices(smaller), axis)
        if kind == 2:
            shape = [self.rng.choice((1, size)) for size in self.shape]
            shape[axis] = self.rng.randint(1, 4)
            return TorchTakeAlongDim(self.data, self.indices(shape, long), axis)
        if kind == 3:
            weight = TensorType(self.sizes(2, least=1), self.dtype)
            return TorchEmbedding(weight, self.indices(self.sizes(2, least=1)))
        return TorchTake(TensorType(self.sizes(1, least=1), self.dtype), self.indices(self.sizes(2), long))

    def torch_pixels(self) -> Problem:
        factor, (channels, height, width) = self.rng.randint(1, 3), self.sizes(3, least=1)
        batch = self.sizes(self.rng.randint(0, 2), least=1)
        if self.rng.random() < 0.5:
            return PixelShuffle(TensorType((*batch, channels * factor**2, height, width), self.dtype), factor)
        return PixelUnshuffle(TensorType((*batch, channels, height * factor, width * factor), self.dtype), factor)


KINDS: tuple[Callable[[Maker], Problem], ...] = (
    Maker.gather,
    Maker.gather,
    Maker.gather_elements,
    Maker.gather_nd,
    Maker.openvino_gather,
    Maker.openvino_gather,
    Maker.slice,
    Maker.strided_slice,
    Maker.blocks,
    Maker.lax_gather,
    Maker.lax_gather,
    Maker.view,
    Maker.expression,
    Maker.torch_gather,
    Maker.torch_pixels,
)


def random_problem(seed: int) -> Problem:
    """The problem of a seed."""
    rng = random.Random(seed)
    while True:
        with suppress(TypeError, ValueError, IndexError, RuntimeError):  # what its dialect refuses
            return rng.choice(KINDS)(Maker(rng))


def random_inputs(problem: Problem, seed: int, *, valid: bool) -> list[Array] | None:
    """Arrays for a problem: random bits, and indices at the edges of what is in range.

    valid: no index is out of range; None where there is no such index. Else there are also the ends of the index type, and what
    has more than 32 bits.
    """
    rng = np.random.default_rng(seed)
    data = problem.data
    bits = rng.integers(0, 2 if data.dtype.kind == "b" else 256, prod(data.shape) * data.dtype.itemsize, np.uint8)
    arrays: list[Array] = [bits.view(data.dtype).reshape(data.shape)]
    if data.dtype == np.float16:  # some libraries make every NaN a quiet one
        arrays[0] = np.where(np.isnan(arrays[0]), np.float16(1), arrays[0])
    if len(problem.inputs) == 1:
        return arrays
    tensor, lookups = problem.tensors[1], problem.plan().lookups
    info = np.iinfo(tensor.dtype)
    limits, wraps = [lookup.limit for lookup in lookups] or [1], [lookup.wrap for lookup in lookups] or [0]
    low, high = (-min(wraps), min(limits) - 1) if valid else (-max(limits) - 2, max(limits) + 1)
    if valid and high < 0:
        return None
    edges = {low, low + 1, -1, 0, 1, high - 1, high}
    usable = [value for value in edges if max(low, info.min) <= value <= min(high, info.max)]
    found = rng.choice(np.array(usable, tensor.dtype), tensor.shape).astype(tensor.dtype)
    if not valid and found.size:
        place = np.unravel_index(rng.integers(found.size), found.shape)
        found[place] = rng.choice(np.array([each for each in (info.min, info.max, 2**32 + 1) if each <= info.max], tensor.dtype))
    return [*arrays, np.asarray(found)]
