"""Memory of the process that computes a gather. Judges: the measured peak of a process that does; the model by hand."""

from __future__ import annotations

import sys

import dask
import dask.array as da
import numpy as np
import pytest

from dmlgather.distributed import MemoryLimitError, forecast, gather, memory_limits, plan_gather
from dmlgather.distributed.memory_model import KEPT_BYTES, TASK_BYTES
from tests import seeds
from tests.distributed.computed_peak import Gathered

MIB = 2**20
BLOCKS = {"block_bytes": 64 * MIB, "in_flight_bytes": 128 * MIB}
GATHERS = {
    "several blocks": Gathered("made", 250_000, 128, 25_000, 400_000, 0, options=BLOCKS),
    "of a store": Gathered("zarr", 250_000, 128, 10_000, 400_000, 0, options=BLOCKS),
    "in ascending order": Gathered("made", 250_000, 128, 25_000, 400_000, 0, ascending=True, options=BLOCKS),
    "one block": Gathered("npy", 250_000, 128, 25_000, 200_000, 0),
    "rows of 16 bytes": Gathered("npy", 8_000_000, 4, 800_000, 6_000_000, 0),
    "rows of 8 KiB": Gathered("npy", 30_000, 2048, 3000, 30_000, 0),
    "chunks off the axis": Gathered("made", 100_000, 512, 10_000, 100_000, 0, columns=128),
    "many tasks": Gathered("made", 200_000, 64, 200, 200_000, 0, options={"block_bytes": 2 * MIB, "in_flight_bytes": 4 * MIB}),
}


WIDER = {"rows of 16 bytes", "many tasks"}
"""Where small terms are most of the forecast, and the allocator decides how much of them shows."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells the peak")
@pytest.mark.parametrize("name", GATHERS)
def test_a_gather_needs_its_forecast_or_not_much_less(name: str) -> None:
    gathered = GATHERS[name].seeded(int(seeds.numpy_rng().integers(2**31)))
    peak, predicted = gathered.measured()
    assert peak <= predicted <= (2 if name in WIDER else 1.5) * peak, f"measured {peak}, forecast {predicted}"


def test_the_model_is_what_a_hand_computes() -> None:
    # Chunks of 4, 4 and 2 rows of 8 bytes; blocks of two indices, groups of two blocks: {0, 3}, {5, 5} and {9, 9}.
    found = plan_gather(
        ((4, 4, 2), (2,)), [0, 3, 5, 5, 9, 9], dtype="f4", workers=1, threads=3, block_bytes=16, in_flight_bytes=32
    ).compute
    assert found.routing_bytes == 6 * 64
    assert found.output_bytes == found.join_bytes == 6 * 8
    tasks = (2 + 2 + 2) + (1 + 1)  # takes, picks and places of the first group; of the second, which picks nothing
    assert found.graph_bytes == KEPT_BYTES + tasks * TASK_BYTES + 6 * 8
    # Three rows of the first group; a chunk and two rows of it on each thread; two picked rows, and the order of two indices.
    assert found.tasks_bytes == 3 * 8 + 3 * (4 + 2) * 8 + 3 * (2 * 8 + 2 * 16)
    assert found.total_bytes == found.graph_bytes + found.output_bytes + found.tasks_bytes
    assert found.available_bytes is None


def test_a_single_block_holds_its_rows_while_it_is_copied() -> None:
    found = plan_gather(((4,), (2,)), [0, 3], dtype="f4", workers=1, threads=3).compute
    assert found.join_bytes == 2 * 8 + 2 * 8 + (4 + 2) * 8
    assert "max(its copy and the rows of its one block 80 bytes, running tasks " in str(found)
    assert "max(its copy 24 bytes, " in str(
        plan_gather(((4,), (1,)), [0, 3, 2] * 2, workers=1, threads=1, block_bytes=12).compute
    )


def test_workers_run_the_tasks_of_a_cluster() -> None:
    sizes, indices = ((4, 4, 2), (2,)), [0, 3, 5]
    found = plan_gather(sizes, indices, workers=2, threads=3).compute
    assert found.tasks_bytes == 0
    assert found.total_bytes == found.graph_bytes + 2 * found.output_bytes


def test_a_process_that_can_have_less_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    table, indices = da.zeros((1000, 3), chunks=(100, 3)), np.arange(1000)
    enough = plan_gather(table, indices)
    assert "more than" not in str(enough)
    for room, short in ((enough.compute.total_bytes, False), (enough.compute.total_bytes - 1, True), (None, False)):
        monkeypatch.setattr(forecast, "available_memory", lambda room=room: room)
        found = plan_gather(table, indices)
        assert found.compute.available_bytes == (room if short else None)
        assert (", more than the 64" in str(found)) == short
        assert ("write the result block by block" in str(found)) == short


def test_a_limit_holds_where_this_process_runs_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    table, indices = da.zeros((1000, 3), chunks=(100, 3)), np.arange(1000)
    needed = plan_gather(table, indices).compute.total_bytes
    assert gather(table, indices, memory_limit=needed).compute().shape == (1000, 3)
    refused = gather(table, indices, memory_limit=needed - 1)
    for call in (refused.compute, lambda: dask.compute(refused)):
        with pytest.raises(
            MemoryLimitError, match=rf"^compute\(\) needs 6\S+ MiB \({needed} bytes\) .*limit is 6\S+ MiB; lower block"
        ):
            call()
    with pytest.raises(MemoryLimitError, match=r"limit is 1 MiB; write the result block by block"):  # no sizes help
        gather(table, indices, memory_limit="1MiB").compute()
    target = np.ones((1000, 3))
    da.store(refused, target)  # block by block
    assert not target.any()
    shown = str(plan_gather(table, indices, memory_limit=needed - 1))
    assert " of this process, more than the 64" in shown
    assert "write the result block by block" in shown
    assert "more than" not in str(plan_gather(table, indices, memory_limit=needed))
    assert "more than" not in str(plan_gather(table, indices, workers=2, memory_limit=needed // 2))
    monkeypatch.setattr(memory_limits, "client_runs", lambda: True)
    assert refused.compute().shape == (1000, 3)
