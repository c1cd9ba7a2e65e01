"""Which chunks are loaded inside the tasks that need them. Judge: the chunks that dask computes, and how often loaders ran."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from dask._task_spec import TaskRef
from dask.core import flatten

from dmlgather.distributed import gather
from dmlgather.distributed.table_sources import EMBEDDED_BYTES, ChunkLoads, Load, loaded
from tests import seeds
from tests.distributed.counted import bits

pytestmark = pytest.mark.usefixtures("synchronous")

pytestmark = pytest.mark.usefixtures("synchronous")

X = np.arange(2400.0).reshape(600, 4)


def _stored(folder: Path) -> da.Array:
    stored = zarr.create_array(folder / "x.zarr", shape=X.shape, chunks=(100, 4), dtype=X.dtype)
    stored[:] = X
    return da.from_zarr(stored)


def _delayed() -> da.Array:
    parts = [da.from_delayed(dask.delayed(np.full)((2, 4), float(at)), (2, 4), dtype=float) for at in range(3)]
    return da.concatenate(parts)


OWN: dict[str, Callable[[Path], Any]] = {
    "stored": _stored,
    "mapped": lambda folder: (_stored(folder) + 1).map_blocks(np.sqrt),
    "merged": lambda folder: _stored(folder).rechunk((200, 4)),
    "sliced": lambda folder: _stored(folder)[7:550:13, ::-1],
    "transposed": lambda folder: _stored(folder).T,
    "delayed": lambda folder: _delayed(),
    "random": lambda folder: da.random.default_rng(1).random((600, 4), chunks=100),
    "small, in memory": lambda folder: da.from_array(X, chunks=100),
    "small, computed": lambda folder: _stored(folder).persist(),
}
SHARED: dict[str, Callable[[Path], Any]] = {
    "cut": lambda folder: _stored(folder).rechunk((60, 4)),
    "overlapping": lambda folder: _stored(folder).map_overlap(np.sqrt, depth={0: 1}, boundary="none"),
    "two columns of one chunk": lambda folder: _stored(folder).rechunk((100, 2)),
    "large, in memory": lambda folder: da.from_array(np.ones((EMBEDDED_BYTES // 4, 4)), chunks=(EMBEDDED_BYTES // 8, 4)),
    "large, computed": lambda folder: da.arange(EMBEDDED_BYTES, chunks=EMBEDDED_BYTES // 2).persist(),
    "many tasks": lambda folder: da.arange(200, chunks=1).rechunk(100),
}


def all_loads(table: da.Array) -> ChunkLoads:
    return ChunkLoads(table, list(np.ndindex(table.numblocks)))


@pytest.mark.parametrize("name", [*OWN, *SHARED])
def test_a_chunk_is_loaded_where_its_tasks_are_its_alone(tmp_path: Path, name: str) -> None:
    table = (OWN | SHARED)[name](tmp_path)
    loads = all_loads(table)
    places = list(np.ndindex(table.numblocks))
    payloads = [loads.of(place) for place in places]
    if name in OWN:
        assert all(isinstance(payload, Load) for payload in payloads)
        assert loads.graph == ()
        for place, payload in zip(places, payloads, strict=True):
            sent = pickle.loads(pickle.dumps(payload))
            assert bits(loaded(payload)) == bits(loaded(sent)) == bits(table.blocks[place].compute())
    else:
        assert payloads == [TaskRef((table.name, *place)) for place in places]
        assert loads.graph == (table,)


@pytest.mark.parametrize("name", [*OWN, *SHARED])
def test_a_gather_reads_chunks_however_they_are_loaded(tmp_path: Path, name: str) -> None:
    table = (OWN | SHARED)[name](tmp_path)
    whole, size = table.compute(), table.shape[0]
    indices = seeds.numpy_rng().integers(0, size, 30)
    for asked in (indices, da.from_array(indices, chunks=7)):
        found = gather(table, asked, block_bytes=2000, in_flight_bytes=5000)
        assert bits(found.compute()) == bits(whole[indices])
        assert bits(found.compute(scheduler="threads")) == bits(whole[indices])


def test_a_task_that_several_chunks_share_runs_once() -> None:
    ran: Counter[int] = Counter()

    def load(block_id: Any = None) -> Any:
        ran[block_id[0]] += 1
        return X[100 * block_id[0] : 100 * block_id[0] + 100]

    table = da.map_blocks(load, chunks=((100,) * 6, (4,)), dtype=X.dtype, meta=X[:0]).rechunk((50, 4))
    assert bits(gather(table, np.arange(0, 500, 3)).compute()) == bits(X[:500:3])
    assert ran == dict.fromkeys(range(5), 1)


def test_only_the_chunks_that_are_asked_for_count(tmp_path: Path) -> None:
    table = _stored(tmp_path).rechunk((50, 4))
    assert isinstance(ChunkLoads(table, [(0, 0), (2, 0)]).of((2, 0)), Load)
    assert isinstance(ChunkLoads(table, [(2, 0), (3, 0)]).of((2, 0)), TaskRef)
    assert ChunkLoads(table, []).graph == ()


def test_optimisation_may_be_off(tmp_path: Path) -> None:
    table = (_stored(tmp_path) + 1).map_blocks(np.sqrt)
    with dask.config.set({"optimization.fuse.active": False}):
        assert isinstance(all_loads(table).of((0, 0)), Load)
        assert bits(gather(table, np.array([599, 0])).compute()) == bits(np.sqrt(X + 1)[[599, 0]])


def test_the_keys_of_a_table_are_those_of_its_loads(tmp_path: Path) -> None:
    table = _stored(tmp_path)
    loads = all_loads(table)
    keys = [loads.of(key[1:]).key for key in flatten(table.__dask_keys__())]
    assert keys == list(flatten(table.__dask_keys__()))
