"""Gathers on a cluster of two worker processes: from memory, files and stores, with a worker lost in the middle, and cancelled.
Judge: NumPy over the whole table.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client, Future, LocalCluster
from numpy.typing import NDArray

import dmlgather as dg
from dmlgather.distributed import MemoryLimitError, gather, gather_elements
from dmlgather.distributed import slice as slice_of
from tests.distributed.counted import bits
from tests.distributed.standin import Standin, table_of

pytestmark = pytest.mark.slow

X = np.arange(120_000, dtype=np.float32).reshape(3000, 40)
INDICES = np.arange(2100).reshape(70, 30) % 1500 * 1361 % 6200 - 3100  # some repeated, some out of range
EXPECTED = X[np.clip(np.where(INDICES < 0, INDICES + 3000, INDICES), 0, 2999)]
BLOCKS: Any = {"block_bytes": 80_000, "in_flight_bytes": 200_000}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("workers")
    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=2,
            memory_limit="400MiB",
            dashboard_address=":0",  # any free port: others may run here
            local_directory=str(folder),
        ) as cluster,
        Client(cluster) as found,
    ):
        yield found


def test_a_cluster_reads_memory_files_and_stores(client: Client, tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", X)
    stored = zarr.create_array(tmp_path / "table.zarr", shape=X.shape, chunks=(700, 25), dtype=X.dtype)
    stored[:] = X
    persisted = da.from_array(X, chunks=(500, 40)).persist()
    tables = (tmp_path / "table.npy", str(tmp_path / "table.zarr"), stored, persisted, da.from_array(X, chunks=(999, 20)))
    asked = (INDICES, da.from_array(INDICES, chunks=(30, 30)))
    found = dask.compute(*(gather(table, each, **BLOCKS) for table in tables for each in asked))
    assert [bits(each) for each in found] == [bits(EXPECTED)] * 10


def test_a_cluster_takes_slices_and_elements(client: Client, tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", X)
    assert bits(slice_of(tmp_path / "table.npy", [2900], [5], [0], [-7]).compute()) == bits(X[2900:5:-7])
    along = INDICES[:40, :30].T % 3000
    elements = gather_elements(da.from_array(X, chunks=(3000, 9)), along, axis=0)
    assert bits(elements.compute()) == bits(np.take_along_axis(X, along, 0))


def test_stand_ins_come_back_as_they_are(client: Client) -> None:
    found = gather(table_of(X, ((1500, 1500), (40,))), INDICES, **BLOCKS).compute()
    assert type(found) is Standin
    assert found.tobytes() == EXPECTED.tobytes()


def test_a_bad_index_is_an_index_error(client: Client) -> None:
    lazy = gather(da.from_array(X, chunks=500), da.from_array(INDICES, chunks=35), dialect="onnx")
    with pytest.raises(IndexError, match=r"indices\[\d+, \d+\] = -?3\d{3} is out of range for axis 0 of size 3000"):
        lazy.compute()


def test_the_cluster_tells_how_many_share_the_memory(client: Client) -> None:
    with pytest.raises(MemoryLimitError, match=r"memory_limit is 1000 bytes; most of it is .* on 2 threads"):
        gather(da.from_array(X, chunks=500), INDICES, memory_limit=1000)


def dies_once(chunk: NDArray[Any], marker: Path) -> NDArray[Any]:
    """The chunk; the first worker that asks for one is killed."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return chunk
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
    return chunk


def test_a_killed_worker_changes_nothing(client: Client, tmp_path: Path) -> None:
    before = set(client.nthreads())
    table = da.from_array(X, chunks=(250, 40)).map_blocks(dies_once, tmp_path / "marker", dtype=X.dtype, meta=X[:0])
    asked = (INDICES, da.from_array(INDICES, chunks=(35, 30)))
    lazy = [gather(table, each, out_of_bounds=dg.Fill(-1), **BLOCKS) for each in asked]
    assert [bits(found) for found in dask.compute(*lazy)] == [bits(_filled())] * 2
    assert (tmp_path / "marker").exists()
    client.wait_for_workers(2, timeout=300)
    assert set(client.nthreads()) != before


def _filled() -> NDArray[Any]:
    expected: NDArray[Any] = EXPECTED.copy()
    expected[(INDICES < -3000) | (INDICES >= 3000)] = -1
    return expected


def waits(chunk: NDArray[Any], marker: Path) -> NDArray[Any]:
    """The chunk, once the marker is gone; a folder beside it holds one file per chunk that is waited for."""
    (marker.parent / "asked" / str(time.monotonic_ns())).touch()
    while marker.exists():
        time.sleep(0.01)
    return chunk


def test_a_cancelled_gather_leaves_nothing_behind(client: Client, tmp_path: Path) -> None:
    marker, asked = tmp_path / "marker", tmp_path / "asked"
    marker.touch()
    asked.mkdir()
    _until(lambda: _keys(client) == 0)
    folders = _files(client)
    table = da.from_array(X, chunks=(100, 40)).map_blocks(waits, marker, dtype=X.dtype, meta=X[:0])
    future: Future = client.compute(gather(table, INDICES, **BLOCKS))
    _until(lambda: any(asked.iterdir()))
    assert _keys(client) > 10
    future.cancel()
    del future
    _until(lambda: _keys(client) == 0)
    _until(lambda: not any(client.run(_waiting).values()))  # what runs is held by the marker until then
    marker.unlink()
    _until(lambda: set(client.run(_held).values()) == {0})
    assert len(list(asked.iterdir())) <= sum(client.nthreads().values()) < table.npartitions  # each thread had begun one
    assert _files(client) == folders


def _keys(client: Client) -> int:
    count: int = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
    return count


def _held(dask_worker: Any) -> int:
    return len(dask_worker.data) + len(dask_worker.state.tasks)


def _waiting(dask_worker: Any) -> int:
    return len(dask_worker.state.ready)


def _files(client: Client) -> set[str]:
    """What lies in the workers' folders."""
    return set().union(*client.run(lambda dask_worker: [*map(str, Path(dask_worker.local_directory).rglob("*"))]).values())


def _until(true: Callable[[], bool], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
