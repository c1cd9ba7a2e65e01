"""The suite on a GPU, over a driver that is not one (stand_in.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dmlgather.backends.cuda import DeviceError
from dmlgather.bench import BenchReport, lines, run
from dmlgather.bench.clocks import Contender, DeviceClock, Samples
from tests import seeds
from tests.bench.small import TINY
from tests.bench.stand_in import BenchDriver
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
    assert "; Stand-in" in "\n".join(lines(gpu_report))


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

    monkeypatch.setattr("dmlgather.bench.rigs.cuda.require", lacks)
    with pytest.raises(DeviceError, match="no usable NVIDIA GPU"):
        run("gpu")
    report = run("full", ("numpy",), only=("beam float16", "row-16B"), rounds=1, seed=seeds.seed(32), budget=TINY)
    assert [case.name for case in report.cases] == ["row-16B float32"]
    assert report.missing == {"cuda": "no usable NVIDIA GPU or driver (none); install it"}
