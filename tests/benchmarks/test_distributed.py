"""The suite on Dask with tiny tables, the synchronous scheduler, or workers that are threads of this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import PEERS, SUITES, TABLES, BenchError, BenchReport, Budget, MismatchError, lines, plot, run
from benchmarks.bench_report import Cluster, Measured, Usage
from benchmarks.clocks import Contender, Samples
from benchmarks.dask_cluster import ClusterClock, Workers
from benchmarks.errors import UnsupportedWorkloadError
from benchmarks.kinds import Along, Take
from benchmarks.peers import Stage, invite
from benchmarks.rigs import CLUSTER, DeviceRig
from benchmarks.suites import cases
from benchmarks.tables import rich_table
from benchmarks.workload_arrays import WorkloadArrays, make, stored, write
from ci.pages.benchmark_tables import markdown
from dmlgather.directml import validate
from dmlgather.package import MissingExtraError
from tests import seeds
from tests.benchmarks.test_report import REPORT, case, measured

THREADS = Cluster(workers=2, threads=1, memory_bytes=2**40, processes=False)
"""Workers as threads. Their memory is this process's: with a limit near it, Dask would pause them, and calls would wait for ever.
"""
TINY = Budget(2**16, 2**18)
WHO = ["dmlgather", "dmlgather", "fused-loop", "dask"]


def table(tmp_path: Path, kind: Take) -> WorkloadArrays:
    file = tmp_path / "table.npy"
    write(file, kind.shape, "float32", seeds.numpy_rng())
    return stored(kind, "float32", file, seeds.numpy_rng())


@pytest.fixture
def small_chunks() -> Iterator[None]:
    import dask

    with dask.config.set({"array.chunk-size": "4KiB", "scheduler": "synchronous"}):
        yield


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, quick: pytest.MonkeyPatch) -> Iterator[BenchReport]:
    """Yield a report of the suite on threads. Its folder lies under a temporary one."""
    folder = tmp_path_factory.mktemp("tables")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.rigs.CLUSTER", THREADS)
        patch.setattr("tempfile.tempdir", str(folder))
        yield run("distributed", rounds=2, seed=7, budget=TINY)
    assert list(folder.iterdir()) == [], "the table is removed"


def test_a_written_table_is_random_and_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.workload_arrays._BLOCK", 64)
    kind = Take((99, 7), 20)
    written = table(tmp_path, kind)
    content = np.load(tmp_path / "table.npy")
    assert (content.shape, content.dtype) == ((99, 7), np.float32)
    assert np.isfinite(content).all()
    assert len(np.unique(content.view("u4"))) > 600, "no block is another's copy"
    assert written.x.tobytes() == content.tobytes()
    assert written.index is not None
    assert written.index.shape == (20,)
    again = tmp_path / "again.npy"
    write(again, (99, 7), "float32", np.random.default_rng(5))
    with pytest.raises(FileExistsError):
        write(again, (99, 7), "float32", np.random.default_rng(5))


@pytest.mark.parametrize("name", ["fused-loop", "dask"])
@pytest.mark.parametrize("draw", [workload.kind.draw for workload in TABLES if isinstance(workload.kind, Take)])
def test_a_peer_gathers_the_rows_of_numpy(name: str, draw: Any, tmp_path: Path, small_chunks: None) -> None:
    given = table(tmp_path, Take((3000, 5), 200, draw=draw))
    assert len(given.x) * 20 > 10 * 4096, "many chunks"
    (peer,), missing = invite((name,), Stage("cluster", 1))
    assert missing == {}
    (said,) = peer.spellings(given)
    result = peer.array(said.run())
    assert (type(result), result.dtype, result.shape) == (np.ndarray, np.float32, (200, 5))
    assert result.tobytes() == given.x[given.index].tobytes()


def test_the_fused_loop_skips_chunks_without_wanted_rows(
    tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = table(tmp_path, Take((3000, 5), 4))
    assert given.index is not None
    given.index[:] = [0, 2999, 0, 1]
    taken: list[int] = []
    monkeypatch.setattr(
        "benchmarks.peers.dask_peers.take_rows",
        lambda file, start, stop, rows: taken.append(start) or np.load(file)[start:stop][rows],  # type: ignore[func-returns-value]
    )
    (said,) = PEERS["fused-loop"](Stage("cluster", 1)).spellings(given)
    assert said.run().tobytes() == given.x[given.index].tobytes()
    assert len(taken) == 2


def test_workloads_other_than_rows_are_unsupported(tmp_path: Path) -> None:
    for kind in (Take((4, 6), 3, axis=1), Along((4, 4), 0)):
        with pytest.raises(UnsupportedWorkloadError, match="takes rows of tables only"):
            list(PEERS["dask"](Stage("cluster", 1)).spellings(make(kind, "float32", seeds.numpy_rng())))


def test_the_table_exceeds_the_workers_and_fits_the_machine() -> None:
    (part,) = SUITES["distributed"]
    for found in cases(part, free=20 * 2**30):
        assert isinstance(found.kind, Take)
        assert found.kind.shape[0] * found.kind.shape[1] * 4 == 3_072_000_000 > CLUSTER.workers * CLUSTER.memory_bytes
        assert validate(found.kind.descriptor(found.dtype)).findings == ()
    assert {found.kind.shape for found in cases(part, free=6 * 2**30)} == {(1_500_000, 256)}


@pytest.mark.slow
def test_the_report_states_the_usage_of_the_workers(report: BenchReport) -> None:
    assert [found.workload for found in report.cases] == [workload.name for workload in TABLES]
    for found in report.cases:
        assert [item.name for item in found.measured] == WHO
        assert (found.device, found.operator, found.dtype, found.cannot) == ("cluster", "GATHER", "float32", {})
        assert found.recipe.endswith(" of output")
        assert set(found.ratios["warm"]) == {"best", "fused-loop", "dask"}
        assert found.ratios["cold"] == {}
        for item in found.measured:
            assert (item.rounds, item.clock, item.cold, item.preallocated) == (2, "wall", None, False)
            assert item.usage is not None
            assert item.usage.restarts == 0
            assert item.usage.sent_bytes is not None
            assert item.usage.sent_bytes >= found.traffic.output_bytes, "the caller has all rows"
            if sys.platform == "linux":
                assert item.usage.peak_bytes is not None
                assert item.usage.peak_bytes > 2**20
    assert report.cluster == THREADS
    assert report.seed == 7
    assert report.missing == {}, "nobody is asked who runs elsewhere"
    assert {"dask", "distributed", "numpy"} <= set(report.versions)
    assert report.flushed_bytes == {}
    assert BenchReport.model_validate_json(report.to_json()) == report


def test_a_wrong_result_is_an_error_before_any_timing(quick: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask.array as da

    monkeypatch.setattr("benchmarks.rigs.CLUSTER", THREADS)
    monkeypatch.setattr("benchmarks.rigs.interleave", lambda *_: pytest.fail("timed"))
    monkeypatch.setattr("dmlgather.distributed.gather", lambda file, i: da.from_array(-np.load(file)[i]), raising=False)
    with pytest.raises(MismatchError, match=r"not dmlgather's bits .* in 12288 elements, first at \[0, 0\]; drawn by seed 3"):
        run("distributed", only=("table-sorted",), seed=3, budget=TINY)


def test_lost_workers_are_counted(tmp_path: Path, quick: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch) -> None:
    import distributed

    workers = Workers(THREADS, tmp_path)
    try:
        client = distributed.default_client()
        samples = Samples()
        for name, call in (("keeps", client.nthreads), ("loses", lambda: client.retire_workers(list(client.nthreads())[:1]))):
            ClusterClock(workers).sample(Contender(name, "peer", name, workers.guarded(name, call)), 1, samples)
        assert [usage.restarts for usage in samples.usage] == [0, 1]
        assert samples.usage[1].sent_bytes is None
        assert workers.losses == {"keeps": 0, "loses": 1}
        monkeypatch.setattr("benchmarks.dask_cluster.BACK_S", 0.05)
        with pytest.raises(BenchError, match=r"1 worker left, expected 2: lost ones were not restarted in 0.05 s"):
            workers.ready()

        def dies() -> None:
            raise distributed.KilledWorker("task", None, 3)

        with pytest.raises(UnsupportedWorkloadError, match=r"dask gave up a task after 0 workers died"):
            workers.guarded("dies", dies)()
    finally:
        workers.close()
    assert workers.lost == 1, "the end is no loss"


def test_usage_is_aggregated_over_rounds() -> None:
    rounds = [Usage(sent_bytes=5, peak_bytes=7, restarts=0), Usage(sent_bytes=None, peak_bytes=9, restarts=2)]
    assert Usage.of(rounds) == Usage(sent_bytes=5, peak_bytes=9, restarts=2)
    assert Usage.of(rounds[1:]) == Usage(sent_bytes=None, peak_bytes=9, restarts=2)
    nothing = Usage(sent_bytes=None, peak_bytes=None, restarts=0)
    assert Usage.of([nothing, nothing]) == nothing


def test_a_seed_draws_different_numbers_for_each_case() -> None:
    def drawn(seed: int, name: str) -> int:
        return int(DeviceRig("cpu", ("numpy",), seed).random(name).integers(2**62))

    assert drawn(1, "a") == drawn(1, "a")
    assert len({drawn(1, "a"), drawn(2, "a"), drawn(1, "b")}) == 3
    with pytest.raises(BenchError, match="seed is -1, expected at least 0"):
        run(seed=-1)


@pytest.mark.parametrize("package", ["distributed", "dask"])
def test_the_suite_without_dask_names_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    if package == "dask":
        monkeypatch.delitem(sys.modules, "distributed", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    words = rf"a cluster needs the package {package}, which is not installed: .*\(dmlgather's extra dask\)"
    with pytest.raises(MissingExtraError, match=words):
        run("distributed", budget=TINY)


def entrant(name: str, role: Any, seconds: float, usage: Usage, spelling: str = "say") -> Measured:
    return measured(name, role, 1e3 * seconds, 1.0, spelling).model_copy(update={"cold": None, "usage": usage})


def invented_report(rival: float, **restarts: int) -> BenchReport:
    """Return a report with invented figures."""
    quiet, failed = (
        Usage(sent_bytes=205 * 10**6, peak_bytes=2**29, restarts=0),
        Usage(sent_bytes=None, peak_bytes=None, restarts=1),
    )
    one = case(
        "table", entrant("dmlgather", "ours", 6.0, quiet, "slow"), entrant("dmlgather", "ours", 2.0, quiet, "quick"),
        entrant("fused-loop", "peer", rival, quiet), entrant("dask", "peer", 20.0, failed),
    )  # fmt: skip
    cluster = Cluster(workers=2, threads=1, memory_bytes=900 * 2**20, restarts=restarts)
    return REPORT.model_copy(update={"suite": "distributed", "cases": (one,), "cluster": cluster, "seed": 11, "peers": {}})


def test_the_table_has_a_row_for_every_contender() -> None:
    head, *rows = lines(invented_report(1.25, dask=1))
    assert " ".join(head.split()) == "case who median s rounds ratio sent MB peak MiB restarts as typed"
    assert [row.split() for row in rows[:4]] == [
        ["table", "float32", "dmlgather", "6", "5", "3.00", "205", "512", "0", "slow"],
        ["table", "float32", "dmlgather", "2", "5", "205", "512", "0", "quick"],
        ["table", "float32", "fused-loop", "1.25", "5", "0.62", "◀", "205", "512", "0", "say"],
        ["table", "float32", "dask", "20", "5", "10.00", "-", "-", "1", "◀", "say"],
    ]
    assert "suite distributed on Abacus, 2 CPUs, 2026-01-02T03:04:05+00:00, seed 11" in rows
    assert "2 workers of 1 thread and 900 MiB in separate processes; tables in .npy files: 100 x 10 (4e-06 GB)" in rows
    assert "dmlgather takes at most 1.60 times as long as fused-loop; goal: 2" in rows
    assert "◀ workers lost and restarted in all calls, timed or not: dask 1" in rows
    assert [row.style for row in rich_table(invented_report(1.25, dask=1), 300).rows] == [None, None, "red", "red"]
    table = [line for line in markdown(invented_report(1.25)).splitlines() if line.startswith("|")]
    assert len(table) == 6
    assert len({line.count("|") for line in table}) == 1


def test_a_missed_goal_is_marked() -> None:
    text = lines(invented_report(0.5))
    assert "dmlgather takes at most 4.00 times as long as fused-loop; goal: 2 ◀ missed" in text
    assert "no worker was lost and restarted in any call, timed or not" in text


def test_a_plot_without_a_measured_copy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"a copy's, which the suite distributed does not measure; use --json"):
        plot(invented_report(1.0), tmp_path / "a.svg")
