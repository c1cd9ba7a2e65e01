"""The suite on a GPU: its measurements and streams, and the unchanged state of the GPU afterwards. No test judges a time."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import BenchError, BenchReport, lines, run
from benchmarks.clocks import Contender, DeviceClock, Samples
from dmlgather.backends.cuda import DeviceError
from tests import seeds
from tests.benchmarks.small import TINY

gpu = pytest.mark.gpu


@pytest.fixture
def log(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ordered requests to CUDA. The simulated GPU has a small L2 with adjustable fetches, so flushes are short.
    Everything takes 2 milliseconds, so repetitions are few.
    """
    runtime, asked, limits = cupy.cuda.runtime, list[str](), {5: 64}
    properties = runtime.getDeviceProperties
    monkeypatch.setattr(runtime, "getDeviceProperties", lambda number: {**properties(number), "l2CacheSize": 2**16})

    def record(module: Any, name: str, words: str, place: int = -1) -> None:
        plain = getattr(module, name)

        def call(*arguments: Any) -> Any:
            asked.append(f"{words} {arguments[place] if arguments else ''}".rstrip())
            return plain(*arguments)

        monkeypatch.setattr(module, name, call)

    record(cupy.cuda.driver, "launchKernel", "launch on", -3)
    for name, words in (("memsetAsync", "flush on"), ("memcpyAsync", "copy on"), ("deviceSynchronize", "wait for device")):
        record(runtime, name, words)
    monkeypatch.setattr(cupy.cuda, "get_elapsed_time", lambda begin, end: 2.0)
    monkeypatch.setattr(runtime, "deviceGetLimit", limits.__getitem__)
    monkeypatch.setattr(runtime, "deviceSetLimit", limits.__setitem__)
    record(runtime, "deviceSetLimit", "limit is")
    return asked


@pytest.fixture
def gpu_report(log: list[str]) -> BenchReport:
    return run("gpu", ("cupy", "numpy", "openvino"), rounds=1, seed=seeds.seed(32), budget=TINY)


@gpu
def test_every_workload_runs_and_agrees_with_cupy(gpu_report: BenchReport, cupy: Any) -> None:
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
    (case,) = [case for case in gpu_report.cases if case.workload == "gnn-400B"]
    assert case.traffic.fetched_bytes == case.output_shape[0] * 13 * 32, "sectors are half a line: as lines of 64 bytes, 7"
    found, machine = cupy.cuda.runtime.getDeviceProperties(0), gpu_report.machine.gpu
    assert machine is not None
    assert (machine.name, machine.compute_capability) == (found["name"].decode(), f"{found['major']}.{found['minor']}")
    assert (machine.l2_bytes, machine.multiprocessors) == (found["l2CacheSize"], found["multiProcessorCount"])
    assert gpu_report.flushed_bytes == {"cuda": 2 * found["l2CacheSize"]}
    assert machine.l2_fetch_bytes == 64
    assert f"; {machine.name}, L2 fetches of 64 bytes, " in "\n".join(lines(gpu_report))


def one_workload(name: str = "embedding", **more: Any) -> BenchReport:
    return run("gpu", ("cupy",), only=(name,), rounds=1, seed=seeds.seed(32), budget=TINY, **more)


@gpu
@pytest.mark.parametrize("count", [32, 128])
def test_the_granularity_of_l2_fetches_is_set_during_the_run(log: list[str], cupy: Any, count: int) -> None:
    report = one_workload(l2_fetch_bytes=count)
    assert report.machine.gpu is not None
    assert report.machine.gpu.l2_fetch_bytes == count
    assert BenchReport.model_validate_json(report.to_json()) == report
    assert f"L2 fetches of {count} bytes" in "\n".join(lines(report))
    made, restored = [place for place, entry in enumerate(log) if entry.startswith("limit is ")]
    launches = [place for place, entry in enumerate(log) if entry.startswith("launch")]
    assert made < min(launches) <= max(launches) < restored
    assert (log[made], cupy.cuda.runtime.deviceGetLimit(5)) == (f"limit is {count}", 64)


@gpu
def test_the_granularity_is_restored_after_an_error(log: list[str], cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> None:
        raise RuntimeError("lost")

    monkeypatch.setattr(cupy.cuda.runtime, "memcpyAsync", lost)
    with pytest.raises(RuntimeError, match="lost"):
        one_workload(l2_fetch_bytes=32)
    assert [entry for entry in log if entry.startswith("limit is ")] == ["limit is 32", "limit is 64"]


@gpu
def test_a_granularity_that_the_gpu_ignores_is_an_error(log: list[str], cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.cuda.runtime, "deviceSetLimit", lambda *_: None)
    with pytest.raises(BenchError, match="--l2-fetch is 32 bytes, but this GPU makes 64 of it: choose that, or leave it out"):
        run("gpu", ("cupy",), rounds=1, l2_fetch_bytes=32)

    def unsupported(limit: int) -> int:
        raise RuntimeError("cudaErrorUnsupportedLimit: limit is not supported on this architecture")

    monkeypatch.setattr(cupy.cuda.runtime, "deviceGetLimit", unsupported)
    with pytest.raises(BenchError, match="--l2-fetch is given, but this GPU or its driver has no such limit: leave it out"):
        run("gpu", ("cupy",), rounds=1, l2_fetch_bytes=32)
    report = one_workload()
    assert report.machine.gpu is not None
    assert report.machine.gpu.l2_fetch_bytes is None


def test_an_invalid_granularity_or_a_cpu_suite_is_refused() -> None:
    with pytest.raises(BenchError, match=r"^l2_fetch_bytes \(--l2-fetch\) is 48, expected 32, 64, 128$"):
        run("gpu", l2_fetch_bytes=48)
    with pytest.raises(
        BenchError, match="is for GPUs, and the suite cpu runs on none: choose one of gpu, full, chains, or leave"
    ):
        run("cpu", l2_fetch_bytes=64)


@gpu
def test_the_launch_floor_measures_an_empty_kernel(log: list[str]) -> None:
    report = one_workload("launch-floor")
    roles = [item.role for item in report.cases[0].measured]
    assert {"ours", "checked", "launch", "copy", "peer"} == set(roles)
    text = "\n".join(lines(report))
    assert "launch-floor float32: cupy.RawKernel takes" in text
    assert "us of the host" in text


@gpu
def test_a_sample_is_timed_on_the_stream_and_cold_after_a_flush(
    log: list[str], cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Event(cupy.cuda.Event):  # type: ignore[misc] # CuPy ships no types
        def record(self, stream: Any) -> None:
            log.append(f"record on {stream.ptr}")
            super().record(stream)

        def synchronize(self) -> None:
            log.append("wait for event")
            super().synchronize()

    monkeypatch.setattr(cupy.cuda, "Event", Event)
    clock, samples, own_samples = DeviceClock(cupy, 64), Samples(), Samples()
    stream = clock.stream.ptr
    clock.sample(Contender("a", "ours", "a", lambda: log.append("call")), 2, samples)
    between = [f"record on {stream}", "call", "call", f"record on {stream}", "wait for event"]
    cold = [f"flush on {stream}", f"record on {stream}", "call", f"record on {stream}", "wait for event"]
    assert log == ["call", "wait for device", *between, *cold]
    assert (samples.warm, samples.cold, len(samples.host)) == ([0.001], [0.002], 1)
    log.clear()
    own = Contender("a", "peer", "a", lambda: log.append("call"), own_clock=True)
    clock.sample(own, 2, own_samples)
    assert log == ["call", "wait for device", "call", "call", f"flush on {stream}", "wait for device", "call"]
    assert (clock.kind(own), own_samples.host) == ("wall", [])


@gpu
def test_the_operator_is_launched_on_the_clocks_stream(log: list[str]) -> None:
    one_workload()
    (flushed,) = {entry.removeprefix("flush on ") for entry in log if entry.startswith("flush")}
    assert f"launch on {flushed}" in log
    assert {entry for entry in log if entry.startswith("copy")} == {f"copy on {flushed}"}


def test_the_suite_without_a_gpu_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
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
