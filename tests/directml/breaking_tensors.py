"""Descriptors that break exactly one rule of DML1xx or DML2xx, by construction."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from dmlgather.directml import BufferTensorDesc, FeatureLevel, SliceOperatorDesc, TensorFlags
from tests.directml.changes import legal, prepended, with_tensor
from tests.directml.making import Described, make
from tests.directml.pages import EVERY_TYPE, PAGES

L = FeatureLevel
GATHERS = tuple(name for name, page in PAGES.items() if "IndicesTensor" in page.fields)
LATER = tuple(name for name, page in PAGES.items() if page.introduced > L.LEVEL_1_0)
OF_ANY_RANK = tuple(name for name, page in PAGES.items() if len(page.at(L.LEVEL_3_0).counts) > 1)
ALL_TYPES = next(level for level in L if all(set(page.at(level).data) == set(EVERY_TYPE) for page in PAGES.values()))
"""The level from which on every operator takes every data type."""
Breaker = Callable[[random.Random], Described]


def _of_some_tensor(change: Callable[[random.Random, BufferTensorDesc], dict[str, Any] | None]) -> Breaker:
    """A breaker that changes one tensor; `change` says None where a tensor does not lend itself."""

    def breaker(rng: random.Random) -> Described:
        while True:
            desc, level = legal(rng)
            field = rng.choice(desc.operator.tensors)
            changes = change(rng, desc.tensor(field))
            if changes is not None:
                return Described(with_tensor(desc, field, **changes), level)

    return breaker


def _stated_count(rng: random.Random, tensor: BufferTensorDesc) -> dict[str, Any]:
    return {"dimension_count": rng.choice([count for count in (0, 1, 4, 8, 9, 2**32 - 1) if count != tensor.rank])}


def _zero_size(rng: random.Random, tensor: BufferTensorDesc) -> dict[str, Any]:
    axis = rng.randrange(tensor.rank)
    return {"sizes": (*tensor.sizes[:axis], 0, *tensor.sizes[axis + 1 :])}


def _strides_length(rng: random.Random, tensor: BufferTensorDesc) -> dict[str, Any]:
    count = rng.choice([count for count in (0, 1, 3, 5, 9, 1000) if count != tensor.rank])
    return {"strides": [rng.randrange(3) for _ in range(count)]}


def _total(rng: random.Random, tensor: BufferTensorDesc) -> dict[str, Any]:
    return {"total_tensor_size_in_bytes": tensor.minimum_bytes - rng.choice((1, 2, 3, 4, tensor.minimum_bytes))}


def _span(rng: random.Random, tensor: BufferTensorDesc) -> dict[str, Any] | None:
    long = [axis for axis, size in enumerate(tensor.sizes) if size > 1]
    if not long:
        return None
    strides = [2**32 - 1 if axis == long[0] else rng.randrange(2**32) for axis in range(tensor.rank)]
    return {"strides": strides, "total_tensor_size_in_bytes": None}


def _alignment(rng: random.Random, tensor: BufferTensorDesc) -> dict[str, Any]:
    odd = [value for value in (1, 2, 4) if value < tensor.data_type.bytes]
    return {"guaranteed_base_offset_alignment": rng.choice([*odd, 3, 12, 24, 2**31 + 1, 2**32 - 1])}


def _of_output(change: Callable[[random.Random, BufferTensorDesc], dict[str, Any] | None]) -> Breaker:
    def breaker(rng: random.Random) -> Described:
        while True:
            desc, level = legal(rng)
            changes = change(rng, desc.tensor("output_tensor"))
            if changes is not None:
                return Described(with_tensor(desc, "output_tensor", **changes), level)

    return breaker


def _collision(rng: random.Random, tensor: BufferTensorDesc) -> dict[str, Any] | None:
    long = [axis for axis, size in enumerate(tensor.sizes) if size > 1]
    strides = list(tensor.element_strides)
    if len(long) > 1 and rng.random() < 0.6:
        one, other = rng.sample(long, 2)
        strides[one] = strides[other] = rng.randint(1, 9)
    elif long:
        strides[rng.choice(long)] = 0
    else:
        return None
    return {"strides": strides, "total_tensor_size_in_bytes": None}


def _too_many_dimensions(rng: random.Random) -> Described:
    desc, level = legal(rng, at_least=L.LEVEL_3_0)
    if rng.random() < 0.2:
        return Described(with_tensor(desc, rng.choice(desc.operator.tensors), sizes=()), level)
    return Described(prepended(desc, 9 - desc.tensor("input_tensor").rank + rng.randrange(3)), level)


def _no_bytes(rng: random.Random) -> Described:
    desc, level = legal(rng)
    kind = rng.choice(("UNKNOWN", "UINT4", "INT4"))
    for field in rng.sample(desc.operator.tensors, rng.randint(1, len(desc.operator.tensors))):
        desc = with_tensor(desc, field, data_type=kind)
    return Described(desc, level)


def _undecided(rng: random.Random) -> Described:
    rows, columns = rng.randint(1025, 2000), rng.randint(1025, 2000)
    size = (1, 1, rows, columns)
    data = BufferTensorDesc(data_type="FLOAT32", sizes=size)
    output = BufferTensorDesc(data_type="FLOAT32", sizes=size, strides=(0, 0, columns - rng.randint(1, 9), 1))
    desc = SliceOperatorDesc(input_tensor=data, output_tensor=output, offsets=(0,) * 4, sizes=size, strides=(1,) * 4)
    return Described(desc, rng.choice(list(L)))


def _data_type(rng: random.Random) -> Described:
    return _with_type(rng, *(_index_type(rng) if rng.random() < 0.5 else _element_type(rng)))


def _index_type(rng: random.Random) -> tuple[Described, list[str], list[str]]:
    found = legal(rng, *GATHERS)
    return found, ["indices_tensor"], _others(PAGES[found.desc.operator.name].at(found.level).indices)


def _element_type(rng: random.Random) -> tuple[Described, list[str], list[str]]:
    steps = [(name, level) for name, page in PAGES.items() for level in L if level >= page.introduced]
    operator, level = rng.choice([(name, level) for name, level in steps if _others(PAGES[name].at(level).data)])
    return make(rng, operator, level), ["input_tensor", "output_tensor"], _others(PAGES[operator].at(level).data)


def _others(taken: list[str]) -> list[str]:
    return [name for name in EVERY_TYPE if name not in taken]


def _with_type(rng: random.Random, found: Described, fields: list[str], kinds: list[str]) -> Described:
    desc, kind = found.desc, rng.choice(kinds)
    for field in fields:
        changes = {"total_tensor_size_in_bytes": None, "guaranteed_base_offset_alignment": 0}
        desc = with_tensor(desc, field, data_type=kind, **changes)
    return Described(desc, found.level)


def _rank(rng: random.Random) -> Described:
    operator = rng.choice([name for name in OF_ANY_RANK if PAGES[name].introduced < L.LEVEL_3_0])
    page = PAGES[operator]
    level = rng.choice([each for each in L if page.introduced <= each < L.LEVEL_3_0])
    return make(rng, operator, level, rng.choice([rank for rank in range(1, 9) if rank not in page.at(level).counts]))


def _too_new(rng: random.Random) -> Described:
    desc, _ = legal(rng, *LATER)
    return Described(desc, rng.choice([level for level in L if level < PAGES[desc.operator.name].introduced]))


def _different_ranks(rng: random.Random) -> Described:
    while True:
        desc, level = legal(rng, *OF_ANY_RANK, at_least=L.LEVEL_3_0)
        field = rng.choice(desc.operator.tensors)
        if desc.tensor(field).rank < 8:
            return Described(with_tensor(desc, field, sizes=(1, *desc.tensor(field).sizes)), level)


def _different_types(rng: random.Random) -> Described:
    found = legal(rng, at_least=ALL_TYPES)
    same = found.desc.tensor("input_tensor").data_type
    return _with_type(rng, found, ["output_tensor"], _others([same.name]))


def _axis(rng: random.Random) -> Described:
    desc, level = legal(rng, "GATHER", "GATHER_ELEMENTS")
    rank = desc.tensor("input_tensor").rank
    return Described(desc.model_copy(update={"axis": rng.choice((rank, rank + 1, 2**32 - 1))}), level)


def _owned_output(rng: random.Random, tensor: BufferTensorDesc) -> dict[str, Any]:
    return {"flags": TensorFlags.OWNED_BY_DML}


BREAKERS: dict[str, Breaker] = {
    "DML101": _of_some_tensor(_stated_count),
    "DML102": _too_many_dimensions,
    "DML103": _of_some_tensor(_zero_size),
    "DML104": _of_some_tensor(_strides_length),
    "DML105": _no_bytes,
    "DML106": _of_some_tensor(_total),
    "DML108": _of_some_tensor(_span),
    "DML110": _of_some_tensor(_alignment),
    "DML112": _of_output(_owned_output),
    "DML114": _of_output(_collision),
    "DML115": _undecided,
    "DML201": _data_type,
    "DML202": _rank,
    "DML203": _too_new,
    "DML204": _different_ranks,
    "DML205": _different_types,
    "DML206": _axis,
}
