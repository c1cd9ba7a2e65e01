"""Chunks on a GPU that go from thread to thread, each of which works on a stream of its own, as under CuPy's
CUPY_CUDA_PER_THREAD_DEFAULT_STREAM=1. Judge: NumPy's indexing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import dmlgather as dg
from dmlgather.distributed import gather, gather_elements, run, tasks
from dmlgather.distributed import slice as slice_of
from dmlgather.distributed.routing import WIDE
from tests import seeds

pytestmark = pytest.mark.gpu

ROUNDS = 4
CHUNKS = ((1, 0, 30, 29), (2, 2), (5,))


@pytest.fixture(params=["streams", "default"])
def _threads(cupy: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """Dask's threads, each with a stream that waits for no other, or all on the default stream; this thread has its own."""

    def begin() -> None:
        if request.param == "streams":
            cupy.cuda.Stream(non_blocking=True).use()

    own = cupy.cuda.Stream(non_blocking=True)
    with ThreadPoolExecutor(3, initializer=begin) as pool, dask.config.set(scheduler="threads", pool=pool), own:
        yield


def _written(values: Any) -> Any:
    """On the GPU, by work that need not have begun. (A name for it that dask makes of its elements would wait.)"""
    import cupy

    return cupy.asarray(values).copy()


def _known(table: Any, x: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    ids = rng.integers(-60, 60, 20)
    return gather(table, ids, block_bytes=200), x[ids]


def _joined_late(table: Any, x: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    ids = rng.integers(-60, 60, (5, 4))
    return gather(table, ids, block_bytes=200, in_flight_bytes=300), x[ids]


def _lazy(table: Any, x: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    ids = rng.integers(-60, 60, 20)
    return gather(table, da.from_array(_written(ids), chunks=6, asarray=False, name=False), block_bytes=200), x[ids]


def _filled(table: Any, x: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    ids = rng.integers(-80, 80, 20)
    inside = (ids >= -60) & (ids < 60)
    expected = np.where(inside[:, None, None], x[np.where(inside, ids, 0)], np.float32(3))
    return gather(table, ids, out_of_bounds=dg.Fill(3), block_bytes=100), expected


def _nothing_but_filled(table: Any, x: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    value = int(rng.integers(1, 100))
    return gather(table, np.full(20, 60), out_of_bounds=dg.Fill(value), block_bytes=200), np.full((20, 4, 5), value, np.float32)


def _sliced(table: Any, x: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    return slice_of(table, [-1, 0], [0, 4], steps=[-7, 1]), x[-1:0:-7]


def _elements(dialect: str) -> Callable[[Any, Any, np.random.Generator], tuple[Any, Any]]:
    def asked(table: Any, x: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        ids = rng.integers(-5, 5, (60, 4, 7))
        found = gather_elements(table, _written(ids), axis=2, dialect=dialect)
        return found, np.take_along_axis(x, ids, 2)

    return asked


def _described(table: Any, x: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Dask puts a dimension of size 1 in front of what a gather by one index gives."""
    ids = np.array(int(rng.integers(-60, 60)))
    return run(dg.GatherOperatorDesc.of(x, ids, axis=0), table, ids), x[ids][None]


def _described_slice(table: Any, x: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    source, output = (dg.BufferTensorDesc(data_type="FLOAT32", sizes=sizes) for sizes in ((60, 4, 5), (20, 4, 5)))
    desc = dg.SliceOperatorDesc(input_tensor=source, output_tensor=output, offsets=(1, 0, 0), sizes=(20, 4, 5), strides=(2, 1, 1))
    return run(desc, table), x[1:41:2]


CALLS: dict[str, Callable[[Any, Any, np.random.Generator], tuple[Any, Any]]] = {
    "gather": _known,
    "gather, groups": _joined_late,
    "gather, lazy": _lazy,
    "gather, filled": _filled,
    "gather, nothing but filled": _nothing_but_filled,
    "slice": _sliced,
    "elements, directml": _elements("directml"),
    "elements, onnx": _elements("onnx"),
    "descriptor": _described,
    "descriptor, slice": _described_slice,
}


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("wide", [0, WIDE], ids=["placed", "joined"])
@pytest.mark.parametrize("name", CALLS)
def test_threads_read_what_others_have_written(monkeypatch: pytest.MonkeyPatch, name: str, wide: int) -> None:
    monkeypatch.setattr(tasks, "WIDE", wide)
    rng = seeds.numpy_rng()
    results = []
    for _ in range(ROUNDS):  # one after the other, without a wait: the memory of each serves the next
        x = rng.random((60, 4, 5), np.float32)
        table = da.from_array(_written(x), chunks=CHUNKS, asarray=False, name=False)
        found, expected = CALLS[name](table, x, rng)
        results.append((found.compute(), expected))
    for number, (found, expected) in enumerate(results):
        assert found.shape == expected.shape
        assert found.get().tobytes() == expected.tobytes(), f"round {number}"


@pytest.mark.usefixtures("_threads")
def test_a_table_that_a_task_of_dask_made_is_read_in_order(cupy: Any) -> None:
    """`persist` and `rechunk` leave chunks whose work is not done: who made them, and on which stream, nobody tells."""
    rng = seeds.numpy_rng()
    x, ids = rng.random((60, 4, 5), np.float32), rng.integers(-60, 60, 20)
    table = da.from_array(x, chunks=CHUNKS).map_blocks(cupy.asarray).map_blocks(lambda chunk: chunk * 2).persist()
    assert gather(table, ids, block_bytes=200).compute().get().tobytes() == (x[ids] * 2).tobytes()


@pytest.mark.usefixtures("_threads")
def test_results_that_are_kept_stay_right(cupy: Any) -> None:
    """Persisted chunks, chunks one by one, and several results at once."""
    rng = seeds.numpy_rng()
    x, ids = rng.random((60, 4, 5), np.float32), rng.integers(-60, 60, 20)
    table = da.from_array(_written(x), chunks=CHUNKS, asarray=False, name=False)
    rows, every = gather(table, ids, block_bytes=200), slice_of(table, [-1], [0], steps=[-7])
    kept = rows.persist()
    assert kept.compute().get().tobytes() == x[ids].tobytes()
    together = dask.compute(rows, every)
    assert [found.get().tobytes() for found in together] == [x[ids].tobytes(), x[-1:0:-7].tobytes()]
    for places in (kept, every):
        chunks = dask.compute(*places.to_delayed().flat)
        assert {type(chunk) for chunk in chunks} == {cupy.ndarray}
    first = dask.compute(*kept.to_delayed()[:, 0, 0])
    assert np.concatenate([chunk.get() for chunk in first]).tobytes() == x[ids][:, :2].tobytes()


def _chunk(array: Any) -> da.Array:
    """The array itself as the only chunk; `from_array` copies it."""
    name = f"chunk-{id(array)}"
    return da.Array({(name, *(0 for _ in array.shape)): array}, name, tuple((size,) for size in array.shape), meta=array[:0])


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("changed", ["table", "indices"])
def test_elements_written_behind_the_call_are_read(cupy: Any, changed: str) -> None:
    rng = seeds.numpy_rng()
    x, ids = rng.random((60, 5), np.float32), rng.integers(-60, 60, 20)
    table, asked = cupy.zeros_like(_written(x)), cupy.zeros_like(_written(ids))
    (asked if changed == "table" else table)[...] = _written(ids if changed == "table" else x)
    rows = gather(_chunk(table), _chunk(asked))
    (table if changed == "table" else asked)[...] = _written(x if changed == "table" else ids)
    assert rows.compute().get().tobytes() == x[ids].tobytes()
