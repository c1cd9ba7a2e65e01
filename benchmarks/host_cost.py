"""What a call costs on the host, before any kernel runs: python benchmarks/host_cost.py [--gpu]

The workload is small on purpose (8 rows of 256 bytes of a table of 1000, 64-bit indices), so that only the call counts.

Without --gpu no GPU is needed. Calls on CUDA arrays are timed over real cupy.ndarrays (CuPy must be installed), whose addresses
nothing reads, with Python functions that do nothing in the place of CuPy's getDevice, get_current_stream, memsetAsync,
launchKernel, streamIsCapturing and eventRecord. So that is the price of what dmlgather itself does; a launch comes on top, and no
number here says what it takes.
Peers run on the CPU, where they do the work as well. So does the planning of kernels, which only a first call needs.

With --gpu everything is real: the time until the call returns, the GPU being waited for outside of it, beside an empty
cupy.RawKernel, cupy.take and torch.index_select where installed.

Ways are timed in turn, in rounds of batches. Shown: the median batch and the best one, microseconds per call.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import dmlgather as dg
from dmlgather.backends.cpu.engine import load
from dmlgather.backends.cuda.families import launches_for

try:
    import cupy
except ImportError:
    cupy = None
try:
    import torch
except ImportError:
    torch = None

ROWS, WIDTH, COUNT = 1000, 64, 8
ROUNDS, CALLS = 60, 300

Ways = dict[str, Callable[[], Any]]


def gather(policy: str) -> dg.CompiledOperator:
    """COUNT rows of a [ROWS, WIDTH] table."""
    desc = dg.GatherOperatorDesc(
        input_tensor=dg.BufferTensorDesc(data_type="FLOAT32", sizes=(ROWS, WIDTH)),
        indices_tensor=dg.BufferTensorDesc(data_type="INT64", sizes=(1, COUNT)),
        output_tensor=dg.BufferTensorDesc(data_type="FLOAT32", sizes=(COUNT, WIDTH)),
        axis=0,
        index_dimensions=1,
    )
    return dg.compile(desc, out_of_bounds=policy)


def host_arrays() -> tuple[Any, Any, Any]:
    """Table, indices, output."""
    rng = np.random.default_rng(0)
    return rng.random((ROWS, WIDTH), np.float32), rng.integers(0, ROWS, (1, COUNT)), np.zeros((COUNT, WIDTH), np.float32)


def ours(where: str, x: Any, i: Any, y: Any) -> Ways:
    """Every way to call an operator, under clamp and under raise."""
    ways: Ways = {}
    for policy in ("clamp", "raise"):
        op = gather(policy)
        bound = op.bind(x, i, out=y)
        ways[f"{where}, {policy}: op(x, i, out=y)"] = partial(op, x, i, out=y)
        ways[f"{where}, {policy}: bound()"] = bound
        if not isinstance(x, np.ndarray):
            ways[f"{where}, {policy}: op.launch(addresses)"] = partial(op.launch, *(array.data.ptr for array in (x, i, y)))
    return ways


def on_the_cpu() -> Iterator[Ways]:
    """Work included."""
    x, i, y = host_arrays()
    yield ours("NumPy arrays", x, i, y)
    yield bare_engine(x, i[0], y)
    yield eager(x, i[0])
    yield planning()
    yield {
        "NumPy arrays: numpy.take(out=)": partial(np.take, x, i[0], axis=0, out=y, mode="clip"),
        "NumPy arrays: x.take(i, 0, out, 'clip')": partial(x.take, i[0], 0, y, "clip"),
    }
    if torch is not None:
        tx, ti, ty = (torch.from_numpy(array) for array in (x, i[0], y))
        yield {"CPU tensors: torch.index_select(out=)": partial(torch.index_select, tx, 0, ti, out=ty)}


def bare_engine(x: Any, i: Any, y: Any) -> Ways:
    """A bound call without anything around it: the function that the engine itself returns. Nothing where there is no engine."""
    engine = load()
    if engine is None:
        return {}
    plan = dg.canonicalise(dg.onnx.gather.plan(x, i, out_of_bounds="clamp"))
    return {"NumPy arrays, clamp: the engine's bound call": engine.prepare(plan).bind(x, i, y)}


def eager(x: Any, i: Any) -> Ways:
    """Functions that return new arrays: the same rows, and slices and elements of that many bytes."""
    rows = dg.lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    tuples, elements = i.reshape(-1, 1), np.repeat(i[:, None], WIDTH, axis=1)
    return {
        "NumPy arrays: onnx.gather(x, i)": partial(dg.onnx.gather, x, i),
        "NumPy arrays: onnx.gather(x, i, axis=0)": partial(dg.onnx.gather, x, i, axis=0),
        "NumPy arrays: onnx.gather_nd(x, i)": partial(dg.onnx.gather_nd, x, tuples),
        "NumPy arrays: onnx.gather_elements(x, i)": partial(dg.onnx.gather_elements, x, elements),
        "NumPy arrays: index[ids](x), other ids each time": partial(
            anew, x, itertools.cycle([np.roll(i, row) for row in range(COUNT)])
        ),
        "NumPy arrays: onnx.slice(x, [0], [8])": partial(dg.onnx.slice, x, [0], [COUNT]),
        "NumPy arrays: openvino.gather(x, i, 0)": partial(dg.openvino.gather, x, i, 0),
        "NumPy arrays: lax.gather(x, i, …)": partial(dg.lax.gather, x, tuples, rows, (1, WIDTH)),
    }


def anew(x: Any, ids: Iterator[Any]) -> Any:
    """Brackets that are written for this call alone."""
    return dg.index[next(ids)](x)


def planning() -> Ways:
    """What a first CUDA call plans, by plans of so many sizes in turn that none is found again."""
    sizes = range(200_000, 200_032)
    plans = {
        "64 of 256 columns": [dg.onnx.gather.plan(((rows, 256), "float32"), ((64,), "int64"), axis=1) for rows in sizes],
        "a transpose": [dg.IndexPlan((100, rows), (rows, 1), (1, 100), 4, 100 * rows, 100 * rows) for rows in sizes],
    }
    turns = {name: itertools.cycle(each) for name, each in plans.items()}
    return {f"planning a first CUDA call: {name}": partial(lambda each: launches_for(next(each)), turns[name]) for name in plans}


def without_a_gpu() -> Iterator[Ways]:
    """Our ways over cupy.ndarrays, on a driver that does nothing."""
    room = np.zeros(1 << 22, np.uint8)  # addresses that belong to this process
    first = -(-room.ctypes.data // 512) * 512
    free = iter(range(first, first + room.nbytes // 2, 1 << 19))

    def device_array(array: Any) -> Any:
        memory = cupy.cuda.UnownedMemory(next(free), array.nbytes, room, device_id=0)
        return cupy.ndarray(array.shape, array.dtype, memptr=cupy.cuda.MemoryPointer(memory, 0))

    arrays = [device_array(array) for array in host_arrays()]
    sys.modules["cupy"] = no_driver()  # type: ignore[assignment] # as much of it as dmlgather uses
    yield ours("CuPy arrays, no GPU", *arrays)


def no_driver() -> SimpleNamespace:
    """CuPy with one GPU, number 0, that does nothing."""

    def nothing(*_: object) -> None:
        pass

    stream, kernel = SimpleNamespace(ptr=1), SimpleNamespace(num_regs=32, kernel=SimpleNamespace(ptr=1))
    runtime = SimpleNamespace(
        cudaDevAttrMultiProcessorCount=16,
        cudaDevAttrMaxSharedMemoryPerBlockOptin=97,
        memcpyHostToDevice=1,
        **dict.fromkeys(("setDevice", "memcpy", "memsetAsync", "streamSynchronize", "streamIsCapturing", "eventRecord"), nothing),
        getDeviceCount=lambda: 1,
        getDevice=lambda: 0,
        deviceGetAttribute=lambda attribute, _: {16: 132, 97: 227 * 1024}[attribute],
    )
    cuda = SimpleNamespace(
        runtime=runtime,
        driver=SimpleNamespace(launchKernel=nothing),
        Device=contextlib.nullcontext,
        Memory=lambda _: SimpleNamespace(ptr=4096),
        Event=lambda **_: SimpleNamespace(ptr=1, done=True),
        get_current_stream=lambda _: stream,
        compiler=SimpleNamespace(CompileException=cupy.cuda.compiler.CompileException),
    )
    module = SimpleNamespace(get_function=lambda _: kernel)
    return SimpleNamespace(ndarray=cupy.ndarray, cuda=cuda, RawModule=lambda **_: module)


def on_a_gpu() -> Iterator[Ways]:
    """Real launches."""
    x, i, y = map(cupy.asarray, host_arrays())
    yield ours("CuPy arrays", x, i, y)
    empty = cupy.RawKernel('extern "C" __global__ void empty() {}', "empty")
    yield {"an empty cupy.RawKernel": partial(empty, (1,), (32,), ())}
    yield {"CuPy arrays: cupy.take(out=)": partial(cupy.take, x, i[0], axis=0, out=y)}
    if torch is not None and torch.cuda.is_available():
        tx, ti, ty = (torch.from_dlpack(array) for array in (x, i[0], y))
        yield {"CUDA tensors: torch.index_select(out=)": partial(torch.index_select, tx, 0, ti, out=ty)}


def timed(ways: Ways, wait: Callable[[], Any]) -> dict[str, list[float]]:
    """Microseconds per call, one number per round."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name, call in ways.items():
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            took = time.perf_counter() - start
            wait()
            if number:  # the first round warms up
                found[name].append(took / CALLS * 1e6)
    return found


def main() -> None:
    """Print the table, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="time real launches")
    real = parser.parse_args().gpu
    if real and cupy is None:
        parser.error("--gpu needs CuPy: the extra cuda12 or cuda13")
    tables = [*on_the_cpu()]
    if cupy is not None:
        tables += on_a_gpu() if real else without_a_gpu()
    ways = {name: call for table in tables for name, call in table.items()}
    wait = cupy.cuda.runtime.deviceSynchronize if real else lambda: None
    print("| way | median µs | best µs |\n| --- | ---: | ---: |")
    for name, times in timed(ways, wait).items():
        print(f"| {name} | {statistics.median(times):.2f} | {min(times):.2f} |")


if __name__ == "__main__":
    main()
