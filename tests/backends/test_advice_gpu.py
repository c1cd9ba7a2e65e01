"""Advice for users whose GPU, driver, CuPy and NVRTC do not fit, who capture a first call, or who mix up streams. Judges: the
errors of CUDA and CuPy, which the simulated GPU raises; and `env`, which must give the same advice as the self-test.
"""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmlgather as dg
from dmlgather.backends.cuda import DeviceError, driver, wheels
from tests import processes, seeds
from tests.gpus import CoreStream, simulated

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).parents[2]


HIDDEN = """
import sys
from cuda import pathfinder
load = pathfinder.load_nvidia_dynamic_lib
def hidden(name):
    if name == "nvrtc":
        raise pathfinder.DynamicLibNotFoundError('Failure finding "libnvrtc.so"')
    return load(name)
pathfinder.load_nvidia_dynamic_lib = hidden
from dmlgather.cli import main
sys.exit(main())
"""
"""Program that runs the command as if no NVRTC were installed."""


def run_command(
    folder: Path, *arguments: str, settings: dict[str, str], code: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command on a simulated GPU with these settings, with no kernel in CuPy's cache."""
    return processes.run(
        [sys.executable, *(("-m", "dmlgather.cli") if code is None else ("-c", code)), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUPY_CACHE_DIR": str(folder), **settings},
        timeout=120,
    )


def advice(folder: Path, settings: dict[str, str], code: str | None = None) -> tuple[dict[str, Any], str]:
    """Return what `env --json` prints, and the last line of the self-test."""
    found = json.loads(run_command(folder, "env", "--json", settings=settings, code=code).stdout)
    tested = run_command(folder, "selftest", "--device", "cuda", "--trials", "1", settings=settings, code=code)
    assert (tested.returncode, tested.stdout) == (2, "")
    return found, tested.stderr.splitlines()[-1]


@simulated
@pytest.mark.parametrize("capability", ["70", "35"])
def test_a_gpu_too_old_for_nvrtc_is_reported_with_a_remedy(cupy: Any, tmp_path: Path, capability: str) -> None:
    (wheel,) = wheels.installed()
    dotted = (int(capability[0]), int(capability[1]))
    if dotted >= wheel.least:
        pytest.skip(f"{wheel.package} compiles for it")
    found, tested = advice(tmp_path, {"SIMCUDA_CC": capability, "SIMCUDA_DEVICES": "1"})
    (missing,) = found["missing"]
    assert not found["gpu"]["usable"]
    assert f"has compute capability {capability[0]}.{capability[1]}, and " in missing["what"]
    cured = "cupy-cuda12x[ctk]" if dotted >= (5, 0) else "run on the CPU"
    assert cured in missing["remedy"]
    assert re.match(r"dmlgather: NVRTC rejects the kernel \w+ for cuda:0: nvrtc: error: invalid value for --gpu-arch", tested)
    assert tested.endswith(f"; {missing['what']}: {missing['remedy']}")


@simulated
def test_missing_nvrtc_names_the_extra_of_the_installed_cupy(cupy: Any, tmp_path: Path) -> None:
    (wheel,) = wheels.installed()
    found, tested = advice(tmp_path, {"SIMCUDA_VERSION": "13000"}, HIDDEN)  # for which the newest extra is cuda13
    remedy = rf"NVRTC .*pip install '{wheel.package}\[ctk\]>=\S+ \(dmlgather's extra {wheel.extra}\)$"
    assert [each["what"] for each in found["missing"]] == ["a working CUDA backend"]
    assert re.search(remedy, found["missing"][0]["remedy"])
    assert re.search(remedy, tested)


@simulated
def test_a_driver_that_refuses_the_ptx_should_be_updated(cupy: Any, tmp_path: Path) -> None:
    """The driver has the same major version as NVRTC, and a lower minor version."""
    loaded = driver.nvrtc()
    found, tested = advice(tmp_path, {"SIMCUDA_PTX": "7"})
    assert found["nvrtc"] == str(loaded)
    assert "(CUDA_ERROR_UNSUPPORTED_PTX_VERSION: " in tested
    assert tested.endswith(f", which NVRTC {loaded} made for a driver of CUDA {found['driver']['cuda']}; update the driver")


def test_env_names_the_nvrtc_file_that_cupy_loaded(cupy: Any) -> None:
    found = driver.nvrtc()
    assert found.version == cupy.cuda.nvrtc.getVersion()
    assert found.file is None or re.search(rf"/libnvrtc\.so\.{found.version[0]}[.\d]*$", found.file)
    assert sys.platform != "linux" or Path(str(found.file)).is_file()


# A first call inside a capture.

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
"""cudaStreamCaptureMode."""


def _operator(cupy: Any, rows: int, **more: Any) -> tuple[Any, Any, Any, Any]:
    """Return an operator on tables of `rows` rows, whose plan is not prepared, and its arrays."""
    x, i, y = cupy.zeros((rows, 48), np.float32), cupy.zeros(5, np.int64), cupy.zeros((5, 48), np.float32)
    return dg.compile(dg.GatherOperatorDesc.of(x, i, axis=0), **more), x, i, y


@contextmanager
def _capturing(stream: Any, mode: int) -> Iterator[list[Any]]:
    """Capture the stream. At the end, the list holds the graph, unless the capture was invalidated."""
    graph: list[Any] = []
    gc.collect()  # freeing memory or a module would invalidate the capture
    with stream:
        stream.begin_capture(mode)
        try:
            yield graph
        finally:
            with suppress(RuntimeError):
                graph.append(stream.end_capture())


CALLS: dict[str, Callable[..., Any]] = {
    "call": lambda op, x, i, y, stream: op(x, i, out=y),
    "bind": lambda op, x, i, y, stream: op.bind(x, i, out=y)(),
    "launch": lambda op, x, i, y, stream: op.launch(x.data.ptr, i.data.ptr, y.data.ptr, stream=stream, device="cuda"),
}


@pytest.mark.parametrize("known", [False, True], ids=["kernel", "words"])
@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL])
@pytest.mark.parametrize("way", CALLS)
def test_a_first_call_inside_a_capture_is_refused(cupy: Any, way: str, mode: int, known: bool) -> None:
    """`known`: another operator has loaded the kernel, and only the word for a bad index must be allocated."""
    more = {"out_of_bounds": "raise"} if known else {}
    rows = 1000 + seeds.rng().randrange(10**6)
    if known:
        op, x, i, y = _operator(cupy, rows + 1, **more)
        CALLS[way](op, x, i, y, 0)
    else:
        driver._compiled.cache_clear()
        cupy.clear_memo()
    op, x, i, y = _operator(cupy, rows, **more)
    cupy.cuda.runtime.deviceSynchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with _capturing(stream, mode), pytest.raises(DeviceError) as raised:
        CALLS[way](op, x, i, y, stream)
    assert re.search(r"\(\w+STREAM_?CAPTURE\w+: ", str(raised.value), re.IGNORECASE)
    assert str(raised.value).endswith("loads kernels: make such a call, or call prepare, before the capture")
    assert "pip" not in str(raised.value)
    if way == "bind":  # a binding allocates its own words, so it is made before the capture
        bound = op.bind(x, i, out=y)
        bound(stream)
        with _capturing(stream, mode) as graph:
            bound(stream)
    else:
        with stream:
            CALLS[way](op, x, i, y, stream)
        with _capturing(stream, mode) as graph:
            CALLS[way](op, x, i, y, stream)
    assert graph  # the capture is still valid


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL, RELAXED])
def test_a_first_call_that_moves_indices_in_a_capture_is_refused(cupy: Any, mode: int) -> None:
    x, out, rows = cupy.arange(12, dtype=np.float32).reshape(4, 3), cupy.zeros((2, 3), np.float32), dg.index[[3, 0]]
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.runtime.deviceSynchronize()
    with _capturing(stream, mode), pytest.raises(DeviceError, match=r"cannot be prepared now .* before the capture$"):
        rows(x, out=out, out_of_bounds="clamp")
    with stream:
        rows(x, out=out, out_of_bounds="clamp")
        out[...] = 0
    with _capturing(stream, mode) as graph:
        rows(x, out=out, out_of_bounds="clamp")
    graph[0].launch(stream)
    stream.synchronize()
    assert out.get().tolist() == [[9, 10, 11], [0, 1, 2]]


# Streams of another GPU.


SPELLINGS: dict[str, Callable[[Any], Any]] = {"cupy": lambda s: s, "address": lambda s: s.ptr, "protocol": CoreStream}


@pytest.mark.gpu(devices=2)
@pytest.mark.parametrize("policy", ["clamp", "raise"])
@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("non_blocking", [False, True])
def test_a_stream_of_another_gpu_is_refused(cupy: Any, spelling: str, policy: str, non_blocking: bool) -> None:
    rng = seeds.numpy_rng()
    table, ids = rng.random((20, 6), np.float32), rng.integers(-20, 20, 5)
    x, i, y = cupy.asarray(table), cupy.asarray(ids), cupy.zeros((5, 6), np.float32)
    op = dg.compile(dg.GatherOperatorDesc.of(x, i, axis=0), out_of_bounds=policy)
    moving = dg.compile(op.desc, device="cuda:0", out_of_bounds=policy)
    bound = op.bind(x, i, out=y)
    with cupy.cuda.Device(1):
        kept = cupy.cuda.Stream(non_blocking=non_blocking)
        there = SPELLINGS[spelling](kept)
    calls: dict[str, Callable[[Any], Any]] = {
        "call": lambda stream: op(x, i, stream=stream),
        "call, out": lambda stream: op(x, i, out=y, stream=stream),
        "moved": lambda stream: moving(table, ids, stream=stream),
        "bound": bound,
        "launch": lambda stream: op.launch(x.data.ptr, i.data.ptr, y.data.ptr, stream=stream, device="cuda:0"),
        "onnx": lambda stream: dg.onnx.gather(x, i, stream=stream),
        "openvino": lambda stream: dg.openvino.gather(x, i, 0, stream=stream),
        "numpy": lambda stream: dg.index[ids](x, stream=stream),
        "fused": lambda stream: dg.index[ids][::-1][::-1].fused(x)(x, i, stream=stream),
    }
    own = cupy.cuda.Stream()
    for call in calls.values():
        with pytest.raises(
            TypeError, match=r"^stream is of cuda:1, but the call runs on cuda:0: pass a stream of cuda:0, or run"
        ):
            call(there)
        y[...] = 0
        cupy.cuda.runtime.deviceSynchronize()
        found = call(own)  # the refused call has changed nothing
        own.synchronize()
        assert cupy.asnumpy(y if found is None else found).tobytes() == table[ids].tobytes()


@pytest.mark.parametrize("policy", ["clamp", "raise"])
def test_the_address_of_no_stream_is_refused(cupy: Any, policy: str) -> None:
    x, i, y = cupy.arange(120, dtype=np.float32).reshape(20, 6), cupy.arange(5), cupy.zeros((5, 6), np.float32)
    op = dg.compile(dg.GatherOperatorDesc.of(x, i, axis=0), out_of_bounds=policy)
    bound, addresses = op.bind(x, i, out=y), (x.data.ptr, i.data.ptr, y.data.ptr)
    past = cupy.cuda.Stream(non_blocking=True)
    gone = past.ptr
    del past
    gc.collect()
    calls: list[Callable[[int], Any]] = [
        lambda stream: op(x, i, out=y, stream=stream),
        bound,
        lambda stream: op.launch(*addresses, stream=stream, device="cuda"),
        lambda stream: dg.onnx.gather(x, i, stream=stream),
        lambda stream: dg.onnx.gather(x.get(), i.get(), device="cuda", stream=stream),
        lambda stream: dg.index[i](x, stream=stream),
    ]
    for stream in (12345, gone):
        for call in calls:
            with pytest.raises(TypeError, match=f"^stream is {stream:#x}, but no stream has this address: it was destroyed or"):
                call(stream)
    assert dg.onnx.gather(x, i).get().tobytes() == x.get()[:5].tobytes()


def _capture(cupy: Any, call: Callable[[], Any]) -> None:
    """Capture a call on a stream, and end the capture also after an error."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            call()
        finally:
            with suppress(RuntimeError):
                stream.end_capture()


def _asked(operator: Any, run: Callable[[], Any]) -> None:
    """Run an operator, and call its `raise_if_bad` at once."""
    run()
    operator.raise_if_bad()


def test_calls_that_wait_are_refused_inside_a_capture(cupy: Any) -> None:
    table, ids = np.arange(120, dtype=np.float32).reshape(20, 6), np.arange(5)
    x, i, y = cupy.asarray(table), cupy.asarray(ids), cupy.zeros((5, 6), np.float32)
    op = dg.compile(dg.GatherOperatorDesc.of(x, i, axis=0), out_of_bounds="raise")
    bound = op.bind(x, i, out=y)
    op(x, i, out=y)
    dg.index[i](x)
    dg.onnx.gather(x, i)
    dg.onnx.gather(x, i, out=y)
    raising = "a call that raises an IndexError waits: capture a call with out_of_bounds='clamp'"
    asking = "ask for a bad index after the graph has run"
    elsewhere = "a graph is captured, but an array has to be copied from cpu to cuda:0: a captured call takes arrays"
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: dg.onnx.gather(x, i), raising),
        (lambda: dg.onnx.gather(x, i, out=y), raising),
        (lambda: dg.index[i](x), raising),
        (lambda: _asked(op, lambda: op(x, i, out=y)), asking),
        (lambda: _asked(bound, bound), asking),
        (lambda: dg.onnx.gather(table, ids, device="cuda"), elsewhere),
    ]
    for call, words in calls:
        with pytest.raises(RuntimeError, match=re.escape(words)) as refused:
            _capture(cupy, call)
        waiting = "waiting for the GPU is not possible while a graph is captured ("
        assert str(refused.value).startswith("a graph is captured, " if words is elsewhere else waiting)
        assert isinstance(refused.value, DeviceError) == (words is not elsewhere)
    y[...] = 0
    cupy.cuda.runtime.deviceSynchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:  # what the message advises
        stream.begin_capture()
        dg.onnx.gather(x, i, out_of_bounds="clamp", out=y)
        graph = stream.end_capture()
        graph.launch()
    stream.synchronize()
    assert y.get().tobytes() == table[:5].tobytes()
