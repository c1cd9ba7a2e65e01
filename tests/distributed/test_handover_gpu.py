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


def _filled(x: Any, ids: Any, value: int) -> Any:
    inside = (ids >= -60) & (ids < 60)
    return np.where(inside[:, None, None], x[np.where(inside, ids, 0)], np.float32(value))


def _elements(dialect: str) -> tuple[Any, Any, Any]:
    return (
        (60, 4, 7),
        lambda table, ids: gather_elements(table, _written(ids % 10 - 5), axis=2, dialect=dialect),
        lambda x, ids: np.take_along_axis(x, ids % 10 - 5, 2),
    )


SLICE = dg.SliceOperatorDesc.of(((60, 4, 5), "float32"), (1, 0, 0), (20, 4, 5), (2, 1, 1))
CALLS: dict[str, tuple[Any, Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "gather": (20, lambda table, ids: gather(table, ids, block_bytes=200), lambda x, ids: x[ids]),
    "gather, groups": (
        (5, 4),
        lambda table, ids: gather(table, ids, block_bytes=200, in_flight_bytes=300),
        lambda x, ids: x[ids],
    ),
    "gather, lazy": (
        20,
        lambda table, ids: gather(table, da.from_array(_written(ids), chunks=6, asarray=False, name=False), block_bytes=200),
        lambda x, ids: x[ids],
    ),
    "gather, filled": (
        20,
        lambda table, ids: gather(table, ids * 4 // 3, out_of_bounds=dg.Fill(3), block_bytes=100),
        lambda x, ids: _filled(x, ids * 4 // 3, 3),
    ),
    "gather, nothing but filled": (
        20,
        lambda table, ids: gather(table, ids + 120, out_of_bounds=dg.Fill(int(ids[0])), block_bytes=200),
        lambda x, ids: _filled(x, ids + 120, ids[0]),
    ),
    "slice": (0, lambda table, ids: slice_of(table, [-1, 0], [0, 4], steps=[-7, 1]), lambda x, ids: x[-1:0:-7]),
    "elements, directml": _elements("directml"),
    "elements, onnx": _elements("onnx"),
    "descriptor": (  # Dask puts a dimension of size 1 in front of what a gather by one index gives
        (),
        lambda table, ids: run(dg.GatherOperatorDesc.of(((60, 4, 5), "float32"), ids, axis=0), table, ids),
        lambda x, ids: x[ids][None],
    ),
    "descriptor, slice": (0, lambda table, ids: run(SLICE, table), lambda x, ids: x[1:41:2]),
}
"""The shape of indices from -60 to 59, a call, and what NumPy makes of the same arrays."""


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("wide", [0, WIDE], ids=["placed", "joined"])
@pytest.mark.parametrize("name", CALLS)
def test_threads_read_what_others_have_written(monkeypatch: pytest.MonkeyPatch, name: str, wide: int) -> None:
    monkeypatch.setattr(tasks, "WIDE", wide)
    rng, (shape, call, expected) = seeds.numpy_rng(), CALLS[name]
    results = []
    for _ in range(ROUNDS):  # one after the other, without a wait: the memory of each serves the next
        x = rng.random((60, 4, 5), np.float32)
        table = da.from_array(_written(x), chunks=CHUNKS, asarray=False, name=False)
        ids = np.asarray(rng.integers(-60, 60, shape))
        results.append((call(table, ids).compute(), expected(x, ids)))
    for number, (found, right) in enumerate(results):
        assert found.shape == right.shape
        assert found.get().tobytes() == right.tobytes(), f"round {number}"


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
