"""Random descriptors that are legal by construction.

Nothing here calls the rules, so that tests of the rules can use these descriptors.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Protocol

from dmlgather.directml import (
    BufferTensorDesc,
    DepthSpaceOrder,
    DepthToSpace1OperatorDesc,
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherNDOperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
    SliceOperatorDesc,
    SpaceToDepth1OperatorDesc,
)


class TensorMaker(Protocol):
    """A factory for the tensors of one descriptor. It chooses types, strides, flags, and sizes in bytes."""

    documented: bool
    """False if descriptors may have features that DirectML's documents do not describe: batch dimensions of GATHER,
    IndexDimensions equal to DimensionCount, and huge strides along dimensions of size 1."""

    def sizes(self, count: int, room: int = 24) -> list[int]:
        """Return `count` sizes with a product of roughly at most `room`."""
        ...

    def data(self, of: Sequence[int]) -> BufferTensorDesc:
        """Return an InputTensor of sizes `of`."""
        ...

    def indices(self, of: Sequence[int]) -> BufferTensorDesc:
        """Return an IndicesTensor of sizes `of`."""
        ...

    def output(self, of: Sequence[int]) -> BufferTensorDesc:
        """Return an OutputTensor of sizes `of`."""
        ...


def random_sizes(rng: random.Random, count: int, room: int, of: Sequence[int] = (1, 1, 2, 2, 3, 4, 5, 7)) -> list[int]:
    """Return `count` random sizes from `of` with a product of at most `room`. `of` contains 1."""
    sizes = [1] * count
    for axis in rng.sample(range(count), count):
        sizes[axis] = rng.choice([size for size in of if size * prod(sizes) <= room])
    return sizes


def _gather(rng: random.Random, tensors: TensorMaker, rank: int) -> GatherOperatorDesc:
    axis, count = rng.randrange(rank), rng.randint(0, max(rank - 1, 1) if tensors.documented else rank)
    data, indices = tensors.sizes(rank), tensors.sizes(rank, 8)
    indices[: rank - count] = [1] * (rank - count)
    # The result has count - 1 dimensions more than the output, so that many leading ones must be 1.
    surplus = max(count - 1, 0)
    data[: min(axis, surplus)] = [1] * min(axis, surplus)
    if surplus > axis:
        indices[rank - count : rank - count + surplus - axis] = [1] * (surplus - axis)
    start = next((dim for dim, size in enumerate(data) if size > 1), rank)
    if start < axis and count < rank and not tensors.documented and rng.random() < 0.6:
        batch = data[start : start + rng.randint(1, min(axis - start, rank - count))]
        indices[rank - count - len(batch) : rank - count] = batch
    gathered = [*data[:axis], *indices[rank - count :], *data[axis + 1 :]]
    output = [1] * (rank - len(gathered)) + gathered[max(len(gathered) - rank, 0) :]
    return GatherOperatorDesc(
        input_tensor=tensors.data(data),
        indices_tensor=tensors.indices(indices),
        output_tensor=tensors.output(output),
        axis=axis,
        index_dimensions=count,
    )


def _gather_elements(rng: random.Random, tensors: TensorMaker, rank: int) -> GatherElementsOperatorDesc:
    axis, data = rng.randrange(rank), tensors.sizes(rank)
    indices = list(data)
    indices[axis] = rng.randint(1, 6)
    return GatherElementsOperatorDesc(
        input_tensor=tensors.data(data),
        indices_tensor=tensors.indices(indices),
        output_tensor=tensors.output(indices),
        axis=axis,
    )


def _gather_nd_fields(rng: random.Random, tensors: TensorMaker, rank: int, batch: int) -> dict[str, Any]:
    while True:  # until the result has at most `rank` dimensions
        data_count, indices_count = rng.randint(batch + 1, rank), rng.randint(batch + 1, rank)
        components = rng.randint(1, data_count - batch)
        if indices_count - 1 + data_count - batch - components <= rank:
            break
    data, indices = tensors.sizes(data_count), tensors.sizes(indices_count, 8)
    indices[:batch], indices[-1] = data[:batch], components
    gathered = [*indices[:-1], *data[batch + components :]]
    return {
        "input_tensor": tensors.data([1] * (rank - data_count) + data),
        "indices_tensor": tensors.indices([1] * (rank - indices_count) + indices),
        "output_tensor": tensors.output([1] * (rank - len(gathered)) + gathered),
        "input_dimension_count": data_count,
        "indices_dimension_count": indices_count,
    }


def _gather_nd(rng: random.Random, tensors: TensorMaker, rank: int) -> GatherNDOperatorDesc:
    return GatherNDOperatorDesc(**_gather_nd_fields(rng, tensors, rank, batch=0))


def _gather_nd1(rng: random.Random, tensors: TensorMaker, rank: int) -> GatherND1OperatorDesc:
    batch = rng.randrange(rank)
    return GatherND1OperatorDesc(**_gather_nd_fields(rng, tensors, rank, batch), batch_dimension_count=batch)


def _slice(rng: random.Random, tensors: TensorMaker, rank: int) -> SliceOperatorDesc:
    output, data, offsets, steps = tensors.sizes(rank, 32), [1] * rank, [0] * rank, [1] * rank
    for axis, size in enumerate(output):
        small = prod(data) < 40
        offsets[axis] = rng.choice((0, 1, 3)) if small else 0
        steps[axis] = rng.choice((1, 1, 2, 3)) if size > 1 else rng.choice((1,) if tensors.documented else (1, 2**32 - 1))
        data[axis] = offsets[axis] + (size - 1) * steps[axis] + 1 + (rng.choice((0, 0, 1, 2)) if small else 0)
    return SliceOperatorDesc(
        input_tensor=tensors.data(data),
        output_tensor=tensors.output(output),
        dimension_count=rng.choice((None, rank)),
        offsets=offsets,
        sizes=output,
        strides=steps,
    )


def _slice1(rng: random.Random, tensors: TensorMaker, rank: int) -> Slice1OperatorDesc:
    window, output, data, offsets, steps = tensors.sizes(rank, 64), [1] * rank, [1] * rank, [0] * rank, [1] * rank
    for axis, size in enumerate(window):
        small = prod(data) < 40
        offsets[axis] = rng.choice((0, 1, 3)) if small else 0
        steps[axis] = rng.choice((1, -1, -1, 2, -2, 3) if tensors.documented else (1, -1, -1, 2, -2, 3, 2**31 - 1, -(2**31)))
        output[axis] = rng.randint(1, 1 + (size - 1) // abs(steps[axis]))
        data[axis] = offsets[axis] + size + (rng.choice((0, 0, 1, 2)) if small else 0)
    return Slice1OperatorDesc(
        input_tensor=tensors.data(data),
        output_tensor=tensors.output(output),
        dimension_count=rng.choice((None, rank)),
        input_window_offsets=offsets,
        input_window_sizes=window,
        input_window_strides=steps,
    )


def _block_fields(rng: random.Random, tensors: TensorMaker) -> tuple[list[int], list[int], dict[str, Any]]:
    """Return the sizes of the tensor with blocks in channels, of that with blocks in rows and columns, and the other fields."""
    block = rng.choice((1, 2, 2, 3, 4))
    batch, channels, height, width = tensors.sizes(4)
    order = rng.choice(list(DepthSpaceOrder))
    spelling = rng.choice((order, order.name, int(order), f"DML_DEPTH_SPACE_ORDER_{order.name}"))
    depth, space = [batch, channels * block**2, height, width], [batch, channels, height * block, width * block]
    return depth, space, {"block_size": block, "order": spelling}


def _depth_to_space1(rng: random.Random, tensors: TensorMaker, _: int) -> DepthToSpace1OperatorDesc:
    depth, space, fields = _block_fields(rng, tensors)
    return DepthToSpace1OperatorDesc(input_tensor=tensors.data(depth), output_tensor=tensors.output(space), **fields)


def _space_to_depth1(rng: random.Random, tensors: TensorMaker, _: int) -> SpaceToDepth1OperatorDesc:
    depth, space, fields = _block_fields(rng, tensors)
    return SpaceToDepth1OperatorDesc(input_tensor=tensors.data(space), output_tensor=tensors.output(depth), **fields)


MAKERS: Mapping[str, Callable[[random.Random, TensorMaker, int], OperatorDesc]] = {
    "GATHER": _gather,
    "GATHER_ELEMENTS": _gather_elements,
    "GATHER_ND": _gather_nd,
    "GATHER_ND1": _gather_nd1,
    "SLICE": _slice,
    "SLICE1": _slice1,
    "DEPTH_TO_SPACE1": _depth_to_space1,
    "SPACE_TO_DEPTH1": _space_to_depth1,
}
"""For each operator, a function that returns a random descriptor. Operators that need 4 dimensions ignore the number."""
