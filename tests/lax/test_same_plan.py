"""One meaning, one canonical plan: a gather of JAX in mode "clip", and DirectML's GATHER_ND1 of unsigned indices."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings

import dmlgather as dg
from dmlgather.directml import lower
from dmlgather.plan import IndexPlan, canonicalise
from tests.dialects.drafting import seeds
from tests.directml.writing import legal


def gather_nd(sizes: list[int], tuples: list[int], batch: int, dtype: str, index_dtype: str) -> IndexPlan:
    """The plan of GATHER_ND1 over the same tensors, all of one dimension count, 1s on the left."""
    output = [*tuples[:-1], *sizes[batch + tuples[-1] :]]
    counts = {"InputDimensionCount": len(sizes), "IndicesDimensionCount": len(tuples), "BatchDimensionCount": batch}
    return lower(legal("GATHER_ND1", dtype, index_dtype, sizes, tuples, output, **counts))


@settings(max_examples=300, deadline=None)
@given(seeds.map(random.Random))
def test_gather_nd_of_unsigned_indices_has_one_plan(rng: random.Random) -> None:
    sizes = [rng.choice((1, 2, 3, 7)) for _ in range(rng.randint(1, 4))]
    batch = rng.randrange(len(sizes))
    count = rng.randint(1, len(sizes) - batch)
    moved = [rng.choice((1, 2, 5)) for _ in range(rng.randint(0, 2))]
    tuples = [*sizes[:batch], *moved, count]
    dtype, index_dtype = rng.choice(("float16", "uint8", "int32", "float64")), rng.choice(("uint32", "uint64"))
    looked_up = tuple(range(batch, batch + count))
    trailing = len(sizes) - batch - count
    before = tuple(range(batch))
    numbers = dg.lax.GatherDimensionNumbers(
        offset_dims=tuple(range(len(tuples) - 1, len(tuples) - 1 + trailing)),
        collapsed_slice_dims=looked_up,
        start_index_map=looked_up,
        operand_batching_dims=before,
        start_indices_batching_dims=before,
    )
    windows = [1] * (batch + count) + sizes[batch + count :]
    ours = dg.lax.gather.plan((sizes, dtype), (tuples, index_dtype), numbers, windows, mode="clip")
    theirs = gather_nd(sizes, tuples, batch, dtype, index_dtype)
    assert canonicalise(ours) == canonicalise(theirs)


def test_a_promise_has_the_canonical_plan_of_clip() -> None:
    call = (([4, 6], "float32"), ([3, 1], "int64"), dg.lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 6))
    clipped = canonicalise(dg.lax.gather.plan(*call, mode="clip"))
    assert canonicalise(dg.lax.gather.plan(*call)).lookups == clipped.lookups
    assert clipped != canonicalise(dg.lax.gather.plan(*call, mode="fill"))


def test_signed_indices_have_another_plan_since_directml_wraps_them() -> None:
    numbers = dg.lax.GatherDimensionNumbers((1,), (0,), (0,))
    ours = dg.lax.gather.plan(([4, 6], "float32"), ([3, 1], "int32"), numbers, (1, 6), mode="clip")
    theirs = gather_nd([4, 6], [3, 1], 0, "float32", "int32")
    assert canonicalise(ours) != canonicalise(theirs)
    assert np.prod(ours.shape) == np.prod(theirs.shape)
