"""Runs on tiny sizes: the contents of a report, reading it back, and refusals of a run. No test judges a time."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks import PEERS, BenchError, BenchReport, MismatchError, run
from benchmarks.kinds import Take
from benchmarks.peers import Spelling
from benchmarks.peers.numpy_peer import NumpyPeer
from benchmarks.rigs import last_level
from benchmarks.suites import FEW
from benchmarks.workload_arrays import WorkloadArrays
from dmlgather.selftest.selftest_report import caches
from tests import processes, seeds
from tests.benchmarks.small import PRESENT, TINY


def test_the_report_of_the_smoke_suite_is_complete(report: BenchReport) -> None:
    assert report.suite == "smoke"
    assert [case.workload for case in report.cases] == sorted(FEW, key=[case.workload for case in report.cases].index)
    assert len(report.cases) == len(FEW) == 9
    assert {case.operator for case in report.cases} == {"GATHER", "GATHER_ELEMENTS", "GATHER_ND1", "SLICE1"}
    for case in report.cases:
        assert case.peers == PRESENT
        assert case.recipe
        assert case.device == "cpu"
        assert case.index_type == (None if case.operator == "SLICE1" else "int64")
        assert [item.role for item in case.measured].count("ours") == 1
        assert case.best("copy", "warm") is not None
        for item in case.measured:
            assert (item.rounds, item.clock, item.host) == (2, "wall", None)
            for timing in (item.warm, item.cold):
                assert timing is not None
                assert 0 < timing.low_ms <= timing.median_ms <= timing.high_ms
    assert set(report.peers) == set(PRESENT)
    assert report.missing == {"cupy": "does not run on cpu"}
    assert {"python", "dmlgather", "numpy", "jax", "onnx", "onnxruntime", "openvino"} == set(report.versions)
    assert report.machine.cpus >= 1
    assert report.machine.processor
    assert report.machine.gpu is None
    assert report.flushed_bytes == {"cpu": 8192}
    assert datetime.datetime.fromisoformat(report.date).utcoffset() == datetime.timedelta(0)


def test_only_the_launch_floor_also_times_the_checked_call(report: BenchReport) -> None:
    for case in report.cases:
        checked = [item.spelling for item in case.measured if item.role == "checked"]
        assert checked == (["op(x, i, out=out)"] if case.workload == "launch-floor" else [])


def test_the_report_says_which_peers_preallocate(report: BenchReport) -> None:
    into = {name: {item.preallocated for case in report.cases for item in case.measured if item.name == name} for name in PRESENT}
    assert into == {"numpy": {True, False}, "jax": {False}, "onnxruntime": {True}, "openvino": {True}}


def test_progress_names_every_case_and_the_end(quick: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int, str]] = []
    options: dict[str, Any] = {"rounds": 1, "seed": seeds.seed(32), "budget": TINY}
    run(peers=("numpy",), only=("crop", "GNN"), **options, progress=lambda *step: seen.append(step))
    assert seen == [(0, 2, "gnn-400B float32"), (1, 2, "crop float32"), (2, 2, "")]


class Lying(NumpyPeer):
    """A peer whose take gets one bit wrong."""

    name, change = "liar", staticmethod(lambda result: None)

    def take(self, data: WorkloadArrays, kind: Take, /) -> Iterator[Spelling]:
        def call() -> Any:
            result = np.take(data.x, data.index, kind.axis)  # type: ignore[arg-type] # takes have indices
            return self.change(result)

        yield Spelling("lie(x, i)", call, preallocated=False)


def one_bit(result: Any) -> Any:
    result[2, 5] = -result[2, 5]  # zeros with another sign are equal numbers, but other bits
    return result


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (one_bit, r"inner-4096 float32: not liar's bits \(lie\(x, i\)\) in 1 element, first at \[2, 5\]"),
        (lambda result: -result, r"not liar's bits \(lie\(x, i\)\) in 4096 elements, first at \[0, 0\]"),
        (lambda result: result[:, 1:], r"the result has shape \(4, 1024\), liar's has \(4, 1023\)"),
    ],
)
def test_a_wrong_result_is_an_error_before_any_timing(
    quick: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch, change: Any, message: str
) -> None:
    monkeypatch.setattr(Lying, "change", staticmethod(change))
    monkeypatch.setitem(PEERS, "liar", Lying)
    monkeypatch.setattr("benchmarks.rigs.interleave", lambda *_: pytest.fail("timed"))
    monkeypatch.setattr("benchmarks.suites.fitted", lambda *_: Take((4, 4096), 1024, axis=1))
    with pytest.raises(MismatchError, match=message):
        run(peers=("liar",), only=("inner-4096",), rounds=1, seed=seeds.seed(32), budget=TINY)


def test_invalid_arguments_of_run_are_refused() -> None:
    with pytest.raises(BenchError, match=r"unknown suite 'fast'; expected one of: smoke, cpu, gpu, full"):
        run("fast")
    with pytest.raises(BenchError, match=r"unknown peer tensorrt, ort; expected some of: numpy, torch"):
        run(peers=("tensorrt", "numpy", "ort"))
    with pytest.raises(BenchError, match=r"unknown peer \(none\)"):
        run(peers=())
    with pytest.raises(BenchError, match=r"rounds is 0, expected at least 1"):
        run(rounds=0)
    with pytest.raises(BenchError, match=r"2 names not in the suite smoke: 'nothing', 'beam'; expected some of: embedding, "):
        run(only=("embedding", "nothing", "slice", "beam"))


def test_caches_are_read_as_the_system_states_them(tmp_path: Any) -> None:
    for number, (level, kind, size) in enumerate([("1", "Data", "32K"), ("2", "Unified", "512K"), ("3", "Unified", "32M")]):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()  # it states nothing
    found = caches(tmp_path)
    assert found == {"L1 Data": 32 * 1024, "L2 Unified": 512 * 1024, "L3 Unified": 32 * 1024**2}
    assert last_level(found) == 32 * 1024**2
    assert last_level({"L3 Unified": 2**30}) == last_level({}) == 64 * 1024**2


def test_importing_benchmarks_loads_no_peer_and_no_matplotlib() -> None:
    code = (
        "import sys, dmlgather; assert 'benchmarks' not in sys.modules; import benchmarks; "
        "heavy = ('matplotlib', 'rich', 'typer', 'cupy', 'torch', 'jax', 'onnx', 'onnxruntime', 'openvino', 'dask'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = processes.run([sys.executable, "-c", code], check=True)
    assert done.stdout.strip() == "[]"
