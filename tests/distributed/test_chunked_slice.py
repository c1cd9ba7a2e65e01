"""Slices of chunked tables. Judges: NumPy's slicing of the whole array, and one device on it."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dmlgather as dg
from dmlgather.dialects.windows import Window
from dmlgather.distributed.chunked_slice import chunk_windows, cut, sliced, windows_of
from dmlgather.distributed.chunked_slice import slice as slice_of
from tests.distributed.counted import DTYPES, CountedTable, bits, chunks_of, random_bits
from tests.distributed.standin import assert_stays, table_of

pytestmark = pytest.mark.usefixtures("synchronous")

pytestmark = pytest.mark.usefixtures("synchronous")

TO_ONNX = {"f2", "f4", "f8", "i1", "u8", "b1", "c8", "c16"}
"""Types that ONNX's Slice takes, as NumPy spells them."""


def _bound(rng: random.Random, size: int) -> int:
    return rng.choice([rng.randint(-size - 2, size + 2), rng.randint(-size, size), -(2**63), 2**63 - 1])


def _step(rng: random.Random) -> int:
    return rng.choice([1, 1, 2, 3, 7, -1, -1, -2, -5, 2**40, -(2**63)])


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_slices_are_the_wholes_and_load_no_chunk_in_vain(seed: int) -> None:
    rng = random.Random(seed)
    shape = [rng.choice([1, 2, 5, 9, 12]) if rng.random() < 0.95 else 0 for _ in range(rng.randint(1, 3))]
    x = random_bits(rng, shape, rng.choice(DTYPES))
    counted = CountedTable(x, chunks_of(rng, shape))
    axes = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
    starts, ends = ([_bound(rng, shape[axis]) for axis in axes] for _ in range(2))
    steps = [_step(rng) for _ in axes]
    where = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        # A start before the first element is ONNX's first element; to NumPy, it is nothing if the step is negative.
        where[axis] = slice(max(start, -shape[axis]), end, step)
    expected = x[tuple(where)]

    named = [axis - len(shape) if rng.random() < 0.5 else axis for axis in axes]
    lazy = slice_of(counted.table, starts, ends, named, np.array(steps) if rng.random() < 0.5 else steps)
    assert counted.loads == []
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    assert bits(lazy.compute()) == bits(expected)
    if x.dtype.str[1:] in TO_ONNX and x.dtype.isnative:
        assert bits(dg.onnx.slice(x, starts, ends, named, steps)) == bits(expected)
    numbers = [np.repeat(np.arange(len(sizes)), sizes)[each] for sizes, each in zip(counted.table.chunks, where, strict=True)]
    touched = product(*(sorted(set(each.tolist())) for each in numbers))
    assert sorted(counted.loads) == list(touched)

    for place, sizes in zip(np.ndindex(lazy.numblocks), product(*lazy.chunks), strict=True):
        assert lazy.blocks[place].compute().shape == sizes


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_windows_of_descriptors_are_what_one_device_takes(seed: int) -> None:
    rng = random.Random(seed)
    shape = [rng.choice([1, 2, 5, 11]) for _ in range(rng.randint(1, 3))]
    windows = [(begin, rng.randint(1, size - begin)) for size in shape for begin in [rng.randrange(size)]]
    first_level = rng.random() < 0.5
    steps = [rng.choice([1, 2, 3] if first_level else [1, 2, -1, -3]) for _ in shape]
    counts = [1 + (size - 1) // abs(step) for (_, size), step in zip(windows, steps, strict=True)]
    begins, sizes = zip(*windows, strict=True)
    x = random_bits(rng, shape, np.dtype("f4"))
    desc: dg.OperatorDesc = dg.Slice1OperatorDesc.of(x, begins, sizes, steps)
    if first_level:
        desc = dg.SliceOperatorDesc.of(x, begins, counts, steps)
    lazy = sliced(da.from_array(x, chunks=chunks_of(rng, shape)), windows_of(desc))
    assert bits(lazy.compute()) == bits(dg.compile(desc)(x))


def test_a_negative_step_walks_backwards_and_keeps_its_phase() -> None:
    # Elements 11, 8, 5, 2 of chunks 0 … 3, 4, 5 … 6 and 7 … 11.
    assert [(part.chunk, part.window) for part in chunk_windows(Window(11, 4, -3), (4, 1, 2, 5))] == [
        (3, Window(4, 2, -3)),
        (2, Window(0, 1, 1)),
        (0, Window(2, 1, 1)),
    ]


def test_a_step_that_no_descriptor_holds_takes_single_elements() -> None:
    found = chunk_windows(Window(0, 3, 2**31), (2**32, 2**32))
    assert [(part.chunk, part.window) for part in found] == [
        (0, Window(0, 1, 1)),
        (0, Window(2**31, 1, 1)),
        (1, Window(0, 1, 1)),
    ]


def test_only_touched_chunks_have_tasks() -> None:
    counted = CountedTable(np.arange(10**5, dtype=np.float32), ((1000,) * 100,))
    lazy = slice_of(counted.table, [150], [3000], steps=[1500])  # 150 and 1650
    assert lazy.chunks == ((1, 1),)
    assert len(lazy.__dask_graph__()) == 2
    assert lazy.compute().tolist() == [150, 1650]
    assert sorted(counted.loads) == [(0,), (1,)]


def test_a_whole_chunk_is_copied_only_if_it_is_read_only() -> None:
    chunk = np.arange(6, dtype=np.float32)
    assert cut(chunk, (Window(0, 6, 1),), chunk.dtype) is chunk
    chunk.flags.writeable = False
    found = cut(chunk, (Window(0, 6, 1),), chunk.dtype)
    assert bits(found) == bits(chunk)
    assert not np.shares_memory(found, chunk)
    assert slice_of(da.asarray(np.float32(7)), [], []).compute() == 7


@pytest.mark.parametrize(
    ("starts", "ends", "steps"), [([20, -1], [3, -9], [-7, -2]), ([0, 0], [99, 9], [1, 1]), ([2, 3], [9, 3], [1, 1])]
)
def test_chunks_stay_of_their_kind(starts: Any, ends: Any, steps: Any) -> None:
    x = np.arange(25 * 6, dtype=np.float32).reshape(25, 6)
    result = slice_of(table_of(x, ((1, 20, 0, 4), (6,))), starts, ends, steps=steps)
    assert_stays(result, x[tuple(map(slice, starts, ends, steps))])


@pytest.mark.gpu
def test_chunks_of_cupy_stay_on_the_gpu(cupy: Any) -> None:
    x = np.arange(25 * 6, dtype=np.complex128).reshape(25, 6)
    table = da.from_array(cupy.asarray(x), chunks=(7, 4), asarray=False)
    found = slice_of(table, [20, -1], [3, -9], steps=[-7, -2]).compute(scheduler="threads")
    assert type(found) is cupy.ndarray
    assert bits(found.get()) == bits(x[20:3:-7, ::-2])


REFUSED = [
    (lambda: slice_of(da.ones(4), 1, 2), TypeError, "starts is 1, expected a list of integers"),
    (lambda: slice_of(da.ones(4), [0], [2], [1]), ValueError, r"axes\[0\] is 1, but data has rank 1: expected -1 … 0"),
    (lambda: slice_of(da.ones(4), [0], [2], steps=[0]), ValueError, "a step cannot be 0"),
    (lambda: slice_of([1.0] * 4, [0], [2]), TypeError, "builtins.list, expected a dask, zarr or NumPy array"),
    (lambda: slice_of(da.ones(4).astype(object), [0], [2]), TypeError, "table has type object"),
    (
        lambda: slice_of(da.ones((1,) * 9), [0], [1]),
        dg.DescriptorError,
        r"1 to 8 dimensions.* got 9; fix: merge dimensions of the table \(table.reshape",
    ),
    (
        lambda: slice_of(da.ones((2**17, 2**16), dtype="u1", chunks=-1), [0], [1]),
        dg.DescriptorError,
        r"at most 4294967295.* got 8589934592.*table.rechunk",
    ),
    (lambda: slice_of(da.ones(2**33, dtype="u1", chunks=-1), [0], [1]), dg.DescriptorError, "table.rechunk"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_a_slice_that_cannot_be_is_refused_before_it_runs(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_chunk_of_another_type_than_stated_is_refused() -> None:
    lying = da.ones(4, chunks=2).map_blocks(lambda block: block.astype("f4"), dtype="f8", meta=np.empty(0, "f8"))
    with pytest.raises(TypeError, match="a chunk has type float32, but its array states float64"):
        slice_of(lying, [1], [3]).compute()
