"""Descriptors that break exactly one rule between an operator's fields, by construction."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from dmlgather.directml import (
    DepthToSpace1OperatorDesc,
    FeatureLevel,
    GatherND1OperatorDesc,
    GatherNDOperatorDesc,
    GatherOperatorDesc,
    OperatorDesc,
    Slice1OperatorDesc,
    SliceOperatorDesc,
)
from tests.directml.changes import array_fields, legal, resized, with_entry, with_tensor
from tests.directml.making import BLOCKS, Described, sizes

L = FeatureLevel
ND = ("GATHER_ND", "GATHER_ND1")
SLICES = ("SLICE", "SLICE1")
Breaker = Callable[[random.Random], Described]


def _set(operators: tuple[str, ...], field: str, values: Callable[[Any], list[int]]) -> Breaker:
    """A breaker that sets one scalar field to one of `values(desc)`."""

    def breaker(rng: random.Random) -> Described:
        desc, level = legal(rng, *operators)
        return Described(desc.model_copy(update={field: rng.choice(values(desc))}), level)

    return breaker


def _beyond(desc: OperatorDesc) -> list[int]:
    rank = desc.tensor("input_tensor").rank
    return [rank + 1, rank + 2, 2**32 - 1]


def _output_size(*operators: str) -> Breaker:
    def breaker(rng: random.Random) -> Described:
        desc, level = legal(rng, *operators)
        found = desc.tensor("output_tensor").sizes
        axis = rng.randrange(len(found))
        return Described(resized(desc, "output_tensor", axis, rng.choice([found[axis] + 1, found[axis] + 2])), level)

    return breaker


def _gather_too_wide(rng: random.Random) -> Described:
    desc, level = legal(rng, "GATHER", at_least=L.LEVEL_3_0)
    assert isinstance(desc, GatherOperatorDesc)
    while True:
        rank = rng.randint(2, 8)
        data, indices = sizes(rng, rank), sizes(rng, rank, 8)
        axis, real = rng.randrange(rank), rng.randint(2, rank)
        if any(size > 1 for size in [*data[:axis], *indices[rank - real :], *data[axis + 1 :]][: real - 1]):
            break
    for field, of in (("input_tensor", data), ("output_tensor", data), ("indices_tensor", indices)):
        desc = with_tensor(desc, field, sizes=of)
    indices[: rank - real] = [1] * (rank - real)
    desc = with_tensor(desc, "indices_tensor", sizes=indices)
    return Described(desc.model_copy(update={"axis": axis, "index_dimensions": real}), level)


def _leading_index(rng: random.Random) -> Described:
    while True:
        desc, level = legal(rng, "GATHER")
        assert isinstance(desc, GatherOperatorDesc)
        data, indices = desc.input_tensor.sizes, desc.indices_tensor.sizes
        leading = len(indices) - desc.index_dimensions
        if not leading or any(size > 1 for size in indices[:leading]):
            continue
        start = next((axis for axis, size in enumerate(data) if size > 1), len(data))
        refused = [2, 3, 5] if start >= desc.axis else [size for size in (2, 3, 5) if size != data[start]]
        return Described(resized(desc, "indices_tensor", leading - 1, rng.choice(refused)), level)


def _elements_indices(rng: random.Random) -> Described:
    while True:
        desc, level = legal(rng, "GATHER_ELEMENTS")
        rank = desc.tensor("input_tensor").rank
        axes = [axis for axis in range(rank) if axis != getattr(desc, "axis", None)]
        if axes:
            break
    axis = rng.choice(axes)
    size = rng.choice([size for size in (1, 2, 3, 9) if size != desc.tensor("input_tensor").sizes[axis]])
    return Described(resized(resized(desc, "indices_tensor", axis, size), "output_tensor", axis, size), level)


def _batch(desc: OperatorDesc) -> list[int]:
    assert isinstance(desc, GatherND1OperatorDesc)
    least = min(desc.input_dimension_count, desc.indices_dimension_count)
    return [least, least + 1, 2**32 - 1]


def _tuple(rng: random.Random) -> Described:
    desc, level = legal(rng, *ND)
    assert isinstance(desc, GatherNDOperatorDesc)
    most = desc.input_dimension_count - getattr(desc, "batch_dimension_count", 0)
    return Described(resized(desc, "indices_tensor", desc.indices_tensor.rank - 1, rng.choice((most + 1, 9))), level)


def _batch_sizes(rng: random.Random) -> Described:
    while True:
        desc, level = legal(rng, "GATHER_ND1")
        assert isinstance(desc, GatherND1OperatorDesc)
        if desc.batch_dimension_count:
            break
    step, rank = rng.randrange(desc.batch_dimension_count), desc.input_tensor.rank
    behind = desc.input_dimension_count - desc.batch_dimension_count - desc.indices_tensor.sizes[-1]
    size = rng.choice([size for size in (1, 2, 3) if size != desc.input_tensor.sizes[rank - desc.input_dimension_count + step]])
    desc = resized(desc, "indices_tensor", rank - desc.indices_dimension_count + step, size)
    return Described(resized(desc, "output_tensor", rank - behind - desc.indices_dimension_count + 1 + step, size), level)


def _left_of_counts(rng: random.Random) -> Described:
    while True:
        desc, level = legal(rng, *ND)
        assert isinstance(desc, GatherNDOperatorDesc)
        field, count = rng.choice(
            (("input_tensor", desc.input_dimension_count), ("indices_tensor", desc.indices_dimension_count))
        )
        if count < desc.tensor(field).rank:
            return Described(resized(desc, field, rng.randrange(desc.tensor(field).rank - count), rng.randint(2, 5)), level)


def _nd_too_wide(rng: random.Random) -> Described:
    desc, level = legal(rng, *ND, at_least=L.LEVEL_3_0)
    while True:
        rank = rng.randint(3, 8)
        of_data, of_indices = rng.randint(1, rank), rng.randint(1, rank)
        components = rng.randint(1, of_data)
        if of_indices - 1 + of_data - components > rank:
            break
    data, indices = [1] * (rank - of_data) + sizes(rng, of_data), [1] * (rank - of_indices) + sizes(rng, of_indices, 8)
    indices[-1] = components
    for field, of in (("input_tensor", data), ("output_tensor", data), ("indices_tensor", indices)):
        desc = with_tensor(desc, field, sizes=of)
    counts = {"input_dimension_count": of_data, "indices_dimension_count": of_indices}
    if isinstance(desc, GatherND1OperatorDesc):
        counts["batch_dimension_count"] = 0
    return Described(desc.model_copy(update=counts), level)


def _array_length(rng: random.Random) -> Described:
    desc, level = legal(rng, *SLICES)
    field = rng.choice(array_fields(desc))
    found = getattr(desc, field)
    return Described(desc.model_copy(update={field: rng.choice((found[:-1], (*found, 1), (), (1,) * 1000))}), level)


def _slice_count(rng: random.Random) -> Described:
    desc, level = legal(rng, *SLICES)
    rank = desc.tensor("input_tensor").rank
    count = rng.choice((rank - 1, rank + 1, 20))
    update: dict[str, Any] = {field: ((*getattr(desc, field), *(1,) * 20)[:count]) for field in array_fields(desc)}
    return Described(desc.model_copy(update={**update, "dimension_count": count}), level)


def _zero_stride(rng: random.Random) -> Described:
    desc, level = legal(rng, *SLICES)
    return Described(with_entry(desc, array_fields(desc)[-1], rng.randrange(desc.tensor("input_tensor").rank), 0), level)


def _reads_outside(rng: random.Random) -> Described:
    while True:
        desc, level = legal(rng, "SLICE")
        assert isinstance(desc, SliceOperatorDesc)
        axis = rng.randrange(desc.input_tensor.rank)
        limit = desc.input_tensor.sizes[axis]
        if rng.random() < 0.5:
            return Described(with_entry(desc, "offsets", axis, rng.choice((limit, limit + 1, 2**32 - 1))), level)
        if desc.sizes[axis] > 1:
            return Described(with_entry(desc, "strides", axis, rng.choice((limit, limit + 3, 2**32 - 1))), level)


def _empty_window(rng: random.Random) -> Described:
    desc, level = legal(rng, "SLICE1")
    return Described(with_entry(desc, "input_window_sizes", rng.randrange(desc.tensor("input_tensor").rank), 0), level)


def _window_outside(rng: random.Random) -> Described:
    desc, level = legal(rng, "SLICE1")
    assert isinstance(desc, Slice1OperatorDesc)
    axis = rng.randrange(desc.input_tensor.rank)
    limit, size = desc.input_tensor.sizes[axis], desc.input_window_sizes[axis]
    return Described(with_entry(desc, "input_window_offsets", axis, rng.choice((limit - size + 1, limit, 2**32 - 1))), level)


def _window_yields_less(rng: random.Random) -> Described:
    desc, level = legal(rng, "SLICE1")
    assert isinstance(desc, Slice1OperatorDesc)
    axis = rng.randrange(desc.input_tensor.rank)
    most = 1 + (desc.input_window_sizes[axis] - 1) // abs(desc.input_window_strides[axis])
    return Described(resized(desc, "output_tensor", axis, most + rng.randint(1, 3)), level)


def _split_block(rng: random.Random) -> Described:
    while True:
        desc, level = legal(rng, *BLOCKS)
        block = getattr(desc, "block_size")  # noqa: B009 # of two classes
        if block > 1:
            break
    axis = 1 if isinstance(desc, DepthToSpace1OperatorDesc) else rng.choice((2, 3))
    unit = block**2 if axis == 1 else block
    found = desc.tensor("input_tensor").sizes[axis]
    return Described(resized(desc, "input_tensor", axis, found + rng.choice((-1, 1, unit - 1, unit + 1))), level)


BREAKERS: dict[str, Breaker] = {
    "DML301": _set(("GATHER",), "index_dimensions", _beyond),
    "DML302": _output_size("GATHER"),
    "DML303": _gather_too_wide,
    "DML304": _leading_index,
    "DML401": _elements_indices,
    "DML402": _output_size("GATHER_ELEMENTS"),
    "DML501": _set(ND, "input_dimension_count", lambda desc: [0, *_beyond(desc)]),
    "DML502": _set(ND, "indices_dimension_count", lambda desc: [0, *_beyond(desc)]),
    "DML503": _set(("GATHER_ND1",), "batch_dimension_count", _batch),
    "DML504": _tuple,
    "DML505": _batch_sizes,
    "DML506": _left_of_counts,
    "DML507": _output_size(*ND),
    "DML508": _nd_too_wide,
    "DML601": _array_length,
    "DML602": _slice_count,
    "DML603": _zero_stride,
    "DML604": _output_size("SLICE"),
    "DML605": _reads_outside,
    "DML606": _empty_window,
    "DML607": _window_outside,
    "DML608": _window_yields_less,
    "DML901": _set(BLOCKS, "block_size", lambda desc: [0]),
    "DML902": _split_block,
    "DML903": _output_size(*BLOCKS),
}
