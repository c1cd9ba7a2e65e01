"""Gathers of chunked tables on the synchronous scheduler. Judges: one device over the whole table, and NumPy written out."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.distributed import MemoryLimitError, gather, plan_gather, tasks
from dmlgather.distributed.routing import WIDE
from tests import seeds
from tests.distributed.counted import CountedTable, bits, chunks_of, computed_chunks, random_bits
from tests.distributed.one_device import INDEX_TYPES, TYPES, gathered
from tests.distributed.standin import Standin, assert_stays, table_of

pytestmark = pytest.mark.usefixtures("synchronous")

pytestmark = pytest.mark.usefixtures("synchronous")

X = np.arange(1200, dtype=np.float32).reshape(60, 4, 5)
CHUNKS = ((1, 0, 30, 29), (2, 2), (5,))
SPREAD = (0, 1, 59, 3, -1, 31, 30, 1)


def _indices(rng: random.Random, size: int, dtype: np.dtype[Any], inside: bool) -> NDArray[Any]:
    """Of rank 0 to 3; in range, negative, just outside and extreme, or, where there is anything, in range alone."""
    shape = tuple(rng.choice([1, 2, 3, 5]) if rng.random() < 0.95 else 0 for _ in range(rng.randint(0, 3)))
    found = np.iinfo(dtype)
    low, high = max(-size, int(found.min)), min(size - 1, int(found.max))
    wider = (max(low - 2, int(found.min)), min(high + 2, int(found.max)))

    def draw() -> int:
        if inside:
            return rng.randint(min(low, high), high) if size else 0
        return rng.choice([rng.randint(*wider), rng.randint(*wider), int(found.min), int(found.max)])

    return np.array([draw() for _ in range(int(np.prod(shape)))], dtype).reshape(shape)


def _policy(rng: random.Random) -> str | dg.Fill | None:
    return rng.choice([None, None, "clamp", "raise", "promise", dg.Fill(1), dg.Fill(0)])


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_gathers_are_those_of_one_device(seed: int) -> None:
    rng = random.Random(seed)
    dialect = rng.choice(list(TYPES))
    shape = [rng.choice([1, 2, 5, 9, 12]) if rng.random() < 0.95 else 0 for _ in range(rng.randint(1, 3))]
    x = random_bits(rng, shape, np.dtype(rng.choice(TYPES[dialect])))
    axis = rng.randrange(-x.ndim, x.ndim)
    policy = _policy(rng)
    indices = _indices(rng, shape[axis], np.dtype(rng.choice(INDEX_TYPES[dialect])), policy == "raise" and rng.random() < 0.7)
    counted = CountedTable(x, chunks_of(rng, shape))
    lazy = rng.random() < 0.5
    asked = da.from_array(indices, chunks=chunks_of(rng, indices.shape)) if lazy else indices
    wide = rng.choice([0, WIDE])
    sizes = {"block_bytes": rng.choice([1, 40, 300, 2**20]), "in_flight_bytes": rng.choice([1, 100, 600, 2**20])}

    def compute() -> Any:
        result = gather(counted.table, asked, axis=axis, dialect=dialect, out_of_bounds=policy, **sizes)
        assert counted.loads == []
        with mock.patch.object(tasks, "WIDE", wide):
            return result, result.compute()

    try:
        expected = gathered(dialect, x, indices, axis, policy)
    except (IndexError, TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            compute()
        return
    result, found = compute()
    assert bits(found) == bits(expected)
    assert (result.shape, result.dtype, bits(result._meta)[:2]) == (expected.shape, expected.dtype, bits(expected)[:2])
    if not lazy:
        _check_loads(counted, indices, axis, dialect=dialect, out_of_bounds=policy, **sizes)
    assert [chunk.shape for chunk in computed_chunks(result)] == _sizes(result)


def _sizes(array: da.Array) -> list[tuple[int, ...]]:
    return [tuple(sizes[at] for sizes, at in zip(array.chunks, place, strict=True)) for place in np.ndindex(array.numblocks)]


def _check_loads(counted: CountedTable, indices: NDArray[Any], axis: int, **options: Any) -> None:
    """Only chunks that are touched are loaded, once per group that touches them."""
    chunks = counted.table.chunks
    forecast = plan_gather(chunks, indices, axis=axis, dtype=counted.dtype, **options)
    loads = {chunk.chunk: chunk.loads for chunk in forecast.touched}
    for place, count in Counter(counted.loads).items():
        assert loads[place[axis]] == count
    sure = [int(at) for at in indices.reshape(-1) if 0 <= at < sum(chunks[axis])]  # others may mean anything
    if forecast.output_bytes:
        assert set(np.searchsorted(np.cumsum(chunks[axis]), sure, "right")) <= {place[axis] for place in counted.loads}


@pytest.mark.parametrize("lazy", [False, True], ids=["known", "lazy"])
@pytest.mark.parametrize(
    ("indices", "options", "loads"),
    [
        (np.full(1000, 7), {}, {2: 1}),
        (np.full(1000, 900), {}, {3: 1}),
        (np.full(1000, 900), {"out_of_bounds": dg.Fill(2)}, {}),
        (np.full(1000, 900), {"dialect": "openvino"}, {}),
        (np.full(1000, 0), {"block_bytes": 4000, "in_flight_bytes": 10**6}, {0: 1}),
        (np.arange(60).repeat(16), {"block_bytes": 32000, "in_flight_bytes": 10**6}, {0: 1, 2: 1, 3: 1}),
        (np.empty((0, 3), np.int64), {}, {}),
        (np.empty((3, 0), np.int64), {"out_of_bounds": "raise"}, {}),
    ],
    ids=[
        "all equal",
        "all clamped",
        "all filled",
        "all zero",
        "one chunk, blocks",
        "blocks share loads",
        "empty",
        "empty, raise",
    ],
)
def test_each_touched_chunk_is_loaded_once_per_group(indices: Any, options: Any, loads: Any, lazy: bool) -> None:
    counted = CountedTable(X, (CHUNKS[0], (4,), (5,)))
    asked = da.from_array(indices, chunks=(333, *indices.shape[1:])) if lazy else indices
    result = gather(counted.table, asked, **options).compute()
    filled = options.get("out_of_bounds") == dg.Fill(2) or options.get("dialect") == "openvino"
    expected = np.full((1000, 4, 5), 2.0 if "out_of_bounds" in options else 0.0, np.float32)
    if not filled or not indices.size:
        expected = X[np.minimum(indices, 59)]
    assert bits(result) == bits(expected)
    assert Counter(place[0] for place in counted.loads) == loads


@pytest.mark.parametrize("lazy", [False, True], ids=["known", "lazy"])
def test_a_chunk_is_loaded_again_for_another_group(lazy: bool) -> None:
    counted = CountedTable(X, (CHUNKS[0], (4,), (5,)))
    indices = np.array([5, 6, 40, 41, 7, 42])
    asked = da.from_array(indices, chunks=2) if lazy else indices
    result = gather(counted.table, asked, block_bytes=2 * 80, in_flight_bytes=2 * 80)
    assert result.chunks[0] == (2, 2, 2)
    assert bits(result.compute()) == bits(X[indices])
    assert Counter(place[0] for place in counted.loads) == {2: 2, 3: 2}


def test_blocks_are_bounded_and_keep_the_borders_of_lazy_indices() -> None:
    table, indices = da.from_array(X, chunks=(30, 4, 5)), np.arange(50)
    known = gather(table, indices, block_bytes=8 * 80)
    lazy = gather(table, da.from_array(indices, chunks=20), block_bytes=8 * 80)
    assert known.chunks[0] == (8, 8, 8, 8, 8, 8, 2)
    assert lazy.chunks[0] == (7, 7, 6, 7, 7, 6, 5, 5)
    assert bits(known.compute()) == bits(lazy.compute()) == bits(X[:50])


def test_known_indices_leave_untouched_chunks_out_of_the_graph() -> None:
    result = gather(da.from_array(X, chunks=1), np.array([3, 3, 3]))
    assert len(dict(result.__dask_graph__())) == 2 * 4 * 5  # take and place, for each chunk off the axis


def test_equal_gathers_have_equal_keys_and_others_have_not() -> None:
    table = da.from_array(X, chunks=(20, 4, 5))
    names = {
        gather(table, np.array(indices), **options).name
        for indices in ([1, 2], [1, 3])
        for options in ({}, {"axis": 1}, {"out_of_bounds": "raise"}, {"block_bytes": 80}, {"in_flight_bytes": 80})
        for _ in range(2)
    }
    assert len(names) == 10


@pytest.mark.parametrize("lazy", [False, True], ids=["known", "lazy"])
@pytest.mark.parametrize("indices", [SPREAD, (5,) * 8, (900,) * 8, ()], ids=["spread", "equal", "outside", "empty"])
def test_chunks_stay_of_their_kind(indices: Any, lazy: bool) -> None:
    wanted = np.array(indices, np.int64)
    asked = da.from_array(wanted, chunks=3) if lazy else wanted
    for policy in ("clamp", dg.Fill(3)):
        for blocks in (2**20, 100):
            result = gather(table_of(X, CHUNKS), asked, axis=0, out_of_bounds=policy, block_bytes=blocks)
            assert_stays(result, gathered("directml", X, wanted, 0, policy))


def test_indices_of_another_kind_may_be_anything() -> None:
    lazy = table_of(np.array(SPREAD), ((3, 5),))
    for asked in (lazy, Standin(np.array(SPREAD)), list(SPREAD)):
        assert bits(gather(da.from_array(X, chunks=CHUNKS), asked).compute()) == bits(X[list(SPREAD)])
    assert bits(gather(da.from_array(X, chunks=CHUNKS), np.int32(-2)).compute()) == bits(X[-2])


def test_the_order_of_bytes_stays() -> None:
    x = X.astype(">f4")
    for indices in (SPREAD, (0, 1, 31)):
        found = gather(da.from_array(x, chunks=CHUNKS), np.array(indices), dialect="onnx").compute()
        assert bits(found) == bits(x[list(indices)])


def test_threads_share_operators() -> None:
    table = da.from_array(X.repeat(50, axis=0), chunks=(500, 4, 5))
    indices = seeds.numpy_rng().integers(-4000, 4000, 4000)
    for policy in ("clamp", dg.Fill(3)):
        result = gather(table, indices, out_of_bounds=policy, block_bytes=8000, in_flight_bytes=40000)
        found = result.compute(scheduler="threads", num_workers=8)
        assert bits(found) == bits(gathered("directml", X.repeat(50, axis=0), indices, 0, policy))


def test_a_bad_index_is_named_as_one_device_names_it() -> None:
    table, indices = da.from_array(X, chunks=CHUNKS), np.array([[1, 2], [3, 60], [-61, 5]])
    words = r"indices\[1, 1\] = 60 is out of range for axis 0 of size 60: valid indices are -60 … 59"
    with pytest.raises(IndexError, match=words):
        dg.onnx.gather(X, indices)
    with pytest.raises(IndexError, match=words):
        gather(table, indices, dialect="onnx")
    lazy = gather(table, da.from_array(indices, chunks=(2, 1)), dialect="onnx")
    assert lazy.shape == (3, 2, 4, 5)
    with pytest.raises(IndexError, match=words.replace("1, 1", r"(1, 1|2, 0)").replace("60 is", r"(60|-61) is")):
        lazy.compute()


def test_memory_is_refused_before_anything_runs() -> None:
    counted = CountedTable(X, ((20, 20, 20), (4,), (5,)))
    with pytest.raises(MemoryLimitError, match="100"):
        gather(counted.table, np.arange(60), memory_limit=100)
    assert bits(gather(counted.table, np.arange(60), memory_limit=2**30).compute()) == bits(X)
    with pytest.raises(ValueError, match=r"memory_limit is 5 bytes, but .* pass indices.compute\(\)"):
        gather(counted.table, da.arange(3), memory_limit=5)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"axis": 3}, ValueError, "axis is 3, but table has rank 3: expected -3 … 2"),
        ({"axis": 1.0}, TypeError, "axis is 1.0 of type float, expected an integer"),
        ({"dialect": "torch"}, ValueError, "dialect is 'torch', expected 'directml', 'onnx', 'openvino' or 'lax'"),
        ({"out_of_bounds": "wrap"}, ValueError, "out_of_bounds is 'wrap', expected one of"),
        ({"out_of_bounds": dg.Fill(10**400)}, ValueError, "Fill value"),
        ({"block_bytes": 0}, ValueError, "block_bytes is 0, expected at least 1"),
        ({"block_bytes": 1e6}, TypeError, "block_bytes is 1000000.0 of type float, expected an integer"),
        ({"in_flight_bytes": -1}, ValueError, "in_flight_bytes is -1, expected at least 1"),
        ({"indices": np.array([1.0])}, TypeError, "IndicesTensor has type float64, but dialect 'directml' takes"),
        ({"indices": {1, 2}}, TypeError, r"indices is of type set, expected integers: pass list\(indices\)"),
        ({"indices": da.arange(9)[da.arange(9) > 3]}, ValueError, r"unknown size \(.*: call indices\.compute_chunk_sizes\(\)"),
        ({"table": da.from_array(X.astype(object), chunks=9)}, TypeError, "type object"),
        ({"table": da.from_array(X > 0, chunks=9)}, TypeError, "InputTensor has type bool, but dialect 'directml' takes"),
        ({"table": da.zeros((3, *(1,) * 8), dtype="f4")}, dg.DescriptorError, "DML102 .* merge dimensions of the table"),
        ({"table": da.zeros((9, 2**32), chunks=-1, dtype="u1")}, ValueError, "rechunk the table"),
        ({"table": da.zeros(0, dtype="f4")}, ValueError, "axis 0 of size 0: under CLAMP there is nothing to read"),
        (
            {"table": da.zeros((), dtype="f4")},
            ValueError,
            "axis is 0, but table has rank 0: expected an array with at least one dimension",
        ),
    ],
    ids=str,
)
def test_a_gather_that_cannot_be_is_refused_at_once(options: Any, error: type[Exception], words: str) -> None:
    asked = {"table": da.from_array(X, chunks=CHUNKS), "indices": np.array([1, 2]), **options}
    with pytest.raises(error, match=words):
        gather(asked.pop("table"), asked.pop("indices"), **asked)


def test_a_chunk_of_another_type_than_stated_is_refused() -> None:
    table = da.from_array(X, chunks=CHUNKS).map_blocks(lambda chunk: chunk.astype("f8"), dtype="f4", meta=X[:0, :0, :0])
    with pytest.raises(TypeError, match="a chunk has type float64, but its array states float32"):
        gather(table, np.array([1])).compute()


@pytest.mark.gpu
@pytest.mark.parametrize("lazy", [False, True], ids=["known", "lazy"])
def test_chunks_of_cupy_stay_on_the_gpu(cupy: Any, lazy: bool) -> None:
    wanted = cupy.asarray(np.array([*SPREAD, 900]))
    asked = da.from_array(wanted, chunks=3, asarray=False) if lazy else wanted
    table = da.from_array(cupy.asarray(X), chunks=CHUNKS, asarray=False)
    for policy in ("clamp", dg.Fill(3)):
        for scheduler in ("synchronous", "threads"):
            result = gather(table, asked, out_of_bounds=policy, block_bytes=100)
            assert type(result._meta) is cupy.ndarray
            assert {type(chunk) for chunk in computed_chunks(result)} == {cupy.ndarray}
            found = result.compute(scheduler=scheduler)
            assert bits(found.get()) == bits(gathered("directml", X, wanted.get(), 0, policy))


def test_a_result_is_written_to_a_store_block_by_block(tmp_path: Path) -> None:
    rows = gather(da.from_array(X, chunks=(*CHUNKS[:1], (4,), (5,))), np.arange(50), block_bytes=14 * 20 * 4)
    assert rows.chunks[0] == (13, 13, 13, 11)
    rows.to_zarr(str(tmp_path / "rows.zarr"))  # dask warns of chunks that are not alike, which would be an error here
    stored = zarr.open_array(tmp_path / "rows.zarr", mode="r")
    assert stored.chunks == rows.chunksize
    assert bits(stored[:]) == bits(X[:50])
