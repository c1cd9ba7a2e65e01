"""Random lax.gather calls with windows inside operand, and what DirectML takes of them."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

import dmlgather as dg
from dmlgather.directml import FeatureLevel
from tests.dialects.binding import held
from tests.dialects.drafting import random_bits, sizes_within
from tests.directml.pages import PAGES
from tests.lax.specification import Call, expected

INDEX_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES: tuple[Any, ...] = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2),
)


def described(call: Call, level: FeatureLevel | str, **more: Any) -> Any:
    """What `to_directml` returns for a call."""
    operand, starts = ((array.shape, array.dtype) for array in (call.operand, call.start_indices))
    return dg.lax.to_directml(operand, starts, call.dimension_numbers, call.slice_sizes, level=level, mode=call.mode, **more)


def drawn(seed: int, level: FeatureLevel, *, partial: float = 0.15) -> Call:
    """The call of a seed, mostly of a data type that DirectML has at `level`."""
    rng = random.Random(seed)
    known = PAGES["GATHER"].at(level).data
    kinds = [kind for kind in DTYPES if held(np.dtype(kind))[0] in known or rng.random() < 0.1]
    return _call(rng, np.dtype(rng.choice(kinds)), partial)


def _call(rng: random.Random, kind: np.dtype[Any], partial: float) -> Call:
    rank = rng.choice((0, 1, 2, 2, 3, 3, 3, 4, 4, 5, 6))
    shape = sizes_within(rng, rank, 200)
    role = [rng.choice(("batch", "one", "one", "one kept", "whole", "whole", "fixed", "indexed whole")) for _ in shape]
    role = ["window" if size > 2 and rng.random() < partial else what for what, size in zip(role, shape, strict=True)]
    if rng.random() < 0.4:
        role = ["whole" if what == "batch" else what for what in role]
    role = [what if size else "whole" for what, size in zip(role, shape, strict=True)]
    sizes = [_window(rng, what, size) for what, size in zip(role, shape, strict=True)]
    looked_up = [at for at, what in enumerate(role) if what in ("one", "one kept", "indexed whole", "window")]
    dropped = [at for at in looked_up if role[at] != "indexed whole" and rng.random() < 0.05]
    components = [at for at in rng.sample(looked_up, len(looked_up)) if at not in dropped]
    batching = [at for at, what in enumerate(role) if what == "batch"]
    collapsed = [at for at, what in enumerate(role) if what == "one"]
    others = sizes_within(rng, rng.choice((0, 1, 1, 2, 3)), 12)
    order = rng.sample(range(len(batching) + len(others)), len(batching) + len(others))
    places = order[: len(batching)]
    rest = iter(others)
    index_shape = [shape[batching[places.index(at)]] if at in places else next(rest) for at in range(len(order))]
    kept = rank - len(batching) - len(collapsed)
    offsets = tuple(sorted(rng.sample(range(kept + len(order)), kept)))
    numbers = (offsets, tuple(collapsed), tuple(components), tuple(batching), tuple(places))
    most = [shape[at] - sizes[at] for at in components]
    vectors = [[rng.randint(0, max(last, 0)) for last in most] for _ in range(prod(index_shape))]
    starts = np.array(vectors, rng.choice(INDEX_TYPES)).reshape((*index_shape, len(components)))
    operand = random_bits(rng, kind, shape)
    return Call(operand, starts, numbers, tuple(sizes), rng.choice(("clip", "fill", "promise_in_bounds")))


def _window(rng: random.Random, role: str, size: int) -> int:
    if role in ("whole", "indexed whole"):
        return size
    if role == "fixed":
        return rng.randint(min(1, size), size)
    return rng.randint(2, size - 1) if role == "window" else 1


def refusals(call: Call, level: FeatureLevel) -> tuple[set[str], set[str]]:
    """Codes that DirectML's documents call for at `level`, and codes that they may call for, as dimensions merge or do not."""
    shapes = (call.operand.shape, call.start_indices.shape[:-1], expected(call).shape)
    if any(0 in shape for shape in shapes):
        return {"EXP102"}, set()
    numbers, shape = call.dimension_numbers, call.operand.shape
    free = [shape[axis] > call.slice_sizes[axis] for axis in numbers.start_index_map]
    partial = any(more and call.slice_sizes[axis] > 1 for more, axis in zip(free, numbers.start_index_map, strict=True))
    count = max((at + 1 for at, more in enumerate(free) if more), default=0)
    batches = [shape[at] for at in numbers.operand_batching_dims]
    places = numbers.start_indices_batching_dims
    positions = [size for at, size in enumerate(call.start_indices.shape[:-1]) if at not in places and size > 1]
    live = prod(batches) > 1
    if count and level < FeatureLevel.LEVEL_2_1 and (count > 1 or live):
        return {"EXP106"}, set()
    may: set[str] = set()
    if count and live and level < FeatureLevel.LEVEL_3_0:
        if count > 1:
            return {"EXP106"}, set()
        may |= {"EXP106"} if len(positions) > 1 else set()
    windows = [size for size in call.slice_sizes if size > 1]
    dimensions = len(batches) + len(positions) + count + len(windows) + held(call.operand.dtype)[1]
    if dimensions - 1 > (4 if level < FeatureLevel.LEVEL_3_0 else 8):
        may |= {"EXP104"}
    names = {"SLICE" if count == 0 else "GATHER" if count == 1 and not live else "GATHER_ND"} | ({"SLICE"} if partial else set())
    return (set() if all(held(call.operand.dtype)[0] in PAGES[name].at(level).data for name in names) else {"DML201"}), may
