"""The suite on a GPU, over a driver that is not one (stand_in.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import BenchError, BenchReport, lines, run
from benchmarks.clocks import Contender, DeviceClock, Samples
from dmlgather.backends.cuda import DeviceError
from tests import seeds
from tests.benchmarks.small import TINY
from tests.benchmarks.stand_in import BenchDriver
from tests.kernels.host_driver import installed


@pytest.fixture
def gpu() -> Iterator[BenchDriver]:
    with installed(BenchDriver()) as stand_in:
        yield stand_in


@pytest.fixture
def gpu_report(gpu: BenchDriver) -> BenchReport:
    return run("gpu", ("cupy", "numpy", "openvino"), rounds=1, seed=seeds.seed(32), budget=TINY)


def test_every_workload_runs_beside_cupy_and_agrees(gpu_report: BenchReport) -> None:
    assert len(gpu_report.cases) == 30
    assert gpu_report.missing == {"numpy": "does not run on cuda", "openvino": "does not run on cuda"}
    for case in gpu_report.cases:
        assert (case.device, case.peers) == ("cuda", ("cupy",))
        assert {item.clock for item in case.measured} == {"events"}
        assert {item.warm.median_ms for item in case.measured} <= {2.0 / repeat for repeat in (1, 2)}
        assert all(item.host is not None for item in case.measured)
        copies = [item.spelling for item in case.measured if item.role == "copy"]
        wide = ["ElementwiseKernel, 16 bytes a thread"] * (case.traffic.output_bytes % 16 == 0)
        assert copies == ["cudaMemcpyAsync", *wide]


def test_the_report_names_the_gpu(gpu_report: BenchReport) -> None:
    gpu = gpu_report.machine.gpu
    assert gpu is not None
    assert (gpu.name, gpu.compute_capability, gpu.driver, gpu.runtime) == ("Stand-in", "9.0", "13.1", "12.9")
    assert (gpu.l2_bytes, gpu.multiprocessors, gpu.clock_mhz, gpu.memory_clock_mhz) == (2**16, 4, 1500.0, None)
    assert gpu_report.flushed_bytes == {"cuda": 2**17}
    assert gpu.l2_fetch_bytes == 64
    assert "; Stand-in, L2 fetches of 64 bytes, " in "\n".join(lines(gpu_report))


@pytest.mark.parametrize("count", [32, 128])
def test_the_granularity_of_fetches_into_l2_holds_for_the_run(gpu: BenchDriver, count: int) -> None:
    report = run("gpu", ("cupy",), only=("embedding",), rounds=1, seed=seeds.seed(32), budget=TINY, l2_fetch_bytes=count)
    assert report.machine.gpu is not None
    assert report.machine.gpu.l2_fetch_bytes == count
    assert BenchReport.model_validate_json(report.to_json()) == report
    assert f"L2 fetches of {count} bytes" in "\n".join(lines(report))
    (made, restored) = [place for place, entry in enumerate(gpu.log) if entry.startswith("limit 5 is ")]
    launches = [place for place, entry in enumerate(gpu.log) if entry.startswith("launch")]
    assert made < min(launches) <= max(launches) < restored
    assert (gpu.log[made], gpu.limits) == (f"limit 5 is {count}", {5: 64})


def test_the_granularity_is_restored_after_an_error(gpu: BenchDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "memcpyAsync", lambda *_: _raise(RuntimeError("lost")))
    with pytest.raises(RuntimeError, match="lost"):
        run("gpu", ("cupy",), only=("embedding",), rounds=1, seed=seeds.seed(32), budget=TINY, l2_fetch_bytes=32)
    assert "limit 5 is 32" in gpu.log
    assert gpu.limits == {5: 64}


def test_a_granularity_that_the_gpu_does_not_take(gpu: BenchDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(gpu, "deviceSetLimit", lambda *_: None)
        with pytest.raises(BenchError, match="--l2-fetch is 32 bytes, but this GPU makes 64 of it: choose that, or leave it out"):
            run("gpu", ("cupy",), rounds=1, l2_fetch_bytes=32)
    gpu.limits.clear()
    with pytest.raises(BenchError, match="--l2-fetch is given, but this GPU or its driver has no such limit: leave it out"):
        run("gpu", ("cupy",), rounds=1, l2_fetch_bytes=32)
    report = run("gpu", ("cupy",), only=("embedding",), rounds=1, seed=seeds.seed(32), budget=TINY)
    assert report.machine.gpu is not None
    assert report.machine.gpu.l2_fetch_bytes is None


def test_a_granularity_that_cannot_be_or_of_no_gpu() -> None:
    with pytest.raises(BenchError, match=r"^l2_fetch_bytes \(--l2-fetch\) is 48, expected 32, 64, 128$"):
        run("gpu", l2_fetch_bytes=48)
    with pytest.raises(
        BenchError, match="is for GPUs, and the suite cpu runs on none: choose one of gpu, full, chains, or leave"
    ):
        run("cpu", l2_fetch_bytes=64)


def _raise(error: Exception) -> None:
    raise error


def test_sectors_of_a_gpu_are_half_a_line(gpu_report: BenchReport) -> None:
    (case,) = [case for case in gpu_report.cases if case.workload == "gnn-400B"]
    assert case.traffic.fetched_bytes == case.output_shape[0] * 13 * 32  # as lines of 64 bytes: 7


def test_the_launch_floor_has_an_empty_kernel(gpu: BenchDriver) -> None:
    report = run("gpu", ("cupy",), only=("launch-floor",), rounds=1, seed=seeds.seed(32), budget=TINY)
    roles = [item.role for item in report.cases[0].measured]
    assert {"ours", "checked", "launch", "copy", "peer"} == set(roles)
    assert "empty (1,) (256,) ()" in gpu.log
    text = "\n".join(lines(report))
    assert "launch-floor float32: cupy.RawKernel takes" in text
    assert "us of the host" in text


def test_a_sample_is_recorded_on_the_stream_and_cold_after_a_flush(gpu: BenchDriver) -> None:
    clock = DeviceClock(gpu, 64)
    gpu.log.clear()
    samples = Samples()
    clock.sample(Contender("a", "ours", "a", lambda: gpu.log.append("call")), 2, samples)
    between = ["record on 77", "call", "call", "record on 77", "wait for event"]
    cold = ["flush 128 on 77", "record on 77", "call", "record on 77", "wait for event"]
    assert gpu.log == ["call", "wait for device", *between, *cold]
    assert (samples.warm, samples.cold, len(samples.host)) == ([0.001], [0.002], 1)


def test_who_has_streams_of_its_own_is_timed_by_the_wall_clock(gpu: BenchDriver) -> None:
    clock = DeviceClock(gpu, 64)
    gpu.log.clear()
    samples = Samples()
    own = Contender("a", "peer", "a", lambda: gpu.log.append("call"), own_clock=True)
    clock.sample(own, 2, samples)
    assert gpu.log == ["call", "wait for device", "call", "call", "flush 128 on 77", "wait for device", "call"]
    assert (clock.kind(own), samples.host) == ("wall", [])


def test_the_operator_launches_on_the_clock_s_stream(gpu: BenchDriver) -> None:
    run("gpu", ("cupy",), only=("embedding",), rounds=1, seed=seeds.seed(32), budget=TINY)
    assert "launch on 77" in gpu.log
    assert {entry for entry in gpu.log if entry.startswith("copy on")} == {"copy on 77"}


def test_without_a_gpu_the_suite_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacks(device: int) -> None:
        raise DeviceError("no usable NVIDIA GPU or driver (none); install it")

    monkeypatch.setattr("benchmarks.rigs.cuda.require", lacks)
    with pytest.raises(DeviceError, match="no usable NVIDIA GPU"):
        run("gpu")
    with pytest.raises(DeviceError, match="no usable NVIDIA GPU"):
        run("full", l2_fetch_bytes=64)
    report = run("full", ("numpy",), only=("beam float16", "row-16B"), rounds=1, seed=seeds.seed(32), budget=TINY)
    assert [case.name for case in report.cases] == ["row-16B float32"]
    assert report.missing == {"cuda": "no usable NVIDIA GPU or driver (none); install it"}
