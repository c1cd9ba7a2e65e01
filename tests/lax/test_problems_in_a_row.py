"""lax.gather after lax.gather, fused: JAX's bits, operator by operator."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import dmlgather as dg
from tests import seeds
from tests.lax.judge import jax, lax

CHAINS = 25


def drawn(rng: random.Random, shape: tuple[int, ...]) -> tuple[Any, dict[str, Any]]:
    """Starts, some of them out of range, of windows along a dimension, and the other arguments of a gather."""
    axis = rng.randrange(len(shape))
    collapsed = rng.random() < 0.6
    size = 1 if collapsed else rng.randint(1, shape[axis])
    starts = np.array([[rng.randint(-2, shape[axis] + 1)] for _ in range(rng.randint(1, 4))], rng.choice(("int32", "int8")))
    rank = len(shape) + 1 - collapsed
    front = rng.randrange(rank)  # where the dimension of the starts is in the result
    numbers = (tuple(dim for dim in range(rank) if dim != front), (axis,) if collapsed else (), (axis,))
    sizes = (*shape[:axis], size, *shape[axis + 1 :])
    return starts, {"dimension_numbers": numbers, "slice_sizes": sizes, "mode": rng.choice(("clip", "fill")), "fill_value": 77}


def test_fused_gathers_give_jaxs_bits() -> None:
    rng = seeds.rng()
    launches = []
    for _ in range(CHAINS):
        data = np.arange(60, dtype=np.int32).reshape(rng.choice(((3, 4, 5), (12, 5), (60,))))
        expected, problems, given = jax.numpy.asarray(data), [], []
        for _ in range(rng.randint(2, 3)):
            starts, call = drawn(rng, expected.shape)
            numbers = call.pop("dimension_numbers")
            types = ((expected.shape, "int32"), (starts.shape, starts.dtype))
            problems.append(dg.lax.gather.problem(*types, dg.lax.GatherDimensionNumbers(*numbers), **call))
            expected = lax.gather(expected, starts, lax.GatherDimensionNumbers(*numbers), **call)
            given.append(starts)
        fused = dg.fuse(problems)
        launches.append(len(fused.launches) / len(problems))
        found = fused(data, *given)
        assert found.shape == expected.shape
        assert found.tobytes() == np.asarray(expected).tobytes(), (problems, given)
    assert min(launches) < 1
