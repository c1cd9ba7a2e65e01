"""Views and descriptors of any dialect: merging keeps every walk, and strides of every tensor reach the descriptor."""

from __future__ import annotations

import random
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings

import dmlgather as dg
from dmlgather.dialects import descriptors
from dmlgather.dialects.descriptors import Dim, Dims, InexpressibleError, View, merge, storage_type
from dmlgather.directml import DataType, FeatureLevel
from tests import seeds
from tests.dialects import drafting

FLOATS, INDICES = DataType.FLOAT32, DataType.INT64
LEVEL_2_1, LEVEL_6_4 = FeatureLevel.LEVEL_2_1, FeatureLevel.LEVEL_6_4


def walk(dims: Dims) -> list[int]:
    """The addresses that dimensions visit, in order."""
    return [sum(c * dim.stride for c, dim in zip(at, dims, strict=True)) for at in product(*(range(dim.size) for dim in dims))]


@settings(max_examples=300, deadline=None)
@given(drafting.seeds)
def test_merged_dimensions_walk_the_same_way(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.choice((1, 2, 2, 3)) for _ in range(rng.randint(0, 6))]
    walks = []
    for _ in range(rng.randint(1, 3)):
        strides, step = [], 1
        for size in reversed(sizes):
            strides.append(rng.choice((step, step, step, 0, rng.randrange(9))))
            step = strides[-1] * size
        walks.append(tuple(map(Dim, sizes, reversed(strides))))
    merged = merge(*walks)
    assert [walk(dims) for dims in merged] == [walk(dims) for dims in walks]
    assert merge(*merged) == merged
    assert len({len(dims) for dims in merged}) == 1
    assert all(dim.size > 1 for dims in merged for dim in dims)


@pytest.mark.parametrize(
    ("dtype", "held"),
    [
        ("float16", (DataType.FLOAT16, ())),
        (">f4", (DataType.FLOAT32, ())),
        ("bool", (DataType.UINT8, ())),
        (ml_dtypes.bfloat16, (DataType.UINT16, ())),
        (ml_dtypes.float8_e4m3fn, (DataType.UINT8, ())),
        (ml_dtypes.int4, None),
        ("complex64", (DataType.UINT64, ())),
        ("complex128", (DataType.UINT64, (2,))),
        ("O", None),
        ("U2", None),
        ("S8", None),
        ("T", None),
        ("V3", None),
    ],
    ids=str,
)
def test_every_type_is_held_by_one_of_as_many_bytes(dtype: object, held: tuple[DataType, tuple[int, ...]] | None) -> None:
    kind: np.dtype[np.generic] = np.dtype(dtype)  # type: ignore[call-overload]
    assert storage_type(kind) == held
    if held is not None:
        assert held[0].bytes * (*held[1], 1)[0] == kind.itemsize


def test_strides_of_every_tensor_reach_the_descriptor() -> None:
    rng = seeds.numpy_rng()
    data, indices = rng.random((4, 3, 5), np.float32), rng.integers(0, 3, (4, 2))
    # Along the middle of data, written with the index dimension last: output[b, k, i] = data[b, indices[b, i], k].
    output = View("output", FLOATS, (Dim(4, 10), Dim(2, 1), Dim(5, 2)))
    (desc,) = descriptors.gather_nd(
        View.packed("data", FLOATS, (4, 3, 5)), View.packed("indices", INDICES, (4, 2, 1)), output, 1, LEVEL_6_4
    )
    assert dg.validate(desc).ok
    assert desc.tensor("output_tensor").strides == (10, 1, 2)
    out = np.empty(160, np.uint8)
    dg.compile(desc, "cpu").run_buffers(data.reshape(-1).view(np.uint8), indices.reshape(-1).view(np.uint8), out=out)
    expected = np.stack([data[batch, indices[batch]].T for batch in range(4)])
    assert out.tobytes() == expected.tobytes()


def test_views_that_do_not_merge_are_refused_by_name() -> None:
    sizes = (2, 2, 2, 2, 2)
    turned = View("output", FLOATS, tuple(Dim(2, 1 << axis) for axis in range(5)))
    with pytest.raises(InexpressibleError, match=r"EXP104 error data\.shape: .*got 5: \{2,2,2,2,2\}"):
        descriptors.gather(View.packed("data", FLOATS, sizes), View.packed("indices", INDICES, (2,)), turned, 4, LEVEL_2_1)
    (desc,) = descriptors.gather(View.packed("data", FLOATS, sizes), View.packed("indices", INDICES, (2,)), turned, 4, LEVEL_6_4)
    assert dg.validate(desc).ok


@pytest.mark.parametrize(
    ("own", "before", "since"),
    [("INT8", "UINT32", "INT32"), ("UINT8", "UINT32", "UINT32"), ("INT64", "UINT32", "INT64"), ("UINT64", "UINT32", "UINT64")],
)
def test_indices_have_a_type_that_the_level_takes(own: str, before: str, since: str) -> None:
    for level, expected in ((LEVEL_2_1, before), (LEVEL_6_4, since)):
        views = (
            View.packed("data", FLOATS, (3,)),
            View.packed("indices", DataType[own], (2,)),
            View.packed("output", FLOATS, (2,)),
        )
        (desc,) = descriptors.gather(*views, 0, level)
        assert desc.tensor("indices_tensor").data_type.name == expected
