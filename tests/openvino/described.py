"""Calls of OpenVINO's operations as descriptors: random ones, what takes them by the documents of DirectML, and their arrays."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np

from dmlgather.directml import FeatureLevel
from tests.dialects.binding import held
from tests.dialects.drafting import random_bits, sizes_within
from tests.directml.pages import PAGES
from tests.openvino.calling import FUNCTIONS
from tests.openvino.specification import INTEGERS, NAMES, Call, expected, gather
from tests.openvino.strategies import ROWS, good_call


def drawn_gather(seed: int) -> Call:
    """The Gather of a seed, of up to ten dimensions, with indices in range."""
    rng = random.Random(seed)
    version = rng.choice((1, 7, 8, 8))
    sizes = sizes_within(rng, rng.choice((1, 2, 3, 3, 4, 4, 5, 7, 10)), 64)
    axis = rng.randrange(len(sizes))
    batch = rng.randint(0, axis) if version > 1 else 0
    moved = sizes_within(rng, rng.choice((0, 1, 1, 2, 3, 6)), 12) if sizes[axis] else [0]
    index_dtype = np.dtype(rng.choice(INTEGERS))
    lowest = -sizes[axis] if version == 8 and index_dtype.kind == "i" else 0
    shape = (*sizes[:batch], *moved)
    values = [rng.randint(lowest, sizes[axis] - 1) for _ in range(prod(shape))]
    data = random_bits(rng, np.dtype(rng.choice(list(NAMES))), tuple(sizes))
    shown = rng.choice((batch, batch - len(shape))) if version > 1 and shape else batch
    return gather(version, data, np.array(values, index_dtype).reshape(shape), axis, shown)


def drawn(seed: int, _: FeatureLevel) -> Call:
    """The call of a seed, half of them Gathers."""
    rng = random.Random(seed)
    return (
        drawn_gather(seed) if rng.random() < 0.5 else good_call(seed, rng.choice([row for row in ROWS if "Gather-" not in row]))
    )


def counted(call: Call) -> tuple[int, int]:
    """axis and batch_dims of a Gather from the front."""
    batch = call.more["batch_dims"]
    return call.more["axis"] % call.data.ndim, batch + (call.indices.ndim if batch < 0 else 0)


def operator(call: Call, level: FeatureLevel) -> str:
    """What does a Gather."""
    axis, batch = counted(call)
    if prod(call.data.shape[:batch]) == 1:
        return "GATHER"
    return "GATHER_ND1" if axis == batch and level >= FeatureLevel.LEVEL_3_0 else "GATHER_ELEMENTS"


def refusals(call: Call, level: FeatureLevel) -> tuple[set[str], set[str]]:
    """The codes that DirectML's documents call for at `level`, and those that they may call for."""
    shapes = [expected(call).shape, *(array.shape for array in call.arrays)]
    if call.operation == "GatherND":  # tuples without components are not looked at
        shapes[-1] = shapes[-1][:-1]
    if any(0 in shape for shape in shapes):
        return {"EXP102"}, set()
    if call.operation != "Gather":
        return set(), {"EXP104", "EXP106", "DML201"}
    name = operator(call, level)
    if name != "GATHER" and level < FeatureLevel.LEVEL_2_1:
        return {"EXP106"}, set()
    return (set() if held(call.data.dtype)[0] in PAGES[name].at(level).data else {"DML201"}), set()


def types(call: Call) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    return [(array.shape, array.dtype) for array in call.arrays]


def described(call: Call, level: FeatureLevel | str) -> Any:
    """What `to_directml` returns for a call."""
    return FUNCTIONS[call.operation].to_directml(*types(call), **call.named, level=level)


def bound(call: Call) -> dict[str, Any]:
    """What descriptors of a call are bound to. sizes: what is added to negative indices where the described type is unsigned."""
    sizes = np.array(0)
    if "axis" in call.more:
        sizes = np.array(call.data.shape[call.more["axis"]])
    elif call.operation == "GatherND":
        batch = call.more["batch_dims"]
        sizes = np.array(call.data.shape[batch : batch + call.indices.shape[-1]], np.int64)
    return {"data": call.data, "indices": call.arrays[1] if len(call.arrays) > 1 else None, "sizes": sizes}
