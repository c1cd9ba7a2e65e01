"""Random legal descriptors, legal by construction: the validator under test has no part in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from operator import mul
from typing import Any, NamedTuple

from dmlgather.directml import (
    BufferTensorDesc,
    DataType,
    DepthSpaceOrder,
    DepthToSpace1OperatorDesc,
    FeatureLevel,
    GatherElementsOperatorDesc,
    GatherND1OperatorDesc,
    GatherNDOperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
    SliceOperatorDesc,
    SpaceToDepth1OperatorDesc,
    TensorFlags,
)
from tests.directml.pages import PAGES

L = FeatureLevel
BLOCKS = ("DEPTH_TO_SPACE1", "SPACE_TO_DEPTH1")


class Described(NamedTuple):
    """A descriptor and a feature level at which it is legal."""

    desc: OperatorDesc
    level: FeatureLevel


def sizes(rng: random.Random, count: int, room: int = 24) -> list[int]:
    """`count` sizes whose product is at most `room`."""
    found = [1] * count
    for axis in rng.sample(range(count), count):
        found[axis] = rng.choice([size for size in (1, 1, 2, 2, 3, 4, 5, 7) if size * prod(found) <= room])
    return found


def strides(rng: random.Random, of: Sequence[int], is_output: bool) -> list[int] | None:
    """None, or strides that permute, pad, interleave and broadcast; those of an output give each element its own address."""
    kind = rng.choice(("packed", "packed", "nested", "nested", "free"))
    if kind == "packed":
        return None
    found, step = [0] * len(of), 1
    for axis in rng.sample(range(len(of)), len(of)):
        if of[axis] == 1:
            found[axis] = rng.choice((0, 0, step, rng.randrange(2**32)))
        elif kind == "free":
            found[axis] = rng.choice((0, 1, 2, 3, 5))
        else:
            found[axis] = step + rng.choice((0, 0, 0, 1, 2) if step < 1000 else (0,))
            step += found[axis] * (of[axis] - 1)
    addresses = [sum(map(mul, c, found)) for c in product(*map(range, of))]
    return None if is_output and len(set(addresses)) < len(addresses) else found


def tensor(rng: random.Random, data_type: str, of: Sequence[int], is_output: bool = False) -> BufferTensorDesc:
    """A tensor with the given sizes, and everything else at random."""
    bare = BufferTensorDesc(data_type=data_type, sizes=of, strides=strides(rng, of, is_output))
    width = DataType[data_type].bytes
    span = 1 + sum((size - 1) * step for size, step in zip(bare.sizes, bare.strides or _packed(of), strict=True))
    minimum = (span * width + 3) // 4 * 4
    return BufferTensorDesc(
        data_type=rng.choice((data_type, f"DML_TENSOR_DATA_TYPE_{data_type}", int(DataType[data_type]))),
        flags=TensorFlags.OWNED_BY_DML if not is_output and rng.random() < 0.05 else TensorFlags.NONE,
        dimension_count=rng.choice((None, len(of))),
        sizes=of,
        strides=bare.strides,
        total_tensor_size_in_bytes=rng.choice((None, minimum, minimum + 4 * rng.randrange(20), minimum + rng.randrange(9))),
        guaranteed_base_offset_alignment=rng.choice((0, 0, 16, 256, width, 2**31)),
    )


def _packed(of: Sequence[int]) -> list[int]:
    return [prod(of[axis + 1 :]) for axis in range(len(of))]


class _Types:
    """The data types of one descriptor."""

    def __init__(self, rng: random.Random, operator: str, level: FeatureLevel) -> None:
        self.rng = rng
        taken = PAGES[operator].at(level)
        self.of_data = rng.choice(taken.data)
        self.of_indices = rng.choice(taken.indices or ["UINT32"])

    def data(self, of: Sequence[int]) -> BufferTensorDesc:
        return tensor(self.rng, self.of_data, of)

    def indices(self, of: Sequence[int]) -> BufferTensorDesc:
        return tensor(self.rng, self.of_indices, of)

    def output(self, of: Sequence[int]) -> BufferTensorDesc:
        return tensor(self.rng, self.of_data, of, is_output=True)


def _gather(rng: random.Random, types: _Types, rank: int) -> GatherOperatorDesc:
    axis, real = rng.randrange(rank), rng.randint(0, rank)
    data, indices = sizes(rng, rank), sizes(rng, rank, 8)
    indices[: rank - real] = [1] * (rank - real)
    surplus = max(real - 1, 0)  # the first so many gathered dimensions are cropped and must be 1
    data[: min(axis, surplus)] = [1] * min(axis, surplus)
    if surplus > axis:
        indices[rank - real : rank - real + surplus - axis] = [1] * (surplus - axis)
    start = next((dim for dim, size in enumerate(data) if size > 1), rank)
    if start < axis and real < rank and rng.random() < 0.6:
        batch = data[start : start + rng.randint(1, min(axis - start, rank - real))]
        indices[rank - real - len(batch) : rank - real] = batch
    gathered = [*data[:axis], *indices[rank - real :], *data[axis + 1 :]]
    output = [1] * (rank - len(gathered)) + gathered[max(len(gathered) - rank, 0) :]
    return GatherOperatorDesc(
        input_tensor=types.data(data),
        indices_tensor=types.indices(indices),
        output_tensor=types.output(output),
        axis=axis,
        index_dimensions=real,
    )


def _gather_elements(rng: random.Random, types: _Types, rank: int) -> GatherElementsOperatorDesc:
    axis, data = rng.randrange(rank), sizes(rng, rank)
    indices = list(data)
    indices[axis] = rng.randint(1, 6)
    return GatherElementsOperatorDesc(
        input_tensor=types.data(data),
        indices_tensor=types.indices(indices),
        output_tensor=types.output(indices),
        axis=axis,
    )


def _gather_nd_fields(rng: random.Random, types: _Types, rank: int, batch: int) -> dict[str, Any]:
    while True:  # more than `rank` gathered dimensions do not fit
        of_data, of_indices = rng.randint(batch + 1, rank), rng.randint(batch + 1, rank)
        components = rng.randint(1, of_data - batch)
        if of_indices - 1 + of_data - batch - components <= rank:
            break
    data, indices = sizes(rng, of_data), sizes(rng, of_indices, 8)
    indices[:batch], indices[-1] = data[:batch], components
    gathered = [*indices[:-1], *data[batch + components :]]
    return {
        "input_tensor": types.data([1] * (rank - of_data) + data),
        "indices_tensor": types.indices([1] * (rank - of_indices) + indices),
        "output_tensor": types.output([1] * (rank - len(gathered)) + gathered),
        "input_dimension_count": of_data,
        "indices_dimension_count": of_indices,
    }


def _gather_nd(rng: random.Random, types: _Types, rank: int) -> GatherNDOperatorDesc:
    return GatherNDOperatorDesc(**_gather_nd_fields(rng, types, rank, batch=0))


def _gather_nd1(rng: random.Random, types: _Types, rank: int) -> GatherND1OperatorDesc:
    batch = rng.randrange(rank)
    return GatherND1OperatorDesc(**_gather_nd_fields(rng, types, rank, batch), batch_dimension_count=batch)


def _slice(rng: random.Random, types: _Types, rank: int) -> SliceOperatorDesc:
    output, data, offsets, steps = sizes(rng, rank, 32), [1] * rank, [0] * rank, [1] * rank
    for axis, size in enumerate(output):
        small = prod(data) < 40
        offsets[axis] = rng.choice((0, 1, 3)) if small else 0
        steps[axis] = rng.choice((1, 1, 2, 3)) if size > 1 else rng.choice((1, 2**32 - 1))
        data[axis] = offsets[axis] + (size - 1) * steps[axis] + 1 + (rng.choice((0, 0, 1, 2)) if small else 0)
    return SliceOperatorDesc(
        input_tensor=types.data(data),
        output_tensor=types.output(output),
        dimension_count=rng.choice((None, rank)),
        offsets=offsets,
        sizes=output,
        strides=steps,
    )


def _slice1(rng: random.Random, types: _Types, rank: int) -> Slice1OperatorDesc:
    window, output, data, offsets, steps = sizes(rng, rank, 64), [1] * rank, [1] * rank, [0] * rank, [1] * rank
    for axis, size in enumerate(window):
        small = prod(data) < 40
        offsets[axis] = rng.choice((0, 1, 3)) if small else 0
        steps[axis] = rng.choice((1, -1, -1, 2, -2, 3, 2**31 - 1, -(2**31)))
        output[axis] = rng.randint(1, 1 + (size - 1) // abs(steps[axis]))
        data[axis] = offsets[axis] + size + (rng.choice((0, 0, 1, 2)) if small else 0)
    return Slice1OperatorDesc(
        input_tensor=types.data(data),
        output_tensor=types.output(output),
        dimension_count=rng.choice((None, rank)),
        input_window_offsets=offsets,
        input_window_sizes=window,
        input_window_strides=steps,
    )


def _block_fields(rng: random.Random) -> tuple[list[int], list[int], dict[str, Any]]:
    """Sizes with blocks in channels, the same with blocks in rows and columns, and the other fields."""
    block = rng.choice((1, 2, 2, 3, 4))
    batch, channels, height, width = sizes(rng, 4, 24)
    order = rng.choice(list(DepthSpaceOrder))
    spelt = rng.choice((order, order.name, int(order), f"DML_DEPTH_SPACE_ORDER_{order.name}"))
    depth, space = [batch, channels * block**2, height, width], [batch, channels, height * block, width * block]
    return depth, space, {"block_size": block, "order": spelt}


def _depth_to_space1(rng: random.Random, types: _Types, rank: int) -> DepthToSpace1OperatorDesc:
    depth, space, fields = _block_fields(rng)
    return DepthToSpace1OperatorDesc(input_tensor=types.data(depth), output_tensor=types.output(space), **fields)


def _space_to_depth1(rng: random.Random, types: _Types, rank: int) -> SpaceToDepth1OperatorDesc:
    depth, space, fields = _block_fields(rng)
    return SpaceToDepth1OperatorDesc(input_tensor=types.data(space), output_tensor=types.output(depth), **fields)


_MAKERS: dict[str, Callable[[random.Random, _Types, int], OperatorDesc]] = {
    "GATHER": _gather,
    "GATHER_ELEMENTS": _gather_elements,
    "GATHER_ND": _gather_nd,
    "GATHER_ND1": _gather_nd1,
    "SLICE": _slice,
    "SLICE1": _slice1,
    "DEPTH_TO_SPACE1": _depth_to_space1,
    "SPACE_TO_DEPTH1": _space_to_depth1,
}


def make(
    rng: random.Random, operator: str | None = None, level: FeatureLevel | None = None, rank: int | None = None
) -> Described:
    """A random legal descriptor. A stated `rank` may be one that the level does not take; all else is legal there. An operator
    of one rank keeps it.
    """
    operator = operator or rng.choice(list(_MAKERS))
    level = level or rng.choice([each for each in L if each >= PAGES[operator].introduced])
    rank = rank or rng.choice(PAGES[operator].at(level).counts)
    return Described(_MAKERS[operator](rng, _Types(rng, operator, level), rank), level)
